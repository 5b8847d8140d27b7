"""Serialize writes per note, also after a cancellation, and limit how many write at once.

A write that was passed to the store is never interrupted: it runs to its end in a task of its own.
The note stays locked until then, and the call keeps its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from mcp_notarium.storage.audit_log import Act
from mcp_notarium.stores.contract import WITHDRAWN
from mcp_notarium.threads import shield_task

T = TypeVar("T")
_Locks = WeakValueDictionary[str, asyncio.Lock]


class NoteLock:
    """Hold the right to write one note. ``on_start`` is told of each task that is started under it."""

    def __init__(self, on_start: Callable[[asyncio.Task[Any]], None]) -> None:
        self._on_start = on_start
        self._cancelled = False
        self.task: asyncio.Task[Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Tell whether work that was started under it goes on."""
        return self.task is not None and not self.task.done()

    async def run_cancellable(self, work: Coroutine[Any, Any, T], act: Act | None) -> T:
        """Run a write; if its caller leaves, return at once: it goes on as the rest of ``act``, or sends nothing."""
        before = WITHDRAWN.set(lambda: self._cancelled)
        task = asyncio.create_task(work)  # the task copies the variable
        WITHDRAWN.reset(before)
        try:
            return await self._wait_for(task)
        except asyncio.CancelledError:
            self._cancelled = True
            if act is not None:
                act.rest = task
            raise

    async def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work to its end. It returns at once if the caller is cancelled, and the work goes on."""
        return await self._wait_for(asyncio.create_task(work))

    async def _wait_for(self, task: asyncio.Task[T]) -> T:
        self.task = task
        self._on_start(task)
        return await shield_task(task)


@dataclass(slots=True)
class _Call:
    """Hold what a writing call waits for or keeps until it has ended."""

    sent: asyncio.Task[Any] | None = None
    held: list[asyncio.Lock | asyncio.Semaphore] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class NoteLocks:
    """Give out locks: for writing calls, ``at_once`` of them at most, and for each note."""

    def __init__(self, *, at_once: int) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._calls: dict[asyncio.Task[Any] | None, _Call] = {}
        self._queues: _Locks = WeakValueDictionary()
        self._locks: _Locks = WeakValueDictionary()
        self._running: set[asyncio.Task[Any]] = set()
        self._ended = 0

    @asynccontextmanager
    async def call(self, key: str) -> AsyncIterator[bool]:
        """Serve a writing call while others run, but those of the same key one by one, in order of arrival; drafting belongs inside.

        The key is the id of the note, or the text of a new one. It is given whether another one has ended while it waited. The next
        one begins when this one and every request it has begun to send have ended, also if this one is cancelled.
        """
        task, call, ended = asyncio.current_task(), _Call(), self._ended
        self._calls[task] = call
        try:
            for wanted in (self._queues.setdefault(key, asyncio.Lock()), self._places):
                await wanted.acquire()
                call.held.append(wanted)
            yield self._ended != ended
        finally:
            del self._calls[task]
            if call.sent is None or call.sent.done():
                self._end(call)
            else:
                call.sent.add_done_callback(lambda _: self._end(call))

    def _end(self, call: _Call) -> None:
        self._ended += 1
        for one in call.held:
            one.release()
        call.ended.set()

    @property
    def is_called(self) -> bool:
        """Tell whether any call is being served."""
        return bool(self._calls)

    async def await_calls(self) -> None:
        """Wait until the calls that came so far have ended."""
        for call in list(self._calls.values()):
            await call.ended.wait()

    @asynccontextmanager
    async def lock(self, note_id: str, *, beside_calls: bool = False) -> AsyncIterator[NoteLock]:
        """Wait until nobody writes the note, then lock it. Calls do not wait for work that is started with ``beside_calls``."""
        lock = self._locks.setdefault(note_id, asyncio.Lock())
        await lock.acquire()
        held = NoteLock(self._track if beside_calls else self._track_call)
        try:
            yield held
        finally:
            if held.task is None or held.task.done():
                lock.release()
            else:
                held.task.add_done_callback(lambda _: lock.release())

    def is_locked(self, note_id: str) -> bool:
        """Tell whether the note is being written now."""
        lock = self._locks.get(note_id)
        return lock is not None and lock.locked()

    async def drain(self) -> None:
        """Wait for the writes that go on without a caller. Call it before the database is closed."""
        while self._running:
            await asyncio.wait(set(self._running))

    def _track_call(self, task: asyncio.Task[Any]) -> None:
        if (call := self._calls.get(asyncio.current_task())) is not None:
            call.sent = task
        self._track(task)

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._running.add(task)
        task.add_done_callback(self._running.discard)
