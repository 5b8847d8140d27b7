"""Let a client take a call back by the messages of the protocol: the server's own connection, transport and SDK hear of it.

So it hears of the same call made again. Every other call goes to the pipeline at once: a connection would make no difference but take longer.
"""

from __future__ import annotations

import asyncio
import json
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from explorer.consent import ERROR, Talk
from mcp_notarium.app import _close
from mcp_notarium.protocol import sdk_server
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.protocol.connection import Connection
from mcp_notarium.protocol.event_loop import ShutdownDeadline, run_transport
from mcp_notarium.protocol.static_replies import StaticReplies, read_replies
from mcp_notarium.protocol.stdio import FlowControl

if TYPE_CHECKING:
    from explorer.server import Server
    from mcp_notarium.protocol.call_audit import CallResult, IncomingCall
    from mcp_notarium.protocol.event_loop import Transport
    from mcp_notarium.tools.tool import Tool

MOST_EVENTS = 8
"""Events after which a call is taken back, at most: a save of most stores has fewer."""
MOST_STEPS = 20
"""Steps of the loop behind such an event, at most."""


class TakenBack(Exception):
    """A call has no answer: its client has taken it back."""


@dataclass
class _Call:
    """A call that waits for its answer, or for the moment in which it is taken back."""

    moment: asyncio.Future[None]
    events: int
    """How many are to happen before that; 0: it is not taken back."""
    answer: dict[str, Any] | None = None

    def go_on(self) -> None:
        """Let the client go on."""
        if not self.moment.done():
            self.moment.set_result(None)


class Client:
    """The client of one process, and the outbox through which the process writes to it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.flow = FlowControl()
        replies = StaticReplies(read_replies(server.app.config.toolset))
        self._connection = Connection(replies, self.flow)
        self._connection.on_cancelled = server.pipeline.recorder.take_back
        self._transport: Transport | None = None
        self._calls = 0
        self._waiting: dict[int, _Call] = {}
        self._connects = False
        self.has_left = False

    async def call(
        self, tool: str, arguments: dict[str, Any], how: str
    ) -> tuple[int, dict[str, Any]]:
        """Call a tool, and take that back behind some event unless ``how`` is ''; return id and result if it came before, and ``how`` is not "late".

        ``how`` "leaves": the client closes the pipe instead, and never returns from here. Raises ``TakenBack``.
        """
        world, name = self._server.world, self._server.name
        if not self._connects:
            self._connects = True
            world.loop.create_task(self._serve()).add_done_callback(world.see_end)
        while self._transport is None:
            await world.loop.gate(f"the client of {name} connects", late=False)
        self._calls += 1
        number, label = self._calls, f"a call of {name} is taken back"
        events = steps = 0
        if how not in ("", "late"):
            events = 1 + world.chooser.choose(f"{label} behind an event", MOST_EVENTS, rate=1.0)
            steps = world.chooser.choose(f"{label} behind a step", MOST_STEPS, rate=0.7)
        call = self._waiting[number] = _Call(world.loop.create_future(), events)
        params = {"name": tool, "arguments": arguments}
        self._send(id=number, method="tools/call", params=params)
        await call.moment
        for _ in range(steps):
            await asyncio.sleep(0)
        del self._waiting[number]
        if call.answer is not None and how != "late":
            return number, call.answer
        if how == "leaves":
            world.note(f"the client of {name} leaves")
            self.has_left = True
            self._pipe.end_of_input()
            await world.loop.create_future()
        world.note(f"{name} takes the call back")
        self._send(method="notifications/cancelled", params={"requestId": number})
        raise TakenBack

    def happened(self) -> None:
        """Learn of an event."""
        for call in self._waiting.values():
            call.events -= 1
            if call.events == 0:
                call.go_on()

    @property
    def _pipe(self) -> Transport:
        assert self._transport is not None
        return self._transport

    def _send(self, **message: Any) -> None:
        self._pipe.feed(json.dumps({"jsonrpc": "2.0", **message}).encode())

    # What the process does.

    async def _serve(self) -> None:
        """Serve the connection as the server does, and end the process in order when the client has left."""
        server, world = self._server, self._server.world
        deadline = ShutdownDeadline(clock=world.clock.monotonic)
        async with run_transport(self._connection, self, deadline) as transport:  # type: ignore[arg-type]
            self._transport = transport
            asks = {"elicitation": {"form": {}}}
            about = {"name": server.name, "version": ""}
            shakes = {"protocolVersion": "2025-06-18", "capabilities": asks, "clientInfo": about}
            self._send(id="hello", method="initialize", params=shakes)
            self._send(method="notifications/initialized")
            await sdk_server.serve(sdk_server.build(_Pipeline(server)), transport)
        await _close(server.app, deadline.for_closing)
        server.close()
        Context().run(world.loop.call_soon, world.start_ended)

    # What the process writes.

    async def write(self, line: bytes) -> None:
        """Read a line: take an answer, or have the person asked."""
        message = json.loads(line)
        if message.get("method") == "elicitation/create":
            asked = message["params"]["message"]
            talks = self._server.talks
            of = (one for one in talks if one.question and one.question.text == asked)
            if (talk := next(of, None)) is None:  # the call was taken back by now
                return
            talks.remove(talk)
            if not talk.thinks:
                await self._reply(message["id"], talk)
            else:
                task = self._server.world.loop.create_task(self._reply(message["id"], talk))
                task.add_done_callback(self._server.world.see_end)
        elif message.get("id") in self._waiting and "result" in message:  # else the server ends
            call = self._waiting[message["id"]]
            call.answer = message["result"]
            call.go_on()

    async def _reply(self, number: Any, talk: Talk) -> None:
        reply = await talk.reply()
        if not self.has_left:
            self._send(id=number, **({"result": reply} if reply else {"error": ERROR}))

    def abandon_if_stuck(self) -> None:
        """Do nothing: every line is read at once."""


class _Pipeline(CallPipeline):
    """Answer what comes by the protocol as the server's own calls are answered."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.pipeline.holder, server.pipeline.toolset)
        self._server = server

    async def answer(self, call: IncomingCall, tool: Tool | None = None) -> CallResult:
        """See ``CallPipeline.answer``."""
        del tool
        call.client = self._server.name
        return await self._server.answer(call)
