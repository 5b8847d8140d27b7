"""Keep a note that another program has removed, where its store keeps nothing of it (``Versions.NONE``).

What a write from here has made of it is a version then, which ``restore_version`` makes again.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.storage.cache import Cache


def find_lost(cache: Cache, note_ids: Iterable[str]) -> list[tuple[int, Revision]]:
    """Return those of these notes that have what a write from here has made, with their versions.

    Not those in the trash: whoever empties that means it.
    """
    notes, lost = cache.notes, []
    for note_id in note_ids:
        if notes.is_written_here(note_id):
            note, base = notes.get(note_id), notes.base(note_id)
            if note is not None and base is not None and not note.trash:
                lost.append((note.local_version, base))
    return lost


def forget(cache: Cache, note_id: str) -> None:
    """Take a note out of the index that another program has removed, inside a transaction; keep what was written from here."""
    lost = find_lost(cache, [note_id])
    cache.notes.apply([Tombstone(note_id)])
    for number, base in lost:
        cache.versions.keep_lost(base, number=number, at=cache.versions.clock())
