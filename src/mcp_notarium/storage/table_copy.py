"""Copy all rows, or the readable state of a damaged database, into an empty one.

The target's own connection writes its pages under its own key: no statement ever knows two keys. The full-text index
is built again from the notes, whose ``pk`` stay the same. A page with a wrong MAC makes a connection useless, so every
failure costs a new connection.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.errors import CacheError
from mcp_notarium.storage.authorizer import Row
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.fts_index import FtsIndex
from mcp_notarium.storage.schema import INDEX_ROWS, TABLES, TWINS, Kind

_SLICE = 500

OnProgress = Callable[[int, int], None]
"""Is called with the number of rows done, and of all rows."""


_COPIED = {name: table.key for name, table in TABLES.items() if table.key}
"""The target fills the others by itself, except for the audit chain (``account/chain_copy``)."""


def copy_into(
    source: Database,
    target: Database,
    *,
    keep: Collection[str],
    on_progress: OnProgress = lambda _done, _of: None,
) -> None:
    """Copy every row. ``keep``: keys of ``sync_metadata`` whose values in the target stay.

    It takes several transactions; the target is valid only when this has returned. Raises
    ``CacheError`` of either side, ``CacheFull`` among them.
    """
    total = sum(source.number(f"SELECT count(*) FROM {name}") for name in _COPIED)  # noqa: S608 - names of this module
    done = 0
    for name in _COPIED:
        for rows in slices(source, name):
            with target.transaction():
                _insert(target, name, [row for row in rows if not _is_named(name, row, keep)])
            done += len(rows)
            on_progress(done, total)
    with target.transaction(durable=True):
        target.run(_COUNT_NOTES)
        FtsIndex(target).rebuild()


def content_digest(database: Database, *, without: Collection[str]) -> str:
    """Return SHA-256 in hex over every copied row, in order; ``without`` these keys of the metadata."""
    digest = hashlib.sha256()
    for name in _COPIED:
        digest.update(f"table {name}\n".encode())
        for rows in slices(database, name):
            for row in rows:
                if not _is_named(name, row, without):
                    digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _is_named(table: str, row: Row, names: Collection[str]) -> bool:
    """Tell whether it is metadata of one of these names; ids in other tables are anybody's choice."""
    return table == "sync_metadata" and row[0] in names


def slices(database: Database, table: str) -> Iterator[list[Row]]:
    """Yield all rows in the order of the key, some hundred at a time."""
    key = ", ".join(_COPIED[table])
    after, last = "", ()
    while rows := database.rows(
        f"SELECT * FROM {table} {after} ORDER BY {key} LIMIT ?",  # noqa: S608 - as above
        (*last, _SLICE),
    ):
        yield rows
        last = rows[-1][: len(_COPIED[table])]
        after = f"WHERE ({key}) > ({', '.join('?' * len(last))})"


def _insert(target: Database, table: str, rows: list[Row]) -> None:
    if rows:
        values = ", ".join("?" * len(rows[0]))
        target.run_many(f"INSERT OR REPLACE INTO {table} VALUES ({values})", rows)  # noqa: S608 - as above


Open = Callable[[], Database]
"""Open the damaged database; it is called again and again, and each result is closed here."""


@dataclass(slots=True)
class SalvageReport:
    """Hold the result of a salvage."""

    writes: int = 0
    """The unfinished writes that were restored."""
    complete: bool = True
    """Every row of every state table was read, except for the audit chain."""


def salvage(
    opens: Open,
    target: Database,
    *,
    without: frozenset[str],
    on_progress: OnProgress = lambda _done, _of: None,
) -> SalvageReport:
    """Copy every readable row of the state tables, except settings ``without``; leave the index empty.

    The notes that unfinished writes were made from come along where they can be read: without its base a
    text cannot be merged. ``target`` is new and empty. Raises ``CacheError`` if not even the tables can be
    found.
    """
    with closing(opens()) as damaged:
        damaged.rows("SELECT name FROM sqlite_master")
    found = SalvageReport()
    names = [one for one, table in TABLES.items() if table.kind is Kind.STATE and table.key]
    total = sum(_count(opens, name) for name in names)
    done = 0

    def report(rows: int) -> None:
        nonlocal done
        done += rows
        on_progress(done, max(done, total))

    for name in names:
        found.complete &= _copy_state_table(opens, target, name, without, report)
    found.writes = target.number("SELECT count(*) FROM journal")
    with target.transaction(durable=True):
        for (note_id,) in target.rows("SELECT DISTINCT note_id FROM journal"):
            _copy_base(opens, target, note_id)
        _fill_tags(target)
        target.run(_COUNT_NOTES)
        FtsIndex(target).rebuild()
    return found


def _copy_base(opens: Open, target: Database, note_id: str) -> None:
    notes, bases = _try_rows(opens, _NOTE, (note_id,)), _try_rows(opens, _BASE, (note_id,))
    if notes and bases:
        _insert(target, "notes", notes)
        _insert(target, "note_base", bases)


def _try_rows(opens: Open, sql: str, parameters: tuple[object, ...] = ()) -> list[Row] | None:
    try:
        with closing(opens()) as damaged:
            return damaged.rows(sql, parameters)
    except CacheError:
        return None


def _count(opens: Open, table: str) -> int:
    rows = _try_rows(opens, f"SELECT count(*) FROM {table}")  # noqa: S608 - names of our own
    return int(rows[0][0]) if rows else 0


def _fill_tags(target: Database) -> None:
    tags = target.rows("SELECT pk, tags FROM notes")
    target.run_many(
        "INSERT OR IGNORE INTO note_tags(pk, tag, key) VALUES (?, ?, ?)",
        [(pk, tag, tag_key(tag)) for pk, each in tags for tag in json.loads(each)],
    )


def _copy_state_table(
    opens: Open,
    target: Database,
    name: str,
    without: frozenset[str],
    report: Callable[[int], None],
) -> bool:
    """Copy a table in slices, and row by row where a slice cannot be read; True if complete.

    A row that cannot be read is made again from the index, where that has the same.
    """
    columns = _COPIED[name]
    key, values = ", ".join(columns), ", ".join("?" * len(columns))
    one = f"SELECT * FROM {name} WHERE ({key}) = ({values})"  # noqa: S608 - names of our own
    complete, after, last = True, "", ()
    while True:
        where = f"{after} ORDER BY {key} LIMIT {_SLICE}"
        rows = _try_rows(opens, f"SELECT * FROM {name} {where}", last)  # noqa: S608 - the same
        keys = rows
        if rows is None:
            keys = _try_rows(opens, f"SELECT {key} FROM {name} {where}", last)  # noqa: S608 - the same
            if keys is None:
                # The order may come from a damaged index: take all that is left at once.
                found = _try_rows(opens, f"SELECT {key} FROM {name} NOT INDEXED")  # noqa: S608 - the same
                if found is None:
                    found = _try_rows(opens, f"SELECT {key} FROM {name}")  # noqa: S608 - the same
                complete &= found is not None
                keys = [row for row in sorted(found or []) if row > last]
            rows = []
            for each in keys:
                read = _try_rows(opens, one, each)
                if read is None and name in TWINS:  # defence: damaged-note-from-index
                    read = _try_rows(opens, TWINS[name], each)
                complete &= bool(read)
                rows += read or []
        if not keys:
            return complete
        with target.transaction():
            _insert(target, name, [row for row in rows if not _is_left(name, row, without)])
        report(len(keys))
        last = keys[-1][: len(columns)]
        after = f"WHERE ({key}) > ({values})"


def _is_left(table: str, row: Row, without: frozenset[str]) -> bool:
    return _is_named(table, row, without) or (
        table == "sync_metadata" and row[0].startswith(INDEX_ROWS)
    )


_COUNT_NOTES = """
UPDATE note_counts SET active = (SELECT count(*) FROM notes WHERE trash = 0),
                       trashed = (SELECT count(*) FROM notes WHERE trash = 1)
"""
_NOTE = "SELECT * FROM notes WHERE id = ?"
_BASE = "SELECT b.* FROM note_base b JOIN notes n ON n.pk = b.pk WHERE n.id = ?"
