"""Makes ``static_replies.json``: what the front answers, asked from the engine itself.

``python -m mcp_notarium.protocol.static_reply_generator`` writes the file; a test compares it. Nothing in it depends
on an account, a configuration or a machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mcp_notarium.domain.policy import TOOLS
from mcp_notarium.protocol.app_holder import House
from mcp_notarium.protocol.call_audit import Answer, Asked
from mcp_notarium.protocol.call_pipeline import Answering, MakeCall
from mcp_notarium.protocol.sdk_server import build
from mcp_notarium.tools.catalog import by_name

PATH = Path(__file__).with_name("static_replies.json")

_OK = "ok"
_NOT_HERE = ("prompts/list", "resources/list", "resources/templates/list")
"""What clients ask every server for, whether it has any or not."""

Json = dict[str, Any]


def make(offered: tuple[str, ...] = TOOLS) -> Json:
    """The surface as JSON values; the file holds that of all tools."""
    return anyio.run(_make, offered)


def text_of(surface: Json) -> str:
    """The file's text: one line for each thing, so that changes can be read."""
    return json.dumps(surface, indent=1, ensure_ascii=False) + "\n"


async def _make(offered: tuple[str, ...]) -> Json:
    greeted = {v: await _greeted(v, offered) for v in HANDSHAKE_PROTOCOL_VERSIONS}
    calls = {v: await _called(v) for v in HANDSHAKE_PROTOCOL_VERSIONS}
    calls |= {v: await _called_modern(v) for v in MODERN_PROTOCOL_VERSIONS}
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
        "reads": [name for name in offered if by_name()[name].annotations.read_only],
        "calls": calls,
        "refused": _same(
            [await _refused(v) for v in HANDSHAKE_PROTOCOL_VERSIONS]
            + [await _refused_modern(v) for v in MODERN_PROTOCOL_VERSIONS]
        ),
    }


def _hello(version: str) -> tuple[str, Json]:
    client = {"name": "surface", "version": "0"}
    return "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client}


def _modern(version: str) -> Json:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {"_meta": meta}


async def _greeted(version: str, offered: tuple[str, ...]) -> tuple[Json, Json]:
    initialize, listed = await _ask([_hello(version), ("tools/list", {})], offered)
    return initialize, listed


async def _asked_modern(version: str, method: str, offered: tuple[str, ...]) -> Json:
    (answer,) = await _ask([(method, _modern(version))], offered)
    return answer


async def _called(version: str) -> Json:
    """What the result of a call looks like, its text and value apart."""
    questions = [_hello(version), *(("tools/call", _example(word)) for word in (_OK, "error"))]
    _, ok, error = await _ask(questions)
    return {"ok": ok, "error": error}


async def _called_modern(version: str) -> Json:
    questions = [("tools/call", _example(word) | _modern(version)) for word in (_OK, "error")]
    ok, error = await _ask(questions)
    return {"ok": ok, "error": error}


async def _refused(version: str) -> Json:
    """The errors for what is not here, by method."""
    questions: list[tuple[str, Json]] = [(method, {}) for method in _NOT_HERE]
    _, *errors = await _ask([_hello(version), *questions], refused=_NOT_HERE)
    return dict(zip(_NOT_HERE, errors, strict=True))


async def _refused_modern(version: str) -> Json:
    errors = await _ask([(method, _modern(version)) for method in _NOT_HERE], refused=_NOT_HERE)
    return dict(zip(_NOT_HERE, errors, strict=True))


def _same(answers: list[Json]) -> Json:
    """The one answer that all versions have."""
    if any(answer != answers[0] for answer in answers):
        raise TypeError("versions differ in their errors: the surface must tell them apart")
    return answers[0]


def _example(word: str) -> Json:
    return {"name": "get", "arguments": {"id": word}}


class _Example(Answering):
    """Answers as it is asked."""

    async def answer(self, asked: Asked, make: MakeCall) -> Answer:
        """A good answer to ``ok``, an error to everything else."""
        del make
        return Answer("", 0, {} if asked.arguments["id"] == _OK else None)


async def _ask(
    questions: list[tuple[str, Json]],
    offered: tuple[str, ...] = TOOLS,
    *,
    refused: Collection[str] = (),
) -> list[Json]:
    """The engine's results for these requests on a connection of their own; its errors for ``refused``."""
    house = House(_nothing_to_open, report=lambda _error: None)
    server = build(house, offered, answering=_Example(house, offered))
    to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](9)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](9)
    results = []
    async with anyio.create_task_group() as tasks, to_server, from_server:
        tasks.start_soon(server.run, read, write, server.create_initialization_options())
        for number, (method, params) in enumerate(questions):
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            await to_server.send(SessionMessage(request))
            reply = (await from_server.receive()).message
            results.append(_content(reply, JSONRPCError if method in refused else JSONRPCResponse))
        tasks.cancel_scope.cancel()
    return results


def _content(reply: JSONRPCMessage, expected: type[JSONRPCError | JSONRPCResponse]) -> Json:
    if not isinstance(reply, expected):
        raise TypeError(f"the engine's reply is {reply!r}")
    if isinstance(reply, JSONRPCError):
        return reply.error.model_dump(by_alias=True, exclude_unset=True)
    return reply.result


def _nothing_to_open() -> AbstractAsyncContextManager[Any]:
    raise RuntimeError("the surface opens nothing")


if __name__ == "__main__":
    PATH.write_text(text_of(make()), encoding="utf-8")
