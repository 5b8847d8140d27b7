"""Read all notes outside the trash in slices, for what no index answers: literal text, exact times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mcp_notarium.storage.database import Database

SLICE = 500
"""Notes read at once: their texts are in memory together."""


@dataclass(frozen=True, slots=True)
class ScannedNote:
    """Hold a note of a scan. ``text`` is '' unless texts were asked for, ``head`` the preview of it.

    Times are epoch seconds with fractions: a note that was never changed has two equal ones.
    """

    id: str
    title: str | None
    head: str
    created_at: float
    modified_at: float
    text: str = ""


def scan(database: Database, *, texts: bool) -> Iterator[list[ScannedNote]]:
    """Yield the notes outside the trash in slices, in no order that means anything."""
    after = 0
    while rows := database.rows(_WITH_TEXT if texts else _WITHOUT, (after, SLICE)):
        yield [ScannedNote(*row[1:]) for row in rows]
        after = rows[-1][0]


def read_times(database: Database, note_id: str) -> tuple[float, float]:
    """Return when the note was created and last changed; zeros if there is none."""
    row = database.row(_TIMES, (note_id,))
    return (row[0], row[1]) if row is not None else (0.0, 0.0)


_COLUMNS = "n.pk, n.id, n.title, n.head, b.created_at, b.modified_at"
_FROM = """
FROM notes n CROSS JOIN note_base b ON b.pk = n.pk
WHERE n.pk > ? AND n.trash = 0 ORDER BY n.pk LIMIT ?
"""
_WITHOUT = f"SELECT {_COLUMNS} {_FROM}"
_WITH_TEXT = f"SELECT {_COLUMNS}, n.text {_FROM}"
_TIMES = """
SELECT b.created_at, b.modified_at FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.id = ?
"""
