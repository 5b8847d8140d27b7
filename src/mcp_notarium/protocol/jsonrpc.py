"""One line of JSON-RPC to one message and back, never dropping what a client waits for.

Pure. What cannot be understood becomes a :class:`Refusal`, with the id of the request wherever it
can be told; the protocol's schemas want it left out otherwise, never null.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mcp_notarium.domain.text_normalization import has_lone_surrogate, replace_surrogates
from mcp_notarium.protocol.line_reader import MAX_LINE, TooLong

RequestId = int | str

_VALUE = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\\x00-\x1f]{0,200}")\s*'
_AT_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _VALUE + rb"[,}]")
# The only brace after it is the one that ends the message, so it is no argument's id.
_AT_TAIL = re.compile(rb"[,{]\s*" + _VALUE + rb"\}\s*\Z")
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A line that is no message: the JSON-RPC error to answer with."""

    code: int
    message: str
    request_id: RequestId | None = None

    def encoded(self) -> bytes:
        """The error reply as a line."""
        reply: dict[str, Any] = {"jsonrpc": "2.0"}
        if self.request_id is not None:
            reply["id"] = self.request_id
        reply["error"] = {"code": self.code, "message": self.message}
        return json.dumps(reply).encode() + b"\n"


def decode(line: bytes) -> JSONRPCMessage | Refusal | None:
    """The message in a line; None for what nobody waits for (a malformed notification or reply)."""
    line = line.removeprefix(_MARK)
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _second_look(line)
    if isinstance(message, JSONRPCNotification) and b'"id"' in line:
        # The library takes a request whose id is null, a fraction or a list for a notification.
        raw = json.loads(line)
        return _refused(raw) if "id" in raw else message
    return message


def refuse_long(line: TooLong) -> Refusal:
    """The answer to a line that was thrown away."""
    message = f"Message larger than {MAX_LINE} bytes"
    return Refusal(INVALID_REQUEST, message, _id_at_ends(line.head, line.tail))


def _second_look(line: bytes) -> JSONRPCMessage | Refusal | None:
    """A line the strict parser refused: serve it if only its encoding is off, else say why not.

    Half a character in an argument is for the tool to refuse, which can name the argument.
    """
    text = line.decode("utf-8", "replace")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return Refusal(PARSE_ERROR, "Parse error", _id_at_ends(line, line[-512:]))
    if "\ufffd" in text or has_lone_surrogate(raw):
        try:
            return jsonrpc_message_adapter.validate_python(raw, by_name=False)
        except ValidationError:
            pass
    return _refused(raw)


def _refused(raw: Any) -> Refusal | None:
    """What is JSON and no message."""
    if not isinstance(raw, dict):
        return Refusal(INVALID_REQUEST, "Invalid request")
    if "method" not in raw and ("result" in raw or "error" in raw):
        return None
    if "id" not in raw and isinstance(raw.get("method"), str):
        return None
    found = raw.get("id")
    known = isinstance(found, int | str) and not isinstance(found, bool)
    return Refusal(INVALID_REQUEST, "Invalid request", found if known else None)


def _id_at_ends(head: bytes, tail: bytes) -> RequestId | None:
    """The request id in a line that is not readable JSON, if it stands at one of its ends."""
    found = _AT_HEAD.match(head) or _AT_TAIL.search(tail)
    try:
        return json.loads(found[1]) if found else None
    except ValueError:
        return None


def encode(message: JSONRPCMessage) -> bytes:
    """The message as a line; lone surrogates become U+FFFD."""
    if isinstance(message, JSONRPCError) and message.id is None:
        return Refusal(message.error.code, message.error.message).encoded()
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (ValueError, UnicodeError):
        form = _clean(message.model_dump(by_alias=True, exclude_unset=True))
        return json.dumps(form, separators=(",", ":"), default=str).encode() + b"\n"


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
