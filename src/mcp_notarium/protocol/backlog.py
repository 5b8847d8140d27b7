"""Counts what a connection has in hand: requests, and lines that wait until the client reads.

Each is bounded in bytes. Above either bound no more requests are read. While lines are above theirs no
further call begins: those that have begun finish, and their answers are all that comes on top.
"""

from __future__ import annotations

import asyncio
from typing import Final

MOST_UNREAD: Final = 16 * 1024 * 1024
MOST_REQUESTS: Final = 32 * 1024 * 1024
CALL_BYTES: Final = 128 * 1024
"""What each request in hand counts beside its line: 256 of them fill their bound."""


class Backlog:
    """The counter of one connection. Change it from the event loop only."""

    def __init__(self) -> None:
        self._requests = 0
        self._unread = 0
        self._room = asyncio.Event()
        self._queue = asyncio.Lock()

    def full(self) -> bool:
        """Whether no more requests should be read. May be asked from any thread."""
        return self._requests > MOST_REQUESTS or not self.has_room

    def begin(self, size: int) -> None:
        """A request of ``size`` bytes is in hand."""
        self._requests += size + CALL_BYTES

    def end(self, size: int) -> None:
        """It is no more: its answer is written, or nobody waits for it."""
        self._requests -= size + CALL_BYTES

    def wait(self, size: int) -> None:
        """A line of ``size`` bytes waits to be written."""
        self._unread += size

    def written(self, size: int) -> None:
        """It waits no longer."""
        self._unread -= size
        if self.has_room:
            self._room.set()

    @property
    def has_room(self) -> bool:
        """Whether another answer may be made."""
        return self._unread <= MOST_UNREAD

    async def room(self) -> None:
        """Wait until another answer may be made; first come, first served.

        The next one goes on behind whoever goes on first: make the answer and have it written without
        waiting for anything, or ask again behind that.
        """
        async with self._queue:
            while not self.has_room:
                self._room.clear()
                await self._room.wait()
