"""Asks the store for single notes; one that cannot be had (*ill*, see ``illness``) stops no other.

A request is *late* if it goes on behind the caller's back; its answer is there for the next who asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mcp_notarium.domain.note import Tombstone
from mcp_notarium.errors import (
    BackendError,
    BackendProtocolError,
    BackendRejected,
    LoginRequired,
    NoteNotFound,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.note_backoff import GRACE, Ill, demand_service
from mcp_notarium.sync.planner import Confirmed

FETCHES = 8
"""Notes asked for at the same time."""
MOST_LATE = 4
"""Late requests at most: of the connections to the store (8), some must stay free."""


@dataclass(slots=True)
class _Round:
    """``served``: nothing has failed, or something was answered since."""

    answers: dict[str, Confirmed] = field(default_factory=dict)
    served: bool = True


class Asking:
    """The requests for single notes of one engine. ``stopwatch`` gives seconds from anywhere."""

    def __init__(self, cache: Cache, store: Store, *, stopwatch: Callable[[], float]) -> None:
        self._cache = cache
        self._store = store
        self._late: dict[str, asyncio.Task[Confirmed]] = {}
        self._ill = Ill(stopwatch)

    async def answers(self, note_ids: Iterable[str]) -> dict[str, Confirmed]:
        """What the store says about each; ill and late ones are left out.

        Raises what the store answers to everybody, if no other request has been answered since one
        failed and a request that is about all notes fails as well.
        """
        places = asyncio.Semaphore(FETCHES)
        asked = _Round()

        async def ask(note_id: str) -> None:
            async with places:
                await self._ask(note_id, asked)

        try:
            async with asyncio.TaskGroup() as group:
                for note_id in note_ids:
                    group.create_task(ask(note_id))
        except BaseExceptionGroup as failures:
            raise _first(failures) from None
        if not asked.served:
            await demand_service(self._cache, self._store)
        return asked.answers

    def rests(self, note_id: str) -> bool:
        """Whether it is no use to ask for this note now: it is late, or ill and was just asked for."""
        late = self._late.get(note_id)
        if late is not None:
            return not late.done()
        return self._ill.rests(note_id)

    def there_is_news_of(self, note_ids: Iterable[str]) -> None:
        """What was asked about these before is worth nothing any more."""
        for note_id in self._late.keys() & set(note_ids) if self._late else ():
            self._late.pop(note_id).cancel()

    async def close(self) -> None:
        """Break off what is late."""
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
                self._put_off(note_id, request)
                return
        try:
            asked.answers[note_id] = request.result()
        except (BackendProtocolError, BackendRejected) as error:
            self._ill.failed(note_id, error)  # it is an answer, to this one request
        except (BackendError, LoginRequired) as error:
            self._ill.failed(note_id, error)
            # A late one failed before the store was asked for its news this time.
            asked.served = asked.served and late
        else:
            asked.served = True
            self._ill.served(note_id)

    async def _request(self, note_id: str) -> Confirmed:
        seen = self._cache.notes.last_seen(note_id)
        try:
            return Confirmed(await self._store.get(note_id), seen)
        except NoteNotFound:
            return Confirmed(Tombstone(note_id), seen)

    def _put_off(self, note_id: str, request: asyncio.Task[Confirmed]) -> None:
        if sum(not late.done() for late in self._late.values()) < MOST_LATE:
            self._late[note_id] = request
            request.add_done_callback(_heard)
        else:
            request.cancel()
            self._ill.failed(note_id)


async def _in_time(request: asyncio.Task[Confirmed]) -> bool:
    try:
        done, _ = await asyncio.wait({request}, timeout=GRACE)
    except asyncio.CancelledError:
        request.cancel()
        raise
    return bool(done)


def _heard(request: asyncio.Task[Confirmed]) -> None:
    if not request.cancelled():
        request.exception()  # told to whoever asks next


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = failures
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
