"""Lines of standard input: cut by a pure buffer, read by one daemon thread, handed to one sink.

A line has at most eight megabytes; a longer one is thrown away as it comes and reported by its two
ends, from which its request id can be told. The thread is a daemon because a read of standard input
cannot be interrupted.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

MAX_LINE = 8 * 1024 * 1024
"""Clients built on the TypeScript SDK give up at 10 MB, so nothing sensible is longer."""

_ENDS = 512
_CHUNK = 1 << 16
_MOMENT_MS = 10


class TooLong:
    """What is left of a line that was too long: its first and last bytes."""

    __slots__ = ("head", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail


class EndOfInput:
    """No more lines will come."""


Item = bytes | TooLong | EndOfInput


class LineBuffer:
    """Cuts a stream of bytes into lines. Blank lines are dropped, line ends are not kept."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._held = bytearray()
        self._scanned = 0
        self._skipped: TooLong | None = None
        self.fed = False
        """Whether anything has come, be it only the beginning of a line."""

    def feed(self, content: bytes) -> list[Item]:
        """The lines that ``content`` completes."""
        self.fed = True
        self._held += content
        items = []
        while (at := self._held.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._held[:at])
            del self._held[: at + 1]
            self._scanned = 0
            items += self._line(line)
        self._scanned = len(self._held)
        if len(self._held) > self._limit:
            self._skip()
        return items

    def end(self) -> list[Item]:
        """The last line, where it had no line end."""
        line = bytes(self._held)
        self._held.clear()
        return self._line(line)

    def _line(self, line: bytes) -> list[Item]:
        if self._skipped is not None:
            skipped, self._skipped = self._skipped, None
            return [TooLong(skipped.head, (skipped.tail + line)[-_ENDS:])]
        if len(line) > self._limit:
            return [TooLong(line[:_ENDS], line[-_ENDS:])]
        return [line] if line.strip() else []

    def _skip(self) -> None:
        """Throw away what is held of a line that is already too long, except its ends."""
        if self._skipped is None:
            self._skipped = TooLong(bytes(self._held[:_ENDS]), b"")
        self._skipped.tail = bytes(self._held[-_ENDS:])
        self._held.clear()
        self._scanned = 0


class LineReader:
    """Reads a descriptor to its end in a daemon thread and hands each item to the sink.

    ``first`` is called in that thread before anything is read; ``buffer`` may hold the beginning of a
    line that has been read already. While it is ``crowded`` nothing is
    read, so that a client who sends without end waits for its pipe instead of filling the memory;
    what it wrote before it closed its end is read in any case, because the end comes after it.
    """

    def __init__(
        self,
        fd: int,
        sink: Callable[[Item], None],
        *,
        first: Callable[[], None] = lambda: None,
        crowded: Callable[[], bool] = lambda: False,
        buffer: LineBuffer | None = None,
    ) -> None:
        self._fd = fd
        self._sink = sink
        self._first = first
        self._crowded = crowded
        self._buffer = buffer or LineBuffer()

    def start(self) -> threading.Thread:
        """Begin to read; gives the thread that does."""
        thread = threading.Thread(target=self._read, name="stdin", daemon=True)
        thread.start()
        return thread

    def _read(self) -> None:
        self._first()
        buffer = self._buffer
        left = _watch_for_end(self._fd)
        while True:
            while self._crowded() and not left():
                pass
            if not (content := self._some()):
                break
            self._hand(buffer.feed(content))
        self._hand([*buffer.end(), EndOfInput()])

    def _some(self) -> bytes:
        try:
            return os.read(self._fd, _CHUNK)
        except OSError:  # the other side has vanished: the same as the end
            return b""

    def _hand(self, items: list[Item]) -> None:
        for item in items:
            self._sink(item)


def _watch_for_end(fd: int) -> Callable[[], bool]:
    """Tells, after a moment, whether the other side has closed its end; True where nobody can say."""
    poll = getattr(select, "poll", None)
    if poll is None:
        return lambda: True
    poller = poll()
    poller.register(fd, getattr(select, "POLLRDHUP", 0))
    return lambda: bool(poller.poll(_MOMENT_MS))
