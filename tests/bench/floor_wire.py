"""Run a floor: the SDK's server over the shortest possible transport, for the round trip alone.

One thread reads lines and hands parsed messages to the loop; an answer is written at once from the
loop. No limits, no signals, no tidy end: what our transport adds to this is what those cost.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from bench.floor_sdk import made


class Wire:
    """The sending half of a stream of messages."""

    async def send(self, item: SessionMessage) -> None:
        """One line out."""
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        os.write(1, line.encode() + b"\n")

    async def aclose(self) -> None:
        """Nothing to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


async def main() -> None:
    """Serve standard input to its end."""
    sending, receiving = anyio.create_memory_object_stream[Any](float("inf"))
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin.buffer:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            loop.call_soon_threadsafe(sending.send_nowait, SessionMessage(message))
        loop.call_soon_threadsafe(sending.close)

    threading.Thread(target=read, daemon=True).start()
    server = made()
    outgoing: Any = Wire()
    await server.run(receiving, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
