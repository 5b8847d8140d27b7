"""Writes lines to a descriptor in order, never blocking the event loop and never hanging at exit.

Small lines go out directly where the system promises room for them; the rest goes through one daemon
thread, because a reader that has stopped reading must not keep the process from ending. A line once
begun is finished even if whoever sent it is cancelled: half a line would spoil all that follow. What waits
is counted in the connection's backlog until it is written, also if nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import os
import queue
import select
import threading
from collections.abc import Callable

from mcp_notarium.protocol.backlog import Backlog
from mcp_notarium.protocol.stdio import write_all

_DIRECT = getattr(select, "PIPE_BUF", 0)
"""A pipe that polls as writable takes this much at once (POSIX); elsewhere nothing is promised."""

_Job = tuple[bytes, "asyncio.Future[None]"]


class Outbox:
    """The writing end of the connection. Use it from the event loop only."""

    def __init__(self, fd: int, backlog: Backlog) -> None:
        self._fd = fd
        self.backlog = backlog
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._waiting: set[asyncio.Future[None]] = set()
        self._abandoned = False
        self._has_room = _poll_for_room(fd)
        self._thread: threading.Thread | None = None

    async def write(self, line: bytes) -> None:
        """Hand the whole line to the system. Raises ``OSError`` when the reader is gone."""
        if self._abandoned:
            raise BrokenPipeError
        if not self._waiting and len(line) <= _DIRECT and self._has_room():
            line = line[os.write(self._fd, line) :]
        if line:
            await self._by_thread(line)

    def _by_thread(self, line: bytes) -> asyncio.Future[None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="stdout", daemon=True)
            self._thread.start()
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(done)
        self.backlog.wait(len(line))
        self._jobs.put((line, done))
        return done

    def abandon_if_stuck(self) -> None:
        """Give up on a reader that takes nothing: whoever waits for it gets ``BrokenPipeError``."""
        if self._waiting:
            self._abandoned = True
            for done in tuple(self._waiting):
                self._settle(done, BrokenPipeError())

    def _work(self) -> None:
        while True:
            line, done = self._jobs.get()
            problem: OSError | None = None
            try:
                write_all(self._fd, line)
            except OSError as error:
                problem = error
            try:
                self._loop.call_soon_threadsafe(self._written, len(line), done, problem)
            except RuntimeError:  # the loop has ended: nobody waits any more
                return

    def _written(self, size: int, done: asyncio.Future[None], problem: OSError | None) -> None:
        self.backlog.written(size)
        self._settle(done, problem)

    def _settle(self, done: asyncio.Future[None], problem: OSError | None) -> None:
        self._waiting.discard(done)
        if done.done():  # its sender was cancelled meanwhile
            return
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)


def _poll_for_room(fd: int) -> Callable[[], bool]:
    """Tells in microseconds whether a small line may be written without waiting."""
    poll = getattr(select, "poll", None)
    if poll is None:
        return lambda: False
    poller = poll()
    poller.register(fd, select.POLLOUT)
    return lambda: bool(poller.poll(0) == [(fd, select.POLLOUT)])
