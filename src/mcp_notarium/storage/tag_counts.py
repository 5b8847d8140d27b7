"""Count the tags of the notes in the index, and find the notes of one tag.

Two spellings of a tag are one (``tag_key``). Hidden notes are not in the index, so their tags do not count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.storage.database import Database


@dataclass(frozen=True, slots=True)
class TagCount:
    """Hold a tag in one of its spellings, and how many notes outside the trash have it."""

    tag: str
    notes: int


@dataclass(frozen=True, slots=True)
class TagPage:
    """Hold one page of tags, and how many there are on all pages."""

    tags: list[TagCount]
    total: int


@dataclass(frozen=True, slots=True)
class TaggedNote:
    """Hold the tags of a note, in the trash or not."""

    id: str
    trash: bool
    tags: tuple[str, ...]


def count_tags(database: Database, *, limit: int, offset: int = 0) -> TagPage:
    """Return the tags of notes outside the trash, most used first, then by name."""
    tags = [TagCount(*row) for row in database.rows(_COUNTS, (limit, offset))]
    return TagPage(tags, database.number(_TOTAL))


def find_tagged(database: Database, tag: str) -> list[TaggedNote]:
    """Return the notes with this tag, in whatever spelling, in the order they came; those in the trash, too."""
    rows = database.rows(_TAGGED, (tag_key(tag),))
    return [TaggedNote(row[0], bool(row[1]), tuple(json.loads(row[2]))) for row in rows]


_FROM = "FROM note_tags t CROSS JOIN notes n INDEXED BY notes_meta ON n.pk = t.pk AND n.trash = 0"
_COUNTS = f"""
SELECT min(t.tag), count(DISTINCT t.pk) AS uses {_FROM}
GROUP BY t.key ORDER BY uses DESC, t.key LIMIT ? OFFSET ?
"""
_TOTAL = f"SELECT count(DISTINCT t.key) {_FROM}"
_TAGGED = """
SELECT n.id, n.trash, n.tags FROM notes n
WHERE n.pk IN (SELECT pk FROM note_tags WHERE key = ?) ORDER BY n.pk
"""
