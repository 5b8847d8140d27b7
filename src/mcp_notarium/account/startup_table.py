"""Decide what start-up does, by a table: exactly one decision for what is seen. Pure.

The rows are asked in order; the first that applies decides: driver, paths, mode, key source, key file, the database
file from outside, then what an open database says. A key is checked against the key file alone, a database only
with a key that is proven right. Nothing that exists is ever deleted. Only ``Rebuild`` moves a cache, to the
quarantine, if DB_ON_UNREADABLE=rebuild asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mcp_notarium.account import startup_hints as hints
from mcp_notarium.account.startup_outcomes import (
    Create,
    Decision,
    KeySource,
    Locked,
    Observations,
    Open,
    Opening,
    Row,
    Unwrap,
    refuse,
    refuse_or_rebuild,
)
from mcp_notarium.crypto.key_file_codec import FileState
from mcp_notarium.errors import Verdict

PLAIN_WARNING = (
    "The cache is NOT encrypted (DB_ENCRYPTION=off): everybody who can read the disk can read the "
    "notes."
)


def decide(seen: Observations) -> Decision:
    """Return the decision of the first row that applies; the last one always does."""
    return row_for(seen).decide(seen)


def row_for(seen: Observations) -> Row:
    """Return the row that decides: the first that applies."""
    return next(row for row in TABLE if row.applies(seen))


def _only(*, plain: bool, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows that hold in one mode only."""
    return (replace(row, plain=plain) for row in rows)


def _create(seen: Observations) -> Decision:
    return Create((PLAIN_WARNING,) if seen.plain else ())


def _unsafe(seen: Observations) -> Decision:
    problem = seen.path_problem
    reason, command = (problem.reason, problem.command) if problem else ("", "")
    return Locked(Verdict.UNSAFE_PATH, reason, command)


def _open(seen: Observations) -> Decision:
    unfinished = seen.change_unfinished or seen.files.prepared or seen.only_copy_readable
    return Open(notices=_notices(seen), finish_key_files=unfinished and not seen.plain)


def _notices(seen: Observations) -> tuple[str, ...]:
    if seen.plain:
        return (PLAIN_WARNING,)
    found = []
    if seen.only_copy_readable:
        found.append(
            f"The key file was {seen.main.value}; its copy `notarium_keys.json.bak` is good and "
            "takes its place."
        )
    if seen.sample is not None and not seen.sample.salt_ok:  # defence: damaged-salt-told
        found.append(
            "The first 16 bytes of the database file are damaged; the key file knows them, "
            "nothing is lost."
        )
    return tuple(found)


def _is_damaged(seen: Observations) -> bool:
    sample = seen.sample
    return sample is not None and (sample.bad > 0 or sample.torn)


def _empty(seen: Observations) -> bool:
    return seen.sample is not None and seen.sample.size == 0


def _has_key_and_file(seen: Observations) -> bool:
    """Check whether the right key and the right file are there."""
    if seen.plain:
        return seen.files.plain
    return seen.unwrap is Unwrap.OPENED and seen.owner_matches and seen.files.current


def _is_in_order(seen: Observations) -> bool:
    """Check whether the database is open and is the one that key file and owner mean."""
    return (
        _has_key_and_file(seen)
        and seen.opening is Opening.OPENED
        and seen.schema is not None
        and _same_cache(seen)
        and _same_owner(seen)
        and not _is_rolled_back(seen)
    )


def _same_cache(seen: Observations) -> bool:
    expected, found = seen.expected, seen.found
    if expected is None or found is None:
        return False
    # defence: database-bound-to-key-file =True
    return (found.vault_id, found.generation) == (expected.vault_id, expected.generation)


def _same_owner(seen: Observations) -> bool:
    expected, found = seen.expected, seen.found
    return expected is not None and found is not None and found.owner_hash == expected.owner_hash


def _is_rolled_back(seen: Observations) -> bool:
    expected, found = seen.expected, seen.found
    # defence: key-file-older-than-seen =False
    return expected is not None and found is not None and found.sequence > expected.sequence


# fmt: off
TABLE: tuple[Row, ...] = (
    refuse("the driver is unsuitable", Verdict.CRYPTO_UNSUITABLE,
        "{driver}", hints.REINSTALL_DRIVER,
        lambda o: bool(o.driver_problem)),  # defence: driver-checked-at-start =False
    Row("a path is unsafe", _unsafe, lambda o: o.path_problem is not None),
    refuse("plain mode beside an encrypted cache", Verdict.MODE_MISMATCH,
        "DB_ENCRYPTION is off, and the cache in this folder is encrypted",
        "Remove DB_ENCRYPTION=off and give the key in DB_ENCRYPTION_KEY." + hints.OR_RESET,
        lambda o: o.plain and o.anything_encrypted),
    refuse("encrypted mode beside a plain cache", Verdict.MODE_MISMATCH,
        "the cache in this folder is not encrypted, and an encrypted one is asked for", hints.ENCRYPT,
        lambda o: not o.plain and o.files.plain),
    *_only(plain=True, rows=(
        Row("no plain cache yet", _create, lambda o: not o.files.plain),
        refuse_or_rebuild("the plain database is empty", Verdict.DATABASE_MISSING,
            "the database file is empty", hints.BEGIN_AGAIN, _empty),
        refuse_or_rebuild("the plain database is no database", Verdict.DATABASE_DAMAGED,
            "the database file is no database", hints.BEGIN_AGAIN,
            lambda o: o.sample is not None and not o.sample.plaintext_magic),
    )),
    *_only(plain=False, rows=(
        refuse("the keychain cannot be used", Verdict.KEYCHAIN_UNUSABLE,
            "the key is to come from the system's keychain, which cannot be used: {reason}", hints.UNLOCK_KEYCHAIN,
            lambda o: o.key is KeySource.KEYCHAIN_UNUSABLE),
        refuse("no usable key for an existing cache", Verdict.KEY_MISSING,
            "{source} is no usable key: {reason}", hints.GIVE_KEY,
            lambda o: o.key is KeySource.MALFORMED and o.anything_encrypted),
        refuse("the key source holds no usable key", Verdict.KEY_MISSING,
            "{source} is set, and it holds no usable key: {reason}", hints.MAKE_KEY,
            lambda o: o.key is KeySource.MALFORMED),
        refuse("the keychain that opens the cache is not this one", Verdict.KEYCHAIN_UNUSABLE,
            "a keychain holds a key of this cache, and it is not to be found here: {keychain}", hints.KEYCHAIN_AGAIN,
            lambda o: o.key is KeySource.ABSENT and o.keychain_slot and bool(o.keychain)),
        refuse("no key for an existing cache", Verdict.KEY_MISSING,
            "the cache is encrypted, and no key is given{asked}", hints.GIVE_KEY,
            lambda o: o.key is KeySource.ABSENT and o.anything_encrypted),
        refuse("no key at all", Verdict.KEY_MISSING,
            "no key is given for the encrypted cache", hints.MAKE_KEY, lambda o: o.key is KeySource.ABSENT),
        refuse("the key file is of a later release", Verdict.SCHEMA_NEWER,
            "the key file has format version {version}, which this release does not know", hints.UPDATE,
            lambda o: o.main is not FileState.OK and FileState.NEWER in {o.main, o.copy}),
        refuse("the key of a new cache is weak", Verdict.KEY_MISSING,
            "{key} is too weak for a new cache: {weakness}", hints.STRONGER_KEY,
            lambda o: bool(o.weakness) and o.no_key_file and not o.files.unknown),
        # What a first start that was interrupted has left was never active.
        Row("no cache yet", _create, lambda o: o.no_key_file and not (o.files.current or o.files.unknown)),
        refuse_or_rebuild("the key file is gone", Verdict.KEY_FILE_DAMAGED,
            "the key file is missing beside an encrypted database; without it no key opens it", hints.RESTORE,
            lambda o: o.no_key_file),
        refuse_or_rebuild("the key file and its copy are damaged", Verdict.KEY_FILE_DAMAGED,
            "the key file is damaged, and there is no good copy beside it", hints.RESTORE, lambda o: not o.key_file_usable),
        refuse_or_rebuild("the key file was tampered with", Verdict.KEY_FILE_DAMAGED,
            "the key is right, and the key file was changed by somebody who does not have it", hints.RESTORE,
            lambda o: o.unwrap is Unwrap.FORGED),
        refuse("the key file is older than its copy", Verdict.ROLLBACK_SEEN,
            "the key file is older than its copy `notarium_keys.json.bak`", hints.COPY_BACK, lambda o: o.copy_ahead),
        refuse_or_rebuild("the key is wrong and meant as a recovery key", Verdict.WRONG_KEY,
            "{source} opens nothing, and as a recovery key it is not whole: {typo}", hints.TYPE_AGAIN + hints.GIVE_KEY,
            lambda o: o.unwrap is Unwrap.WRONG_KEY and bool(o.typo)),
        refuse_or_rebuild("the key is wrong", Verdict.WRONG_KEY,
            "{key} is wrong: the key file is whole and does not open with it.{since}", hints.ANOTHER_KEY,
            lambda o: o.unwrap is Unwrap.WRONG_KEY),
        refuse("the key file is somebody else's", Verdict.OTHER_OWNER,
            "the cache in this folder belongs to another account", hints.OTHER_ACCOUNT,
            lambda o: o.unwrap is Unwrap.OPENED and not o.owner_matches),
        refuse("the key file asks for a later SQLCipher", Verdict.CRYPTO_UNSUITABLE,
            "the cache was made with a later SQLCipher", hints.REINSTALL_DRIVER, lambda o: o.cipher_major < o.cipher_floor),
    )),
    refuse("the database is a mixture of two states", Verdict.ROLLBACK_SEEN,
        "{lacks}", hints.COPY_OR_REPAIR, lambda o: o.opening is Opening.MIXED),
    *_only(plain=False, rows=(
        refuse_or_rebuild("the database is gone", Verdict.DATABASE_MISSING,
            "the database that the key file names is missing", hints.BEGIN_AGAIN,
            lambda o: not o.files.current),  # defence: lost-database-not-remade =False
        refuse_or_rebuild("the database is empty", Verdict.DATABASE_MISSING,
            "the database file is empty", hints.BEGIN_AGAIN, _empty),
        # The magic bytes are not authenticated: an authentic page says more.
        refuse("a plain database in an encrypted one's place", Verdict.MODE_MISMATCH,
            "an unencrypted database lies where the encrypted one should be", hints.BEGIN_AGAIN,
            # defence: plain-database-refused =False
            # defence: page-outweighs-magic -good
            lambda o: o.sample is not None and o.sample.plaintext_magic and not o.sample.good),
        refuse_or_rebuild("no page of the database is authentic", Verdict.DATABASE_DAMAGED,
            "the key is right, and no page of the database was written with it: the file is destroyed or belongs to "
            "another cache",
            hints.BEGIN_AGAIN, lambda o: o.sample is not None and not o.sample.good),
        refuse_or_rebuild("the first page is damaged", Verdict.DATABASE_DAMAGED,
            "the key is right, and the first page of the database is damaged: without it nothing in the file can be "
            "found",
            hints.BEGIN_AGAIN, lambda o: o.sample is not None and 1 in o.sample.bad_pages and not o.files.wal),
        # With a log next to it, a half-written page is what a crash leaves and what opening repairs.
        refuse_or_rebuild("some pages are damaged", Verdict.DATABASE_DAMAGED,
            "the key is right, and the database is damaged{pages}", hints.REPAIR_OR_COPY,
            lambda o: _is_damaged(o) and not o.files.wal),  # defence: pages-read-before-open =False
    )),
    refuse("another process holds the database", Verdict.BUSY,
        "another process holds the cache", hints.WAIT, lambda o: o.opening is Opening.BUSY),
    refuse_or_rebuild("the plain database cannot be read", Verdict.DATABASE_DAMAGED,
        hints.UNREADABLE, hints.BEGIN_AGAIN, lambda o: o.plain and o.opening is Opening.DAMAGED),
    refuse_or_rebuild("the database cannot be read", Verdict.DATABASE_DAMAGED,
        hints.UNREADABLE, hints.REPAIR_OR_COPY, lambda o: o.opening is Opening.DAMAGED),
    refuse("the database is not ours", Verdict.OTHER_OWNER,
        "the database was not made by MCP Notarium", hints.BEGIN_AGAIN,
        lambda o: o.schema is not None and not o.schema.ours),
    refuse("the schema is newer", Verdict.SCHEMA_NEWER,
        "the database was written by a later release", hints.UPDATE,
        lambda o: o.schema is not None and o.schema.version > o.schema.program),
    refuse("the schema is older than the key file allows", Verdict.ROLLBACK_SEEN,
        "the database is older than the key file allows", hints.BEGIN_AGAIN,
        lambda o: o.schema is not None and o.schema.version < o.schema_floor),
    refuse("the schema is older", Verdict.SCHEMA_OLDER,
        "the database was written by an earlier release, whose schema this one does not read", hints.GO_BACK,
        lambda o: o.schema is not None and o.schema.version < o.schema.program),
    refuse_or_rebuild("the database belongs to another key file", Verdict.DATABASE_DAMAGED,
        "the database is not the one the key file names", hints.BEGIN_AGAIN,
        lambda o: o.found is not None and not _same_cache(o)),
    refuse("the database is somebody else's", Verdict.OTHER_OWNER,
        "the cache in this folder belongs to another account", hints.OTHER_ACCOUNT,
        lambda o: o.found is not None and not _same_owner(o)),
    refuse("the key file is older than the database has seen", Verdict.ROLLBACK_SEEN,
        hints.KEY_FILE_BEHIND, hints.NEWEST_BACK, _is_rolled_back),
    Row("everything is right", _open, _is_in_order),
    Row("nothing that is seen from outside is wrong", _open,
        lambda o: _has_key_and_file(o) and o.opening is Opening.NOT_TRIED and o.sample is not None),
    refuse("what was seen does not fit together", Verdict.DATABASE_DAMAGED,
        "the state of the cache folder makes no sense", hints.BEGIN_AGAIN, lambda _seen: True),
)
# fmt: on
