"""Store the properties and the tasks of notes as rows of their own, count and find them.

A list has a row for each item. A text that is a number has that, too. Dates are kept as epoch seconds, without a zone as if it were UTC.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.note import Properties, Value
from mcp_notarium.domain.properties import (
    LONGEST_VALUE,
    Kind,
    kind_of,
    parse_date,
    shown_value,
    typed,
)
from mcp_notarium.search.property_filter import day_number, value_key
from mcp_notarium.search.query import HasTask
from mcp_notarium.search.sql_builder import build_tasks
from mcp_notarium.storage.database import Database

MOST_VALUES = 3
"""Commonest values of a property that are named."""
_UNREAD = ""
"""The key of a row that stands for properties that cannot be read: no property has it."""
Row = tuple[int, str, str, str, str, str, float | None, int]


LONGEST = 200
"""Characters of a task's words that are shown."""
MOST = 10
"""Tasks of a note that a row of a listing shows."""
TaskRow = tuple[int, int, str, float | None, float | None, str]


@dataclass(frozen=True, slots=True)
class PropertyUse:
    """Hold a property that notes outside the trash have: how many, of which kinds, and with which values most often."""

    name: str
    notes: int
    kinds: tuple[str, ...]
    values: tuple[tuple[str, int], ...]


def property_rows(properties: Properties, *, unread: bool = False) -> Iterator[Row]:
    """Yield the rows of a note's properties, without its key; ``unread``: it has others that cannot be read."""
    place = 0
    if unread:
        yield place, _UNREAD, _UNREAD, "empty", "", "", None, 0
        place += 1
    for name, value in properties.items():
        items = value if isinstance(value, tuple) else (value,)
        for item in items or ("",):
            yield (
                place,
                name,
                tag_key(name),
                *_columns(item, kind_of(value)),
                int(isinstance(value, tuple)),
            )
            place += 1


def _columns(value: Value, kind: Kind) -> tuple[str, str, str, float | None]:
    text, number = shown_value(value)[:LONGEST_VALUE], None
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    elif isinstance(value, str) and (at := parse_date(value)) is not None:
        kind = "date"
        number = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    elif isinstance(value, str):
        kind = "text" if kind == "list" else kind
        said = typed(value)
        number = (
            float(said) if isinstance(said, int | float) and not isinstance(said, bool) else None
        )
    return kind, text, value_key(text), number


def find_unread(database: Database, *, most: int) -> tuple[int, list[str]]:
    """Return how many notes outside the trash have properties that cannot be read, and the ids of the first ones."""
    found = [row[0] for row in database.rows(_FIND_UNREAD, (_UNREAD,))]
    return len(found), found[:most]


def is_used(database: Database, name: str) -> bool:
    """Tell whether any note has this property."""
    return tag_key(name) != _UNREAD and database.row(_IS_USED, (tag_key(name),)) is not None


def count_properties(
    database: Database, *, limit: int, offset: int
) -> tuple[list[PropertyUse], int]:
    """Return the properties of notes outside the trash, the most used first, and how many there are in all."""
    total = database.number(_TOTAL)
    rows = database.rows(_USES, (limit, offset))
    values = _values_of(database, [row[0] for row in rows])
    return [
        PropertyUse(name, notes, tuple(sorted(json.loads(kinds))), values.get(key, ()))
        for key, name, notes, kinds in rows
    ], total


def _values_of(database: Database, keys: Sequence[str]) -> dict[str, tuple[tuple[str, int], ...]]:
    found: dict[str, list[tuple[str, int]]] = {}
    for key, value, count in database.rows(_VALUES, (json.dumps(list(keys)), MOST_VALUES)):
        found.setdefault(key, []).append((value, count))
    return {key: tuple(each) for key, each in found.items()}


def read_named(
    database: Database, note_ids: Sequence[str], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the values of these properties of these notes, by id and by the name in the note."""
    found: dict[str, dict[str, list[Any]]] = {}
    keys = json.dumps([tag_key(name) for name in names])
    for note_id, name, kind, value in database.rows(_NAMED, (json.dumps(list(note_ids)), keys)):
        known = typed(value) if kind in ("number", "yes/no") else value
        found.setdefault(note_id, {}).setdefault(name, []).append(known)
    return {
        note_id: {name: all_[0] if len(all_) == 1 else all_ for name, all_ in each.items()}
        for note_id, each in found.items()
    }


PUT_PROPERTY = "INSERT INTO note_properties VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_IS_USED = "SELECT 1 FROM note_properties WHERE key = ? LIMIT 1"
_LIVE = (
    "note_properties p CROSS JOIN notes n INDEXED BY notes_meta ON n.pk = p.pk "
    "WHERE n.trash = 0 AND p.key <> ''"
)
_TOTAL = f"SELECT count(DISTINCT p.key) FROM {_LIVE}"  # noqa: S608 - constants only
_FIND_UNREAD = """
SELECT n.id FROM note_properties p CROSS JOIN notes n ON n.pk = p.pk WHERE p.key = ? AND n.trash = 0 ORDER BY n.id
"""
_USES = f"""
SELECT p.key, min(p.name), count(DISTINCT p.pk) AS uses, json_group_array(DISTINCT iif(p.is_list, 'list', p.kind))
FROM {_LIVE} GROUP BY p.key ORDER BY uses DESC, p.key LIMIT ? OFFSET ?
"""  # noqa: S608 - constants only
_VALUES = f"""
SELECT key, value, uses FROM (
  SELECT p.key AS key, min(p.value) AS value, count(*) AS uses,
         row_number() OVER (PARTITION BY p.key ORDER BY count(*) DESC, p.value_key) AS place
  FROM {_LIVE} AND p.key IN (SELECT value FROM json_each(?)) AND p.value <> ''
  GROUP BY p.key, p.value_key
) WHERE place <= ? ORDER BY key, place
"""  # noqa: S608 - constants only
_NAMED = """
SELECT n.id, p.name, p.kind, p.value FROM json_each(?) AS wanted CROSS JOIN notes n ON n.id = wanted.value
CROSS JOIN note_properties p ON p.pk = n.pk AND p.key IN (SELECT value FROM json_each(?))
ORDER BY p.pk, p.place
"""


@dataclass(frozen=True, slots=True)
class FoundTask:
    """Hold a task of a listing: its ``line`` (from 1), its words, its state, and its days in ISO form."""

    line: int
    text: str
    state: str
    due: str | None = None
    scheduled: str | None = None


def task_rows(text: str) -> Iterator[TaskRow]:
    """Yield the rows of the tasks of a text, without the key of the note."""
    from mcp_notarium.markup.tasks import find_tasks  # noqa: PLC0415 - few notes have tasks

    for task in find_tasks(text):
        due, scheduled = _seconds(task.due), _seconds(task.scheduled)
        yield (
            *(task.line, int(task.is_open), task.state, due, scheduled),
            shorten(task.text, LONGEST),
        )


def find_tasks_of(
    database: Database, note_ids: Sequence[str], wanted: Sequence[HasTask]
) -> dict[str, list[FoundTask]]:
    """Return the tasks of these notes that any of the conditions means, by the id of the note; one more than ``MOST``."""
    statement = build_tasks(note_ids, wanted)
    rows = database.rows(statement.sql, statement.parameters)
    found: dict[str, list[FoundTask]] = {}
    for note_id, line, words, state, *days in rows:
        tasks = found.setdefault(note_id, [])
        if len(tasks) <= MOST:
            tasks.append(FoundTask(line, words, state, *map(_day, days)))
    return found


def _seconds(day: date | None) -> float | None:
    return None if day is None else day_number(day)


def _day(seconds: float | None) -> str | None:
    return None if seconds is None else str(datetime.fromtimestamp(seconds, UTC).date())


PUT_TASK = "INSERT INTO note_tasks VALUES (?, ?, ?, ?, ?, ?, ?)"
