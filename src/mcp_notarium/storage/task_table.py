"""Store the tasks of notes as rows of their own, and find those that a query means. Hidden notes have no rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from mcp_notarium.domain.lines import shorten
from mcp_notarium.search.property_filter import day_number
from mcp_notarium.search.query import HasTask
from mcp_notarium.search.sql_builder import build_tasks
from mcp_notarium.storage.database import Database

LONGEST = 200
"""Characters of a task's words that are shown."""
MOST = 10
"""Tasks of a note that a row of a listing shows."""
Row = tuple[int, int, str, float | None, float | None, str]


@dataclass(frozen=True, slots=True)
class FoundTask:
    """Hold a task of a listing: its ``line`` (from 1), its words, its state, and its days in ISO form."""

    line: int
    text: str
    state: str
    due: str | None = None
    scheduled: str | None = None


def task_rows(text: str) -> Iterator[Row]:
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
