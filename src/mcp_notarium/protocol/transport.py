"""The stdio transport under the protocol library: lines in, lines out, and an orderly end.

Promises what the library's own transport does not: every request gets an answer,
also one that is no valid message; nothing in a result can end the process; at the end of input, on a
signal or when the client stops reading, calls in hand get their part of the time to end (``ending``).
Knows nothing of tools.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from math import inf
from types import TracebackType
from typing import Self, TypeGuard

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from mcp_notarium.protocol import jsonrpc
from mcp_notarium.protocol.line_reader import TooLong
from mcp_notarium.protocol.outbox import Outbox
from mcp_notarium.protocol.shutdown import Ending

MOST_QUEUED = 1000
"""Messages that the library has not looked at, before no more lines are read."""

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]


class Outgoing:
    """The write stream the library is given; it notes which requests have been answered."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message. A client that is gone is not an error here: the transport ends."""
        await self._transport.send(item.message)

    async def aclose(self) -> None:
        """Nothing to do: the descriptor belongs to the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class Transport:
    """One connection. Feed it lines; it ends by :meth:`stop` or when nobody reads its answers."""

    def __init__(
        self,
        outbox: Outbox,
        tasks: TaskGroup,
        *,
        ending: Ending,
        swallow: Iterable[jsonrpc.RequestId] = (),
        beside: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
    ) -> None:
        self._outbox = outbox
        self._beside = beside
        self.tasks = tasks
        self._ending = ending
        self._swallow = set(swallow)
        self._owed: dict[jsonrpc.RequestId, list[int]] = {}  # the sizes of the requests of this id
        self._refusals = 0
        self._stopping = anyio.Event()
        self._settled = anyio.Event()
        send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](inf)
        self._send: MemoryObjectSendStream[SessionMessage | Exception] = send
        self.incoming: Incoming = receive
        self.outgoing = Outgoing(self)

    def behind(self) -> bool:
        """Whether the library lags so far that no more should come. May be asked from any thread."""
        return self._send.statistics().current_buffer_used > MOST_QUEUED

    @property
    def stopping(self) -> bool:
        """No more messages are taken."""
        return self._stopping.is_set()

    def feed(self, line: bytes | TooLong) -> None:
        """Pass one line on, or answer it if it is no message. Ignored once stopping."""
        if self.stopping:
            return
        message = jsonrpc.refuse_long(line) if isinstance(line, TooLong) else jsonrpc.decode(line)
        if isinstance(message, jsonrpc.Refusal):
            self._refusals += 1
            self._outbox.backlog.begin(0)
            self.tasks.start_soon(self._refuse, message)
        elif message is not None:
            self._expect(message, len(line) if isinstance(line, bytes) else 0)
            self._send.send_nowait(SessionMessage(message))

    async def _refuse(self, refusal: jsonrpc.Refusal) -> None:
        await self._write(refusal.encoded())
        self._refusals -= 1
        self._outbox.backlog.end(0)
        self._look()

    def _expect(self, message: JSONRPCMessage, size: int) -> None:
        """Note which answers the client waits for; a cancelled request gets none."""
        if isinstance(message, JSONRPCRequest):
            self._owed.setdefault(coerce_request_id(message.id), []).append(size)
            self._outbox.backlog.begin(size)
        elif _cancels(message):
            self._settle((message.params or {}).get("requestId"))

    async def send(self, message: JSONRPCMessage) -> None:
        """Write one message, unless it is an answer the client has had already."""
        answers = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        if answers is not None and answers in self._swallow:
            self._swallow.discard(answers)
        else:
            await self._write(jsonrpc.encode(message))
        self._settle(answers)

    async def _write(self, line: bytes) -> None:
        try:
            await self._outbox.write(line)
        except OSError:
            self.stop()
            self._settled.set()

    def _settle(self, request_id: object) -> None:
        """Ids count as the library counts them: 7 and "7" are one."""
        if isinstance(request_id, int | str) and not isinstance(request_id, bool):
            known = coerce_request_id(request_id)
            if sizes := self._owed.get(known):
                self._outbox.backlog.end(sizes.pop())
                if not sizes:
                    del self._owed[known]
        self._look()

    def _look(self) -> None:
        if self._stopping.is_set() and not self._owed and not self._refusals:
            self._settled.set()

    def stop(self) -> None:
        """No more messages are taken; what is in hand may still be answered for a moment."""
        self._ending.begin()
        self._stopping.set()
        self._look()

    async def end(self) -> None:
        """Wait for the end and then close the reading side, which ends the library's loop."""
        await self._stopping.wait()
        with anyio.move_on_after(self._ending.for_answers()):
            await self._settled.wait()
            await self._beside()
        self._outbox.abandon_if_stuck()
        self._send.close()

    def close(self) -> None:
        """Let go of the streams, whoever still holds them."""
        self._send.close()
        self.incoming.close()


def _cancels(message: JSONRPCMessage) -> TypeGuard[JSONRPCNotification]:
    return isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled"


@asynccontextmanager
async def running(
    outbox: Outbox,
    ending: Ending,
    *,
    swallow: Iterable[jsonrpc.RequestId] = (),
    beside: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
) -> AsyncIterator[Transport]:
    """A transport that ends by itself while the library serves it.

    At the end it waits for what is ``beside``, too, as long as there is time for answers.
    """
    async with anyio.create_task_group() as tasks:
        transport = Transport(outbox, tasks, ending=ending, swallow=swallow, beside=beside)
        tasks.start_soon(transport.end)
        try:
            yield transport
        finally:
            tasks.cancel_scope.cancel()
            transport.close()
