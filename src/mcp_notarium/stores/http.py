"""One HTTP request to a configured note service, with a deadline, bounded answers and retries.

It contacts the hosts it was given and no others, follows no redirect, keeps no cookie and takes no
proxy and no password from the environment. (Whom OpenSSL trusts it reads from there by itself, at
each handshake: ``keys.hardening`` has taken those variables away before.) It knows nothing of any
service's paths, logins or bodies: an answer below 500 other than 429 is handed back as it is, for
its caller to judge.

Of a request marked ``write`` it keeps apart what surely never left (``BackendUnavailable``) from
what may have arrived (``OutcomeUnknown``); so only writes that may be repeated belong here.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_notarium import __version__
from mcp_notarium.errors import BackendProtocolError, ConfigError, OutcomeUnknown
from mcp_notarium.stores.allowed_hosts import origin_of, usable_origin
from mcp_notarium.stores.http_retries import Outcome, Patience, conclusion, retry_after_seconds
from mcp_notarium.stores.json_answers import AnswerTooLarge
from mcp_notarium.stores.withdrawal import demand_wanted

if TYPE_CHECKING:
    import httpx

MIB = 1024 * 1024
LARGEST_ANSWER = 32 * MIB
LARGEST_ERROR = 16 * 1024
CONNECT_SECONDS = 10.0
TRY_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 90.0
_GOOD_STATUSES = range(200, 300)
_REDIRECTS = range(300, 400)
_AGAIN_LATER = frozenset({429, 500, 502, 503, 504})
_PACKINGS = frozenset({"", "identity", "gzip"})


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. ``headers`` may hold secrets: a request is never printed.

    ``deadline`` (seconds, over all tries) and ``try_seconds`` (silence within one) default to the
    session's. ``write`` says that an unanswered request may have changed something; one that is
    ``withdrawable`` is not sent once its caller has taken it back.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    write: bool = False
    withdrawable: bool = False
    tries: int | None = None
    deadline: float | None = None
    try_seconds: float | None = None
    largest: int = LARGEST_ANSWER


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer read to its end. Header names are lower-case.

    ``in_doubt``: an earlier try of this write may have been carried out, so a refusal here does
    not prove that nothing happened.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    in_doubt: bool = False

    @property
    def ok(self) -> bool:
        """Whether the service did it."""
        return self.status in _GOOD_STATUSES


class HttpSession:
    """Connections to the hosts of ``bases`` (urls: https, or plain http to loopback).

    ``timeout`` is the default deadline of a request in seconds. Connections open with the first
    request and are kept alive; :meth:`close` ends them. Raises ``ConfigError`` for an unusable url.
    """

    def __init__(
        self,
        *,
        bases: Iterable[str],
        timeout: float,
        timeouts: Patience | None = None,
        draw: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._origins = frozenset(usable_origin(base) for base in bases)
        self._timeout = timeout
        self._timeouts = timeouts or Patience()
        self._draw = draw
        self._sleep = sleep
        self._clock = clock
        self._wall_clock = wall_clock
        self._transport = transport
        self._opened: httpx.AsyncClient | None = None

    async def send(self, request: Request) -> Reply:
        """Send until answered, refused for good, out of tries or out of time.

        Raises ``BackendUnavailable``, ``BackendTimeout``, ``RateLimited``, ``OutcomeUnknown``
        (writes only) and ``BackendProtocolError`` (redirects, and answers over ``largest``:
        ``AnswerTooLarge``).
        """
        if origin_of(request.url) not in self._origins:
            raise ConfigError("a request to a host that is not configured was refused")
        ends = self._clock() + (request.deadline or self._timeout)
        tries = request.tries or self._timeouts.tries
        in_doubt = False
        for number in range(1, tries + 1):
            sent = _Sent(withdrawable=request.withdrawable and not in_doubt)
            outcome = await self._once(request, seconds=ends - self._clock(), sent=sent)
            in_doubt = in_doubt or (request.write and outcome.may_have_arrived)
            reply = outcome.reply
            if reply is not None and reply.status not in _AGAIN_LATER:
                return _judged(reply, in_doubt=in_doubt)
            pause = self._pause(outcome, number)
            if number == tries or self._clock() + pause >= ends:
                raise conclusion(outcome, write=request.write, in_doubt=in_doubt) from outcome.cause
            await self._sleep(pause)
        raise AssertionError("a request has at least one try")

    async def close(self) -> None:
        """Let go of the connections. Idempotent; the next request opens new ones."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    def _pause(self, outcome: Outcome, number: int) -> float:
        if outcome.retry_after is not None:
            return outcome.retry_after
        return self._timeouts.pause(number, self._draw())

    async def _once(self, request: Request, *, seconds: float, sent: _Sent) -> Outcome:
        import httpx  # noqa: PLC0415 - a tenth of a second that a start without network saves

        try:
            async with asyncio.timeout(max(seconds, 0)):
                reply = await self._exchange(request, seconds=seconds, sent=sent)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Outcome(arrived=False, cause=error)
        except TimeoutError as error:
            return Outcome(arrived=sent.begun, timed_out=True, cause=error)
        except httpx.TimeoutException as error:
            return Outcome(timed_out=True, cause=error)
        except (httpx.NetworkError, httpx.RemoteProtocolError, httpx.DecodingError) as error:
            return Outcome(cause=error)
        except (httpx.HTTPError, httpx.InvalidURL):
            # Not chained: such an error may quote a header, and headers hold secrets.
            raise BackendProtocolError("the note service and we do not speak alike") from None
        wait = retry_after_seconds(reply.headers.get("retry-after"), now=self._wall_clock())
        return Outcome(reply=reply, retry_after=wait)

    async def _exchange(self, request: Request, *, seconds: float, sent: _Sent) -> Reply:
        import httpx  # noqa: PLC0415 - see _once

        silence = min(seconds, request.try_seconds or TRY_SECONDS)
        async with self._client().stream(
            request.method,
            request.url,
            headers=request.headers,
            content=request.body,
            timeout=httpx.Timeout(silence, connect=min(silence, CONNECT_SECONDS)),
            extensions={"trace": sent.trace},
        ) as response:
            sent.begun = True
            good = response.status_code in _GOOD_STATUSES
            largest = request.largest if good else LARGEST_ERROR
            # Of a write that was done the answer's form must not hide that it was done.
            body = await _read(response, largest=largest, cut=request.write or not good)
            return Reply(response.status_code, dict(response.headers), body)

    def _client(self) -> httpx.AsyncClient:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> httpx.AsyncClient:
        from http.cookiejar import CookieJar, DefaultCookiePolicy  # noqa: PLC0415 - see _once

        import httpx  # noqa: PLC0415 - see _once
        import truststore  # noqa: PLC0415 - see _once

        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return httpx.AsyncClient(
            verify=context,
            trust_env=False,
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            transport=self._transport,
            limits=httpx.Limits(
                max_connections=8,
                max_keepalive_connections=8,
                keepalive_expiry=KEEP_ALIVE_SECONDS,
            ),
            headers={
                "user-agent": f"mcp-notarium/{__version__}",
                "accept-encoding": "gzip",
                "accept": "application/json",
            },
        )


def _judged(reply: Reply, *, in_doubt: bool) -> Reply:
    if reply.status not in _REDIRECTS:
        return Reply(reply.status, reply.headers, reply.body, in_doubt=in_doubt)
    if in_doubt:
        raise OutcomeUnknown("the write was sent and no answer came back")
    raise BackendProtocolError(
        f"the note service redirects elsewhere (status {reply.status}); this is not followed"
    )


class _Sent:
    """Notices the moment from which a request may have arrived; one taken back stops there."""

    def __init__(self, *, withdrawable: bool) -> None:
        self._withdrawable = withdrawable
        self.begun = False

    async def trace(self, event: str, _facts: Mapping[str, object]) -> None:
        if event.endswith("send_request_headers.started"):
            if self._withdrawable:
                demand_wanted()
            self.begun = True


async def _read(response: httpx.Response, *, largest: int, cut: bool) -> bytes:
    """The body; one over ``largest`` bytes raises, or with ``cut`` ends there.

    One packed otherwise than asked for raises, or with ``cut`` is empty: packed twice, a few bytes
    unpack to gigabytes in one step.
    """
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in _PACKINGS:
        if cut:
            return b""
        raise BackendProtocolError("the note service packs its answers in a way not asked for")
    parts: list[bytes] = []
    size = 0
    unpacking = _unpacked(response, largest=largest, cut=cut)
    async for part in unpacking if packing == "gzip" else response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > largest:
            if cut:
                break
            raise AnswerTooLarge(f"the note service answered more than {largest} bytes")
    return b"".join(parts)[:largest]


async def _unpacked(response: httpx.Response, *, largest: int, cut: bool) -> AsyncIterator[bytes]:
    """What is in a gzip body, up to a little over ``largest`` bytes, of which none is made too many.

    Whatever unpacks to nothing, or comes after the end, counts as well: it could go on for ever.
    """
    import httpx  # noqa: PLC0415 - see _once

    gzip = zlib.decompressobj(wbits=31)
    size = packed = 0
    async for part in response.aiter_raw():
        packed += len(part)
        try:
            unpacked = b"" if gzip.eof else gzip.decompress(part, largest - size + 1)
        except zlib.error as error:
            raise httpx.DecodingError("not gzip") from error
        size += len(unpacked)
        yield unpacked
        if size > largest or (cut and packed > largest):
            return
        if packed > largest:
            raise AnswerTooLarge(f"the note service answered more than {largest} bytes")
    if packed and not gzip.eof:
        raise httpx.DecodingError("broken off")
