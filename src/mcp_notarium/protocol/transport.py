"""Carry messages between the client and the SDK, and end in order.

Lines go to the session, which answers or queues them; the SDK takes what is queued by :meth:`Transport.next`
as soon as it is imported. Every request gets an answer, also one that is no valid message. At the end
of input, on a signal or when the client stops reading, calls in hand get their part of the time to end
(``shutdown``); a call that the SDK has not taken by then is told that the connection is closed.
Free of the SDK, and knows nothing of tools.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from mcp_notarium.protocol.jsonrpc import Json
from mcp_notarium.protocol.line_reader import TooLong
from mcp_notarium.protocol.outbox import Outbox
from mcp_notarium.protocol.session import Session, size_of
from mcp_notarium.protocol.shutdown import Ending

LAST_WORDS_SECONDS: Final = 0.05
"""How long writing may take that some calls have no answer."""

Wait = Callable[[], Awaitable[object]]


class Transport:
    """One connection. Feed it lines; it ends by :meth:`end_of_input`, :meth:`stop`, or a reader that is gone.

    ``ready`` returns when calls can be answered; at the end of input it is waited for, on a signal it is not.
    """

    def __init__(
        self,
        session: Session,
        outbox: Outbox,
        tasks: TaskGroup,
        *,
        ending: Ending,
        ready: Wait = anyio.lowlevel.checkpoint,
    ) -> None:
        self._session = session
        self._outbox = outbox
        self._tasks = tasks
        self._ending = ending
        self._ready = ready
        self._replies: deque[tuple[bytes, int]] = deque()
        self._news = anyio.Event()
        self._closing = anyio.Event()
        self._stopping = anyio.Event()
        self._settled = anyio.Event()
        self.over = anyio.Event()

    def feed(self, line: bytes | TooLong) -> None:
        """Answer one line, or queue it for the SDK. Ignored once the input has ended."""
        if self._closing.is_set():
            return
        if answer := self._session.receive(line):
            self._replies.append((answer, size_of(line) or 0))
            if len(self._replies) == 1:
                self._tasks.start_soon(self._write_replies)
        else:
            self._news.set()
        self._look()

    async def next(self) -> Json:
        """The next message for the SDK. Raises ``EndOfStream`` when the connection is over."""
        while not self.over.is_set():
            if (message := self._session.next()) is not None:
                return message
            self._news = anyio.Event()
            await self._news.wait()
        raise anyio.EndOfStream

    async def send(self, line: bytes, *, answers: object = None) -> None:
        """Write a message of the SDK, unless it ``answers`` a request that has its answer already.

        A client that is gone is not an error here: the transport ends.
        """
        if self._session.answered(answers):
            await self._write(line)
        self._look()

    def end_of_input(self) -> None:
        """Take no more messages. What is in hand may be answered, once calls can be."""
        self._closing.set()
        self._look()

    def stop(self) -> None:
        """Take no more messages. What is in hand may be answered for a moment."""
        self._ending.begin()
        self._stopping.set()
        self.end_of_input()

    async def end(self) -> None:
        """Wait for the end of the connection and see to it that it is one."""
        await self._closing.wait()
        await first_of(self._stopping.wait, self._settled.wait, self._ready)
        self._ending.begin()
        with anyio.move_on_after(self._ending.for_answers()):
            await self._settled.wait()
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            for line in self._session.break_off():
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
            self._outbox.backlog.done(size)
        self._look()

    async def _write(self, line: bytes) -> None:
        try:
            await self._outbox.write(line)
        except OSError:
            self.stop()
            self._settled.set()

    def _look(self) -> None:
        if self._closing.is_set() and not self._session.owes and not self._replies:
            self._settled.set()


async def first_of(*waits: Wait) -> None:
    """Wait until the first of these returns; the others are cancelled."""
    async with anyio.create_task_group() as tasks:

        async def wait(one: Wait) -> None:
            await one()
            tasks.cancel_scope.cancel()

        for one in waits:
            tasks.start_soon(wait, one)


@asynccontextmanager
async def running(
    session: Session,
    outbox: Outbox,
    ending: Ending,
    *,
    ready: Wait = anyio.lowlevel.checkpoint,
) -> AsyncIterator[Transport]:
    """A transport that ends by itself while the SDK serves it."""
    async with anyio.create_task_group() as tasks:
        transport = Transport(session, outbox, tasks, ending=ending, ready=ready)
        tasks.start_soon(transport.end)
        try:
            yield transport
        finally:
            tasks.cancel_scope.cancel()
