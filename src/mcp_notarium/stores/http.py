"""Send one HTTP request to a configured host, with a deadline, bounded answers and retries.

``HttpSession`` contacts only the hosts it was given, follows no redirect, keeps no cookie and takes no
proxy and no password from the environment. (OpenSSL reads the certificates it trusts from there by
itself, at each handshake: ``sandbox.confinement`` has removed those variables before.) It knows
nothing of any service's paths, logins or bodies: an answer below 500 other than 429 is returned as it
is, for the caller to check.

For a request marked ``write`` it separates what certainly never left (``StoreUnavailable``) from what
may have arrived (``OutcomeUnknown``). So mark only writes that may be repeated.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import sys
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from mcp_notarium import __version__
from mcp_notarium.errors import ConfigError, OutcomeUnknown, StoreProtocolError
from mcp_notarium.stores.contract import LET_CALLS_PASS, check_not_withdrawn
from mcp_notarium.stores.http_rules import (
    Origin,
    Outcome,
    RetryPolicy,
    clock_difference,
    error_for,
    host_of,
    origin_of,
    retry_after_seconds,
    usable_origin,
)
from mcp_notarium.stores.json_answers import AnswerTooLarge

if TYPE_CHECKING:
    import httpx

MIB = 1024 * 1024
LARGEST_ANSWER = 32 * MIB
LARGEST_ERROR = 16 * 1024
CONNECT_SECONDS = 10.0
TRY_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 90.0
MOST_CONNECTIONS = 8
_GOOD_STATUSES = range(200, 300)
_REDIRECTS = range(300, 400)
_AGAIN_LATER = frozenset({429, 500, 502, 503, 504})
_ENCODINGS = frozenset({"", "identity", "gzip"})
_HEADERS = {
    "user-agent": f"mcp-notarium/{__version__}",
    "accept-encoding": "gzip",
    "accept": "application/json",
    "cache-control": "no-cache",
}
"""The last one: an answer that something on the way has kept may be yesterday's."""


One = TypeVar("One")
Made = TypeVar("Made")
_REASONS: dict[type[BaseException], str] = {
    socket.gaierror: "its name does not resolve",
    ConnectionRefusedError: "connection refused",
    ssl.SSLCertVerificationError: "its certificate is not trusted",
    ssl.SSLError: "it does not speak TLS as it should",
}


@dataclass(frozen=True, slots=True)
class Request:
    """Hold what to send. It is never printed: address and headers may hold secrets."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    write: bool = False
    """It may have changed something if nothing answers."""
    withdrawable: bool = False
    """It is not sent once its caller has withdrawn it."""
    tries: int | None = None
    deadline: float | None = None
    """Seconds over all tries. None: the session's."""
    try_seconds: float | None = None
    """Seconds of silence within one try. None: the session's."""
    largest: int = LARGEST_ANSWER
    before_again: Callable[[bool], Awaitable[None]] | None = field(default=None, repr=False)
    """Awaited before it is sent again, with whether an earlier try may have been carried out; what it raises ends the tries."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold an answer read to its end. Header names are lower-case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    in_doubt: bool = False
    """An earlier try of this write may have been carried out, so a refusal here does not prove that nothing happened."""

    @property
    def ok(self) -> bool:
        """Tell whether the service carried the request out."""
        return self.status in _GOOD_STATUSES


class HttpSession:
    """Keep connections to the hosts of ``bases`` (URLs: https, or plain http to loopback).

    ``plain_http``: plain http is permitted to hosts of the local network as well.

    ``timeout`` is the default deadline of a request in seconds. Connections open with the first
    request and are kept alive; :meth:`close` ends them. Raises ``ConfigError`` for an unusable url.
    """

    def __init__(
        self,
        *,
        bases: Iterable[str],
        timeout: float,
        plain_http: bool = False,
        retry_policy: RetryPolicy | None = None,
        draw: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._origins = frozenset(usable_origin(base, plain_http=plain_http) for base in bases)
        self._timeout = timeout
        self._retry_policy = retry_policy or RetryPolicy()
        self._draw = draw
        self._sleep = sleep
        self._clock = clock
        self._wall_clock = wall_clock
        self._given = transport
        self.clock_difference: float | None = None
        """Seconds that the host's clock was ahead of ours at the last answer; None: it does not say."""
        self._slots = asyncio.Semaphore(MOST_CONNECTIONS)
        self._opened: list[httpx.AsyncBaseTransport] = []
        self._free: dict[Origin | None, list[httpx.AsyncBaseTransport]] = {}
        """Transports that send nothing now, each with one connection at most, by where that goes."""

    async def send(self, request: Request) -> Reply:
        """Send a request until it is answered, refused for good, out of tries or out of time.

        Raises ``StoreUnavailable``, ``StoreTimeout``, ``RateLimited``, ``OutcomeUnknown``
        (writes only) and ``StoreProtocolError`` (redirects, and answers over ``largest``:
        ``AnswerTooLarge``).
        """
        if origin_of(request.url) not in self._origins:  # defence: http-known-hosts-only
            raise ConfigError("a request to a host that is not configured was refused")
        ends = self._clock() + (request.deadline or self._timeout)
        tries = request.tries or self._retry_policy.tries
        in_doubt = False
        for number in range(1, tries + 1):
            sent = _SendTrace(withdrawable=request.withdrawable and not in_doubt)
            outcome = await self._once(request, seconds=ends - self._clock(), sent=sent)
            in_doubt = in_doubt or (request.write and outcome.may_have_arrived)
            reply = outcome.reply
            if reply is not None and reply.status not in _AGAIN_LATER:
                return _check_redirect(reply, in_doubt=in_doubt)
            pause = self._pause(outcome, number)
            if number == tries or self._clock() + pause >= ends:
                host = host_of(request.url)
                why = _reason(outcome.cause)
                raise error_for(
                    outcome, host, write=request.write, in_doubt=in_doubt, why=why
                ) from outcome.cause
            await self._sleep(pause)
            if request.before_again is not None:
                await request.before_again(in_doubt)
        raise AssertionError("a request has at least one try")

    async def close(self) -> None:
        """Close the connections. Idempotent; the next request opens new ones."""
        opened, self._opened, self._free = self._opened, [], {}
        for transport in [self._given] if self._given is not None else opened:
            await transport.aclose()

    def _pause(self, outcome: Outcome, number: int) -> float:
        if outcome.retry_after is not None:
            return outcome.retry_after
        return self._retry_policy.pause(number, self._draw())

    async def _once(self, request: Request, *, seconds: float, sent: _SendTrace) -> Outcome:
        import httpx  # noqa: PLC0415 - a tenth of a second that a start without network saves

        try:
            async with asyncio.timeout(max(seconds, 0)):  # defence: http-answer-deadline 0=20
                reply = await self._exchange(request, seconds=seconds, sent=sent)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Outcome(arrived=False, cause=error)
        except TimeoutError as error:
            return Outcome(arrived=sent.begun, timed_out=True, cause=error)
        except httpx.TimeoutException as error:
            return Outcome(timed_out=True, cause=error)
        except (httpx.NetworkError, httpx.RemoteProtocolError, httpx.DecodingError) as error:
            return Outcome(cause=error)
        except (httpx.HTTPError, httpx.InvalidURL):  # defence: http-header-not-quoted
            # Not chained: such an error may quote a header, and headers hold secrets.
            raise StoreProtocolError("the note store broke the HTTP protocol") from None
        now, date = self._wall_clock(), reply.headers.get("date")
        self.clock_difference = clock_difference(date, now=now)
        wait = retry_after_seconds(reply.headers.get("retry-after"), now=now, date=date)
        return Outcome(reply=reply, retry_after=wait)

    async def _exchange(self, request: Request, *, seconds: float, sent: _SendTrace) -> Reply:
        import httpx  # noqa: PLC0415 - see _once

        silence = min(seconds, request.try_seconds or TRY_SECONDS)
        timeout = httpx.Timeout(silence, connect=min(silence, CONNECT_SECONDS))
        request_sent = httpx.Request(
            request.method,
            request.url,
            headers={**_HEADERS, **request.headers},
            content=request.body,
            extensions={"trace": sent.trace, "timeout": timeout.as_dict()},
        )
        # Without httpx's client: it adds redirects, cookies, proxies and a fifth of the time.
        async with self._lend_transport(origin_of(request.url)) as transport:
            response = await transport.handle_async_request(request_sent)
            try:
                sent.begun = True
                await LET_CALLS_PASS.get()()
                good = response.status_code in _GOOD_STATUSES
                largest = request.largest if good else LARGEST_ERROR
                # The form of an answer must not hide that a write was done.
                body = await _read(response, largest=largest, cut=request.write or not good)
                return Reply(response.status_code, dict(response.headers), body)
            finally:
                await response.aclose()

    @asynccontextmanager
    async def _lend_transport(
        self, origin: Origin | None
    ) -> AsyncIterator[httpx.AsyncBaseTransport]:
        """Lend a transport that nobody else uses.

        One pool for all connections looks at each of them twice for every request: a sixth of the processor time.
        """
        if self._given is not None:
            yield self._given
            return
        async with self._slots:
            free = self._free.setdefault(origin, [])
            if free:
                transport = free.pop()
            else:
                transport = _open_transport()
                self._opened.append(transport)
            try:
                yield transport
            except BaseException:
                # A pool of httpcore may keep the place of a request that failed or was withdrawn; who
                # asked it next would wait for that place.
                if transport in self._opened:
                    self._opened.remove(transport)
                    await transport.aclose()
                raise
            if transport in self._opened:  # it is not closed
                free.append(transport)


async def each(ones: Iterable[One], make: Callable[[One], Awaitable[Made | None]]) -> list[Made]:
    """Make something of each, as many at a time as there are connections; None is left out."""
    turn = asyncio.Semaphore(MOST_CONNECTIONS)

    async def in_turn(one: One) -> Made | None:
        async with turn:
            return await make(one)

    tasks = [asyncio.ensure_future(in_turn(one)) for one in ones]
    try:
        made = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return [one for one in made if one is not None]


def _open_transport() -> httpx.AsyncHTTPTransport:
    import httpx  # noqa: PLC0415 - see _once
    import truststore  # noqa: PLC0415 - see _once

    if find_spec("sniffio") is None:
        # httpcore tries to import it four times a request, and looking for it in vain takes a
        # quarter of the request's processor time. None: Python does not look.
        sys.modules["sniffio"] = None  # type: ignore[assignment]
    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    limits = httpx.Limits(
        max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_ALIVE_SECONDS
    )
    return httpx.AsyncHTTPTransport(verify=context, limits=limits)


def _reason(error: BaseException | None) -> str:
    """Return why no connection came about; '' if nothing is known that helps."""
    while error is not None:
        for kind, words in _REASONS.items():
            if isinstance(error, kind):
                return words
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
    return ""


def _check_redirect(reply: Reply, *, in_doubt: bool) -> Reply:
    if reply.status not in _REDIRECTS:  # defence: http-no-redirect =True
        return Reply(reply.status, reply.headers, reply.body, in_doubt=in_doubt)
    if in_doubt:
        raise OutcomeUnknown("the write was sent and no answer came back")
    raise StoreProtocolError(
        f"the note store redirects elsewhere (status {reply.status}); this is not followed"
    )


class _SendTrace:
    """Record when a request may have arrived; a withdrawn one stops there."""

    def __init__(self, *, withdrawable: bool) -> None:
        self._withdrawable = withdrawable
        self.begun = False

    async def trace(self, event: str, _facts: Mapping[str, object]) -> None:
        if event.endswith("send_request_headers.started"):
            if self._withdrawable:
                check_not_withdrawn()
            self.begun = True


async def _read(response: httpx.Response, *, largest: int, cut: bool) -> bytes:
    """Read the body; one over ``largest`` bytes raises, or with ``cut`` ends there.

    A compression that was not asked for raises, or with ``cut`` gives an empty body: compressed
    twice, a few bytes expand to gigabytes in one step.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        if cut:
            return b""
        raise StoreProtocolError("the note store compressed its answer in a way not asked for")
    parts: list[bytes] = []
    size = 0
    chunks = _decompress(response, largest=largest, cut=cut)
    async for part in chunks if encoding == "gzip" else response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > largest:  # defence: http-answer-size
            if cut:
                break
            raise AnswerTooLarge(f"the note store answered more than {largest} bytes")
    return b"".join(parts)[:largest]


async def _decompress(response: httpx.Response, *, largest: int, cut: bool) -> AsyncIterator[bytes]:
    """Decompress a gzip body, up to one byte over ``largest`` and never more.

    Input that expands to nothing, or comes after the end, counts as well: it could go on for ever.
    """
    import httpx  # noqa: PLC0415 - see _once

    gzip = zlib.decompressobj(wbits=31)
    size = received = 0
    async for part in response.aiter_raw():
        received += len(part)
        try:
            plain = b"" if gzip.eof else gzip.decompress(part, largest - size + 1)
        except zlib.error as error:
            raise httpx.DecodingError("not gzip") from error
        size += len(plain)
        yield plain
        if size > largest or (cut and received > largest):
            return
        if received > largest:
            raise AnswerTooLarge(f"the note store answered more than {largest} bytes")
    if received and not gzip.eof:
        raise httpx.DecodingError("broken off")
