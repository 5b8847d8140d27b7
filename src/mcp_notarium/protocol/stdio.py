"""Reserve stdin and stdout for the protocol, read lines from stdin, and queue what happens to the connection, in order.

After :func:`take_descriptors` a ``print``, a library's warning or a child process writes to stderr, and
whoever reads standard input finds it empty. Imports only the smallest modules of the standard library:
it runs before everything else.

A line has at most eight megabytes. A longer one is thrown away as it comes and reported by its two
ends, which show its request id.

Threads and signal handlers put things in; the main thread takes them out, first by waiting, later
from an event loop that is woken up. Nothing is lost or overtaken when it changes from one to the
other.
"""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from mcp_notarium.protocol.connection import FlowControl


_STDIN, _STDOUT, _STDERR = 0, 1, 2

MAX_LINE = 8 * 1024 * 1024
"""Clients built on the TypeScript SDK give up at 10 MB, so nothing sensible is longer."""

_ENDS = 512
_CHUNK = 1 << 16
_MOMENT_MS = 10


def open_missing_streams() -> None:
    """Provide a standard error, and keep our files off the numbers of the standard streams.

    Python has no ``sys.stderr`` where the parent left it closed, and the next file that is opened would
    be what a library writes its complaints to.
    """
    for fd in (_STDIN, _STDOUT, _STDERR):
        try:
            os.fstat(fd)
        except OSError:  # the lowest free number is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - by position
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123, SIM115 - for the whole process, without pathlib


def take_descriptors() -> tuple[int, int]:
    """Return private descriptors for reading and writing the protocol; divert 0 and 1.

    A descriptor that the parent left closed is replaced by the null device, so that the process
    sees the end of input, and never a file of its own as standard output.
    """
    open_missing_streams()
    incoming, outgoing = os.dup(_STDIN), os.dup(_STDOUT)
    for fd in (incoming, outgoing):
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - exists on Windows only

            msvcrt.setmode(fd, os.O_BINARY)
        else:
            os.set_blocking(fd, True)  # or "nothing yet" would look like the end
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _STDIN)
    os.close(null)
    os.dup2(_STDERR, _STDOUT)
    return incoming, outgoing


def write_all(fd: int, content: bytes) -> None:
    """Write everything, waiting as long as the reader takes. Raises ``OSError`` when it is gone."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


class TooLong:
    """Hold the first and last bytes of a line that was too long."""

    __slots__ = ("head", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail


class EndOfInput:
    """Mark the end: no more lines will come."""


Item = bytes | TooLong | EndOfInput


class LineBuffer:
    """Cut a stream of bytes into lines, without line ends and blank lines.

    ``fed``: something has come, be it only the beginning of a line.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._held = bytearray()
        self._scanned = 0
        self._skipped: TooLong | None = None
        self.fed = False

    def feed(self, content: bytes) -> list[Item]:
        """Return the lines that ``content`` completes."""
        self.fed = True
        self._held += content
        items = []
        while (at := self._held.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._held[:at])
            del self._held[: at + 1]
            self._scanned = 0
            items += self._line(line)
        self._scanned = len(self._held)
        if len(self._held) > self._limit:  # defence: line-skipped-when-long
            self._skip()
        return items

    def end(self) -> list[Item]:
        """Return the last line if it had no line end."""
        line = bytes(self._held)
        self._held.clear()
        return self._line(line)

    def _line(self, line: bytes) -> list[Item]:
        if self._skipped is not None:
            skipped, self._skipped = self._skipped, None
            return [TooLong(skipped.head, (skipped.tail + line)[-_ENDS:])]
        if len(line) > self._limit:  # defence: long-line-refused
            return [TooLong(line[:_ENDS], line[-_ENDS:])]
        return [line] if line.strip() else []

    def _skip(self) -> None:
        """Throw away what is held of a line that is already too long, except its ends."""
        if self._skipped is None:
            self._skipped = TooLong(bytes(self._held[:_ENDS]), b"")
        self._skipped.tail = bytes(self._held[-_ENDS:])
        self._held.clear()
        self._scanned = 0


def start_reading(
    fd: int,
    sink: Callable[[Item], None],
    *,
    first: Callable[[], None] = lambda: None,
    crowded: Callable[[], bool] = lambda: False,
    buffer: LineBuffer | None = None,
) -> threading.Thread:
    """Read a descriptor to its end in a thread that hands each item to the sink; return the thread.

    It is a daemon, because a read of standard input cannot be interrupted. ``first`` is called in it
    before anything is read. While it is ``crowded`` nothing is read, so a client that sends without end
    waits for its pipe instead of filling the memory. What it wrote before it closed its end is read in
    any case, because the end comes after it.
    """
    buffer = buffer or LineBuffer()

    def read() -> None:
        first()
        left = _watch_for_end(fd)
        ended = False
        while not ended:
            while crowded() and not left():
                pass
            content = _read_some(fd)
            ended = not content
            for item in [*buffer.end(), EndOfInput()] if ended else buffer.feed(content):
                sink(item)

    thread = threading.Thread(target=read, name="stdin", daemon=True)
    thread.start()
    return thread


def _read_some(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError:  # the other side has vanished: the same as the end
        return b""


def _watch_for_end(fd: int) -> Callable[[], bool]:
    """Return what tells, after a moment, whether the other side has left; True where nobody can say."""
    poll = getattr(select, "poll", None)
    if poll is None:
        return lambda: True
    poller = poll()
    poller.register(fd, getattr(select, "POLLRDHUP", 0))
    return lambda: bool(poller.poll(_MOMENT_MS))


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


def size_of(line: object) -> int | None:
    """Return the bytes of a line, as the flow counts them; None for what is no line."""
    if isinstance(line, TooLong):
        return 0
    return len(line) if isinstance(line, bytes) else None


def read_lines(
    incoming: int,
    queue: EventQueue,
    flow: FlowControl,
    buffer: LineBuffer,
    *,
    first: Callable[[], None] = lambda: None,
) -> None:
    """Read lines into the queue, in a thread that begins with ``first``, while the flow has room."""

    def arrived(item: Item) -> None:
        if (size := size_of(item)) is not None:
            flow.read(size)
        queue.put(item)

    start_reading(incoming, arrived, first=first, crowded=flow.full, buffer=buffer)
