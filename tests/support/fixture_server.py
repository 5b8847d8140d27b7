"""A server made of our transport, front and guard around a few odd tools, run as a script.

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
from contextlib import nullcontext
from pathlib import Path

from mcp_notarium.protocol import stdio
from mcp_notarium.protocol.events import Loaded
from mcp_notarium.protocol.handshake import Greeting
from mcp_notarium.protocol.inbox import Inbox
from mcp_notarium.protocol.line_reader import LineReader
from mcp_notarium.protocol.server import catch_signals, greet, surface
from mcp_notarium.protocol.shutdown import Ending
from mcp_notarium.protocol.static_replies import Front

INCOMING, OUTGOING = stdio.claim()

import anyio  # noqa: E402 - the descriptors come first, as in the real server
import mcp_types as types  # noqa: E402
from mcp.server.lowlevel import Server  # noqa: E402

from mcp_notarium.protocol import sdk_server  # noqa: E402
from mcp_notarium.protocol.app_holder import House  # noqa: E402
from mcp_notarium.protocol.async_inbox import Arrivals  # noqa: E402
from mcp_notarium.protocol.call_pipeline import Answering  # noqa: E402
from mcp_notarium.protocol.direct_calls import Direct  # noqa: E402
from mcp_notarium.protocol.outbox import Outbox  # noqa: E402
from mcp_notarium.protocol.sdk_adapter import guard  # noqa: E402

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
            print("printed")  # noqa: T201 - a stray print is the point
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


async def serve(inbox, greeting):
    server = Server("fixture", on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware[:] = [guard]
    outbox = Outbox(OUTGOING)
    try:
        async with anyio.create_task_group() as tasks:
            house = House(nullcontext, report=lambda _error: None)  # nothing is ever read directly
            direct = Direct(Answering(house), outbox, tasks, tell=inbox.put)
            await sdk_server.serve(
                server, Arrivals(inbox), greeting, outbox, Ending(), direct=direct
            )
    finally:
        await asyncio.sleep(0)
        note("closed")


def main():
    inbox = Inbox()
    catch_signals(inbox)
    LineReader(INCOMING, inbox.put).start()
    greeting = Greeting(Front(surface()), OUTGOING)
    greeting.front.hold()
    inbox.put(Loaded("serving"))
    if greet(inbox, greeting, lambda: None):
        anyio.run(serve, inbox, greeting)
    return 0


if __name__ == "__main__":
    sys.exit(main())
