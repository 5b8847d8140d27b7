"""Run the event loop of the server: carry messages between the client and the SDK, and end the connection in order.

The parts meet in :func:`run` and nowhere else: queue, connection, account, SDK. Nothing of the SDK is imported here: that is
done in a thread of its own meanwhile.

Lines go to the connection, which answers or queues them; the SDK takes what is queued by :meth:`Transport.next`
as soon as it is imported. Every request gets an answer, also one that is no valid message. At the end
of input, on a signal or when the client stops reading, open calls may still end for a part of the time
that is left (:class:`ShutdownDeadline`). A call that the SDK has not taken by then fails with "Connection
closed".

:class:`Outbox` never blocks the event loop and never hangs at exit: it writes in a daemon thread, because a
reader that has stopped reading must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from mcp_notarium import logs
from mcp_notarium.protocol.app_holder import AppHolder, Report, open_account
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.protocol.connection import Connection, Json
from mcp_notarium.protocol.stdio import (
    EndOfInput,
    Event,
    EventQueue,
    FlowControl,
    ImportDone,
    Stop,
    TooLong,
    size_of,
    write_all,
)
from mcp_notarium.tools.toolsets import find_toolset

if TYPE_CHECKING:
    from mcp_notarium.config import Config
    from mcp_notarium.errors import NotariumError


SECONDS: Final = 1.5
"""From the client's leaving to the end of the process."""
ANSWERS: Final = 0.8
"""The part of it in which open calls may still be answered."""
CLOSING: Final = 0.9
"""The part after which nothing is waited for any more: sync and connections are closed, or not."""
LAST_WORDS_SECONDS: Final = 0.05
"""Seconds that writing the last errors may take."""

Wait = Callable[[], Awaitable[object]]
_Job = tuple[bytes, "asyncio.Future[None]"]


class ShutdownDeadline:
    """Hold the one deadline for everything from the client's leaving to the exit.

    Clients send SIGTERM two seconds after they have closed standard input. What takes part in the end
    asks how much is left for it. What cannot be asked (a disk that hangs, a look-up of a name that does
    not return) is cut off. Nothing is lost by that: a write on its way is an entry of the journal, and
    a transaction is stored whole or not at all. Nothing counts before :meth:`begin`.
    """

    def __init__(
        self, seconds: float = SECONDS, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._began: float | None = None
        self._cut_off: Callable[[], None] | None = None

    def begin(self) -> None:
        """Start the time: the client has left, or the system asks the process to end. Works once."""
        if self._began is not None:
            return
        self._began = self._clock()
        if self._cut_off is not None:
            timer = threading.Timer(self._seconds, self._cut_off)
            timer.daemon = True
            timer.start()

    def enforce(self, exit_code: Callable[[], int]) -> None:
        """End the process at the deadline, whatever it is doing. Call it before :meth:`begin`."""
        self._cut_off = lambda: os._exit(exit_code())

    def for_answers(self) -> float:
        """Return the seconds that open calls may still take."""
        return self._seconds_left(ANSWERS)

    def for_closing(self) -> float:
        """Return the seconds until everything that is waited for must be closed."""
        return self._seconds_left(CLOSING)

    def _seconds_left(self, part: float) -> float:
        passed = 0.0 if self._began is None else self._clock() - self._began
        return max(0.0, part * self._seconds - passed)


class Outbox:
    """Write lines to a descriptor in order. Use it from the event loop only.

    A line once begun is finished even if its sender is cancelled: half a line would spoil all that
    follow. What waits is counted in the flow until it is written, also if nobody waits for it any more.
    """

    def __init__(self, fd: int, flow: FlowControl) -> None:
        self._fd = fd
        self.flow = flow
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._waiting: set[asyncio.Future[None]] = set()
        self._abandoned = False
        threading.Thread(target=self._work, name="stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Hand the whole line to the system. Raises ``OSError`` when the reader is gone."""
        if self._abandoned:
            raise BrokenPipeError
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(done)
        self.flow.add_unwritten(len(line))
        self._jobs.put((line, done))
        await done

    def abandon_if_stuck(self) -> None:
        """Give up on a reader that takes nothing: who waits for it gets ``BrokenPipeError``."""
        if self._waiting:
            self._abandoned = True
            for done in tuple(self._waiting):
                self._finish(done, BrokenPipeError())

    def _work(self) -> None:
        while True:
            line, done = self._jobs.get()
            problem: OSError | None = None
            try:
                write_all(self._fd, line)
            except OSError as error:
                problem = error
            try:
                self._loop.call_soon_threadsafe(self._record_written, len(line), done, problem)
            except RuntimeError:  # the loop has ended: nobody waits any more
                return

    def _record_written(
        self, size: int, done: asyncio.Future[None], problem: OSError | None
    ) -> None:
        self.flow.written(size)
        self._finish(done, problem)

    def _finish(self, done: asyncio.Future[None], problem: OSError | None) -> None:
        self._waiting.discard(done)
        if done.done():  # its sender was cancelled meanwhile
            return
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)


class Transport:
    """Serve one connection. It ends by :meth:`end_of_input`, :meth:`stop`, or a reader that is gone.

    ``ready`` returns when calls can be answered; at the end of input it is waited for, on a signal it is not.
    """

    def __init__(
        self,
        connection: Connection,
        outbox: Outbox,
        tasks: TaskGroup,
        *,
        deadline: ShutdownDeadline,
        ready: Wait = anyio.lowlevel.checkpoint,
    ) -> None:
        self._connection = connection
        self._outbox = outbox
        self._tasks = tasks
        self._deadline = deadline
        self._ready = ready
        self._replies: deque[tuple[bytes, int]] = deque()
        self._news = anyio.Event()
        self._closing = anyio.Event()
        self._stopping = anyio.Event()
        self._finished = anyio.Event()
        self.over = anyio.Event()

    def feed(self, line: bytes | TooLong) -> None:
        """Answer one line, or queue it for the SDK. Ignores it once the input has ended."""
        if self._closing.is_set():  # defence: nothing-after-a-signal
            return
        if answer := self._connection.receive(line):
            self._replies.append((answer, size_of(line) or 0))
            if len(self._replies) == 1:
                self._tasks.start_soon(self._write_replies)
        else:
            self._news.set()
        self._check_finished()

    async def next(self) -> Json:
        """Return the next message for the SDK. Raises ``EndOfStream`` when the connection is over."""
        while not self.over.is_set():
            if (message := self._connection.next()) is not None:
                return message
            self._news = anyio.Event()
            await self._news.wait()
        raise anyio.EndOfStream

    async def send(self, line: bytes, *, answers: object = None) -> None:
        """Write a message of the SDK, unless it ``answers`` a request that has its answer already.

        A client that is gone is not an error here: the transport ends.
        """
        if self._connection.answered(answers):
            await self._write(line)
        self._check_finished()

    def end_of_input(self) -> None:
        """Take no more messages. Open calls may be answered, once calls can be."""
        self._closing.set()
        self._check_finished()

    def stop(self) -> None:
        """Take no more messages. Open calls may be answered for a moment."""
        self._deadline.begin()
        self._stopping.set()
        self.end_of_input()

    async def end(self) -> None:
        """Wait for the end of the connection, and close it."""
        await self._closing.wait()
        # defence: end-waits-for-readiness
        await first_of(self._stopping.wait, self._finished.wait, self._ready)
        self._deadline.begin()
        with anyio.move_on_after(self._deadline.for_answers()):
            await self._finished.wait()
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            for line in self._connection.break_off():  # defence: waiting-calls-get-an-error
                await self._write(line)
        self._outbox.abandon_if_stuck()
        self.over.set()
        self._news.set()

    async def _write_replies(self) -> None:
        """Write the replies one after another, in order."""
        while self._replies:
            line, size = self._replies[0]
            await self._write(line)
            self._replies.popleft()
            self._outbox.flow.done(size)
        self._check_finished()

    async def _write(self, line: bytes) -> None:
        try:
            await self._outbox.write(line)
        except OSError:
            self.stop()
            self._finished.set()

    def _check_finished(self) -> None:
        if self._closing.is_set() and not self._connection.has_open_calls and not self._replies:
            self._finished.set()


async def first_of(*waits: Wait) -> None:
    """Wait until the first of these returns; the others are cancelled."""
    async with anyio.create_task_group() as tasks:

        async def wait(one: Wait) -> None:
            await one()
            tasks.cancel_scope.cancel()

        for one in waits:
            tasks.start_soon(wait, one)


@asynccontextmanager
async def run_transport(
    connection: Connection,
    outbox: Outbox,
    deadline: ShutdownDeadline,
    *,
    ready: Wait = anyio.lowlevel.checkpoint,
) -> AsyncIterator[Transport]:
    """Run a transport that ends by itself while the SDK serves it."""
    async with anyio.create_task_group() as tasks:
        transport = Transport(connection, outbox, tasks, deadline=deadline, ready=ready)
        tasks.start_soon(transport.end)
        try:
            yield transport
        finally:
            tasks.cancel_scope.cancel()


async def pump(
    queue: EventQueue, held: Sequence[Event], transport: Transport, imported: Callable[[], None]
) -> None:
    """Pass everything that arrives to the transport, in order; say that the SDK is ``imported`` when it is."""
    events = [*held]
    while True:
        for event in events:
            match event:
                case ImportDone():
                    event.demand()
                    imported()
                case Stop():
                    transport.stop()
                case EndOfInput():
                    transport.end_of_input()
                case line:
                    transport.feed(line)
        events = await queue.next()


OPENING_SECONDS: Final = 3.0
"""Seconds the account may take to open when the client has asked for notes and left."""


def run(
    queue: EventQueue,
    connection: Connection,
    outgoing: int,
    config: Config,
    *,
    flow: FlowControl,
    held: Sequence[Event],
    report: Report,
    refused: NotariumError | None = None,
) -> int:
    """Serve until the client leaves; returns the exit code.

    A ``ImportDone`` in the queue announces the SDK. ``held``: what came before. ``refused``
    has been reported: nothing is opened then.
    """

    async def serve() -> int:
        logs.watch_loop(asyncio.get_running_loop())
        deadline = ShutdownDeadline()
        holder = AppHolder(
            lambda: open_account(config, holder, time_to_close=deadline.for_closing),
            report=report,
            refused=refused,
        )
        deadline.enforce(lambda: _exit_code(holder))
        toolset = find_toolset(config.toolset).prefixed(config.tool_prefix)
        toolset = toolset.permitted(config.policy, config.store.lacking)
        pipeline = CallPipeline(holder, toolset, flow=flow)
        connection.on_request = pipeline.recorder.see_request
        connection.on_cancelled = pipeline.recorder.take_back
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(holder.keep)
            holder.open()
            sdk = anyio.Event()

            async def ready() -> None:
                await sdk.wait()
                with anyio.move_on_after(OPENING_SECONDS):
                    await holder.tried()

            outbox = Outbox(outgoing, flow)
            async with run_transport(connection, outbox, deadline, ready=ready) as transport:
                tasks.start_soon(pump, queue, held, transport, sdk.set)
                await first_of(sdk.wait, transport.over.wait)
                if sdk.is_set():
                    from mcp_notarium.protocol import sdk_server  # noqa: PLC0415 - the loader has imported it

                    await sdk_server.serve(sdk_server.build(pipeline), transport)
            deadline.begin()
            await holder.leave(within=deadline.for_closing())
            tasks.cancel_scope.cancel()
        return _exit_code(holder)

    return anyio.run(serve)


def _exit_code(holder: AppHolder) -> int:
    return 1 if holder.locked else 0
