"""Decode one line of JSON-RPC, and refuse what is no message. Pure.

What cannot be understood becomes a :class:`Refusal`, with the id of the request
where it is known; the protocol's schemas want it left out otherwise, never null.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from mcp_notarium.domain.characters import has_lone_surrogate, replace_surrogates
from mcp_notarium.protocol.stdio import MAX_LINE, TooLong

RequestId = int | str
Json = dict[str, Any]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CONNECTION_CLOSED: Final = -32000

DEEPEST: Final = 200
"""Greatest depth of values nested in each other; deeper ones cannot be walked safely."""

_VALUE = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\\x00-\x1f]{0,200}")\s*'
_AT_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _VALUE + rb"[,}]")
# The only brace after it is the one that ends the message, so it is no argument's id.
_AT_TAIL = re.compile(rb"[,{]\s*" + _VALUE + rb"\}\s*\Z")
_MARK = b"\xef\xbb\xbf"
_ENDS = 512


@dataclass(frozen=True, slots=True)
class Refusal:
    """Hold the JSON-RPC error for a line that is no message, or for a request that is not served."""

    code: int
    message: str
    request_id: RequestId | None = None

    def encoded(self) -> bytes:
        """Return the error reply as a line."""
        return reply(self.request_id, error={"code": self.code, "message": self.message})


def reply(request_id: RequestId | None, **content: Json) -> bytes:
    """Return a reply as a line: ``content`` is ``result`` or ``error``."""
    message: Json = {"jsonrpc": "2.0"}
    if isinstance(request_id, str):
        message["id"] = replace_surrogates(request_id)
    elif request_id is not None:
        message["id"] = request_id
    return json.dumps(message | content, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes | TooLong) -> Json | Refusal | None:
    """Return the message in a line, checked; None for a malformed notification or reply: nobody waits.

    Bytes that are no UTF-8 are read as U+FFFD. Half a character in an argument is for the tool to refuse,
    which can name the argument.
    """
    if isinstance(line, TooLong):
        message = f"Message larger than {MAX_LINE} bytes"
        return Refusal(INVALID_REQUEST, message, _id_at_ends(line.head, line.tail))
    try:
        value = json.loads(line.removeprefix(_MARK).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return Refusal(PARSE_ERROR, "Parse error", _id_at_ends(line, line[-_ENDS:]))
    if not isinstance(value, dict):
        return Refusal(INVALID_REQUEST, "Invalid request")
    if line.count(b"[") + line.count(b"{") > DEEPEST and _too_deep(value):  # defence: message-depth
        return _find_refusal(value)
    return _check(value)


def id_key(request_id: object) -> object:
    """Return what an id is known by: 7 and "7" are one, as in the SDK."""
    if isinstance(request_id, str):
        try:
            return int(request_id)
        except ValueError:
            return request_id
    return request_id


def is_id(value: object) -> bool:
    """Return whether this may be the id of a request."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _check(value: Json) -> Json | Refusal | None:
    """Return the members of the protocol, if they are what they should be."""
    if value.get("jsonrpc") != "2.0":
        return _find_refusal(value)
    if "method" in value:
        valid = isinstance(value["method"], str) and isinstance(value.get("params"), dict | None)
        valid = valid and ("id" not in value or is_id(value["id"]))
        # defence: no-half-id -has_lone_surrogate
        if not valid or has_lone_surrogate([value["method"], value.get("id")]):
            return _find_refusal(value)
    elif not _answers(value):
        return _find_refusal(value)
    names = ("jsonrpc", "id", "method", "params", "result", "error")
    return {name: value[name] for name in names if value.get(name) is not None}


def _answers(value: Json) -> bool:
    """Return whether this is a reply to a request of ours."""
    error = value.get("error")
    failed = (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and isinstance(error.get("message"), str)
    )
    return is_id(value.get("id")) and (failed or isinstance(value.get("result"), dict))


def _find_refusal(value: Json) -> Refusal | None:
    if "method" not in value and ("result" in value or "error" in value):
        return None
    if "id" not in value and isinstance(value.get("method"), str):
        return None
    found = value.get("id")
    return Refusal(INVALID_REQUEST, "Invalid request", found if is_id(found) else None)


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _id_at_ends(head: bytes, tail: bytes) -> RequestId | None:
    """Return the request id in a line that is not readable JSON, if it stands at one of its ends."""
    found = _AT_HEAD.match(head) or _AT_TAIL.search(tail)
    try:
        return json.loads(found[1]) if found else None
    except ValueError:
        return None
