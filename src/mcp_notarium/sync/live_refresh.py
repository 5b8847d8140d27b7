"""Bring one note of the index up to what the store holds now, before a native tool changes it."""

from __future__ import annotations

from mcp_notarium.domain.note import Note, Revision, Tombstone
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store, Versions
from mcp_notarium.sync import lost_notes


async def refresh(cache: Cache, store: Store, note_id: str) -> Note | None:
    """Return the note as the store has it now; None if it is gone, or hidden. Raises what the store raises.

    That the store lacks a note that the index lacks is no news: what is left of one that was deleted from here stays.
    """
    seen = cache.notes.etag(note_id)
    try:
        newest: Revision | Tombstone = await store.get(note_id)
    except NoteNotFound:
        if seen is None:
            return None
        newest = Tombstone(note_id)
    with cache.transaction():
        unwritten = all(one.note_id != note_id for one in cache.journal.in_flight())
        if cache.notes.etag(note_id) == seen and unwritten:
            if isinstance(newest, Tombstone) and store.traits.versions is Versions.NONE:
                lost_notes.forget(cache, note_id)
            else:
                cache.notes.apply([newest])
    return None if isinstance(newest, Tombstone) else cache.notes.get(note_id)
