"""Load the whole index again, on request or for a new codec version.

Nothing is emptied while the store cannot be read. Unfinished writes keep their bases.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import NoteNotFound, StoreProtocolError, StoreRejected
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.progress import SyncProgress


async def reload_index(
    cache: Cache, store: Store, progress: SyncProgress, act: Act | None = None
) -> None:
    """Empty the index, so that the next cycle loads everything; unfinished writes stay.

    ``act`` is recorded with it. Raises what the store raises, with nothing emptied, if it cannot be read.
    """
    await store.list_page(since=None, mark=None, limit=1, with_content=False)
    newest = {base.id: await _get_newest(store, base.id) for base in _unfinished_bases(cache)}
    with cache.transaction(durable=True) if act is None else act.transaction():
        bases = _unfinished_bases(cache)
        cache.notes.clear()
        progress.mark_emptied()
        # Without its base the text of an unfinished write could not be merged any more.
        cache.notes.apply(_base_again(base, newest.get(base.id)) for base in bases)


async def follow_codec(cache: Cache, store: Store, progress: SyncProgress) -> None:
    """Reload an index that another codec version has filled. Raises as :func:`reload_index` does."""
    nothing_here = progress.codec_version is None and not cache.notes.counts().total
    if progress.codec_version != store.codec_version and not nothing_here:
        await reload_index(cache, store, progress)


def _unfinished_bases(cache: Cache) -> list[Revision]:
    note_ids = sorted({write.note_id for write in cache.journal.in_flight()})
    return [base for note_id in note_ids if (base := cache.notes.base(note_id)) is not None]


async def _get_newest(store: Store, note_id: str) -> Revision | None:
    """Fetch the newest revision; None if this note is gone or cannot be read, which stops no reload."""
    with suppress(NoteNotFound, StoreProtocolError, StoreRejected):
        return await store.get(note_id)
    return None


def _base_again(base: Revision, newest: Revision | None) -> Revision:
    """Return the base as it reads now.

    If the store has another revision, only the content is needed: no codec reads the old ``raw`` again.
    """
    if newest is not None and newest.etag == base.etag:
        return newest
    return replace(base, raw=b"")
