"""Fetch single notes from the store; one that cannot be fetched stops no other.

A request is *late* if it goes on after the caller stopped waiting; the next fetch gets its answer. A note
is *failing* if the store serves others but not this one; it is backed off from (``backoff``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mcp_notarium.domain.note import Tombstone
from mcp_notarium.errors import (
    CursorLost,
    LoginRequired,
    NoteNotFound,
    StoreError,
    StoreProtocolError,
    StoreRejected,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.backoff import ItemBackoff
from mcp_notarium.sync.planner import Confirmed

ITEM_SECONDS = 4.0
"""Seconds that all others wait for one note or write; retries of its request included."""
FETCHES = 8
"""Notes fetched at the same time."""
MOST_LATE = 4
"""Most late requests: of the connections to the store (8), some must stay free."""


@dataclass(slots=True)
class _Round:
    """Hold the answers of one fetch. ``served``: nothing failed, or something was answered since."""

    answers: dict[str, Confirmed] = field(default_factory=dict)
    served: bool = True


class NoteFetcher:
    """Fetch single notes for one cycle runner. ``stopwatch`` gives seconds from any start."""

    def __init__(self, cache: Cache, store: Store, *, stopwatch: Callable[[], float]) -> None:
        self._cache = cache
        self._store = store
        self._late: dict[str, asyncio.Task[Confirmed]] = {}
        self._backoff = ItemBackoff(stopwatch)

    async def fetch(self, note_ids: Iterable[str]) -> dict[str, Confirmed]:
        """Fetch each note; failing and late ones are left out of the result.

        Raises the store's error if no other request was answered since one failed and a request
        about all notes fails as well.
        """
        slots = asyncio.Semaphore(FETCHES)
        asked = _Round()

        async def ask(note_id: str) -> None:
            async with slots:
                await self._ask(note_id, asked)

        try:
            async with asyncio.TaskGroup() as group:
                for note_id in note_ids:
                    group.create_task(ask(note_id))
        except BaseExceptionGroup as failures:
            raise _first_error(failures) from None
        if not asked.served:
            await check_store_serves(self._cache, self._store)
        return asked.answers

    def blocks(self, note_id: str) -> bool:
        """Tell whether to skip this note now: it is late, or failed recently."""
        late = self._late.get(note_id)
        if late is not None:
            return not late.done()
        return self._backoff.blocks(note_id)

    def discard_late(self, note_ids: Iterable[str]) -> None:
        """Cancel late requests for notes that have changed since: their answers would be old."""
        for note_id in self._late.keys() & set(note_ids) if self._late else ():
            self._late.pop(note_id).cancel()

    async def close(self) -> None:
        """Cancel late requests."""
        late, self._late = [*self._late.values()], {}
        for request in late:
            request.cancel()
        if late:
            await asyncio.wait(late)

    async def _ask(self, note_id: str, asked: _Round) -> None:
        request = self._late.get(note_id)
        if request is not None and not request.done():
            return
        if late := request is not None:
            del self._late[note_id]
        else:
            request = asyncio.create_task(self._request(note_id))
            if not await _in_time(request):
                asked.served = False
                self._keep_late(note_id, request)
                return
        try:
            asked.answers[note_id] = request.result()
        except (StoreProtocolError, StoreRejected) as error:
            self._backoff.record_failure(note_id, error)  # an answer, but about this note alone
        except (StoreError, LoginRequired) as error:
            self._backoff.record_failure(note_id, error)
            # A late request failed before this cycle asked the store for its changes.
            asked.served = asked.served and late
        else:
            asked.served = True
            self._backoff.record_success(note_id)

    async def _request(self, note_id: str) -> Confirmed:
        seen = self._cache.notes.last_seen_etag(note_id)
        try:
            return Confirmed(await self._store.get(note_id), seen)
        except NoteNotFound:
            return Confirmed(Tombstone(note_id), seen)

    def _keep_late(self, note_id: str, request: asyncio.Task[Confirmed]) -> None:
        if sum(not late.done() for late in self._late.values()) < MOST_LATE:
            self._late[note_id] = request
            request.add_done_callback(_ignore_result)
        else:
            request.cancel()
            self._backoff.record_failure(note_id)


async def check_store_serves(cache: Cache, store: Store) -> None:
    """Return if the store serves any request at all; otherwise raise its error."""
    cursor, can = cache.sync_state.cursor(), store.capabilities
    try:
        since = cursor if can.delta_listing else None
        await store.list_page(since=since, mark=None, limit=1, with_content=False)
    except CursorLost:
        return
    except (StoreError, LoginRequired):
        if cursor is None or not can.change_feed:
            raise
    else:
        return
    try:
        await store.changes(cursor, wait=False, base_of=lambda _note_id: None)
    except CursorLost:
        return


async def _in_time(request: asyncio.Task[Confirmed]) -> bool:
    try:
        done, _ = await asyncio.wait({request}, timeout=ITEM_SECONDS)
    except asyncio.CancelledError:
        request.cancel()
        raise
    return bool(done)


def _ignore_result(request: asyncio.Task[Confirmed]) -> None:
    if not request.cancelled():
        request.exception()  # the next fetch reads it


def _first_error(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = failures
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
