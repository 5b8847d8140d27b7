"""One call that writes at a time, and one writer for each note, also when the caller is cancelled.

A write that has been handed to the store is never torn: it runs to its end in a task of its own, and
until then the note and the turn stay taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from mcp_notarium.stores.withdrawal import WITHDRAWN

T = TypeVar("T")


class Turn:
    """The right to write one note. ``begun`` hears of each task that is started in it."""

    def __init__(self, begun: Callable[[asyncio.Task[Any]], None]) -> None:
        self._begun = begun
        self._cancelled = False
        self.task: asyncio.Task[Any] | None = None

    async def send(self, work: Coroutine[Any, Any, T]) -> T:
        """Send a write. A caller that is cancelled leaves at once.

        The work then goes on if its request may have left, and otherwise sends nothing.
        """
        before = WITHDRAWN.set(lambda: self._cancelled)
        task = asyncio.create_task(work)  # it takes the variable with it
        WITHDRAWN.reset(before)
        try:
            return await self._wait_for(task)
        except asyncio.CancelledError:
            self._cancelled = True
            raise

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this to its end. A caller that is cancelled leaves at once, the work goes on."""
        return await self._wait_for(asyncio.create_task(work))

    async def _wait_for(self, task: asyncio.Task[T]) -> T:
        self.task = task
        self._begun(task)
        return await asyncio.shield(task)


class Turns:
    """Hands out turns: one call at a time, and one at a time for each note."""

    def __init__(self) -> None:
        self._calls = asyncio.Lock()
        self._of_call: asyncio.Task[Any] | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._running: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Serve one call that writes, in the order they came.

        The next one begins when this has ended, and what it has begun to send.
        """
        await self._calls.acquire()
        try:
            yield
        finally:
            _release(self._calls, after=self._of_call)

    @asynccontextmanager
    async def of(self, note_id: str, *, beside_calls: bool = False) -> AsyncIterator[Turn]:
        """Wait until nobody writes the note, then be the one who does.

        No call waits for what is begun ``beside_calls``.
        """
        lock = self._locks.get(note_id)
        if lock is None:
            lock = self._locks[note_id] = asyncio.Lock()
        await lock.acquire()
        turn = Turn(self._begun if beside_calls else self._begun_by_call)
        try:
            yield turn
        finally:
            _release(lock, after=turn.task)

    def taken(self, note_id: str) -> bool:
        """Whether somebody is writing the note now."""
        lock = self._locks.get(note_id)
        return lock is not None and lock.locked()

    async def drain(self) -> None:
        """Wait for the writes that go on without a caller."""
        while self._running:
            await asyncio.wait(set(self._running))

    def _begun_by_call(self, task: asyncio.Task[Any]) -> None:
        self._of_call = task
        self._begun(task)

    def _begun(self, task: asyncio.Task[Any]) -> None:
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to hear of it; the intent in the cache is


def _release(lock: asyncio.Lock, *, after: asyncio.Task[Any] | None) -> None:
    if after is None or after.done():
        lock.release()
    else:
        after.add_done_callback(lambda _: lock.release())
