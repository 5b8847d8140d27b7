"""Limit the bytes held for one connection: unanswered requests and unwritten replies.

Each of the two is bounded. Above either bound no more lines are read. While the output is above its bound
no further call begins: calls that have begun finish, and their answers are all that comes on top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

MOST_UNREAD: Final = 16 * 1024 * 1024
MOST_UNANSWERED: Final = 32 * 1024 * 1024
LINE_BYTES: Final = 16 * 1024
"""Bytes that each line, and each answer to be written, counts beside its own length: what waits with it."""
CALL_BYTES: Final = 128 * 1024
"""Bytes that a request for the SDK counts beside its line: 256 of them fill their bound."""


class FlowControl:
    """Count for one connection.

    :meth:`read` is for the thread that reads, everything else for the thread that answers. No number is
    changed by both.
    """

    def __init__(self) -> None:
        self._read = 0
        self._done = 0
        self._calls = 0
        self._unread = 0
        self._room: asyncio.Event | None = None
        self._queue: asyncio.Lock | None = None

    def full(self) -> bool:
        """Return whether no more lines should be read. May be asked from any thread."""
        unanswered = self._read - self._done + self._calls * CALL_BYTES
        return unanswered > MOST_UNANSWERED or not self.has_room

    def read(self, size: int) -> None:
        """Count a line of ``size`` bytes that was read."""
        self._read += size + LINE_BYTES

    def done(self, size: int) -> None:
        """Forget a line: it is answered, or nobody waits for an answer."""
        self._done += size + LINE_BYTES

    def begin_call(self) -> None:
        """Count a request that the SDK is to answer."""
        self._calls += 1

    def end_call(self, size: int) -> None:
        """Forget the request and its line of ``size`` bytes."""
        self._calls -= 1
        self.done(size)

    def add_unwritten(self, size: int) -> None:
        """Count an answer of ``size`` bytes that waits to be written."""
        self._unread += size + LINE_BYTES

    def written(self, size: int) -> None:
        """Forget an answer of ``size`` bytes: it is written, or never will be."""
        self._unread -= size + LINE_BYTES
        if self.has_room and self._room is not None:
            self._room.set()

    @property
    def has_room(self) -> bool:
        """Tell whether another answer may be made."""
        return self._unread <= MOST_UNREAD

    async def wait_for_room(self) -> None:
        """Wait until another answer may be made; first come, first served.

        The next one goes on behind whoever goes on first: make the answer and have it written without
        waiting for anything, or ask again behind that.
        """
        if self._queue is None or self._room is None:
            import asyncio  # noqa: PLC0415 - the handshake is answered before it is loaded

            self._queue, self._room = asyncio.Lock(), asyncio.Event()
        async with self._queue:
            while not self.has_room:
                self._room.clear()
                await self._room.wait()
