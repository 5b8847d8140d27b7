"""Read batches from the store: the first load, the changes since the cursor, a full listing.

Each source is an asynchronous generator of batches. It reads the store and the sync progress but
stores nothing itself: the progress that a batch allows travels with the batch as its bookmark.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.errors import CursorLost, LoginRequired, RateLimited, RemoteVanished, StoreError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.sync_progress import SyncProgress
from mcp_notarium.storage.sync_state import LoadProgress
from mcp_notarium.stores.contract import ChangePage, Changes, Entry, Store, is_usable
from mcp_notarium.sync.backoff import FeedHealth
from mcp_notarium.sync.batch_apply import SPLIT, Batch, BatchApplier, split
from mcp_notarium.sync.listing_pages import (
    FIRST_PAGE,
    PAGE,
    Listing,
    MarkLost,
    follow_codec,
    pages,
    read_ahead,
)
from mcp_notarium.sync.pull_decisions import (
    Confirmed,
    Missing,
    Remote,
    check_removals,
    find_moved,
    find_renamed,
    plan_sweep,
)

RELIST = 300
"""Number of changed notes from which a listing with content is cheaper than single fetches."""
MOST_ANSWERS = 1000
"""Most answers of the change feed read in one cycle; the rest is left for the next."""
MOST_EMPTY_ANSWERS = 5
"""The same for answers in a row without anything new."""

Batches = AsyncGenerator[Batch, None]


class BatchReader:
    """Read everything the leader needs from the store."""

    def __init__(
        self, cache: Cache, store: Store, *, applier: BatchApplier, stopwatch: Callable[[], float]
    ) -> None:
        self._cache = cache
        self._store = store
        self._applier = applier
        self._progress, self._state = cache.progress, cache.sync_state
        self._stopwatch = stopwatch
        traits = store.traits
        self._snapshot = traits.changes == Changes.SNAPSHOT
        probes = self._snapshot and (traits.probe or traits.long_poll)
        exists = Changes.FEED in traits.changes or probes
        self.feed = FeedHealth(exists=exists, long_poll=traits.long_poll)
        self._listed_cursor: str | None = None
        """The cursor of the last full listing, also of one that was not believed."""

    async def cycle(self, *, cursor_lost: bool = False) -> Batches:
        """Yield all batches of one cycle in their order; unresolved notes, which may be failing, last."""
        # defence: new-codec-reloads-index
        await follow_codec(self._cache, self._store)
        unresolved = self._applier.due_unresolved()
        for source in self._due_sources(cursor_lost=cursor_lost):
            async with aclosing(source) as batches:
                async for batch in batches:
                    yield batch
        still = self._applier.due_unresolved() if unresolved else {}
        again = [one for note_id, one in still.items() if note_id in unresolved]
        for batch in split(again[:SPLIT], index_version=self._progress.index_version):
            yield batch

    def _due_sources(self, *, cursor_lost: bool) -> Iterator[Batches]:
        """Yield the sources of one cycle; each is chosen when the one before is stored."""
        if not self._state.progress().complete:
            yield self._load()
        elif cursor_lost or self._state.cursor() is None:
            yield self._sweep(cursor_lost=True)
            if self._snapshot:
                return  # what a busy store changes meanwhile is left for the next cycle
        yield self._news()
        if self.sweep_due():
            yield self._sweep(cursor_lost=False)

    async def listen(self) -> tuple[Batch, ...]:
        """Wait for the change feed; empty if it reported nothing."""
        cursor, index_version = self._state.cursor() or "", self._progress.index_version
        page = await self._ask_feed(cursor, wait=True)
        return self._change_batches(page, cursor=cursor, index_version=index_version)

    def can_long_poll(self) -> bool:
        """Tell whether to call :meth:`listen` now."""
        there = self._state.progress().complete and self._state.cursor() is not None
        return there and self.feed.can_long_poll(self._stopwatch())

    async def await_other_listing(self) -> None:
        """Wait until a full listing would differ from the last one, or the store fails."""
        with suppress(StoreError):
            while True:
                cursor = self._listed_cursor or ""
                page = await self._store.changes(cursor, wait=True, base_of=self._whole_base)
                if page.cursor != cursor:
                    return

    @property
    def on_this_machine(self) -> bool:
        """Tell whether the store is files here: looking at them again costs nobody anything."""
        return self._snapshot and self._store.traits.long_poll

    def sweep_due(self) -> bool:
        """Tell whether a full listing is due. A SNAPSHOT store may be wrong about its changes."""
        feed = self.feed.usable(self._stopwatch()) and not self._snapshot
        return self._progress.sweep_due(feed=feed)

    async def _load(self) -> Batches:
        """Yield the first load, from where it was interrupted."""
        for load in (self._state.progress(), LoadProgress()):
            with suppress(MarkLost):
                async with aclosing(self._load_pages(load)) as batches:
                    async for batch in batches:
                        yield batch
                return

    async def _load_pages(self, load: LoadProgress) -> Batches:
        index_version, anchor, total = self._progress.index_version, load.anchor_cursor, load.total
        mark = load.mark if anchor is not None else None
        fresh = mark is None
        empty = self._cache.notes.counts().total == 0
        left_out = 0 if fresh else self._progress.left_out
        listing = Listing(mark=mark, first=FIRST_PAGE if fresh else PAGE)
        async with aclosing(read_ahead(self._store, listing)) as all_pages:
            async for page in all_pages:
                anchor = page.cursor if fresh or anchor is None else anchor
                total = total if page.total is None else page.total
                left_out += page.left_out
                bookmark = partial(
                    SyncProgress.mark_page,
                    anchor=anchor,
                    mark=page.next_mark,
                    total=total,
                    left_out=left_out,
                    began_empty=empty if fresh else None,
                    codec_version=self._store.codec_version,
                )
                yield Batch(page.entries, index_version, bookmark)
                fresh = False

    async def _news(self) -> Batches:
        """Yield what changed since the cursor: from the feed, or without it."""
        if self.feed.usable(self._stopwatch()):
            with suppress(_FeedFailed):
                async with aclosing(self._changes()) as batches:
                    async for batch in batches:
                        yield batch
                return
        delta = Changes.DELTA in self._store.traits.changes
        source = self._poll() if delta else self._sweep(cursor_lost=self._state.cursor() is None)
        try:
            async with aclosing(source) as batches:
                async for batch in batches:
                    yield batch
        except (StoreError, LoginRequired):
            self.feed.end_suspension()
            raise

    async def _changes(self) -> Batches:
        empty = 0
        for _ in range(MOST_ANSWERS):
            cursor, index_version = self._state.cursor() or "", self._progress.index_version
            before = self._applier.news
            page = await self._ask_feed(cursor, wait=False)
            for batch in self._change_batches(page, cursor=cursor, index_version=index_version):
                yield batch
            if page.cursor == cursor or not (page.changes or page.left_out):
                return
            empty = empty + 1 if self._applier.news == before else 0
            if empty == MOST_EMPTY_ANSWERS:
                return

    async def _ask_feed(self, cursor: str, *, wait: bool) -> ChangePage:
        try:
            page = await self._store.changes(cursor, wait=wait, base_of=self._whole_base)
        except CursorLost:
            if self._snapshot:
                # defence: files-watched-after-failure
                self.feed.record_success()  # this is how such a store reports a change
            raise
        except StoreError as error:
            if not isinstance(error, RateLimited) and self.feed.record_failure(self._stopwatch()):
                raise _FeedFailed("the change feed failed again") from error
            raise
        self.feed.record_success()
        kept = tuple(change for change in page.changes if is_usable(change.id))
        left_out = page.left_out + len(page.changes) - len(kept)
        return replace(page, changes=kept, left_out=left_out)

    def _whole_base(self, note_id: str) -> Revision | None:
        """Return what the index holds of a note, unless its ``raw`` was left behind by a reload."""
        base = self._cache.notes.base(note_id)
        # defence: codec-reads-its-own-version =True
        return base if base is not None and base.raw else None

    def _change_batches(
        self, page: ChangePage, *, cursor: str, index_version: int
    ) -> tuple[Batch, ...]:
        removed = {change.id for change in page.changes if isinstance(change, Tombstone)}
        here = {note_id for note_id in removed if self._cache.notes.etag(note_id) is not None}
        if here:
            total = self._cache.notes.counts().total
            check_removals(total, here, trashed=self._in_trash(here), swept=False)
        if not page.changes and page.cursor == cursor:
            return ()
        bookmark = partial(SyncProgress.mark_cursor, cursor=page.cursor, left_out=page.left_out)
        renewed = self._find_renewed(page)
        batches = split(page.changes, index_version=index_version, bookmark=bookmark)
        return (Batch((), index_version, identities=renewed), *batches) if renewed else batches

    def _find_renewed(self, page: ChangePage) -> dict[str, str]:
        """Return the identities of notes that have new ones, and the same content."""
        entries = {one.id: one for one in page.changes if isinstance(one, Entry) and one.identity}
        held = self._cache.notes.visibility.hidden_notes([*entries])
        known = {i: held.get(i) or self._cache.notes.base(i) for i in entries}
        return {
            note_id: entry.identity
            for note_id, entry in entries.items()
            if entry.identity and (one := known[note_id]) is not None
            if one.etag == entry.etag and one.identity != entry.identity
        }

    async def _poll(self) -> Batches:
        """Yield what changed since the last listing or change feed, by listing. Removals do not show in it."""
        cursor, index_version = self._progress.polled, self._progress.index_version
        feed = Changes.FEED in self._store.traits.changes
        record = SyncProgress.mark_polled if feed else SyncProgress.mark_cursor
        first: str | None = None
        left_out = 0
        async with aclosing(pages(self._store, Listing(since=cursor))) as all_pages:
            async for page in all_pages:
                left_out += page.left_out
                first = page.cursor if first is None else first
                final = page.next_mark is None
                if final and not page.entries and first == cursor:
                    return
                bookmark = partial(record, cursor=first, left_out=left_out) if final else None
                for batch in split(page.entries, index_version=index_version, bookmark=bookmark):
                    yield batch

    async def _sweep(self, *, cursor_lost: bool) -> Batches:
        """Compare a full listing with the index. Nothing is removed unless every page came."""
        index_version, known, hidden_notes = self._progress.index_version, *self._known()
        first, listed, left_out = await self._list_everything()
        self._listed_cursor = first
        seen = [(entry.id, entry.identity) for entry in listed if entry.identity]
        if self._cache.notes.visibility.names.has_news(seen):
            yield Batch((), index_version, seen=seen)
            known, hidden_notes = self._known()
        if (renamed := self._find_renamed(listed, index_version, known)) is not None:
            yield renamed
            known, hidden_notes = self._known()
        changed, lacking = plan_sweep(known | hidden_notes, listed)
        async with aclosing(self._fetch_changed(changed, index_version)) as batches:
            async for batch in batches:
                yield batch
        # Hidden notes have nothing here to lose, and nothing may show that they are missing.
        missing = {one.id for one in lacking} & known.keys()
        whole = bool(listed) and self._store.traits.whole_listings
        absent = await self._confirm_many(lacking, missing, known=len(known), whole=whole)
        bookmark = partial(
            SyncProgress.mark_swept, cursor=first if cursor_lost else None, left_out=left_out
        )
        for batch in split(absent, index_version=index_version, bookmark=bookmark):
            yield batch

    async def _confirm_many(
        self, absent: tuple[Missing, ...], missing: set[str], *, known: int, whole: bool
    ) -> tuple[Remote, ...]:
        """Return what may be stored of ``absent``; ask first where too many of our notes are ``missing``.

        Of those only what the store answered comes back, the rest waits for the next full listing: what could
        not be counted must not be removed later. Raises ``RemoteVanished`` before anything is stored.
        """
        try:
            trashed = self._in_trash(missing)
            check_removals(known, missing, trashed=trashed, swept=True, whole=whole)
        except RemoteVanished:
            if self._store.traits.whole_listings:
                raise  # the place is empty
        else:
            return absent
        answers: dict[str, Confirmed] = {}
        ordered = sorted(missing)
        for at in range(0, len(ordered), SPLIT):
            answers |= await self._applier.ask(ordered[at : at + SPLIT])
            gone = {one.id for one in answers.values() if isinstance(one.answer, Tombstone)}
            check_removals(known, gone, trashed=self._in_trash(gone), swept=True)
        hidden = (one for one in absent if one.id not in missing)
        return (*answers.values(), *hidden)

    def _find_renamed(
        self, listed: Sequence[Revision | Entry], index_version: int, before: Collection[str]
    ) -> Batch | None:
        """Return the renames that a full listing shows. A note that was hidden stays so where it is now.

        ``before``: the ids in the index before its first page. A note that has got its id since was renamed here, and the
        listing may show its old one.
        """
        known, names = self._cache.notes.etags(), self._cache.notes.names.identities()
        visibility = self._cache.notes.visibility
        hidden = visibility.hidden_notes()
        hidden_names = {note_id: one.identity for note_id, one in hidden.items() if one.identity}
        etags = {note_id: one.etag for note_id, one in hidden.items()}
        # An id or a place may be allowed; another revision may be visible.
        rules = visibility.rules
        judged = rules.names_paths  # defence: moved-note-judged =False
        still = [] if judged else [e for e in listed if e.id not in (rules.allowed_ids or ())]
        moved = find_moved(etags, hidden_names, still)
        shown = [entry for entry in listed if entry.id not in {*moved.values()}]
        # Also of notes whose content is the same: a file that was rewritten is another one.
        everything, named = known | etags, names | hidden_names
        changed = {
            entry.id: entry.identity
            for entry in listed
            if entry.identity and everything.get(entry.id) == entry.etag
            if named.get(entry.id) != entry.identity
        }
        renamed = find_renamed(known, names, shown)
        renamed = {old: new for old, new in renamed.items() if old in before}
        if not (renamed or moved or changed):
            return None
        return Batch((), index_version, renamed=renamed, hidden_renamed=moved, identities=changed)

    def _known(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return id to etag of the notes in the index, and of those that are hidden."""
        hidden = self._cache.notes.visibility.hidden_notes()
        return self._cache.notes.etags(), {note_id: one.etag for note_id, one in hidden.items()}

    async def _list_everything(self) -> tuple[str | None, list[Revision | Entry], int]:
        """Return the cursor of the first page, every note, and how many were left out."""
        first: str | None = None
        left_out = 0
        listed: list[Revision | Entry] = []
        async with aclosing(pages(self._store, Listing(with_content=False))) as all_pages:
            async for page in all_pages:
                first = page.cursor if first is None else first
                listed += page.entries
                left_out += page.left_out
        return first, listed, left_out

    async def _fetch_changed(
        self, changed: tuple[Revision | Entry, ...], index_version: int
    ) -> Batches:
        if len(changed) < RELIST:
            for batch in split(changed, index_version=index_version):
                yield batch
            return
        wanted = {entry.id for entry in changed}
        known, hidden_notes = self._known()
        seen = known | hidden_notes

        def confirm(entry: Revision | Entry) -> Remote:
            """Believe a SNAPSHOT store, which lists what it holds: etags may not tell which is newer."""
            if self._snapshot and isinstance(entry, Revision):
                return Confirmed(entry, seen.get(entry.id))
            return entry

        async with aclosing(pages(self._store, Listing())) as all_pages:
            async for page in all_pages:
                remotes = tuple(confirm(entry) for entry in page.entries if entry.id in wanted)
                yield Batch(remotes, index_version)

    def _in_trash(self, note_ids: set[str]) -> set[str]:
        notes = ((note_id, self._cache.notes.get(note_id)) for note_id in note_ids)
        return {note_id for note_id, note in notes if note is not None and note.trash}


class _FeedFailed(StoreError):
    """Report that the change feed failed again; listings are polled for a while."""
