"""Reserve stdin and stdout for the protocol, read lines from stdin, and queue what happens to the connection, in order.

After :func:`take_descriptors` a ``print``, a library's warning or a child process writes to stderr, and
a reader of standard input finds it empty. Imports only the smallest modules of the standard library:
it runs before everything else.

A line has at most eight megabytes. A longer one is thrown away as it comes and reported by its two
ends, which show its request id. The bytes of unanswered requests and of unwritten replies are bounded, each for itself
(:class:`FlowControl`). No more lines are read above either bound, and no further call begins while the output is above its
own: only the calls that have begun add to it.

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
from typing import TYPE_CHECKING, Final

from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    import asyncio


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
        SYSTEM.prepare_stream(fd)
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


MOST_UNREAD: Final = 16 * 1024 * 1024
MOST_UNANSWERED: Final = 32 * 1024 * 1024
LINE_BYTES: Final = 16 * 1024
"""Bytes that each line, and each answer to be written, counts above its own length: what waits with it."""
CALL_BYTES: Final = 128 * 1024
"""Bytes that a request for the SDK counts above its line: 256 of them fill their bound."""


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
        # defence: open-calls-counted -CALL_BYTES
        unanswered = self._read - self._done + self._calls * CALL_BYTES
        # defence: unread-answers-stop -has_room
        return unanswered > MOST_UNANSWERED or not self.has_room

    def read(self, size: int) -> None:
        """Count a line of ``size`` bytes that was read."""
        # defence: open-lines-counted -LINE_BYTES
        self._read += size + LINE_BYTES  # defence: open-bytes-counted -size

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

        The next waiter is released when this returns. Make the answer and have it written without an ``await``, or wait
        here again after one.
        """
        if self._queue is None or self._room is None:
            import asyncio  # noqa: PLC0415 - the handshake is answered before it is loaded

            self._queue, self._room = asyncio.Lock(), asyncio.Event()
        async with self._queue:
            while not self.has_room:  # defence: unread-answers-stop-work
                self._room.clear()
                await self._room.wait()


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
) -> threading.Thread:
    """Read a descriptor to its end in a thread that puts each line into the queue; return the thread.

    It is a daemon, because a read of standard input cannot be interrupted. ``first`` is called in it
    before anything is read. Nothing is read while the flow is full, so a client that sends without end
    waits for its pipe instead of filling the memory. What it wrote before it closed its end is read in
    any case, because the end comes after it.
    """

    def read() -> None:
        first()
        left = _watch_for_end(incoming)
        ended = False
        while not ended:
            while flow.full() and not left():
                pass
            content = _read_some(incoming)
            ended = not content
            for item in [*buffer.end(), EndOfInput()] if ended else buffer.feed(content):
                if (size := size_of(item)) is not None:
                    flow.read(size)
                queue.put(item)

    thread = threading.Thread(target=read, name="stdin", daemon=True)
    thread.start()
    return thread
