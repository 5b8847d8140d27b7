"""Find notes outside the trash that say the same, by a hash of the text.

White space at the end of lines and of the text does not count; nothing else is normalised. Titles count only where
there is no text: two copies of a file have two names. Tags, dates and properties do not matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from mcp_notarium.storage.database import Database

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
