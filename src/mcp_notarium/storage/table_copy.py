"""Copy all rows, or the readable rows of a damaged database, into an empty one.

The target's own connection writes its pages under its own key; no bytes of the old file are copied,
and no statement ever knows two keys. The full-text index is built again from the notes. The ``pk`` of
notes stay the same, gaps included.

A page with a wrong MAC makes a connection useless, so every failure costs a new connection. Ranges of
notes are halved until the unreadable ones are found. A note is copied only together with the
service's own object: one half alone could not be synchronised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.errors import CacheError
from mcp_notarium.storage.database import Database, Row
from mcp_notarium.storage.fts_index import FtsIndex

_SLICE = 500

OnProgress = Callable[[int, int], None]
"""Is called with the number of rows done, and of all rows."""


TABLES = {
    "notes": ("pk",),
    "note_base": ("pk",),
    "note_tags": ("pk", "tag"),
    "pending_writes": ("write_id",),
    "withheld": ("id",),
    "sync_metadata": ("key",),
}
"""The tables to copy, each with its key: its first columns, by which rows are read in order.

The target fills the others by itself, except for the audit chain (``audit_table.carry_over``).
"""


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
    total = sum(source.number(f"SELECT count(*) FROM {name}") for name in TABLES)  # noqa: S608 - names of this module
    done = 0
    for name in TABLES:
        for rows in slices(source, name):
            with target.transaction():
                _insert(target, name, [row for row in rows if not _is_named(name, row, keep)])
            done += len(rows)
            on_progress(done, total)
    with target.transaction(durable=True):
        FtsIndex(target).rebuild()


def content_digest(database: Database, *, without: Collection[str]) -> str:
    """Return SHA-256 in hex over every copied row, in order; ``without`` these keys of the metadata."""
    digest = hashlib.sha256()
    for name in TABLES:
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
    key = ", ".join(TABLES[table])
    after, last = "", ()
    while rows := database.rows(
        f"SELECT * FROM {table} {after} ORDER BY {key} LIMIT ?",  # noqa: S608 - as above
        (*last, _SLICE),
    ):
        yield rows
        last = rows[-1][: len(TABLES[table])]
        after = f"WHERE ({key}) > ({', '.join('?' * len(last))})"


def _insert(target: Database, table: str, rows: list[Row]) -> None:
    if rows:
        values = ", ".join("?" * len(rows[0]))
        target.run_many(f"INSERT OR REPLACE INTO {table} VALUES ({values})", rows)  # noqa: S608 - as above


Open = Callable[[], Database]
"""Open the damaged database; it is called again and again, and each result is closed here."""

_SALVAGED_AT_ONCE = 256
_PROBES = 16
"""A slice is given up if none of this many keys can be read: the service has its notes, too."""
_ROWS_OF_A_PAGE = 40
_GAP = 4096
"""Keys tried after the last readable note if the last key cannot be read."""


@dataclass(slots=True)
class SalvageReport:
    """Hold the result of a salvage. ``lost``: keys (pk) of notes that exist, or may exist, unreadable.

    ``expected``: how many notes the database says it has; None if that cannot be read either.
    ``open_end``: an unknown number of notes may follow the last readable one.
    ``complete`` names the small tables of which every row was read.
    """

    notes: int = 0
    expected: int | None = None
    open_end: bool = False
    lost: list[int] = field(default_factory=list)
    complete: set[str] = field(default_factory=set)


def salvage(
    opens: Open,
    target: Database,
    *,
    pages: int,
    without: frozenset[str],
    on_progress: OnProgress = lambda _done, _of: None,
) -> SalvageReport:
    """Copy every readable note, journal entry and setting except those ``without``.

    ``target`` is new and empty; ``pages`` the pages that the damaged file really has. Raises
    ``CacheError`` if not even the tables can be found.
    """
    with closing(opens()) as damaged:
        damaged.rows("SELECT name FROM sqlite_master")
    counts = _try_rows(opens, "SELECT active + trashed FROM note_counts")
    found = SalvageReport(expected=counts[0][0] if counts else None)
    _copy_notes(opens, target, found, pages=pages, on_progress=on_progress)
    for name in ("pending_writes", "sync_metadata"):
        if _copy_small_table(opens, target, name, without):
            found.complete.add(name)
    with target.transaction(durable=True):
        _fill_tags(target)
        FtsIndex(target).rebuild()
    return found


def _copy_notes(
    opens: Open, target: Database, found: SalvageReport, *, pages: int, on_progress: OnProgress
) -> None:
    last = _last_key(opens)
    found.open_end = last is None
    bound = pages * _ROWS_OF_A_PAGE if last is None else last
    seen = 0  # the end of the last slice with a readable note
    for start in range(0, bound, _SALVAGED_AT_ONCE):
        end = min(start + _SALVAGED_AT_ONCE, bound)
        lost = len(found.lost)
        with target.transaction():
            for notes, bases in _readable(opens, start, end, found.lost):
                _insert(target, "notes", notes)
                _insert(target, "note_base", bases)
                found.notes += len(notes)
        if len(found.lost) - lost < end - start:
            seen = end
        elif found.open_end and end - seen > _GAP + max((found.expected or 0) - found.notes, 0):
            break
        on_progress(end, bound if last is not None else max(found.expected or 0, end))
    if found.open_end:  # keys tried after the end may never have existed
        found.lost = [key for key in found.lost if key <= seen]


def _all_unreadable(opens: Open, start: int, end: int) -> bool:
    """Tell whether none of some keys spread over the slice can be looked up."""
    step = max((end - start) // _PROBES, 1)
    keys = range(start + 1, end + 1, step)
    return all(_try_slice(opens, key - 1, key) is None for key in keys)


def _readable(
    opens: Open, start: int, end: int, lost: list[int]
) -> Iterator[tuple[list[Row], list[Row]]]:
    """Yield notes and bases with ``start < pk <= end``; add unreadable keys to ``lost``."""
    found = _try_slice(opens, start, end)
    if found is not None:
        yield found
    elif end - start == 1 or (
        end - start > _SALVAGED_AT_ONCE // 2 and _all_unreadable(opens, start, end)
    ):
        lost.extend(range(start + 1, end + 1))
    else:
        middle = (start + end) // 2
        yield from _readable(opens, start, middle, lost)
        yield from _readable(opens, middle, end, lost)


def _try_slice(opens: Open, start: int, end: int) -> tuple[list[Row], list[Row]] | None:
    """Return the notes with ``start < pk <= end`` that have a base, and the bases; None if unreadable."""
    try:
        with closing(opens()) as damaged:
            return damaged.rows(_NOTES, (start, end)), damaged.rows(_BASES, (start, end))
    except CacheError:
        return None


def _try_rows(opens: Open, sql: str, parameters: tuple[object, ...] = ()) -> list[Row] | None:
    """Return the rows, or None if they cannot be read."""
    try:
        with closing(opens()) as damaged:
            return damaged.rows(sql, parameters)
    except CacheError:
        return None


def _last_key(opens: Open) -> int | None:
    """Return the highest key of a note, from any table with one row per note; None if unreadable."""
    answers = [_try_rows(opens, question) for question in _LAST_KEYS]
    return max((rows[0][0] or 0 for rows in answers if rows), default=None)


def _fill_tags(target: Database) -> None:
    tags = target.rows("SELECT pk, tags FROM notes")
    target.run_many(
        "INSERT OR IGNORE INTO note_tags(pk, tag, key) VALUES (?, ?, ?)",
        [(pk, tag, tag_key(tag)) for pk, each in tags for tag in json.loads(each)],
    )


def _copy_small_table(opens: Open, target: Database, name: str, without: frozenset[str]) -> bool:
    """Copy a table with few rows at once, or its readable rows one by one; True if complete."""
    (key,) = TABLES[name]
    rows = _try_rows(opens, f"SELECT * FROM {name}")  # noqa: S608 - names of our own
    whole = rows is not None
    if rows is None:
        keys = _try_rows(opens, f"SELECT {key} FROM {name}") or []  # noqa: S608 - the same
        one = f"SELECT * FROM {name} WHERE {key} = ?"  # noqa: S608 - the same
        rows = [row for (value,) in keys for row in _try_rows(opens, one, (value,)) or []]
    with target.transaction():
        _insert(target, name, [row for row in rows if row[0] not in without])
    return whole


_LAST_KEYS = (
    "SELECT max(pk) FROM notes",
    "SELECT max(pk) FROM note_base",
    "SELECT max(id) FROM notes_fts_docsize",
)
_WITH_BASE = "FROM notes n NOT INDEXED JOIN note_base b ON b.pk = n.pk WHERE n.pk > ? AND n.pk <= ?"
_NOTES = f"SELECT n.* {_WITH_BASE}"
_BASES = f"SELECT b.* {_WITH_BASE}"
