"""Hold one connection to a client: decode its lines, answer what is static, queue the rest for the SDK in order.

What is no message of JSON-RPC becomes a :class:`Refusal`, with the id of the request where it is known. The protocol's
schemas want it left out otherwise, never null.

The connection owns the ids and the protocol era: ``_REFUSED`` says which requests an era refuses, and those are not passed
on. ``initialize`` begins the handshake era, the first request with an envelope that the SDK has to answer the modern one.
No input or output, no clock, no SDK.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from mcp_notarium.domain.characters import has_lone_surrogate, replace_surrogates
from mcp_notarium.protocol.static_replies import Reply, StaticReplies
from mcp_notarium.protocol.stdio import MAX_LINE, FlowControl, TooLong, size_of

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


_VERSION = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

_STREAM = "subscriptions/listen"
"""The request whose answer comes when the client ends it, so that nothing waits for that."""


class _Era(Enum):
    """Name the protocol era of a connection."""

    UNKNOWN = "unknown"
    HANDSHAKE = "handshake"
    MODERN = "modern"


_NO_ENVELOPE = (
    INVALID_PARAMS,
    f"Send `initialize` first, or `params._meta` with '{_VERSION}' and '{_CAPABILITIES}'.",
)
_MIXED = (
    "This connection began with a handshake; requests with an envelope in `_meta` are not accepted."
)
_REFUSED: dict[_Era, dict[str, tuple[int, str] | None]] = {
    _Era.UNKNOWN: {"other": _NO_ENVELOPE},  # defence: no-envelope-no-guess -other
    _Era.HANDSHAKE: {
        "initialize": (INVALID_REQUEST, "This connection has had its handshake."),
        "envelope": (INVALID_REQUEST, _MIXED),  # defence: eras-do-not-mix
    },
    _Era.MODERN: {"initialize": None, "ping": _NO_ENVELOPE, "other": _NO_ENVELOPE},
}
"""Era to the forms of a request that it refuses (:func:`_form_of`), with code and message. None: the refusal of an
unsupported version, which names those that are served."""


class Connection:
    """Hold the protocol state of one connection."""

    def __init__(self, replies: StaticReplies, flow: FlowControl) -> None:
        self._replies = replies
        self._flow = flow
        self._era = _Era.UNKNOWN
        self._version = ""
        self._initialized = False
        self._swallowed: RequestId | None = None
        self._waiting: deque[_Waiting] = deque()
        self._open_calls: dict[object, list[int]] = {}  # the sizes of the requests of this id
        self.on_request: Callable[[RequestId], None] = lambda _request_id: None
        """Hears of each request when it is read."""
        self.on_cancelled: Callable[[RequestId], None] = lambda _request_id: None
        """Hears of each request that is cancelled, also if it was answered meanwhile, before what comes next is read."""
        self.stays = False
        """Tell whether the client is no throw-away copy: the SDK is worth importing, the account worth opening."""

    @property
    def has_open_calls(self) -> bool:
        """Tell whether the SDK has still to answer a request."""
        return bool(self._open_calls)

    def receive(self, line: bytes | TooLong) -> bytes:
        """Return the reply to a line; ``b""`` if there is none, or none yet.

        The writer of a reply tells the flow control when that is done. The connection does so for all other lines.
        """
        message, size = decode(line), size_of(line) or 0
        if isinstance(message, Refusal):
            return message.encoded()
        if message is None:
            self._flow.done(size)
            return b""
        if "method" in message and "id" in message:
            return self._request(message, size)
        self._notification(message, size)
        return b""

    def next(self) -> Json | None:
        """Return the next message for the SDK; None if none waits."""
        if not self._waiting:
            return None
        waiting = self._waiting.popleft()
        if not waiting.is_call and waiting.size is not None:
            self._flow.done(waiting.size)
        return waiting.message

    def answered(self, request_id: object) -> bool:
        """Record an answer of the SDK. False if the client has had it from here already."""
        if self._swallowed is not None and request_id == self._swallowed:
            self._swallowed = None
            return False
        self._forget(request_id)
        return True

    def break_off(self) -> list[bytes]:
        """Return errors for the calls that still wait for the SDK, and forget those."""
        closed = {"code": CONNECTION_CLOSED, "message": "Connection closed"}
        calls = [waiting.message["id"] for waiting in self._waiting if waiting.is_call]
        self._waiting.clear()
        for request_id in calls:
            self._forget(request_id)
        return [reply(request_id, error=closed) for request_id in calls]

    def _request(self, message: Json, size: int) -> bytes:
        request_id, method = message["id"], message["method"]
        self.on_request(request_id)
        params = message.get("params", {})
        meta = params.get("_meta")
        form = _form_of(method, meta)
        if form in _REFUSED[self._era]:
            if (refused := _REFUSED[self._era][form]) is None:
                return self._refuse_version(request_id, params.get("protocolVersion"))
            return Refusal(*refused, request_id).encoded()
        if form == "initialize":
            return self._initialize(request_id, params)
        version = self._version
        if form == "envelope":
            version = meta[_VERSION]
            if not self._replies.serves(version):
                return self._refuse_version(request_id, version)
            if not isinstance(meta.get(_CAPABILITIES), dict):
                return Refusal(*_NO_ENVELOPE, request_id).encoded()
        found = self._replies.find(version, method, params)
        if found is None and form == "envelope":
            self._era = _Era.MODERN
        return self._reply(message, found, size)

    def _refuse_version(self, request_id: RequestId, version: object) -> bytes:
        return reply(request_id, error=self._replies.unsupported_version_error(version))

    def _reply(self, message: Json, found: Reply | None, size: int) -> bytes:
        """Return the static reply, or queue the call for the SDK."""
        if found is not None:
            return reply(message["id"], **found)
        is_call = message["method"] != _STREAM
        if is_call:
            self._open_calls.setdefault(id_key(message["id"]), []).append(size)
            self._flow.begin_call()
        self._queue(_Waiting(message, size, is_call=is_call))
        return b""

    def _initialize(self, request_id: RequestId, params: Json) -> bytes:
        if not _is_handshake(params):
            return Refusal(INVALID_PARAMS, "Invalid request parameters", request_id).encoded()
        self._era = _Era.HANDSHAKE
        self._version = self._replies.negotiate(params["protocolVersion"])
        self._swallowed = request_id
        handshake = {"jsonrpc": "2.0", "id": request_id, "method": "initialize"}
        self._waiting.append(  # defence: handshake-normalised _normalize()
            _Waiting(handshake | {"params": _normalize(params, self._version)}, None)
        )
        return reply(request_id, result=self._replies.handshake(self._version))

    def _notification(self, message: Json, size: int) -> None:
        """Queue a notification, or a client's answer, if the SDK can make something of it."""
        method = message.get("method")
        forward = self._era is not _Era.UNKNOWN
        if method == "notifications/initialized":
            forward = self._era is _Era.HANDSHAKE and not self._initialized
            self._initialized = self._initialized or forward
        elif method == "notifications/cancelled":
            forward = forward and not self._cancel(message.get("params", {}).get("requestId"))
        if forward:
            self._queue(_Waiting(message, size))
        else:
            self._flow.done(size)

    def _queue(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self.stays = True

    def _cancel(self, request_id: Any) -> bool:
        """Forget a request that was cancelled. True if it was still waiting for the SDK."""
        if not is_id(request_id):
            return False
        self._forget(request_id)
        self.on_cancelled(request_id)
        for waiting in self._waiting:
            if waiting.is_call and id_key(waiting.message["id"]) == id_key(request_id):
                self._waiting.remove(waiting)  # defence: waiting-call-cancelled
                return True
        return False

    def _forget(self, request_id: object) -> None:
        known = id_key(request_id)
        if sizes := self._open_calls.get(known):
            self._flow.end_call(sizes.pop())
            if not sizes:
                del self._open_calls[known]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """Hold a message for the SDK; ``size`` is None where the line is answered already."""

    message: Json
    size: int | None
    is_call: bool = False


def _form_of(method: str, meta: object) -> str:
    """Return what the eras tell requests apart by."""
    if method != "initialize" and isinstance(meta, dict) and _VERSION in meta:
        return "envelope"
    return method if method in ("initialize", "ping") else "other"


def _is_handshake(params: Json) -> bool:
    client = params.get("clientInfo")
    return (
        isinstance(params.get("protocolVersion"), str)
        and isinstance(params.get("capabilities"), dict)
        and isinstance(client, dict)
        and all(isinstance(client.get(name), str) for name in ("name", "version"))
    )


def _normalize(params: Json, version: str) -> Json:
    """Return the handshake for the SDK: only what this server uses, in a form that the SDK never refuses.

    Hosts put more into it than any schema knows.
    """
    client = {name: replace_surrogates(params["clientInfo"][name]) for name in ("name", "version")}
    asking = params["capabilities"].get("elicitation")
    offers: Json = {}
    if isinstance(asking, dict):
        offers["elicitation"] = {
            name: {} for name in ("form", "url") if isinstance(asking.get(name), dict)
        }
    return {"protocolVersion": version, "capabilities": offers, "clientInfo": client}
