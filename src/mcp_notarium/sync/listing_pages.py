"""Read a listing of the store to its end, page by page, and load the whole index again.

It trusts nothing: a listing that repeats itself or never ends is an error. Nothing is emptied while the store cannot be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import CursorLost, NoteNotFound, StoreProtocolError, StoreRejected
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import ListingPage, Store, is_usable

FIRST_PAGE = 100
"""Small, so that the newest notes can be read after one short request."""
PAGE = 1000
MOST_NOTES = 500_000
"""A sweep has the ids of all of them in memory: some 150 MB."""
MOST_EMPTY = 20
"""Most pages in a row without any note."""

Pages = AsyncGenerator[ListingPage, None]


class MarkLost(Exception):
    """Report that the store does not know the mark of an interrupted listing: begin again."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Name a listing."""

    since: str | None = None
    """Only what changed after this cursor; None: everything."""
    mark: str | None = None
    """The place to go on from; None: the beginning."""
    first: int = PAGE
    """Notes on the first page; the others have ``PAGE``."""
    with_content: bool = True


async def pages(store: Store, listing: Listing) -> Pages:
    """Yield all pages, in order. Raises ``MarkLost`` if the mark it starts from is refused."""
    mark, size = listing.mark, listing.first
    seen: set[str] = set()
    listed = empty = 0
    while True:
        page = await _page(store, listing, mark=mark, size=size)
        yield page
        if page.next_mark is None:
            return
        if not page.next_mark or page.next_mark in seen:
            raise StoreProtocolError("a listing of the note store repeats itself")
        seen.add(page.next_mark)
        listed += len(page.entries) + page.left_out
        empty = 0 if page.entries or page.left_out else empty + 1
        if listed > MOST_NOTES or empty > MOST_EMPTY:
            raise StoreProtocolError("a listing of the note store has no end")
        mark, size = page.next_mark, PAGE


async def _page(store: Store, listing: Listing, *, mark: str | None, size: int) -> ListingPage:
    try:
        page = await store.list_page(
            since=listing.since, mark=mark, limit=size, with_content=listing.with_content
        )
        kept = tuple(entry for entry in page.entries if is_usable(entry.id))
        left_out = page.left_out + len(page.entries) - len(kept)
        return replace(page, entries=kept, left_out=left_out)
    except (StoreRejected, StoreProtocolError, CursorLost, NoteNotFound):
        if mark is not None and mark == listing.mark:
            raise MarkLost from None
        raise


async def read_ahead(store: Store, listing: Listing) -> Pages:
    """Yield the same pages, each read while the caller stores the one before."""
    async with aclosing(pages(store, listing)) as all_pages:
        coming = asyncio.ensure_future(anext(all_pages, None))
        try:
            while (page := await coming) is not None:
                coming = asyncio.ensure_future(anext(all_pages, None))
                yield page
        finally:
            coming.cancel()
            await asyncio.wait({coming})


async def reload_index(cache: Cache, store: Store, act: Act | None = None) -> None:
    """Empty the index, so that the next cycle loads everything; unfinished writes stay. ``act`` is recorded with it.

    Raises what the store raises, with nothing emptied, if it cannot be read.
    """
    # defence: reload-asks-store-first
    await store.list_page(since=None, mark=None, limit=1, with_content=False)
    newest = {base.id: await _get_newest(store, base.id) for base in _unfinished_bases(cache)}
    with cache.transaction(durable=True) if act is None else act.transaction():
        bases = _unfinished_bases(cache)
        cache.notes.clear()
        cache.progress.mark_emptied()
        # Without its base the text of an unfinished write could not be merged any more.
        # defence: reload-keeps-bases
        cache.notes.apply(_base_again(base, newest.get(base.id)) for base in bases)


async def follow_codec(cache: Cache, store: Store) -> None:
    """Reload an index that another codec version has filled. Raises as :func:`reload_index` does."""
    filled_by = cache.progress.codec_version
    nothing_here = filled_by is None and not cache.notes.counts().total
    if filled_by != store.codec_version and not nothing_here:
        await reload_index(cache, store)


def _unfinished_bases(cache: Cache) -> list[Revision]:
    note_ids = sorted({write.note_id for write in cache.journal.in_flight()})
    return [base for note_id in note_ids if (base := cache.notes.base(note_id)) is not None]


async def _get_newest(store: Store, note_id: str) -> Revision | None:
    """Fetch the newest revision; None if this note is gone or cannot be read, which stops no reload."""
    # defence: one-bad-note -StoreProtocolError
    with suppress(NoteNotFound, StoreProtocolError, StoreRejected):
        return await store.get(note_id)
    return None


def _base_again(base: Revision, newest: Revision | None) -> Revision:
    """Return the base as it reads now: no codec reads an old ``raw`` again."""
    if newest is not None and newest.etag == base.etag:  # defence: reload-reads-bases-again
        return newest
    return replace(base, raw=b"")
