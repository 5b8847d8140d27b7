"""Makes ``surface.json``: what the front answers, asked from the engine itself.

``python -m mcp_notarium.server.surface`` writes the file; a test compares it. Nothing in it depends
on an account, a configuration or a machine.
"""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mcp_notarium.policy.model import TOOLS
from mcp_notarium.server.engine import build
from mcp_notarium.server.house import House

PATH = Path(__file__).with_name("surface.json")

Json = dict[str, Any]


def make(offered: tuple[str, ...] = TOOLS) -> Json:
    """The surface as JSON values; the file holds that of all tools."""
    return anyio.run(_make, offered)


def text_of(surface: Json) -> str:
    """The file's text: one line for each thing, so that changes can be read."""
    return json.dumps(surface, indent=1, ensure_ascii=False) + "\n"


async def _make(offered: tuple[str, ...]) -> Json:
    greeted = {v: await _greeted(v, offered) for v in HANDSHAKE_PROTOCOL_VERSIONS}
    lists: list[Json] = []
    for _, listed in greeted.values():
        if listed not in lists:
            lists.append(listed)
    first = next(iter(greeted.values()))[0]
    return {
        "initialize": {key: value for key, value in first.items() if key != "protocolVersion"},
        "lists": lists,
        "list_of": {version: lists.index(listed) for version, (_, listed) in greeted.items()},
        "modern": {
            version: {
                method: await _asked_modern(version, method, offered)
                for method in ("server/discover", "tools/list")
            }
            for version in MODERN_PROTOCOL_VERSIONS
        },
    }


async def _greeted(version: str, offered: tuple[str, ...]) -> tuple[Json, Json]:
    hello = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "surface", "version": "0"},
    }
    initialize, listed = await _ask([("initialize", hello), ("tools/list", {})], offered)
    return initialize, listed


async def _asked_modern(version: str, method: str, offered: tuple[str, ...]) -> Json:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    (answer,) = await _ask([(method, {"_meta": meta})], offered)
    return answer


async def _ask(questions: list[tuple[str, Json]], offered: tuple[str, ...]) -> list[Json]:
    """The engine's results for these requests on a connection of their own."""
    server = build(House(_nothing_to_open, report=lambda _error: None), offered)
    to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](9)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](9)
    results = []
    async with anyio.create_task_group() as tasks, to_server, from_server:
        tasks.start_soon(server.run, read, write, server.create_initialization_options())
        for number, (method, params) in enumerate(questions):
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            await to_server.send(SessionMessage(request))
            reply = (await from_server.receive()).message
            if not isinstance(reply, JSONRPCResponse):
                raise TypeError(f"{method} was refused")
            results.append(reply.result)
        tasks.cancel_scope.cancel()
    return results


def _nothing_to_open() -> AbstractAsyncContextManager[Any]:
    raise RuntimeError("the surface opens nothing")


if __name__ == "__main__":
    PATH.write_text(text_of(make()), encoding="utf-8")
