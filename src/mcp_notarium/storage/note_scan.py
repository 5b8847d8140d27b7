"""Find notes outside the trash by what no index answers, literal text and exact times; read them by their keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mcp_notarium.storage.database import Database

SLICE = 500
"""Notes looked at in one statement."""

Key = tuple[float, int]
"""Order notes by the time of creation, then by row: of equally old ones the last stored is newer."""
Matches = Callable[[str | None, str], bool]
"""Tell from title and text whether a note is wanted."""


@dataclass(frozen=True, slots=True)
class ScannedNote:
    """Hold what a listing shows of a note. ``text`` is '' unless it was asked for, ``head`` the preview of it.

    Times are epoch seconds with fractions: a note that was never changed has two equal ones.
    """

    id: str
    title: str | None
    head: str
    created_at: float
    modified_at: float
    text: str = ""


def find_newest(database: Database, most: int) -> list[Key]:
    """Return the keys of the ``most`` notes that were created last, newest first."""
    return [(at, pk) for at, pk in database.rows(_NEWEST, (most,))]


def find_literally(database: Database, text: str, matches: Matches) -> Iterator[list[Key]]:
    """Yield the keys of the notes with this text in title or text, in any case, in no order that means anything.

    SQLite compares ASCII. Only a text with other letters needs ``matches``, and the texts that have its
    longest run of ASCII.
    """
    runs = re.findall(r"[\x01-\x7f]+", text)
    exact = runs == [text]
    part, after = max(runs, key=len, default="").lower(), 0
    while (last := database.number(_LAST, (after, SLICE))) > after:
        bounds = {"after": after, "last": last, "part": part}
        if exact:
            yield [(at, pk) for at, pk in database.rows(_WITH_PART, bounds)]
        else:
            rows = database.rows(_WITH_PART_AND_TEXT, bounds)
            yield [(at, pk) for at, pk, title, body in rows if matches(title, body)]
        after = last


def read(database: Database, keys: Sequence[Key], *, texts: bool) -> list[ScannedNote]:
    """Return these notes in this order, with their ``texts`` if asked for; some may have gone meanwhile."""
    statement = _ROWS_WITH_TEXT if texts else _ROWS
    return [
        ScannedNote(*row) for row in database.rows(statement, (json.dumps([pk for _, pk in keys]),))
    ]


def read_times(database: Database, note_id: str) -> tuple[float, float]:
    """Return when the note was created and last changed; zeros if there is none."""
    row = database.row(_TIMES, (note_id,))
    return (row[0], row[1]) if row is not None else (0.0, 0.0)


def read_titles(database: Database) -> list[tuple[str, str]]:
    """Return id and title of every note; of one without a title, its first line."""
    found = database.rows(_TITLES)
    return [(note_id, title or head.partition("\n")[0].strip()) for note_id, title, head in found]


_TITLES = "SELECT id, title, head FROM notes"
_NEWEST = """
SELECT b.created_at, n.pk FROM notes n CROSS JOIN note_base b ON b.pk = n.pk WHERE n.trash = 0
ORDER BY n.created_at DESC, b.created_at DESC, n.pk DESC LIMIT ?
"""
_LAST = """
SELECT max(pk) FROM (SELECT pk FROM notes INDEXED BY notes_meta WHERE pk > ? ORDER BY pk LIMIT ?)
"""
_PART = "(instr(lower(n.title), :part) > 0 OR instr(lower(n.text), :part) > 0)"
_SLICE = f"""
FROM notes n NOT INDEXED CROSS JOIN note_base b ON b.pk = n.pk
WHERE n.pk > :after AND n.pk <= :last AND n.trash = 0 AND {_PART}
"""
_WITH_PART = f"SELECT b.created_at, n.pk {_SLICE}"
_WITH_PART_AND_TEXT = f"SELECT b.created_at, n.pk, n.title, n.text {_SLICE}"
_SHOWN = "n.id, n.title, n.head, b.created_at, b.modified_at"
_BY_KEY = """
FROM json_each(?) wanted CROSS JOIN notes n ON n.pk = wanted.value
CROSS JOIN note_base b ON b.pk = n.pk WHERE n.trash = 0 ORDER BY wanted.key
"""
_ROWS = f"SELECT {_SHOWN} {_BY_KEY}"
_ROWS_WITH_TEXT = f"SELECT {_SHOWN}, n.text {_BY_KEY}"
_TIMES = """
SELECT b.created_at, b.modified_at FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.id = ?
"""
