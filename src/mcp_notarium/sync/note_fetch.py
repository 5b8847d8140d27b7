"""Fetch single notes from the store.

A note is *failing* if the store serves others but not this one; it is backed off from (``backoff``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.errors import (
    CursorLost,
    LoginRequired,
    NoteNotFound,
    StoreError,
    StoreProtocolError,
    StoreRejected,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Changes, Entry, Store
from mcp_notarium.sync.backoff import ItemBackoff
from mcp_notarium.sync.pull_decisions import (
    Confirmed,
    Missing,
    Remote,
    contradicts,
    lags_behind,
    told_version,
)

ITEM_SECONDS = 4.0
"""Seconds that all others wait for one note or write; retries of its request included."""
LONGEST_ITEM_SECONDS = 32.0
"""The limit for an unresolved note, which comes after the news: its time doubles with each failure."""
FETCHES = 8
"""Notes fetched at the same time. One batch asks for no more notes that failed before."""
_FEED_PAGES = 20
"""Answers of the change feed that one save reads, at most."""


@dataclass(slots=True)
class _Round:
    """Hold the answers of one fetch."""

    answers: dict[str, Confirmed] = field(default_factory=dict)
    served: bool = True
    """Nothing failed, or something was answered since."""


class NoteFetcher:
    """Fetch single notes for one cycle runner. ``stopwatch`` gives seconds from any start."""

    def __init__(self, cache: Cache, store: Store, *, stopwatch: Callable[[], float]) -> None:
        self._cache = cache
        self._store = store
        self.backoff = ItemBackoff(stopwatch)

    def select(self, remotes: Iterable[Remote]) -> list[Remote]:
        """Return the notes to ask for now: the healthy ones, then at most ``FETCHES`` that failed before."""
        allowed = [remote for remote in remotes if not self.backoff.blocks(remote.id)]
        healthy = [remote for remote in allowed if not self.backoff.failures(remote.id)]
        failing = [remote for remote in allowed if self.backoff.failures(remote.id)]
        return [*healthy, *failing[:FETCHES]]

    async def fetch(self, remotes: Iterable[Remote]) -> dict[str, Confirmed]:
        """Fetch the note of each statement; failing and outdated ones are left out of the result.

        Raises the store's error if nothing else was answered since one failed, and a request about all notes fails as well.
        """
        slots = asyncio.Semaphore(FETCHES)
        asked = _Round()

        async def ask(remote: Remote) -> None:
            async with slots:
                await self._ask(remote, asked)

        try:
            async with asyncio.TaskGroup() as group:
                for remote in remotes:
                    group.create_task(ask(remote))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        if not asked.served:
            await check_store_serves(self._cache, self._store)
        return asked.answers

    async def _ask(self, remote: Remote, asked: _Round) -> None:
        note_id = remote.id
        doublings = min(self.backoff.failures(note_id), 16) if isinstance(remote, Missing) else 0
        seconds = min(ITEM_SECONDS * 2.0**doublings, LONGEST_ITEM_SECONDS)
        seen, told = self._cache.notes.last_seen_etag(note_id), [remote]
        try:
            async with asyncio.timeout(seconds):
                answer = await get_newest(self._store, note_id)
                known = self._cache.notes.base(note_id)
                if known is not None and _contradicts(self._store, known, answer):
                    # A copy of before, or a note that was made again: that one says the same once more.
                    told += [answer] if isinstance(answer, Revision) else []
                    answer = await get_newest(self._store, note_id)
        except (StoreError, LoginRequired) as error:
            self.backoff.record_failure(note_id, error)
            if not isinstance(error, StoreProtocolError | StoreRejected):  # about this note alone
                asked.served = False
        except TimeoutError:
            self.backoff.record_failure(note_id)
            asked.served = False
        else:
            asked.served = True
            self.backoff.record_success(note_id)
            if not any(lags_behind(answer, one) for one in told):
                asked.answers[note_id] = Confirmed(answer, seen)


async def get_newest(store: Store, note_id: str) -> Revision | Tombstone:
    """Fetch the newest revision, or a tombstone for a note that the store does not have."""
    try:
        return await store.get(note_id)
    except NoteNotFound:
        return Tombstone(note_id)


async def get_proven(cache: Cache, store: Store, note_id: str) -> Revision | Tombstone:
    """Fetch the newest revision, as far as index and change feed bear it out.

    Raises ``StoreProtocolError`` for an answer that cannot be a state of the note after the one in the index, and,
    where there is a feed, for a revision or a removal that it does not tell of.
    """
    for _ in range(2):  # the first answer may have been a copy of before
        known = cache.notes.base(note_id)
        newest = await get_newest(store, note_id)
        if known is None:
            return newest
        # defence: contradiction-is-no-note
        if _contradicts(store, known, newest):
            continue
        if isinstance(newest, Revision) and newest.etag == known.etag:
            return newest
        # defence: newer-answer-is-told-of =True
        if await _is_told(cache, store, newest):
            return newest
    raise _contradiction_error()


async def get_for_replay(
    cache: Cache, store: Store, note_id: str
) -> tuple[Revision | Tombstone, bool]:
    """Fetch the newest revision for an unfinished write, and tell whether it is of another note, made under this id since.

    The index may be behind the feed, because sync leaves the note to the write. A contradiction is another note if the store
    does not have the revision any more that the index has. Raises ``StoreProtocolError`` for any other.
    """
    known, newest = cache.notes.base(note_id), await get_newest(store, note_id)
    if known is None or not _contradicts(store, known, newest):
        return newest, False
    newest = await get_newest(store, note_id)  # the first answer may have been a copy of before
    if not _contradicts(store, known, newest):
        return newest, False
    with suppress(NoteNotFound):
        held = await store.get(note_id, etag=known.etag)
        if not _contradicts(store, known, held):  # defence: other-note-proven
            raise _contradiction_error()
    return newest, True


def _contradicts(store: Store, known: Revision, answer: Revision | Tombstone) -> bool:
    """Tell whether an answer cannot be what the note is after the revision in the index."""
    dated = store.traits.fixed_creation
    return isinstance(answer, Revision) and contradicts(known, answer, dated=dated)


def _contradiction_error() -> StoreProtocolError:
    return StoreProtocolError(
        "the note store answered something that cannot be the note now",
        resolution_hint="Try again in a few minutes. If it stays, `manage` action `reset_cache` fetches all notes "
        "again.",
    )


async def _is_told(cache: Cache, store: Store, newest: Revision | Tombstone) -> bool:
    """Tell whether the feed, if any, has told of it. A lost cursor proves no removal."""
    cursor = cache.sync_state.cursor()
    if Changes.FEED not in store.traits.changes or cursor is None:
        return True
    told: Revision | Entry | Tombstone | None = None
    for _ in range(_FEED_PAGES):
        try:
            page = await store.changes(cursor, wait=False, base_of=cache.notes.base)
        except CursorLost:
            return isinstance(newest, Revision)
        told = next((one for one in page.changes if one.id == newest.id), told)
        if told is not None and _bears_out(told, newest):
            return True
        if page.cursor == cursor or not page.changes:
            break
        cursor = page.cursor
    if cache.progress.unresolved().get(newest.id) in (0, told_version(newest)):
        return True
    return _bears_out(told or cache.notes.base(newest.id) or Tombstone(newest.id), newest)


def _bears_out(told: Revision | Entry | Tombstone, newest: Revision | Tombstone) -> bool:
    if isinstance(newest, Tombstone) or isinstance(told, Tombstone):
        return isinstance(newest, Tombstone) and isinstance(told, Tombstone)
    same_text = isinstance(told, Entry) or told.content == newest.content
    return same_text and told.etag in {"", newest.etag}


async def check_store_serves(cache: Cache, store: Store) -> None:
    """Return if the store serves any request at all; otherwise raise its error."""
    cursor, changes = cache.sync_state.cursor(), store.traits.changes
    try:
        since = cursor if Changes.DELTA in changes else None
        await store.list_page(since=since, mark=None, limit=1, with_content=False)
    except CursorLost:
        return
    except (StoreError, LoginRequired):
        if cursor is None or Changes.FEED not in changes:
            raise
        with suppress(CursorLost):
            await store.changes(cursor, wait=False, base_of=lambda _note_id: None)
