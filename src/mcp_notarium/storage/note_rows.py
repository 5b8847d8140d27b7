"""Convert revisions to table rows and back, and read or scan the rows of notes by their keys.

The rows are those of ``notes``, ``note_base``, ``note_tags``, ``note_properties`` and ``note_tasks``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mcp_notarium.domain.characters import replace_surrogates, tag_key
from mcp_notarium.domain.lines import first_line, preview
from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.domain.properties import is_block_unread, read_properties_of
from mcp_notarium.markup.front_block import STARTS, shown_part
from mcp_notarium.search.folding import supplement, tag_words, title_key
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.property_table import property_rows, task_rows

Value = str | bytes | int | float | None
Change = Revision | Tombstone

BULK_SIZE = 250
"""More notes than this at once are a load: stored in a worker thread, because so many would block the
event loop longer than the write lock, and merged into the full-text index afterwards."""
BATCH = 1000
"""Notes that are looked up and written together, in one transaction of some 0.1 s during a load; other
processes wait for it. More cost memory and gain nothing."""

_AS_JSON = lru_cache(1024)(json.JSONEncoder(ensure_ascii=False).encode)  # few tags, many notes
_LATEST = 253_402_300_799  # the end of the year 9999: what a calendar date can still show


@dataclass(frozen=True, slots=True)
class Applied:
    """Count what :meth:`NoteTable.apply` did, in notes."""

    stored: int = 0
    removed: int = 0
    unchanged: int = 0

    def __add__(self, other: Applied) -> Applied:
        return Applied(
            self.stored + other.stored,
            self.removed + other.removed,
            self.unchanged + other.unchanged,
        )


def batches(changes: Iterable[Change]) -> Iterator[dict[str, Change]]:
    """Yield batches with each note at most once, so that each can be written as a whole."""
    batch: dict[str, Change] = {}
    for change in changes:
        clean = _clean(change)
        if clean.id in batch or len(batch) == BATCH:
            yield batch
            batch = {}
        batch[clean.id] = clean
    if batch:
        yield batch


def _clean(change: Change) -> Change:
    if isinstance(change, Tombstone):
        return Tombstone(replace_surrogates(change.id))
    before = change.id, change.etag, change.content, change.links
    note_id, etag = replace_surrogates(change.id), replace_surrogates(change.etag)
    links = None if change.links is None else change.links.cleaned()
    clean = note_id, etag, change.content.cleaned(), links
    if clean == before:  # as of nearly every note: a copy takes ten times as long
        return change
    return replace(change, id=note_id, etag=etag, content=clean[2], links=links)


@dataclass(frozen=True, slots=True)
class Rows:
    """Hold the rows of one revision, without what only the table knows."""

    revision: Revision
    note: tuple[Value, ...]
    """The columns of ``notes`` without key and version, ``base``: those of ``note_base`` without the key, ``tags``: tag and key of each, ``properties``, ``tasks``: those of ``note_properties`` and ``note_tasks`` without the key; all in the order of the statements there."""
    base: tuple[Value, ...]
    tags: tuple[tuple[str, str], ...]
    properties: tuple[tuple[Value, ...], ...]
    tasks: tuple[tuple[Value, ...], ...]


def rows_of(revision: Revision) -> Rows:
    """Return the rows of a revision."""
    tags = tuple((tag, tag_key(tag)) for tag in revision.content.tags)
    content = revision.content
    properties = _properties(content) if content.may_have_properties else ()
    tasks = tuple(task_rows(content.text)) if content.may_have_tasks else ()
    return Rows(revision, _note(revision), _base(revision), tags, properties, tasks)


def _properties(content: Content) -> tuple[tuple[Value, ...], ...]:
    properties, whole = read_properties_of(content)
    unread = not whole and is_block_unread(content.text)
    return tuple(property_rows(properties, unread=unread))


def _note(revision: Revision) -> tuple[Value, ...]:
    content = revision.content
    heading = content.title or first_line(content.text)
    return (
        revision.id,
        revision.server_version,
        _seconds(revision.created_at),
        _seconds(revision.modified_at),
        int(content.trash),
        content.properties.json,
        _AS_JSON(content.tags),
        content.title,
        preview(shown_part(content.text) if content.text.startswith(STARTS) else content.text),
        title_key(heading),
        heading,
        tag_words(content.tags),
        supplement(f"{content.title}\n{content.text}" if content.title else content.text),
        content.text,
    )


def _base(revision: Revision) -> tuple[Value, ...]:
    return (
        revision.etag,
        _number(revision.created_at),
        _number(revision.modified_at),
        int(revision.tags_understood),
        revision.identity,
        revision.raw,
    )


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else float(value)


def _seconds(value: float) -> int:
    return math.floor(min(max(_number(value), -_LATEST), _LATEST))


SLICE = 500
"""Notes looked at in one statement."""

Key = tuple[float, int]
"""Order notes by the time of creation, then by row: of equally old ones the last stored is newer."""
Matches = Callable[[str | None, str], bool]
"""Tell from title and text whether a note is wanted."""


@dataclass(frozen=True, slots=True)
class ScannedNote:
    """Hold what a listing shows of a note.

    Times are epoch seconds with fractions: a note that was never changed has two equal ones.
    """

    id: str
    title: str | None
    head: str
    """Its preview."""
    created_at: float
    modified_at: float
    text: str = ""
    """The text, if it was asked for."""


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


def all_ids(database: Database) -> set[str]:
    """Return the ids of all notes."""
    return {row[0] for row in database.rows("SELECT id FROM notes")}


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
