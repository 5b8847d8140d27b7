"""Hold the rows of the start-up table that need no open database. Pure.

They are asked in this order: driver, paths, mode, key source, key file, the database file from outside.
``startup_table`` holds the rest of the table and says what its decisions promise.
"""

from __future__ import annotations

from dataclasses import replace

from mcp_notarium.account.startup_facts import KeySource, Observations, Opening, Unwrap
from mcp_notarium.account.startup_outcomes import (
    ANOTHER_KEY,
    BEGIN_AGAIN,
    COPY_BACK,
    COPY_OR_REPAIR,
    ENCRYPT,
    GIVE_KEY,
    KEYCHAIN_AGAIN,
    MAKE_KEY,
    OR_RESET,
    OTHER_ACCOUNT,
    REINSTALL_DRIVER,
    REPAIR_OR_COPY,
    RESTORE,
    STRONGER_KEY,
    TYPE_AGAIN,
    UNLOCK_KEYCHAIN,
    UPDATE,
    Create,
    Decision,
    Locked,
    Row,
    refuse,
    refuse_or_rebuild,
)
from mcp_notarium.crypto.key_file_codec import FileState
from mcp_notarium.errors import Verdict

PLAIN_WARNING = (
    "The cache is NOT encrypted (DB_ENCRYPTION=off): everybody who can read the disk can read the "
    "notes."
)


def _create(seen: Observations) -> Decision:
    return Create((PLAIN_WARNING,) if seen.plain else ())


def _unsafe(seen: Observations) -> Decision:
    problem = seen.path_problem
    reason, command = (problem.reason, problem.command) if problem else ("", "")
    return Locked(Verdict.UNSAFE_PATH, reason, command)


def _is_damaged(seen: Observations) -> bool:
    sample = seen.sample
    return sample is not None and (sample.bad > 0 or sample.torn)


def _empty(seen: Observations) -> bool:
    return seen.sample is not None and seen.sample.size == 0


_DRIVER = refuse(
    "the driver is unsuitable",
    Verdict.CRYPTO_UNSUITABLE,
    "{driver}",
    REINSTALL_DRIVER,
    lambda o: bool(o.driver_problem),
)

_FOLDER = (
    Row("a path is unsafe", _unsafe, lambda o: o.path_problem is not None),
    refuse(
        "plain mode beside an encrypted cache",
        Verdict.MODE_MISMATCH,
        "DB_ENCRYPTION is off, and the cache in this folder is encrypted",
        "Remove DB_ENCRYPTION=off and give the key in DB_ENCRYPTION_KEY." + OR_RESET,
        lambda o: o.plain and o.anything_encrypted,
    ),
    refuse(
        "encrypted mode beside a plain cache",
        Verdict.MODE_MISMATCH,
        "the cache in this folder is not encrypted, and an encrypted one is asked for",
        ENCRYPT,
        lambda o: not o.plain and o.files.plain,
    ),
)

_PLAIN = (
    Row("no plain cache yet", _create, lambda o: not o.files.plain),
    refuse_or_rebuild(
        "the plain database is empty",
        Verdict.DATABASE_MISSING,
        "the database file is empty",
        BEGIN_AGAIN,
        _empty,
    ),
    refuse_or_rebuild(
        "the plain database is no database",
        Verdict.DATABASE_DAMAGED,
        "the database file is no database",
        BEGIN_AGAIN,
        lambda o: o.sample is not None and not o.sample.plaintext_magic,
    ),
)

_KEY = (
    refuse(
        "the keychain cannot be used",
        Verdict.KEYCHAIN_UNUSABLE,
        "the key is to come from the system's keychain, which cannot be used: {reason}",
        UNLOCK_KEYCHAIN,
        lambda o: o.key is KeySource.KEYCHAIN_UNUSABLE,
    ),
    refuse(
        "no usable key for an existing cache",
        Verdict.KEY_MISSING,
        "{source} is no usable key: {reason}",
        GIVE_KEY,
        lambda o: o.key is KeySource.MALFORMED and o.anything_encrypted,
    ),
    refuse(
        "the key source holds no usable key",
        Verdict.KEY_MISSING,
        "{source} is set, and it holds no usable key: {reason}",
        MAKE_KEY,
        lambda o: o.key is KeySource.MALFORMED,
    ),
    refuse(
        "the keychain that opens the cache is not this one",
        Verdict.KEYCHAIN_UNUSABLE,
        "a keychain holds a key of this cache, and it is not to be found here: {keychain}",
        KEYCHAIN_AGAIN,
        lambda o: o.key is KeySource.ABSENT and o.keychain_slot and bool(o.keychain),
    ),
    refuse(
        "no key for an existing cache",
        Verdict.KEY_MISSING,
        "the cache is encrypted, and no key is given{asked}",
        GIVE_KEY,
        lambda o: o.key is KeySource.ABSENT and o.anything_encrypted,
    ),
    refuse(
        "no key at all",
        Verdict.KEY_MISSING,
        "no key is given for the encrypted cache",
        MAKE_KEY,
        lambda o: o.key is KeySource.ABSENT,
    ),
)

_KEY_FILE = (
    refuse(
        "the key file is of a later release",
        Verdict.SCHEMA_NEWER,
        "the key file has format version {version}, which this release does not know",
        UPDATE,
        lambda o: o.main is not FileState.OK and FileState.NEWER in {o.main, o.copy},
    ),
    refuse(
        "the key of a new cache is weak",
        Verdict.KEY_MISSING,
        "{key} is too weak for a new cache: {weakness}",
        STRONGER_KEY,
        lambda o: bool(o.weakness) and o.no_key_file and not o.files.unknown,
    ),
    Row(
        "no cache yet",
        _create,
        # What a first start that was interrupted has left was never active.
        lambda o: o.no_key_file and not (o.files.current or o.files.unknown),
    ),
    refuse_or_rebuild(
        "the key file is gone",
        Verdict.KEY_FILE_DAMAGED,
        "the key file is missing beside an encrypted database; without it no key opens it",
        RESTORE,
        lambda o: o.no_key_file,
    ),
    refuse_or_rebuild(
        "the key file and its copy are damaged",
        Verdict.KEY_FILE_DAMAGED,
        "the key file is damaged, and there is no good copy beside it",
        RESTORE,
        lambda o: not o.key_file_usable,
    ),
    refuse_or_rebuild(
        "the key file was tampered with",
        Verdict.KEY_FILE_DAMAGED,
        "the key is right, and the key file was changed by somebody who does not have it",
        RESTORE,
        lambda o: o.unwrap is Unwrap.FORGED,
    ),
    refuse(
        "the key file is older than its copy",
        Verdict.ROLLBACK_SEEN,
        "the key file is older than its copy `notarium_keys.json.bak`",
        COPY_BACK,
        lambda o: o.copy_ahead,
    ),
    refuse_or_rebuild(
        "the key is wrong and meant as a recovery key",
        Verdict.WRONG_KEY,
        "{source} opens nothing, and as a recovery key it is not whole: {typo}",
        TYPE_AGAIN + GIVE_KEY,
        lambda o: o.unwrap is Unwrap.WRONG_KEY and bool(o.typo),
    ),
    refuse_or_rebuild(
        "the key is wrong",
        Verdict.WRONG_KEY,
        "{key} is wrong: the key file is whole and does not open with it.{since}",
        ANOTHER_KEY,
        lambda o: o.unwrap is Unwrap.WRONG_KEY,
    ),
    refuse(
        "the key file is somebody else's",
        Verdict.OTHER_OWNER,
        "the cache in this folder belongs to another account",
        OTHER_ACCOUNT,
        lambda o: o.unwrap is Unwrap.OPENED and not o.owner_matches,
    ),
    refuse(
        "the key file asks for a later SQLCipher",
        Verdict.CRYPTO_UNSUITABLE,
        "the cache was made with a later SQLCipher",
        REINSTALL_DRIVER,
        lambda o: o.cipher_major < o.cipher_floor,
    ),
)

_MIXED = refuse(
    "the database is a mixture of two states",
    Verdict.ROLLBACK_SEEN,
    "{lacks}",
    COPY_OR_REPAIR,
    lambda o: o.opening is Opening.MIXED,
)

_DATABASE = (
    refuse_or_rebuild(
        "the database is gone",
        Verdict.DATABASE_MISSING,
        "the database that the key file names is missing",
        BEGIN_AGAIN,
        lambda o: not o.files.current,
    ),
    refuse_or_rebuild(
        "the database is empty",
        Verdict.DATABASE_MISSING,
        "the database file is empty",
        BEGIN_AGAIN,
        _empty,
    ),
    refuse(
        "a plain database in an encrypted one's place",
        Verdict.MODE_MISMATCH,
        "an unencrypted database lies where the encrypted one should be",
        BEGIN_AGAIN,
        # The magic bytes are not authenticated: an authentic page says more.
        lambda o: o.sample is not None and o.sample.plaintext_magic and not o.sample.good,
    ),
    refuse_or_rebuild(
        "no page of the database is authentic",
        Verdict.DATABASE_DAMAGED,
        "the key is right, and no page of the database was written with it: the file is destroyed "
        "or belongs to another cache",
        BEGIN_AGAIN,
        lambda o: o.sample is not None and not o.sample.good,
    ),
    refuse_or_rebuild(
        "the first page is damaged",
        Verdict.DATABASE_DAMAGED,
        "the key is right, and the first page of the database is damaged: without it nothing in the "
        "file can be found",
        BEGIN_AGAIN,
        lambda o: o.sample is not None and 1 in o.sample.bad_pages and not o.files.wal,
    ),
    refuse_or_rebuild(
        "some pages are damaged",
        Verdict.DATABASE_DAMAGED,
        "the key is right, and the database is damaged{pages}",
        REPAIR_OR_COPY,
        # With a log beside it, a half-written page is what a crash leaves and what opening repairs.
        lambda o: _is_damaged(o) and not o.files.wal,
    ),
)


ROWS_BEFORE_OPEN: tuple[Row, ...] = (
    _DRIVER,
    *_FOLDER,
    *(replace(row, plain=True) for row in _PLAIN),
    *(replace(row, plain=False) for row in _KEY + _KEY_FILE),
    _MIXED,
    *(replace(row, plain=False) for row in _DATABASE),
)


def is_decided_before_open(seen: Observations) -> bool:
    """Check whether driver or paths already decide, so that nothing more is to be inspected."""
    return _DRIVER.applies(seen) or _FOLDER[0].applies(seen)
