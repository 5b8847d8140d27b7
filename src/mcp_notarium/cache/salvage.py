"""Reads what is still authentic out of a damaged cache, note by note, into a new and empty one.

A page whose MAC does not fit makes a connection useless, so every failure costs a new one; ranges of
notes are halved until the unreadable ones are found. A note is taken over only with the service's
own object behind it: one half alone could not be synchronised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from mcp_notarium.cache.connection import Database, Row
from mcp_notarium.cache.copying import TABLES, Table, Told
from mcp_notarium.errors import CacheError
from mcp_notarium.notes.clean import tag_key

Open = Callable[[], Database]
"""Opens the damaged database, again and again; each result is closed here."""

_SLICE = 256
_NOTES, _BASE = (next(t for t in TABLES if t.name == name) for name in ("notes", "note_base"))
_TAGS_AT = _NOTES.all_columns.index("tags")
_BASE_AT = len(_NOTES.all_columns)


@dataclass(slots=True)
class Salvaged:
    """What came over. ``lost``: keys (pk) at which a note stood, or may have stood, unreadable.

    ``complete`` names the small tables of which every row was read.
    """

    notes: int = 0
    lost: list[int] = field(default_factory=list)
    complete: set[str] = field(default_factory=set)


def salvage(
    opens: Open, target: Database, *, without: frozenset[str], told: Told = lambda _done, _of: None
) -> Salvaged:
    """Copy every readable note, unfinished write and setting but those ``without``.

    ``target`` is new and empty. Raises ``CacheError`` if not even the tables can be found.
    """
    found = Salvaged()
    last = _last_key(opens)
    target.run("UPDATE search_index SET deferred = 1")
    for start in range(0, last, _SLICE):
        end = min(start + _SLICE, last)
        with target.transaction():
            for rows in _readable(opens, start, end, found.lost):
                _store(target, rows)
                found.notes += len(rows)
        told(end, last)
    for name in ("pending_writes", "sync_metadata"):
        if _take_small(opens, target, name, without):
            found.complete.add(name)
    with target.transaction(durable=True):
        target.run("INSERT INTO notes_fts(notes_fts) VALUES ('rebuild')")
        target.run(
            "UPDATE search_index SET deferred = 0, changes = (SELECT count(*) FROM notes) + 1"
        )
    return found


def _readable(opens: Open, start: int, end: int, lost: list[int]) -> Iterator[list[Row]]:
    """The rows with ``start < pk <= end``; what cannot be read is noted in ``lost``."""
    rows = _asked(opens, _PAIRS, (start, end))
    if rows is not None:
        yield rows
    elif end - start == 1:
        lost.append(end)
    else:
        middle = (start + end) // 2
        yield from _readable(opens, start, middle, lost)
        yield from _readable(opens, middle, end, lost)


def _asked(opens: Open, sql: str, parameters: tuple[object, ...] = ()) -> list[Row] | None:
    """The answer, or None if it cannot be read."""
    try:
        with closing(opens()) as damaged:
            return damaged.rows(sql, parameters)
    except CacheError:
        return None


def _last_key(opens: Open) -> int:
    """The highest key a note may have. Raises the ``CacheError`` of a database without tables."""
    with closing(opens()) as damaged:
        damaged.rows("SELECT name FROM sqlite_master")
    answers = (_asked(opens, f"SELECT max(pk) FROM {name}") for name in ("notes", "note_base"))  # noqa: S608 - two names
    known = [rows[0][0] or 0 for rows in answers if rows]
    if known:
        return max(known)
    # Neither end can be read: no page holds more rows than it has bytes for.
    with closing(opens()) as damaged:
        return damaged.number("PRAGMA page_count") * 40


def _store(target: Database, rows: list[Row]) -> None:
    target.run_many(_insertion(_NOTES), [row[:_BASE_AT] for row in rows])
    target.run_many(_insertion(_BASE), [row[_BASE_AT:] for row in rows])
    target.run_many(
        "INSERT OR IGNORE INTO note_tags(pk, tag, key) VALUES (?, ?, ?)",
        [(row[0], tag, tag_key(tag)) for row in rows for tag in json.loads(row[_TAGS_AT])],
    )


def _take_small(opens: Open, target: Database, name: str, without: frozenset[str]) -> bool:
    """A table with few rows: all at once, or what can be had one by one. True if all came over."""
    table = next(table for table in TABLES if table.name == name)
    columns, key = ", ".join(table.all_columns), table.key[0]
    rows = _asked(opens, f"SELECT {columns} FROM {name}")  # noqa: S608 - names of our own
    whole = rows is not None
    if rows is None:
        keys = _asked(opens, f"SELECT {key} FROM {name}") or []  # noqa: S608 - the same
        one = f"SELECT {columns} FROM {name} WHERE {key} = ?"  # noqa: S608 - the same
        rows = [row for (known,) in keys for row in _asked(opens, one, (known,)) or []]
    with target.transaction():
        target.run_many(_insertion(table), [row for row in rows if row[0] not in without])
    return whole


def _insertion(table: Table) -> str:
    values = ", ".join("?" * len(table.all_columns))
    return f"INSERT OR REPLACE INTO {table.name}({', '.join(table.all_columns)}) VALUES ({values})"  # noqa: S608 - names of our own


_PAIRS = (
    f"SELECT {', '.join(f'n.{name}' for name in _NOTES.all_columns)}, "  # noqa: S608 - names of our own
    f"{', '.join(f'b.{name}' for name in _BASE.all_columns)} "
    "FROM notes n NOT INDEXED JOIN note_base b ON b.pk = n.pk WHERE n.pk > ? AND n.pk <= ?"
)
