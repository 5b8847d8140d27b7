"""What is done without the protocol library: replies are written, and notes are read.

Importing that library takes longer than everything else together, and what an agent asks is nearly
always to find or read a note. So such calls are answered here, before the engine is there and beside it, by
the same ``Answering`` that it has, and look the same (``static_replies.json``, made by the library itself).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from mcp_notarium import logs
from mcp_notarium.audit.record import Decision
from mcp_notarium.protocol.call_audit import Answer, Asked
from mcp_notarium.protocol.call_pipeline import Answering
from mcp_notarium.protocol.events import Answered, Event
from mcp_notarium.protocol.line_reader import EndOfInput
from mcp_notarium.protocol.outbox import Outbox
from mcp_notarium.protocol.plain_messages import RequestId, same
from mcp_notarium.protocol.static_replies import Cancel, Due, Read
from mcp_notarium.tools.call_context import unanswered

CLOSED: Final = {"code": -32000, "message": "Connection closed"}
"""The error that the protocol library ends unanswered requests with."""


class Direct:
    """Does what is due, in tasks of its own. ``tell`` hears of each call that is over."""

    def __init__(
        self,
        answering: Answering,
        outbox: Outbox,
        tasks: TaskGroup,
        *,
        tell: Callable[[Event], None],
    ) -> None:
        self._answering = answering
        self._outbox = outbox
        self._tasks = tasks
        self._tell = tell
        self._scopes: dict[RequestId, anyio.CancelScope] = {}
        self._in_hand = 0
        self._idle = anyio.Event()

    @property
    def busy(self) -> bool:
        """Calls are being answered."""
        return bool(self._scopes)

    async def idle(self) -> None:
        """Wait until every call has been answered, and everything is written."""
        while self._in_hand:
            if self._idle.is_set():
                self._idle = anyio.Event()
            await self._idle.wait()

    def break_off(self) -> None:
        """The connection ends: whoever still waits for an answer is told so instead."""
        for scope in self._scopes.values():
            scope.cancel()

    def do(self, due: Due, size: int) -> None:
        """Begin it; replies are written in the order of these calls, answers when they are known.

        ``size`` is what it costs in memory, in bytes.
        """
        if isinstance(due, Cancel):
            if scope := self._scopes.pop(same(due.request_id), None):
                scope.cancel()
        elif isinstance(due, Read):
            self._scopes[same(due.request_id)] = scope = anyio.CancelScope()
            self._begin(partial(self._read, due, scope), size)
        elif due:
            self._begin(partial(self._write, due), size)

    def _begin(self, act: Callable[[], Awaitable[None]], size: int) -> None:
        self._in_hand += 1
        self._outbox.backlog.begin(size)
        self._tasks.start_soon(self._carry_out, act, size)

    async def _carry_out(self, act: Callable[[], Awaitable[None]], size: int) -> None:
        try:
            await act()
        finally:
            self._in_hand -= 1
            self._outbox.backlog.end(size)
            self._idle.set()

    async def _read(self, read: Read, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                asked = Asked(read.client, read.tool, read.arguments)
                answer = await self._answering.answer(asked, partial(Reading, read, self._write))
                await self._write(_encoded(read, answer))
            if scope.cancelled_caught and same(read.request_id) in self._scopes:
                await self._write(_line({"jsonrpc": "2.0", "id": read.request_id, "error": CLOSED}))
        finally:
            self._scopes.pop(same(read.request_id), None)
            self._tell(Answered(read.request_id, read.tool))

    async def _write(self, line: bytes) -> None:
        try:
            await self._outbox.write(line)
        except OSError:
            self._tell(EndOfInput())


class Reading:
    """A ``RecordedCall`` that changes nothing and asks nobody. ``write`` puts out a line."""

    decision = Decision.ALLOWED

    def __init__(
        self, read: Read, write: Callable[[bytes], Awaitable[None]], **_rules: object
    ) -> None:
        self.client = read.client
        self._token = read.token
        self._write = write

    async def confirm(self, message: str) -> bool:
        """Nobody can be asked."""
        raise unanswered(message)

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Pass on how far the call is, if the client asked for that."""
        if self._token is None:
            return
        told = {"progressToken": self._token, "progress": done, "total": total}
        told["message"] = logs.scrub_for_client(message)
        params = {name: value for name, value in told.items() if value is not None}
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await self._write(_line(note))


def _encoded(read: Read, answer: Answer) -> bytes:
    form: dict[str, Any] = read.forms["error" if answer.is_error else "ok"]
    result = form | {"content": [form["content"][0] | {"text": answer.text}]}
    if "structuredContent" in form:
        result["structuredContent"] = answer.value
    return _line({"jsonrpc": "2.0", "id": read.request_id, "result": result})


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
