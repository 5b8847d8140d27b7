"""Serialize writes per note, also after a cancellation; one call writes at a time.

A write that was passed to the store is never interrupted: it runs to its end in a task of its own.
Until then the note and the call stay locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from mcp_notarium.stores.contract import WITHDRAWN

T = TypeVar("T")


class NoteLock:
    """Hold the right to write one note. ``on_start`` is told of each task that is started under it."""

    def __init__(self, on_start: Callable[[asyncio.Task[Any]], None]) -> None:
        self._on_start = on_start
        self._cancelled = False
        self.task: asyncio.Task[Any] | None = None

    async def run_cancellable(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a write. If the caller is cancelled, it returns at once.

        The work then goes on if its request may have left; otherwise it sends nothing.
        """
        before = WITHDRAWN.set(lambda: self._cancelled)
        task = asyncio.create_task(work)  # the task copies the variable
        WITHDRAWN.reset(before)
        try:
            return await self._wait_for(task)
        except asyncio.CancelledError:
            self._cancelled = True
            raise

    async def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work to its end. If the caller is cancelled, it returns at once and the work goes on."""
        return await self._wait_for(asyncio.create_task(work))

    async def _wait_for(self, task: asyncio.Task[T]) -> T:
        self.task = task
        self._on_start(task)
        return await asyncio.shield(task)


class NoteLocks:
    """Give out locks: for one writing call at a time, and for each note."""

    def __init__(self) -> None:
        self._calls = asyncio.Lock()
        self._of_call: asyncio.Task[Any] | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._running: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Serve one writing call at a time, in order of arrival.

        The next one begins when this one and every request it has begun to send have ended.
        """
        await self._calls.acquire()
        try:
            yield
        finally:
            _release(self._calls, after=self._of_call)

    async def await_calls(self) -> None:
        """Wait until the calls that came so far have ended."""
        async with self._calls:
            return

    @asynccontextmanager
    async def lock(self, note_id: str, *, beside_calls: bool = False) -> AsyncIterator[NoteLock]:
        """Wait until nobody writes the note, then lock it.

        Calls do not wait for work that is started with ``beside_calls``.
        """
        lock = self._locks.get(note_id)
        if lock is None:
            lock = self._locks[note_id] = asyncio.Lock()
        await lock.acquire()
        held = NoteLock(self._track if beside_calls else self._track_call)
        try:
            yield held
        finally:
            _release(lock, after=held.task)

    def is_locked(self, note_id: str) -> bool:
        """Tell whether the note is being written now."""
        lock = self._locks.get(note_id)
        return lock is not None and lock.locked()

    async def drain(self) -> None:
        """Wait for the writes that go on without a caller."""
        while self._running:
            await asyncio.wait(set(self._running))

    def _track_call(self, task: asyncio.Task[Any]) -> None:
        self._of_call = task
        self._track(task)

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._running.add(task)
        task.add_done_callback(self._untrack)

    def _untrack(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # perhaps nobody waits for it any more; the journal entry remains


def _release(lock: asyncio.Lock, *, after: asyncio.Task[Any] | None) -> None:
    if after is None or after.done():
        lock.release()
    else:
        after.add_done_callback(lambda _: lock.release())
