"""Where batches come from: the first load, the news since the cursor, a complete sweep.

Each source is an asynchronous generator of batches. It reads the store and the ledger but stores
nothing itself: what may be remembered once a batch is in travels with the batch as its bookmark.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.errors import BackendError, CursorLost, LoginRequired, RateLimited
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.sync_state import Progress
from mcp_notarium.stores.contract import ChangePage, Entry, Store
from mcp_notarium.sync.batch import Batch, split
from mcp_notarium.sync.batch_apply import Intake
from mcp_notarium.sync.feed_trust import Feed
from mcp_notarium.sync.listing import (
    BARE_PAGE,
    FIRST_PAGE,
    PAGE,
    Count,
    Listing,
    PlaceLost,
    pages,
    read_ahead,
)
from mcp_notarium.sync.planner import Missing, check_sweep_brake, check_tombstone_brake, plan_sweep
from mcp_notarium.sync.progress import Ledger

RELIST = 300
"""From so many changed notes on, a listing with content is cheaper than asking for each."""
MOST_ANSWERS = 1000
"""Answers of the change feed read in one cycle; a feed that never runs dry is left for the next."""
MOST_VAIN_ANSWERS = 5
"""The same for answers in a row in which nothing is new."""

Batches = AsyncGenerator[Batch, None]


class Sources:
    """Everything the leader reads from the store."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        intake: Intake,
        ledger: Ledger,
        stopwatch: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._store = store
        self._intake = intake
        self._ledger = ledger
        self._stopwatch = stopwatch
        self._count: Count | None = None
        can = store.capabilities
        self.feed = Feed(exists=can.change_feed, long_poll=can.change_feed and can.long_poll)

    async def cycle(self, *, cursor_lost: bool = False) -> Batches:
        """All batches of one cycle, in the order in which they must be stored.

        What was in doubt before comes last: it may be ill, and news do not wait for it.
        """
        doubts = self._intake.open_doubts()
        for source in self._due_sources(cursor_lost=cursor_lost):
            async with aclosing(source()) as batches:
                async for batch in batches:
                    yield batch
        still = frozenset(self._intake.open_doubts()) if doubts else frozenset()
        again = [Missing(note_id) for note_id in doubts if note_id in still]
        for batch in split(again, epoch=self._ledger.epoch):
            yield batch

    def _due_sources(self, *, cursor_lost: bool) -> list[Callable[[], Batches]]:
        if not self._ledger.loaded:
            return [self._load, self._news, self._sweep_if_due]
        if cursor_lost or self._ledger.cursor is None:
            return [partial(self._sweep, cursor_lost=True), self._news]
        return [self._news, self._sweep_if_due]

    async def listen(self) -> tuple[Batch, ...]:
        """Wait for the change feed to say something; empty if it had nothing to say."""
        cursor, epoch = self._ledger.cursor or "", self._ledger.epoch
        page = await self._ask_feed(cursor, wait=True)
        return self._change_batches(page, cursor=cursor, epoch=epoch, last=True)

    @property
    def at_least(self) -> int:
        """So many notes the first load under way has counted; the store may have more."""
        return self._count.so_far if self._count else 0

    @property
    def counted(self) -> int | None:
        """So many notes the first load under way will bring; the next page's bookmark says it too."""
        return self._count.total if self._count else None

    def listens(self) -> bool:
        """Whether :meth:`listen` makes sense now."""
        there = self._ledger.loaded and self._ledger.cursor is not None
        return there and self.feed.listens(self._stopwatch())

    def sweep_due(self) -> bool:
        """Whether everything must be compared again."""
        return self._ledger.sweep_due(feed=self.feed.usable(self._stopwatch()))

    async def _load(self) -> Batches:
        """The first load, from where it was interrupted."""
        progress = self._cache.sync_state.progress()
        try:
            async with aclosing(self._load_pages(progress)) as batches:
                async for batch in batches:
                    yield batch
        except PlaceLost:
            async with aclosing(self._load_pages(Progress())) as batches:
                async for batch in batches:
                    yield batch

    async def _load_pages(self, progress: Progress) -> Batches:
        epoch, anchor, total = self._ledger.epoch, progress.anchor_cursor, progress.total
        mark = progress.mark if anchor is not None else None
        fresh = mark is None
        empty = self._cache.notes.counts().total == 0
        left_out = 0 if fresh else self._ledger.left_out
        listing = Listing(mark=mark, first=FIRST_PAGE if fresh else PAGE)
        async with (
            aclosing(read_ahead(self._store, listing)) as ready_pages,
            self._counting() as count,
        ):
            async for ready in ready_pages:
                page = ready.page
                anchor = page.cursor if fresh or anchor is None else anchor
                total = next((n for n in (page.total, total, count.total) if n is not None), None)
                left_out += page.left_out
                if total is None and page.next_mark is not None:
                    count.begin()
                bookmark = partial(
                    _mark_page,
                    anchor=anchor,
                    mark=page.next_mark,
                    total=total,
                    left_out=left_out,
                    began_empty=empty if fresh else None,
                )
                yield Batch(page.entries, epoch, bookmark, prepared=ready.prepared)
                fresh = False

    @asynccontextmanager
    async def _counting(self) -> AsyncIterator[Count]:
        self._count = count = Count(self._store)
        try:
            yield count
        finally:
            self._count = None
            await count.end()

    async def _news(self) -> Batches:
        """What changed since the cursor: from the feed, or without it."""
        source = self._changes() if self.feed.usable(self._stopwatch()) else self._without_feed()
        try:
            async with aclosing(source) as batches:
                async for batch in batches:
                    yield batch
        except _FeedDown:
            async with aclosing(self._without_feed()) as batches:
                async for batch in batches:
                    yield batch

    async def _changes(self) -> Batches:
        vain = 0
        for _ in range(MOST_ANSWERS):
            cursor, epoch = self._ledger.cursor or "", self._ledger.epoch
            before = self._intake.news
            page = await self._ask_feed(cursor, wait=False)
            for batch in self._change_batches(page, cursor=cursor, epoch=epoch, last=False):
                yield batch
            if page.cursor == cursor or not (page.changes or page.left_out):
                return
            vain = vain + 1 if self._intake.news == before else 0
            if vain == MOST_VAIN_ANSWERS:
                return

    async def _ask_feed(self, cursor: str, *, wait: bool) -> ChangePage:
        try:
            page = await self._store.changes(cursor, wait=wait, base_of=self._cache.notes.base)
        except (CursorLost, RateLimited):
            raise
        except BackendError as error:
            if self.feed.failed(self._stopwatch()):
                raise _FeedDown("the change feed failed again") from error
            raise
        self.feed.worked()
        return page

    def _change_batches(
        self, page: ChangePage, *, cursor: str, epoch: int, last: bool
    ) -> tuple[Batch, ...]:
        self._brake_tombstones(page)
        if not page.changes and page.cursor == cursor:
            return ()
        bookmark = partial(Ledger.mark_cursor, cursor=page.cursor, left_out=page.left_out)
        return split(page.changes, epoch=epoch, bookmark=bookmark, last=last)

    def _brake_tombstones(self, page: ChangePage) -> None:
        removed = {change.id for change in page.changes if isinstance(change, Tombstone)}
        here = {note_id for note_id in removed if self._cache.notes.etag(note_id) is not None}
        if here:
            check_tombstone_brake(
                known=self._cache.notes.counts().total, removed=here, trashed=self._trashed(here)
            )

    async def _without_feed(self) -> Batches:
        delta = self._store.capabilities.delta_listing
        source = self._poll() if delta else self._sweep(cursor_lost=self._ledger.cursor is None)
        try:
            async with aclosing(source) as batches:
                async for batch in batches:
                    yield batch
        except (BackendError, LoginRequired):
            self.feed.excuse()
            raise

    async def _poll(self) -> Batches:
        """What changed since the cursor, by listing. Removals do not show in it."""
        cursor, epoch = self._ledger.cursor, self._ledger.epoch
        feed = self._store.capabilities.change_feed
        first: str | None = None
        left_out = 0
        async with aclosing(pages(self._store, Listing(since=cursor))) as all_pages:
            async for page in all_pages:
                left_out += page.left_out
                first = page.cursor if first is None else first
                final = page.next_mark is None
                if final and not page.entries and first == cursor:
                    return
                polled = partial(
                    Ledger.mark_polled, cursor=first, feed_missed=feed, left_out=left_out
                )
                bookmark = polled if final else None
                for batch in split(page.entries, epoch=epoch, bookmark=bookmark):
                    yield batch

    async def _sweep_if_due(self) -> Batches:
        if self.sweep_due():
            async with aclosing(self._sweep(cursor_lost=False)) as batches:
                async for batch in batches:
                    yield batch

    async def _sweep(self, *, cursor_lost: bool) -> Batches:
        """Compare a complete listing with the cache. Removes nothing unless every page came."""
        epoch, known = self._ledger.epoch, self._cache.notes.etags()
        withheld = {note_id: one.etag for note_id, one in self._cache.notes.gate.of().items()}
        first, listed, left_out = await self._list_everything()
        plan = plan_sweep(known | withheld, listed)
        async with aclosing(self._changed(plan.changed, epoch)) as batches:
            async for batch in batches:
                yield batch
        # Of withheld notes nothing can be lost here, and nothing may show that they are missing.
        missing = {absent.id for absent in plan.missing} & known.keys()
        check_sweep_brake(known=len(known), missing=missing, trashed=self._trashed(missing))
        bookmark = partial(
            Ledger.mark_swept, cursor=first if cursor_lost else None, left_out=left_out
        )
        for batch in split(plan.missing, epoch=epoch, bookmark=bookmark):
            yield batch

    async def _list_everything(self) -> tuple[str | None, list[Revision | Entry], int]:
        """Cursor of the first page, every note, and how many were left out."""
        first: str | None = None
        left_out = 0
        listed: list[Revision | Entry] = []
        bare = Listing(first=BARE_PAGE, limit=BARE_PAGE, with_content=False)
        async with aclosing(pages(self._store, bare)) as all_pages:
            async for page in all_pages:
                first = page.cursor if first is None else first
                listed += page.entries
                left_out += page.left_out
        return first, listed, left_out

    async def _changed(self, changed: tuple[Revision | Entry, ...], epoch: int) -> Batches:
        if len(changed) < RELIST:
            for batch in split(changed, epoch=epoch):
                yield batch
            return
        async with aclosing(pages(self._store, Listing())) as all_pages:
            async for page in all_pages:
                yield Batch(page.entries, epoch)

    def _trashed(self, note_ids: set[str]) -> set[str]:
        notes = ((note_id, self._cache.notes.get(note_id)) for note_id in note_ids)
        return {note_id for note_id, note in notes if note is not None and note.trash}


def _mark_page(
    ledger: Ledger,
    *,
    anchor: str,
    mark: str | None,
    total: int | None,
    left_out: int,
    began_empty: bool | None,
) -> None:
    ledger.mark_left_out(left_out)
    if began_empty is not None:
        ledger.mark_load_began(empty=began_empty)
    if mark is None:
        ledger.mark_loaded(anchor=anchor, total=total)
    else:
        ledger.mark_loading(anchor=anchor, mark=mark, total=total)


class _FeedDown(BackendError):
    """The change feed failed again; listings are polled for a while."""
