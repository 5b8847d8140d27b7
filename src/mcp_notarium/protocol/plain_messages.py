"""Plain messages: those of which it is certain, without the protocol library, what it makes of them.

Nearly all that hosts send is plain. Whatever else arrives, sound or not, is for the engine: a doubt
costs time, a wrong guess would be a second opinion about the protocol.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:  # at run time the import costs more than the handshake
    from typing import Any

Json = dict[str, "Any"]
RequestId = int | str

_PROTOCOL = "io.modelcontextprotocol/"
"""Under it a request's ``_meta`` has what may change the answer; other names are the client's own notes."""
VERSION = f"{_PROTOCOL}protocolVersion"
_CAPABILITIES = f"{_PROTOCOL}clientCapabilities"
CLIENT = f"{_PROTOCOL}clientInfo"
_MODERN = frozenset({VERSION, _CAPABILITIES, CLIENT})
_TEXTS = frozenset({"title", "websiteUrl", "description"})
_FEATURES = frozenset({"elicitation", "roots", "sampling", "experimental", "extensions", "tasks"})
"""What is known of capabilities; others mean nothing here, whatever they are (Cursor sends flags)."""
_DEEPEST = 4
_LONGEST = 1 << 16
_MOST_OPENED = 100
"""Bytes of a line, and brackets in it: beyond either it is the engine's, which refuses what is nested too deep."""


def same(request_id: RequestId) -> RequestId:
    """What an id is known by: the library takes 7 and "7" for one."""
    try:
        return int(request_id)
    except ValueError:
        return request_id


def json_value(line: bytes) -> object:
    """The JSON value of a line; None where it is too much to look at, or the engine might refuse it."""
    if len(line) > _LONGEST or line.count(b"{") + line.count(b"[") > _MOST_OPENED:
        return None
    try:
        message = json.loads(line.decode())
        if b"\\u" in line:
            json.dumps(message, ensure_ascii=False).encode()  # fails at half a character
    except (ValueError, RecursionError):
        return None
    return message


def parsed(line: bytes) -> Json | None:
    """A plain request or notification, or None for anything else."""
    message = json_value(line)
    if not isinstance(message, dict) or not message.keys() <= {"jsonrpc", "id", "method", "params"}:
        return None
    if message.get("params", {}) is None:
        del message["params"]  # some say so that there are none
    params = message.get("params", {})
    sound = (
        message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and isinstance(params, dict)
        and isinstance(params.get("_meta", {}), dict)
        and _is_id(message.get("id", 0))
        and _is_id(params.get("_meta", {}).get("progressToken", 0))
    )
    return message if sound else None


def _is_id(value: object) -> bool:
    """A plain id; one with half a character, which no encoding can carry, is for the engine."""
    if isinstance(value, str):
        return value.isprintable()
    return isinstance(value, int) and not isinstance(value, bool)


def greets(params: Json) -> bool:
    """This is an ``initialize`` that the engine will accept too, beyond doubt."""
    return (
        params.keys() <= {"protocolVersion", "capabilities", "clientInfo", "_meta"}
        and isinstance(params.get("protocolVersion"), str)
        and _is_features(params.get("capabilities"))
        and _is_client(params.get("clientInfo"))
    )


def is_modern(meta: Json) -> bool:
    """The envelope of the era without a handshake, with nothing about the protocol that is not known."""
    return (
        all(name in _MODERN or not name.startswith(_PROTOCOL) for name in meta)
        and _is_features(meta.get(_CAPABILITIES))
        and (CLIENT not in meta or _is_client(meta[CLIENT]))
    )


def is_bare(meta: Json) -> bool:
    """Nothing in it is about the protocol."""
    return not any(name.startswith(_PROTOCOL) for name in meta)


def named(client: Json) -> str:
    """Name and version of the client program."""
    return f"{client['name']} {client['version']}"


def called_off(message: Json) -> RequestId | None:
    """The id of the call that a plain notification takes back; None for any other message."""
    params = message.get("params", {})
    plain = (
        message["method"] == "notifications/cancelled"
        and "id" not in message
        and params.keys() <= {"requestId", "reason", "_meta"}
        and "requestId" in params
        and _is_id(params["requestId"])
        and isinstance(params.get("reason", ""), str)
    )
    return params["requestId"] if plain else None


def _is_client(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ("name", "version"))
        and all(isinstance(value[name], str | None) for name in value.keys() & _TEXTS)
        and _is_icons(value.get("icons", []))
    )


def _is_icons(value: object) -> bool:
    """Pictures of the client, each with its address and its type."""
    return isinstance(value, list) and all(
        isinstance(icon, dict)
        and {"src"} <= icon.keys() <= {"src", "mimeType"}
        and all(isinstance(text, str) for text in icon.values())
        for icon in value
    )


def _is_features(value: object) -> bool:
    """Capabilities; those that are known have nothing but objects and flags inside."""
    return isinstance(value, dict) and all(
        feature is None or (isinstance(feature, dict) and _is_plain(name, feature))
        for name, feature in value.items()
        if name in _FEATURES
    )


def _is_plain(name: str, feature: Json) -> bool:
    if name == "roots":
        return feature.keys() <= {"listChanged"} and all(
            isinstance(flag, bool) for flag in feature.values()
        )
    if name == "tasks":
        return _is_nested(feature, _DEEPEST)
    return all(isinstance(inner, dict) for inner in feature.values())


def _is_nested(value: object, depth: int) -> bool:
    """Objects in objects and nothing else."""
    return (
        isinstance(value, dict)
        and depth > 0
        and all(_is_nested(inner, depth - 1) for inner in value.values())
    )
