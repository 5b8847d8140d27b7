"""Generate ``protocol/static_replies.json`` by asking the SDK in every protocol version.

``python -m notarium_devtools.static_replies`` writes it; a test compares what is read from it. Nothing
in them depends on an account, a configuration or a machine.
"""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.protocol.sdk_server import build
from mcp_notarium.protocol.static_replies import BOTH, PATH
from mcp_notarium.tools.catalog import NOTARIUM, Toolset
from mcp_notarium.tools.toolsets import NATIVE, OURS, find_toolset

_LISTS = ("prompts/list", "resources/list", "resources/templates/list")
"""Lists that clients ask every server for, whether it has any or not."""
_HANDSHAKE = ("ping", "server/discover", *_LISTS)
_MODERN = ("ping", "server/discover", "tools/list", *_LISTS)

Json = dict[str, Any]


def make(toolset: Toolset = NOTARIUM) -> Json:
    """Return the replies as JSON values; a file holds those of all tools of a toolset."""
    return anyio.run(_make, toolset)


def text_of(replies: Json) -> str:
    """Return the file's text: one line for each thing, so that changes can be read."""
    return json.dumps(replies, indent=1, ensure_ascii=False) + "\n"


async def _make(toolset: Toolset) -> Json:
    greeted = {v: await _greeted(v, toolset) for v in HANDSHAKE_PROTOCOL_VERSIONS}
    lists: list[Json] = []
    for _, listed in greeted.values():
        if listed not in lists:
            lists.append(listed)
    first = next(iter(greeted.values()))[0]
    return {
        "rules": {tool.name: tool.rule for tool in toolset.tools},
        "needs": {prompt.name: prompt.tools for prompt in toolset.prompts},
        "stands": {one.name: one.stands_for for one in toolset.resources},
        "initialize": {key: value for key, value in first.items() if key != "protocolVersion"},
        "lists": lists,
        "list_of": {version: lists.index(listed) for version, (_, listed) in greeted.items()},
        "handshake": _same([await _by_handshake(v, toolset) for v in HANDSHAKE_PROTOCOL_VERSIONS]),
        "modern": {
            version: {method: await _by_envelope(version, method, toolset) for method in _MODERN}
            for version in MODERN_PROTOCOL_VERSIONS
        },
        "unsupported": await _unsupported(),
    }


def _hello(version: str) -> tuple[str, Json]:
    client = {"name": "generator", "version": "0"}
    return "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client}


def _modern(version: str) -> Json:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {"_meta": meta}


async def _greeted(version: str, toolset: Toolset) -> tuple[Json, Json]:
    """Return the results of ``initialize`` and ``tools/list``."""
    initialize, listed = await _ask([_hello(version), ("tools/list", {})], toolset)
    return initialize["result"], listed["result"]


async def _by_handshake(version: str, toolset: Toolset) -> Json:
    """Return the replies that name no tool, by method."""
    questions: list[tuple[str, Json]] = [(method, {}) for method in _HANDSHAKE]
    _, *replies = await _ask([_hello(version), *questions], toolset)
    return dict(zip(_HANDSHAKE, replies, strict=True))


async def _by_envelope(version: str, method: str, toolset: Toolset) -> Json:
    (reply,) = await _ask([(method, _modern(version))], toolset)
    return reply


async def _unsupported() -> Json:
    """Return the error for an unknown version, without that version."""
    (reply,) = await _ask([("server/discover", _modern("0"))], NOTARIUM)
    error: Json = reply["error"]
    return error | {"data": {"supported": error["data"]["supported"]}}


def _same(replies: list[Json]) -> Json:
    """Return the one that all versions have."""
    if any(reply != replies[0] for reply in replies):
        raise TypeError("versions differ in their replies: the file must tell them apart")
    return replies[0]


async def _ask(questions: list[tuple[str, Json]], toolset: Toolset) -> list[Json]:
    """Return the SDK's results and errors for these requests, on a connection of their own."""
    holder = AppHolder(_nothing_to_open, report=lambda _error: None)
    server = build(CallPipeline(holder, toolset))
    to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](9)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](9)
    replies = []
    async with anyio.create_task_group() as tasks, to_server, from_server:
        tasks.start_soon(server.run, read, write, server.create_initialization_options())
        for number, (method, params) in enumerate(questions):
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            await to_server.send(SessionMessage(request))
            replies.append(_content((await from_server.receive()).message))
        tasks.cancel_scope.cancel()
    return replies


def _content(message: JSONRPCMessage) -> Json:
    if isinstance(message, JSONRPCError):
        return {"error": message.error.model_dump(by_alias=True, exclude_unset=True)}
    if isinstance(message, JSONRPCResponse):
        return {"result": message.result}
    raise TypeError(f"the SDK's reply is {message!r}")


def _nothing_to_open() -> AbstractAsyncContextManager[Any]:
    raise RuntimeError("no reply needs an account")


def toolset_names() -> tuple[str, ...]:
    """Return the name of every toolset."""
    return (*OURS, *NATIVE, *(f"{name}{BOTH}" for name in NATIVE))


def find_differences(replies: Any, other: Any, place: tuple[str, ...] = ()) -> Json:
    """Return what makes ``other`` of the replies: pointer to a list with the new value, or to an empty one for what is gone."""
    found: Json = {}
    if isinstance(replies, dict) and isinstance(other, dict):
        found |= {" ".join((*place, name)): [] for name in replies if name not in other}
        found |= {" ".join((*place, name)): [other[name]] for name in other if name not in replies}
        pairs = [(name, replies[name], other[name]) for name in replies if name in other]
    elif isinstance(replies, list) and isinstance(other, list) and len(replies) == len(other):
        pairs = [(str(at), *pair) for at, pair in enumerate(zip(replies, other, strict=True))]
    else:
        return {} if replies == other else {" ".join(place): [other]}
    for name, one, two in pairs:
        found |= find_differences(one, two, (*place, name))
    return found


def make_file() -> str:
    """Return the text of the file."""
    of_toolset = {id(toolset): name for name, toolset in OURS.items()}
    ours, beside = make(), {name: of_toolset[id(one)] for name, (_, _, one) in NATIVE.items()}
    names = dict.fromkeys((*beside.values(), *beside))
    differences = {one: find_differences(ours, make(find_toolset(one))) for one in names}
    return text_of({"notarium": ours, "beside": beside, "differences": differences})


if __name__ == "__main__":
    PATH.write_text(make_file(), encoding="utf-8")
