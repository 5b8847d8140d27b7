"""Decide what start-up does, by a table: exactly one decision for what is seen. Pure.

The rows are asked in order; the first that applies decides. A key is checked against the key file alone, a
database only with a key that is proven right. Nothing that exists is ever deleted. Only ``Rebuild`` moves
a cache, to the quarantine, if DB_ON_UNREADABLE=rebuild asks for it.
"""

from __future__ import annotations

from mcp_notarium.account.startup_facts import Observations, Opening, Unwrap
from mcp_notarium.account.startup_outcomes import (
    BEGIN_AGAIN,
    KEY_FILE_BEHIND,
    NEWEST_BACK,
    OTHER_ACCOUNT,
    REPAIR_OR_COPY,
    UNREADABLE,
    UPDATE,
    WAIT,
    Decision,
    Migrate,
    Open,
    Row,
    refuse,
    refuse_or_rebuild,
)
from mcp_notarium.account.startup_rows_before_open import PLAIN_WARNING, ROWS_BEFORE_OPEN
from mcp_notarium.errors import Verdict


def decide(seen: Observations) -> Decision:
    """Return the decision of the first row that applies; the last one always does."""
    return row_for(seen).decide(seen)


def row_for(seen: Observations) -> Row:
    """Return the row that decides: the first that applies."""
    return next(row for row in TABLE if row.applies(seen))


def _open(seen: Observations) -> Decision:
    unfinished = seen.change_unfinished or seen.files.prepared or seen.only_copy_readable
    return Open(notices=_notices(seen), finish_key_files=unfinished and not seen.plain)


def _migrate(seen: Observations) -> Decision:
    version, program = (seen.schema.version, seen.schema.program) if seen.schema else (0, 0)
    return Migrate(version, program, notices=_notices(seen))


def _notices(seen: Observations) -> tuple[str, ...]:
    if seen.plain:
        return (PLAIN_WARNING,)
    found = []
    if seen.only_copy_readable:
        found.append(
            f"The key file was {seen.main.value}; its copy `notarium_keys.json.bak` is good and "
            "takes its place."
        )
    if seen.sample is not None and not seen.sample.salt_ok:
        found.append(
            "The first 16 bytes of the database file are damaged; the key file knows them, "
            "nothing is lost."
        )
    return tuple(found)


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
    return (found.vault_id, found.generation) == (expected.vault_id, expected.generation)


def _same_owner(seen: Observations) -> bool:
    expected, found = seen.expected, seen.found
    return expected is not None and found is not None and found.owner_hash == expected.owner_hash


def _is_rolled_back(seen: Observations) -> bool:
    expected, found = seen.expected, seen.found
    return expected is not None and found is not None and found.sequence > expected.sequence


_ROWS_AFTER_OPEN = (
    refuse(
        "another process holds the database",
        Verdict.BUSY,
        "another process holds the cache",
        WAIT,
        lambda o: o.opening is Opening.BUSY,
    ),
    refuse_or_rebuild(
        "the plain database cannot be read",
        Verdict.DATABASE_DAMAGED,
        UNREADABLE,
        BEGIN_AGAIN,
        lambda o: o.plain and o.opening is Opening.DAMAGED,
    ),
    refuse_or_rebuild(
        "the database cannot be read",
        Verdict.DATABASE_DAMAGED,
        UNREADABLE,
        REPAIR_OR_COPY,
        lambda o: o.opening is Opening.DAMAGED,
    ),
    refuse(
        "the database is not ours",
        Verdict.OTHER_OWNER,
        "the database was not made by MCP Notarium",
        BEGIN_AGAIN,
        lambda o: o.schema is not None and not o.schema.ours,
    ),
    refuse(
        "the schema is newer",
        Verdict.SCHEMA_NEWER,
        "the database was written by a later release",
        UPDATE,
        lambda o: o.schema is not None and o.schema.version > o.schema.program,
    ),
    refuse_or_rebuild(
        "the database belongs to another key file",
        Verdict.DATABASE_DAMAGED,
        "the database is not the one the key file names",
        BEGIN_AGAIN,
        lambda o: o.found is not None and not _same_cache(o),
    ),
    refuse(
        "the database is somebody else's",
        Verdict.OTHER_OWNER,
        "the cache in this folder belongs to another account",
        OTHER_ACCOUNT,
        lambda o: o.found is not None and not _same_owner(o),
    ),
    refuse(
        "the key file is older than the database has seen",
        Verdict.ROLLBACK_SEEN,
        KEY_FILE_BEHIND,
        NEWEST_BACK,
        _is_rolled_back,
    ),
    refuse(
        "the schema is older than the key file allows",
        Verdict.ROLLBACK_SEEN,
        "the database is older than the key file allows",
        BEGIN_AGAIN,
        lambda o: o.schema is not None and o.schema.version < o.schema_floor,
    ),
    Row(
        "the schema is older",
        _migrate,
        lambda o: _is_in_order(o) and o.schema is not None and o.schema.version < o.schema.program,
    ),
    Row("everything is right", _open, _is_in_order),
    Row(
        "nothing that is seen from outside is wrong",
        _open,
        lambda o: _has_key_and_file(o) and o.opening is Opening.NOT_TRIED and o.sample is not None,
    ),
    refuse(
        "what was seen does not fit together",
        Verdict.DATABASE_DAMAGED,
        "the state of the cache folder makes no sense",
        BEGIN_AGAIN,
        lambda _seen: True,
    ),
)


TABLE: tuple[Row, ...] = (*ROWS_BEFORE_OPEN, *_ROWS_AFTER_OPEN)
