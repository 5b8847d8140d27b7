"""One writer per note within this process, even when the caller is cancelled in the middle.

A write that has been handed to the store is never torn: it runs to its end in a task of its own,
and the note stays taken until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Turn:
    """The right to write one note."""

    def __init__(self, running: set[asyncio.Task[Any]]) -> None:
        self._running = running
        self.task: asyncio.Task[Any] | None = None

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this to its end. A caller that is cancelled leaves at once, the work goes on."""
        task = asyncio.create_task(work)
        self.task = task
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to hear of it; the intent in the cache is


class Turns:
    """Hands out turns, one at a time for each note."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._running: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def of(self, note_id: str) -> AsyncIterator[Turn]:
        """Wait until nobody writes the note, then be the one who does."""
        lock = self._locks.get(note_id)
        if lock is None:
            lock = self._locks[note_id] = asyncio.Lock()
        await lock.acquire()
        turn = Turn(self._running)
        try:
            yield turn
        finally:
            if turn.task is None or turn.task.done():
                lock.release()
            else:
                turn.task.add_done_callback(lambda _: lock.release())

    def taken(self, note_id: str) -> bool:
        """Whether somebody is writing the note now."""
        lock = self._locks.get(note_id)
        return lock is not None and lock.locked()

    async def drain(self) -> None:
        """Wait for the writes that go on without a caller."""
        while self._running:
            await asyncio.wait(set(self._running))
