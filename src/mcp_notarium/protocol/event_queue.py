"""Queue what happens to the connection, in order: lines, signals, imports done.

Threads and signal handlers put things in; the main thread takes them out, first by waiting, later
from an event loop that is woken up. Nothing is lost or overtaken when it changes from one to the
other.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_notarium.protocol.stdio import Item

if TYPE_CHECKING:
    import asyncio


class Stop:
    """Ask the process to end, because a signal does."""


class ImportDone:
    """Tell that a part of the program has been imported; ``problem`` is why it could not be."""

    __slots__ = ("problem",)

    def __init__(self, problem: BaseException | None = None) -> None:
        self.problem = problem

    def demand(self) -> None:
        """Raise the problem, if there is one."""
        if self.problem is not None:
            raise self.problem


Event = Item | Stop | ImportDone


class EventQueue:
    """Queue events, and wake an event loop. Putting is allowed from any thread and signal handler."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._wake: Callable[[], object] | None = None
        self._news: asyncio.Event | None = None

    def put(self, item: Event) -> None:
        """Add an item, and wake the event loop if there is one."""
        self._items.put(item)
        if self._wake is not None:
            try:
                self._wake()
            except RuntimeError:  # the loop has ended: nobody listens any more
                self._wake = None

    def wait(self, within: float | None = None) -> Event | None:
        """Return the next item, or None after so many seconds. Signal handlers run meanwhile."""
        try:
            return self._items.get(timeout=within)
        except queue.Empty:
            return None

    async def next(self) -> list[Event]:
        """Return everything new; wait in the running event loop until there is something."""
        news = self._news or self._listen()
        while self._items.empty():
            await news.wait()
            news.clear()
        return [self._items.get_nowait() for _ in range(self._items.qsize())]

    def _listen(self) -> asyncio.Event:
        import asyncio  # noqa: PLC0415 - the handshake is answered before it is loaded

        self._news = asyncio.Event()
        loop, news = asyncio.get_running_loop(), self._news
        self._wake = lambda: loop.call_soon_threadsafe(news.set)
        return news
