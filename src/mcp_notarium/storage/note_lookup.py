"""Look notes up by name, by tag, or by equal text, and count tags.

Two spellings of a tag are one (``tag_key``). Hidden notes are not in the index, so their tags do not count.

White space at the end of lines and of the text does not count; nothing else is normalised. Titles count only where
there is no text: two copies of a file have two names. Tags, dates and properties do not matter.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_notarium.domain.characters import path_key, tag_key
from mcp_notarium.markup.obsidian_links import name_key, place_of
from mcp_notarium.search.folding import title_key
from mcp_notarium.storage.database import Database

if TYPE_CHECKING:
    from mcp_notarium.storage.database import Database


_ENDS = (".md", ".markdown")
_MOST = 100


def find_called(database: Database, name: str, *, titles: bool) -> list[str]:
    """Return the ids of the notes that this name means, two at most, by the first way that finds any.

    A note outside the trash comes before those in it. ``titles``: look for notes with this title, or first line, too;
    one in the same letter case comes first.
    """
    forms = [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    ways = [database.rows(_BY_ID, (*forms,)), database.rows(_BY_PATH, (path_key(name),))]
    if place := place_of(name, ""):
        named = database.rows(_BY_NAME, ("name", name_key(place), _MOST))
        wanted = _stem(place)
        ways.append([row for row in named if _stem(row[0]) == wanted])
        ways.append([row for row in named if _stem(row[0]).endswith(f"/{wanted}")])
    ways.append(database.rows(_BY_NAME, ("alias", path_key(name), _MOST)))
    if titles:
        ways.append(database.rows(_BY_TITLE, {"name": name, "nfc": forms[0], "nfd": forms[1]}))
        folded = database.rows(_BY_FOLDED_TITLE, (title_key(name),))
        wanted = tag_key(name.strip())
        ways.append([row for row in folded if tag_key(row[2].strip()) == wanted])
    for found in ways:
        active = [row[0] for row in found if not row[1]]
        if ids := active or [row[0] for row in found]:
            return list(dict.fromkeys(ids))[:2]
    return []


def find_at(database: Database, path: str) -> str | None:
    """Return the id of the note at a path, in whatever letter case; one that is written just so comes first."""
    forms = [unicodedata.normalize(form, path) for form in ("NFC", "NFD")]
    for found in (database.rows(_BY_ID, (*forms,)), database.rows(_BY_PATH, (path_key(path),))):
        if found:
            return str(found[0][0])
    return None


def find_starting(database: Database, start: str, *, trash: bool = False) -> list[str]:
    """Return the notes whose paths begin so, in whatever letter case, the last made first; ``trash``: then those in it."""
    key = path_key(start)
    after = key[:-1] + chr(ord(key[-1]) + 1)
    return [str(row[0]) for row in database.rows(_STARTING, (key, after, trash))]


def find_titled(database: Database, title: str) -> list[str]:
    """Return the notes with this title, or first line, last changed first; those in the trash after the others.

    Before a first line may stand what makes it a heading.
    """
    rows = database.rows(_TITLED, (title_key(title),))
    return [row[0] for row in rows if _HEADING.sub("", row[1]).strip() == title]


def find_tagged_with(database: Database, tag: str, raw: bytes) -> list[str]:
    """Return the notes outside the trash with this tag whose base has these bytes, in the order they came."""
    return [row[0] for row in database.rows(_TAGGED_WITH, (tag_key(tag), raw))]


def find_saying(database: Database, said: str) -> Iterator[str]:
    """Yield the texts of notes outside the trash that have these characters, by id."""
    for row in database.rows(_SAYING, (said, _MOST)):
        yield str(row[0])


_HEADING = re.compile(r"\s*#{1,6}\s+")
_STARTING = """
SELECT n.id FROM note_names m JOIN notes n ON n.pk = m.pk
WHERE m.kind = 'path' AND m.key >= ? AND m.key < ? AND n.trash <= ?
ORDER BY n.trash, n.created_at DESC, n.pk DESC
"""
_TITLED = """
SELECT id, heading FROM notes WHERE title_key = ? ORDER BY trash, modified_at DESC, pk DESC
"""
_TAGGED_WITH = """
SELECT n.id FROM notes n JOIN note_base b ON b.pk = n.pk
WHERE n.pk IN (SELECT pk FROM note_tags WHERE key = ?) AND n.trash = 0 AND instr(b.raw, ?) > 0 ORDER BY n.pk
"""


_SAYING = "SELECT text FROM notes WHERE trash = 0 AND instr(text, ?) > 0 ORDER BY id LIMIT ?"


def _stem(path: str) -> str:
    key = path_key(path)
    return next((key.removesuffix(end) for end in _ENDS if key.endswith(end)), key)


_BY_ID = "SELECT id, trash FROM notes WHERE id IN (?, ?)"
_BY_PATH = """
SELECT n.id, n.trash FROM note_names m JOIN notes n ON n.pk = m.pk WHERE m.kind = 'path' AND m.key = ?
"""
_BY_NAME = """
SELECT n.id, n.trash FROM note_names m JOIN notes n ON n.pk = m.pk WHERE m.kind = ? AND m.key = ? LIMIT ?
"""
_BY_TITLE = """
SELECT id, trash FROM notes
WHERE title IN (:name, :nfc, :nfd) OR ((title IS NULL OR title = '') AND head IN (:name, :nfc, :nfd))
ORDER BY trash LIMIT 2
"""
_BY_FOLDED_TITLE = "SELECT id, trash, heading FROM notes WHERE title_key = ? AND title_key <> ''"


@dataclass(frozen=True, slots=True)
class TaggedNote:
    """Hold the tags of a note, in the trash or not."""

    id: str
    trash: bool
    tags: tuple[str, ...]


def count_tags(database: Database, *, limit: int, offset: int = 0) -> tuple[dict[str, int], int]:
    """Return the tags of notes outside the trash, most used first, then by name, and how many there are in all.

    Each stands in one of its spellings, with its number of notes.
    """
    return dict(database.rows(_COUNTS, (limit, offset))), database.number(_TOTAL)


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


def find_in_folder(database: Database, folder: str) -> list[str]:
    """Return the ids of the notes outside the trash in a folder and below it, in exactly this spelling, by path."""
    key = path_key(folder)
    rows = database.rows(_ALL_IN_FOLDER, (f"{key}/", f"{key}0"))  # 0 follows /
    return sorted(row[0] for row in rows if row[0].startswith(f"{folder}/"))


def spell_folder(database: Database, folder: str) -> str:
    """Return a folder as the path of a note outside the trash has it; as it is if no note lies there."""
    key = path_key(folder)
    row = database.row(_IN_FOLDER, (f"{key}/", f"{key}0")) if folder else None  # 0 follows /
    parts = [] if row is None else row[0].split("/")[: folder.count("/") + 1]
    return "/".join(parts) if path_key("/".join(parts)) == key else folder


_ALL_IN_FOLDER = """
SELECT n.id FROM note_names m CROSS JOIN notes n ON n.pk = m.pk AND n.trash = 0
WHERE m.kind = 'path' AND m.key > ? AND m.key < ?
"""
_IN_FOLDER = """
SELECT n.id FROM note_names m CROSS JOIN notes n ON n.pk = m.pk AND n.trash = 0
WHERE m.kind = 'path' AND m.key > ? AND m.key < ? LIMIT 1
"""

SLICE = 100
"""Notes read at once: their texts are in memory together."""
Hashes = dict[bytes, list[int]]
"""Hash of what notes say, and the keys of those notes."""


@dataclass(frozen=True, slots=True)
class Twin:
    """Hold one of the notes that say the same; ``head`` is the preview of its text."""

    id: str
    local_version: int
    title: str | None
    head: str


def collect_hashes(database: Database, hashes: Hashes) -> Iterator[None]:
    """Add the hashes of all notes, a slice at each step: a caller can do other things in between."""
    after = 0
    while rows := database.rows(_TEXTS, (after, SLICE)):
        for pk, title, text in rows:
            hashes.setdefault(hash_of(title, text), []).append(pk)
        after = rows[-1][0]
        yield


def hash_of(title: str | None, text: str) -> bytes:
    """Return the hash of what a note says: 16 bytes."""
    lines = "\n".join(map(str.rstrip, text.split("\n"))).rstrip()
    said = f"\0{lines}" if lines else title or ""
    return hashlib.blake2b(said.encode(), digest_size=16).digest()


def read_twins(database: Database, keys: list[int]) -> list[Twin]:
    """Return these notes, the last changed first; those that have gone meanwhile are left out."""
    return [Twin(*row) for row in database.rows(_TWINS, (json.dumps(keys),))]


_TEXTS = """
SELECT pk, title, text FROM notes WHERE pk > ? AND trash = 0 ORDER BY pk LIMIT ?
"""
_TWINS = """
SELECT n.id, n.local_version, n.title, n.head
FROM json_each(?) AS wanted CROSS JOIN notes n ON n.pk = wanted.value
ORDER BY n.modified_at DESC, n.pk
"""
