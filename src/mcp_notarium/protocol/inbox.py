"""Queue what happens to the connection, in order: lines, signals, imports done.

Threads and signal handlers put things in; the main thread takes them out, first by waiting, later
from an event loop that is woken up. Nothing is lost or overtaken when it changes from one to the
other.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_notarium.protocol.line_reader import Item

if TYPE_CHECKING:
    import asyncio


class Stop:
    """A signal asks the process to end."""


class Loaded:
    """A part of the program has been imported; ``problem`` is why it could not be."""

    __slots__ = ("part", "problem")

    def __init__(self, part: str, problem: BaseException | None = None) -> None:
        self.part = part
        self.problem = problem

    def demand(self) -> None:
        """Raises the problem, if there is one."""
        if self.problem is not None:
            raise self.problem


Event = Item | Stop | Loaded


class Inbox:
    """A queue that can wake an event loop. Putting is allowed from any thread and signal handler."""

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
        """The next item; blocks until there is one, and for so many seconds at most: None then.

        Signal handlers run meanwhile.
        """
        try:
            return self._items.get(timeout=within)
        except queue.Empty:
            return None

    def taken(self) -> list[Event]:
        """Everything that is there now."""
        items = []
        while True:
            try:
                items.append(self._items.get_nowait())
            except queue.Empty:
                return items

    async def next(self) -> list[Event]:
        """Everything new; waits in the running event loop until there is something."""
        news = self._news or self._listen()
        while not (events := self.taken()):
            await news.wait()
            news.clear()
        return events

    def _listen(self) -> asyncio.Event:
        import asyncio  # noqa: PLC0415 - the handshake is answered before it is loaded

        self._news = asyncio.Event()
        loop, news = asyncio.get_running_loop(), self._news
        self._wake = lambda: loop.call_soon_threadsafe(news.set)
        return news
