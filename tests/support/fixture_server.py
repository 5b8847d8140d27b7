"""A server made of our connection, transport and guard around a few odd tools, run as a script.

It stands for the real one where a test needs a tool that misbehaves. ``NAME`` tools: ``echo``,
``slow`` (0.4 s), ``stuck`` (for ever), ``surrogate``, ``noisy`` (prints), ``broken`` (raises),
``large`` (2 MB), ``careful`` (finishes a shielded second after it was cancelled).
On leaving it writes ``closed`` to the file named by its first argument, if there is one.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from mcp_notarium.protocol import stdio
from mcp_notarium.protocol.connection import Connection
from mcp_notarium.protocol.server import answer_alone, catch_signals
from mcp_notarium.protocol.static_replies import StaticReplies, read_replies
from mcp_notarium.protocol.stdio import EventQueue, FlowControl, ImportDone, LineBuffer, read_lines

INCOMING, OUTGOING = stdio.take_descriptors()

import anyio  # noqa: E402 - the descriptors come first, as in the real server
import mcp_types as types  # noqa: E402
from mcp.server.lowlevel import Server  # noqa: E402

from mcp_notarium.protocol import sdk_server  # noqa: E402
from mcp_notarium.protocol.event_loop import Outbox, ShutdownDeadline, pump, run_transport  # noqa: E402
from mcp_notarium.protocol.sdk_server import guard  # noqa: E402

NAMES = ("echo", "slow", "stuck", "surrogate", "noisy", "broken", "large", "careful")
CLOSED = Path(sys.argv[1]) if len(sys.argv) > 1 else None


async def list_tools(_context, _params):
    return types.ListToolsResult(
        tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in NAMES]
    )


async def call_tool(_context, params):
    text = str((params.arguments or {}).get("text", ""))
    match params.name:
        case "slow":
            await anyio.sleep(0.4)
        case "stuck":
            await anyio.sleep_forever()
        case "surrogate":
            text = "a\ud83db"
        case "noisy":
            print("printed")  # noqa: T201 - tests a print to standard output
            os.write(1, b"written\n")
            subprocess.run(["/bin/echo", "from a child"], check=True)  # noqa: ASYNC221 - so is this
            text = sys.stdin.read()
        case "broken":
            raise ValueError("secret note text")
        case "large":
            text = "x" * 2_000_000
        case "careful":
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.3)
                note("careful")
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def note(word):
    if CLOSED is not None:
        with CLOSED.open("a") as file:
            file.write(word + "\n")


async def serve(queue, connection, flow, held):
    server = Server("fixture", on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware[:] = [guard]
    try:
        async with anyio.create_task_group() as tasks:
            async with run_transport(
                connection, Outbox(OUTGOING, flow), ShutdownDeadline()
            ) as transport:
                tasks.start_soon(pump, queue, held, transport, lambda: None)
                await sdk_server.serve(server, transport)
            tasks.cancel_scope.cancel()
    finally:
        await asyncio.sleep(0)
        note("closed")


def main():
    queue, flow = EventQueue(), FlowControl()
    catch_signals(queue)
    connection = Connection(StaticReplies(read_replies()), flow)
    read_lines(INCOMING, queue, flow, LineBuffer())
    held = answer_alone(queue, connection, OUTGOING, flow, lambda: queue.put(ImportDone()))
    if held is not None:
        anyio.run(serve, queue, connection, flow, held)
    return 0


if __name__ == "__main__":
    sys.exit(main())
