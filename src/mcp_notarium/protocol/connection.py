"""Hold one connection to a client: answer what is static, queue the rest for the SDK in order, and bound what waits.

It owns the ids and the protocol era: ``_REFUSED`` says which requests an era refuses, and those are not passed on. ``initialize``
begins the handshake era, the first request with an envelope that the SDK has to answer the modern one. No input or
output, no clock, no SDK.

The bytes of unanswered requests and of unwritten replies are bounded, each for itself. No more lines are read above either
bound, and no further call begins while the output is above its own: only the calls that have begun add to it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.protocol import jsonrpc
from mcp_notarium.protocol.jsonrpc import Json, Refusal, RequestId, id_key, reply
from mcp_notarium.protocol.static_replies import Reply, StaticReplies
from mcp_notarium.protocol.stdio import TooLong, size_of

if TYPE_CHECKING:
    import asyncio


MOST_UNREAD: Final = 16 * 1024 * 1024
MOST_UNANSWERED: Final = 32 * 1024 * 1024
LINE_BYTES: Final = 16 * 1024
"""Bytes that each line, and each answer to be written, counts above its own length: what waits with it."""
CALL_BYTES: Final = 128 * 1024
"""Bytes that a request for the SDK counts above its line: 256 of them fill their bound."""


class FlowControl:
    """Count for one connection.

    :meth:`read` is for the thread that reads, everything else for the thread that answers. No number is
    changed by both.
    """

    def __init__(self) -> None:
        self._read = 0
        self._done = 0
        self._calls = 0
        self._unread = 0
        self._room: asyncio.Event | None = None
        self._queue: asyncio.Lock | None = None

    def full(self) -> bool:
        """Return whether no more lines should be read. May be asked from any thread."""
        # defence: open-calls-counted -CALL_BYTES
        unanswered = self._read - self._done + self._calls * CALL_BYTES
        # defence: unread-answers-stop -has_room
        return unanswered > MOST_UNANSWERED or not self.has_room

    def read(self, size: int) -> None:
        """Count a line of ``size`` bytes that was read."""
        # defence: open-lines-counted -LINE_BYTES
        self._read += size + LINE_BYTES  # defence: open-bytes-counted -size

    def done(self, size: int) -> None:
        """Forget a line: it is answered, or nobody waits for an answer."""
        self._done += size + LINE_BYTES

    def begin_call(self) -> None:
        """Count a request that the SDK is to answer."""
        self._calls += 1

    def end_call(self, size: int) -> None:
        """Forget the request and its line of ``size`` bytes."""
        self._calls -= 1
        self.done(size)

    def add_unwritten(self, size: int) -> None:
        """Count an answer of ``size`` bytes that waits to be written."""
        self._unread += size + LINE_BYTES

    def written(self, size: int) -> None:
        """Forget an answer of ``size`` bytes: it is written, or never will be."""
        self._unread -= size + LINE_BYTES
        if self.has_room and self._room is not None:
            self._room.set()

    @property
    def has_room(self) -> bool:
        """Tell whether another answer may be made."""
        return self._unread <= MOST_UNREAD

    async def wait_for_room(self) -> None:
        """Wait until another answer may be made; first come, first served.

        The next waiter is released when this returns. Make the answer and have it written without an ``await``, or wait
        here again after one.
        """
        if self._queue is None or self._room is None:
            import asyncio  # noqa: PLC0415 - the handshake is answered before it is loaded

            self._queue, self._room = asyncio.Lock(), asyncio.Event()
        async with self._queue:
            while not self.has_room:  # defence: unread-answers-stop-work
                self._room.clear()
                await self._room.wait()


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
    jsonrpc.INVALID_PARAMS,
    f"Send `initialize` first, or `params._meta` with '{_VERSION}' and '{_CAPABILITIES}'.",
)
_MIXED = (
    "This connection began with a handshake; requests with an envelope in `_meta` are not accepted."
)
_REFUSED: dict[_Era, dict[str, tuple[int, str] | None]] = {
    _Era.UNKNOWN: {"other": _NO_ENVELOPE},  # defence: no-envelope-no-guess -other
    _Era.HANDSHAKE: {
        "initialize": (jsonrpc.INVALID_REQUEST, "This connection has had its handshake."),
        "envelope": (jsonrpc.INVALID_REQUEST, _MIXED),  # defence: eras-do-not-mix
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
        message, size = jsonrpc.decode(line), size_of(line) or 0
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
        """Note an answer of the SDK. False if the client has had it from here already."""
        if self._swallowed is not None and request_id == self._swallowed:
            self._swallowed = None
            return False
        self._forget(request_id)
        return True

    def break_off(self) -> list[bytes]:
        """Return errors for the calls that still wait for the SDK, and forget those."""
        closed = {"code": jsonrpc.CONNECTION_CLOSED, "message": "Connection closed"}
        calls = [waiting.message["id"] for waiting in self._waiting if waiting.is_call]
        self._waiting.clear()
        for request_id in calls:
            self._forget(request_id)
        return [reply(request_id, error=closed) for request_id in calls]

    def _request(self, message: Json, size: int) -> bytes:
        request_id, method = message["id"], message["method"]
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
            return Refusal(
                jsonrpc.INVALID_PARAMS, "Invalid request parameters", request_id
            ).encoded()
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

    def _cancel(self, request_id: object) -> bool:
        """Forget a request that was cancelled. True if it was still waiting for the SDK."""
        if not jsonrpc.is_id(request_id):
            return False
        self._forget(request_id)
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
