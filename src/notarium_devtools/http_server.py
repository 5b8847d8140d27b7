"""Serve HTTP/1.1 on loopback and fail on command.

It parses with h11, keeps connections alive, carries out faults (cuts, delays, broken answers) and
keeps a log of requests without secrets. An ``Api`` decides the answers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import parse_qsl, unquote_to_bytes

import h11

from notarium_devtools.http_faults import (
    Call,
    CutAfter,
    CutAnswer,
    CutBefore,
    Delay,
    Fault,
    Faults,
    Hold,
    Status,
    Truncate,
)

_BODY_CEILING = 64 * 1024 * 1024
_READ = 256 * 1024
_GLANCE = 0.02


@dataclass(frozen=True, slots=True)
class Request:
    """Hold one request; ``segments`` are the path's parts, each percent-decoded exactly once."""

    method: str
    segments: tuple[str, ...]
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        """Return the decoded path, for logs and fault patterns."""
        return "/" + "/".join(self.segments)


@dataclass(frozen=True, slots=True)
class Response:
    """Hold one response."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/html; charset=UTF-8"
    headers: tuple[tuple[str, str], ...] = field(default=())


def plain_failure(_request: Request, status: int) -> Response:
    """Return an error without a body."""
    return Response(status)


class Api(Protocol):
    """Answer requests."""

    async def respond(self, request: Request) -> Response:
        """Return the response."""


@dataclass(frozen=True, slots=True)
class Logged:
    """Hold one request as the log keeps it; ``status`` is 0 if no answer was given.

    ``received`` and ``sent`` are the bytes of the bodies.
    """

    method: str
    path: str
    query: dict[str, str]
    status: int
    received: int
    sent: int


class _Cut(Exception):
    """End the connection here, without an answer."""


@dataclass(frozen=True, slots=True)
class _Answer:
    response: Response
    share_sent: float = 1.0


@dataclass(slots=True)
class Server:
    """Listen, answer, log. Lives in one event loop; only ``latency`` may change from outside.

    ``failure`` makes the body of an error that a fault asks for.
    """

    api: Api
    faults: Faults
    failure: Callable[[Request, int], Response] = plain_failure
    latency: float = 0.0
    log: list[Logged] = field(default_factory=list)
    port: int = 0
    _socket: socket.socket | None = None
    _listener: asyncio.Server | None = None
    _resuming: asyncio.Task[None] | None = None
    _connections: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    def hold_port(self) -> None:
        """Reserve the port without listening: connections are refused, nobody else can take it."""
        self._socket = _bound(self.port)
        self.port = self._socket.getsockname()[1]

    async def listen(self) -> None:
        """Accept connections on the reserved port."""
        self._listener = await asyncio.start_server(self._connected, sock=self._socket, limit=_READ)

    def refuse(self) -> None:
        """Simulate a lost network: cut all connections, refuse new ones, keep the port."""
        self.close_listener()
        for writer in self._connections.values():
            writer.transport.abort()
        self.hold_port()

    def resume(self) -> None:
        """End ``refuse``; connections succeed as soon as this returns."""
        if self._socket is None or self._listener is not None:
            return
        # The kernel queues connections from here on; the loop picks them up in its next round.
        self._socket.listen(100)
        self._resuming = asyncio.get_running_loop().create_task(self.listen())

    def close_listener(self) -> None:
        """Stop accepting connections and release the port."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        elif self._socket is not None:
            self._socket.close()
        self._socket = None

    async def stop(self) -> None:
        """Release everything; returns when no task of this server is left."""
        self.close_listener()
        # Connections already accepted still have to introduce themselves.
        await asyncio.sleep(0)
        while self._connections:
            tasks = tuple(self._connections)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Finished tasks leave the table in callbacks, which a gather over finished tasks alone
            # does not wait for on newer Pythons.
            await asyncio.sleep(0)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        try:
            while (request := await connection.next_request()) is not None:
                await self._answer(connection, request)
        except _Cut:
            # Closed below, after what was written has gone out.
            pass
        except (OSError, h11.ProtocolError, asyncio.CancelledError):
            # A client gone, a client talking nonsense, the end: silence in every case.
            writer.transport.abort()
        finally:
            writer.close()

    async def _answer(self, connection: _Connection, request: Request) -> None:
        await asyncio.sleep(self.latency)
        try:
            answer = await self._decided(request)
        except _Cut:
            self._note(request, None)
            raise
        # Noted before it is sent: whoever has the answer finds it in the log.
        self._note(request, answer.response)
        if answer.share_sent < 1:
            connection.send_part(answer.response, answer.share_sent)
            raise _Cut
        await connection.send(answer.response)

    def _note(self, request: Request, response: Response | None) -> None:
        self.log.append(
            Logged(
                method=request.method,
                path=request.path,
                query=request.query,
                status=0 if response is None else response.status,
                received=len(request.body),
                sent=0 if response is None else len(response.body),
            )
        )

    async def _decided(self, request: Request) -> _Answer:
        faults = self.faults.meeting(request.method, request.path, request.query)
        forced = await self._before(request, faults)
        answer = _Answer(forced or await self.api.respond(request))
        for fault in faults:
            answer = await _after(fault, answer)
        return answer

    async def _before(self, request: Request, faults: tuple[Fault, ...]) -> Response | None:
        for fault in faults:
            match fault:
                case Call(action):
                    action()
                case Delay(seconds, after=False):
                    await asyncio.sleep(seconds)
                case Hold(released):
                    while not released.is_set():  # noqa: ASYNC110 - set by another thread
                        await asyncio.sleep(_GLANCE)
                case CutBefore():
                    raise _Cut
                case Status(status, body, retry_after):
                    plain = self.failure(request, status)
                    return _forced(plain, body, retry_after)
                case _:
                    pass
        return None


async def _after(fault: Fault, answer: _Answer) -> _Answer:
    response = answer.response
    match fault:
        case Delay(seconds, after=True):
            await asyncio.sleep(seconds)
        case CutAfter():
            raise _Cut
        case CutAnswer(share):
            return _Answer(response, share)
        case Truncate(share):
            body = response.body[: int(len(response.body) * share)]
            return _Answer(Response(response.status, body, response.content_type, response.headers))
        case _:
            pass
    return answer


def _forced(plain: Response, body: bytes | None, retry_after: str | None) -> Response:
    headers = () if retry_after is None else (("Retry-After", retry_after),)
    return replace(plain, body=plain.body if body is None else body, headers=headers)


class _Connection:
    """Serve one client: whole requests in, answers out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._wire = h11.Connection(h11.SERVER)

    async def next_request(self) -> Request | None:
        """Return the next request with its body, or None when the client is done."""
        if self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE:
            self._wire.start_next_cycle()
        if self._wire.our_state is not h11.IDLE:
            return None
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        return _request(head, await self._body())

    async def send(self, response: Response) -> None:
        """Send a whole answer."""
        data = self._wire.send(_head(response)) or b""
        data += self._wire.send(h11.Data(data=response.body)) or b""
        data += self._wire.send(h11.EndOfMessage()) or b""
        self._writer.write(data)
        await self._writer.drain()

    def send_part(self, response: Response, share: float) -> None:
        """Send the head and a share of the body, and stop."""
        part = response.body[: int(len(response.body) * share)]
        self._writer.write((self._wire.send(_head(response)) or b"") + part)
        self._wire.send_failed()

    async def _body(self) -> bytes:
        body = bytearray()
        while True:
            event = await self._event()
            if not isinstance(event, h11.Data):
                return bytes(body)
            body += event.data
            if len(body) > _BODY_CEILING:
                raise _Cut

    async def _event(self) -> object:
        while (event := self._wire.next_event()) is h11.NEED_DATA:
            if self._wire.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                self._writer.write(self._wire.send(go_on) or b"")
            self._wire.receive_data(await self._reader.read(_READ))
        return event


def _request(head: h11.Request, body: bytes) -> Request:
    headers = {key.decode("ascii"): value.decode("latin-1") for key, value in head.headers}
    return request_of(head.method.decode("ascii"), head.target, headers, body)


def request_of(method: str, target: bytes, headers: Mapping[str, str], body: bytes) -> Request:
    """Return the request that these parts make; ``target``: the path and the query as they are sent."""
    raw_path, _, raw_query = target.decode("ascii").partition("?")
    return Request(
        method=method,
        segments=tuple(_decoded(part) for part in raw_path.removeprefix("/").split("/")),
        # The last of repeated parameters counts.
        query=dict(parse_qsl(raw_query, keep_blank_values=True)),
        headers=headers,
        body=body,
    )


def _decoded(segment: str) -> str:
    return unquote_to_bytes(segment).decode("utf-8", "replace")


def _head(response: Response) -> h11.Response:
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        *response.headers,
    ]
    return h11.Response(status_code=response.status, headers=headers)


def _bound(port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
        # Without it the port stays blocked while old connections fade out; on Windows, which has the other
        # option, the flag would let strangers take the port over.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        raise
    return held
