"""Read the notes and the judged queries, and make the notes that stand in their way."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import corpus
from notarium_devtools.simperium.data import prose
from quality.daily import daily

_HERE = Path(__file__).parent
_MARK = "=== "
_PROSE = 500
"""Sections of Python's documentation: real English, full of the words that questions are made of. Beyond these they repeat."""
_DAILY = 900
_ASKED_DAYS = """
    2024-03-18 2024-05-11 2023-11-22 2024-10-26 2023-12-09 2016-01-21 2020-03-18 2024-07-06 2021-06-09 2016-02-19
    2023-05-03 2024-02-20 2023-09-25 2022-01-19 2024-04-30 2024-10-08 2023-03-05 2024-08-15
"""
"""Days that a query asks for: no daily note is of one."""


@dataclass(frozen=True, slots=True)
class Note:
    """Hold a note. ``date``: when it was changed last, in epoch seconds."""

    name: str
    text: str
    tags: tuple[str, ...]
    date: int

    @property
    def id(self) -> str:
        """Return an id as a store has them."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Query:
    """Hold words as an agent types them, and the ids of the notes that answer them: any of these will do."""

    group: str
    text: str
    wanted: frozenset[str]


def notes() -> list[Note]:
    """Return the notes that queries are about, and the indexes and link lists that hold the words of all of them."""
    files = sorted((_HERE / "notes").glob("*.md"))
    return [note for file in files for note in _read(file.read_text(encoding="utf-8"))]


def queries() -> list[Query]:
    """Return all queries in the order of their groups. Raises ``KeyError`` where one names a note that does not exist."""
    ids = {note.name: note.id for note in notes()}
    found = []
    for line in (_HERE / "queries.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            group, text, names = line.split("\t")
            found.append(Query(group, text, frozenset(ids[name] for name in names.split())))
    return found


def beside(count: int) -> list[Note]:
    """Return what else is in the account: ``count`` notes of made-up words, less those in the trash, and ``others``."""
    return [*made_up(count), *others()]


def made_up(count: int) -> Iterator[Note]:
    """Yield the notes of the bench's corpus that are not in the trash."""
    for note_id, fields in corpus.notes(count):
        if not fields["deleted"]:
            name = f"made-up/{int(note_id, 16)}"
            yield Note(name, fields["content"], tuple(fields["tags"]), int(fields["creationDate"]))


def others() -> Iterator[Note]:
    """Yield daily notes and sections of documentation."""
    for number, (text, date) in enumerate(daily(_DAILY, free=frozenset(_ASKED_DAYS.split()))):
        yield Note(f"daily/{number}", text, ("daily",), date)
    for number, fields in enumerate(prose(_PROSE)):
        date = int(fields["modificationDate"])
        yield Note(f"prose/{number}", fields["content"], tuple(fields["tags"]), date)


def _read(text: str) -> Iterator[Note]:
    for part in text.split(f"\n{_MARK}"):
        head, _, body = part.removeprefix(_MARK).partition("\n")
        name, tags, day = (field.strip() for field in head.split("|"))
        date = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
        kept = tuple(tag.strip() for tag in tags.split(","))
        yield Note(name, body.strip() + "\n", kept, int(date.timestamp()))


def groups() -> list[str]:
    """Return the names of the groups in their order."""
    return [group for group, _ in itertools.groupby(queries(), key=lambda query: query.group)]
