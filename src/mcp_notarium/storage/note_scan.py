"""Read all notes outside the trash in slices, for what no index answers: literal text, exact times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mcp_notarium.storage.database import Database, Row

SLICE = 500
"""Notes read at once: their texts are in memory together."""


@dataclass(frozen=True, slots=True)
class ScannedNote:
    """Hold a note of a scan. ``text`` is '' unless a text was looked for, ``head`` the preview of it.

    Times are epoch seconds with fractions: a note that was never changed has two equal ones.
    """

    id: str
    title: str | None
    head: str
    created_at: float
    modified_at: float
    text: str = ""


def scan(database: Database, *, containing: str | None = None) -> Iterator[list[ScannedNote]]:
    """Yield the notes outside the trash in slices, in no order that means anything.

    With ``containing`` their texts come along, and notes are left out that cannot have it in title or text,
    whatever the case of its letters: SQLite compares its longest run of ASCII.
    """
    runs = re.findall(r"[\x01-\x7f]+", containing or "")
    place = {"after": 0, "most": SLICE, "part": max(runs, key=len, default="").lower()}
    while rows := _read(database, place, texts=containing is not None):
        yield [ScannedNote(*row[1:]) for row in rows]
        place["after"] = rows[-1][0]


def _read(database: Database, place: dict[str, int | str], *, texts: bool) -> list[Row]:
    return database.rows(_WITH_TEXT, place) if texts else database.rows(_WITHOUT, place)


def read_times(database: Database, note_id: str) -> tuple[float, float]:
    """Return when the note was created and last changed; zeros if there is none."""
    row = database.row(_TIMES, (note_id,))
    return (row[0], row[1]) if row is not None else (0.0, 0.0)


_COLUMNS = "n.pk, n.id, n.title, n.head, b.created_at, b.modified_at"
_FROM = "FROM notes n CROSS JOIN note_base b ON b.pk = n.pk WHERE n.pk > :after AND n.trash = 0"
_PART = "(instr(lower(n.title), :part) > 0 OR instr(lower(n.text), :part) > 0)"
_IN_ORDER = "ORDER BY n.pk LIMIT :most"
_WITHOUT = f"SELECT {_COLUMNS} {_FROM} {_IN_ORDER}"
_WITH_TEXT = f"SELECT {_COLUMNS}, n.text {_FROM} AND {_PART} {_IN_ORDER}"
_TIMES = """
SELECT b.created_at, b.modified_at FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.id = ?
"""
