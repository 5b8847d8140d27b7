"""Put a network of HTTP between a server's real store and a simulated service, without a socket.

Each request and each answer is an event of the schedule. A write travels by itself: it arrives also after its
sender gave up or was killed. Answers get lost, break off, come from a cache, or are a proxy's own page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Protocol

import httpx

from explorer.choices import Chooser
from explorer.loop import DeterministicLoop
from explorer.machine import Process
from notarium_devtools.http_server import Request, Response, request_of

LOGIN_PAGE = Response(
    200, b"<html><title>Sign in</title><form method=post>Password</form></html>", "text/html"
)
REFUSED = Response(401, b"<html><title>401</title></html>", "text/html")
SLOW_DOWN = Response(429, b"Too many requests", "text/plain", (("Retry-After", "7"),))
FAILING = Response(503, b"<html><title>503</title></html>", "text/html")
BAD_GATEWAY = Response(502, b"<html><title>502</title></html>", "text/html")

NEVER_ARRIVES = "never arrives"
RESET = "is reset before it arrives"
ASKED_TO_WAIT = "is answered 429"
UNAVAILABLE = "is answered 503"
LOGGED_OUT = "is answered 401"
PROXY_PAGE = "is answered by a proxy's login page"
OLD_ANSWER = "gets an older answer"
CUT = "gets an answer that breaks off"
LOST = "gets no answer"
BROKEN = "is reset after it was carried out"
GATEWAY = "is carried out, and answered 502"
HIDDEN_ANSWER = "is carried out, and answered by a proxy's login page"
TWICE = "arrives twice"
LATER_AGAIN = "arrives once more later"

READ_FAULTS = (
    NEVER_ARRIVES, RESET, ASKED_TO_WAIT, UNAVAILABLE, LOGGED_OUT, PROXY_PAGE, CUT, OLD_ANSWER,
)  # fmt: skip
WRITE_FAULTS = (
    NEVER_ARRIVES, RESET, ASKED_TO_WAIT, UNAVAILABLE, LOGGED_OUT, PROXY_PAGE, LOST, BROKEN, CUT, GATEWAY,
    HIDDEN_ANSWER, TWICE, LATER_AGAIN,
)  # fmt: skip
AWAY = ("", "", UNAVAILABLE, NEVER_ARRIVES)
"""What happens to each request while the service is away, by the way it is; the first way has no connection."""
_INSTEAD = {
    ASKED_TO_WAIT: SLOW_DOWN,
    UNAVAILABLE: FAILING,
    LOGGED_OUT: REFUSED,
    PROXY_PAGE: LOGIN_PAGE,
}
"""What comes back of a request that was not carried out."""
_AFTER = {GATEWAY: BAD_GATEWAY, HIDDEN_ANSWER: LOGIN_PAGE}
"""What comes back of one that was."""
_KEPT_ANSWERS = 3


class Service(Protocol):
    """Describe what answers requests."""

    async def respond(self, request: Request) -> Response:
        """Answer a request."""

    def words(self, request: Request) -> str:
        """Return what a request asks for, in words that are the same in each run."""

    def leaves(self, sent: Sent) -> None:
        """Learn of a request that a process sends."""

    def lands(self, sent: Sent) -> None:
        """Learn of a request that is about to be carried out."""

    def landed(self, sent: Sent) -> None:
        """Learn of a request that was just carried out."""

    def fails(self, sent: Sent) -> None:
        """Learn of a write that goes wrong on its way: its sender may send it again."""

    def may_be_old(self, request: Request) -> bool:
        """Tell whether the answer to a read may be one of before."""

    def is_old(self, request: Request) -> None:
        """Learn that an answer is one of before."""

    def repeatable(self, request: Request) -> bool:
        """Tell whether somebody on the way may send a write again."""


@dataclass
class Sent:
    """Hold a request on its way. ``strays``: nobody waits for it any more, or it comes once more.

    ``knows``: what its process knew when it sent it, if the service asks.
    """

    process: Process
    request: Request
    words: str
    strays: bool = False
    knows: object = None


@dataclass
class Proxy:
    """Keep answers on the way, as a cache between all servers and the service does."""

    answers: dict[str, list[Response]] = field(default_factory=dict)
    _lied: frozenset[str] = frozenset()

    def answer(self, url: str, fresh: Response, *, old: bool) -> Response:
        """Return the fresh answer; ``old``: the newest other one of this address, but never twice in a row."""
        kept = self.answers.setdefault(url, [])
        others = [one for one in kept if one.body != fresh.body] if old else []
        if not kept or kept[-1].body != fresh.body:
            kept.append(fresh)
            del kept[:-_KEPT_ANSWERS]
        lies = bool(others) and url not in self._lied
        self._lied = self._lied | {url} if lies else self._lied - {url}
        return others[-1] if lies else fresh


class WiredTransport(httpx.AsyncBaseTransport):
    """One process's connections to a service."""

    def __init__(
        self,
        service: Service,
        proxy: Proxy,
        *,
        process: Process,
        loop: DeterministicLoop,
        chooser: Chooser,
        note: Callable[[str], None],
        calm: Callable[[], bool],
        down: Callable[[], int],
    ) -> None:
        self.process = process
        self.requests = 0
        self._service = service
        self._proxy = proxy
        self._loop = loop
        self._chooser = chooser
        self._note = note
        self._calm = calm
        self._down = down
        """Tells in which way the service is away (``AWAY``); 0: it is not."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Let a request travel, and wait for its answer as long as it says."""
        asked = request_of(
            request.method,
            request.url.raw_path,
            {name.lower(): value for name, value in request.headers.items()},
            request.content,
        )
        words, writes = self._service.words(asked), request.method != "GET"
        self.requests += 1
        sent = Sent(self.process, asked, words)
        self._service.leaves(sent)
        if writes:
            self.process.place(f"sends: {words}")
        if self._down() == 1:
            self._tell_failed(sent)
            raise httpx.ConnectError("refused")
        if self._chosen(f"{self.process.name}: {words}: no connection", ["", "refused"]):
            self._note(f"{self.process.name} gets no connection to {words}")
            self._tell_failed(sent)
            raise httpx.ConnectError("refused")
        await request.extensions["trace"]("http11.send_request_headers.started", {})
        answer: asyncio.Future[httpx.Response] = self._loop.create_future()
        # A read goes with its process. A write is out of its hands.
        context = Context() if writes else None
        travel = self._travel(sent, str(request.url), answer)
        self._loop.create_task(travel, context=context)
        try:
            async with asyncio.timeout(request.extensions["timeout"]["read"]):
                found = await answer
        except TimeoutError:
            self._note(f"{self.process.name} hears nothing: {words}")
            raise httpx.ReadTimeout("no answer came") from None
        finally:
            sent.strays = not answer.done() or answer.cancelled()
        if writes:
            self.process.place(f"has the answer: {words}")
        return found

    async def _travel(self, sent: Sent, url: str, answer: asyncio.Future[httpx.Response]) -> None:
        who = f"{self.process.name}: {sent.words}"
        await self._loop.gate(f"{who}: arrives")
        fault = AWAY[self._down()] or self._fault(sent)
        if fault and not self._down():
            self._note(f"{who}: {fault}")
        error: Exception | None = httpx.ReadError("reset") if fault == RESET else None
        found = _INSTEAD.get(fault, LOGIN_PAGE)
        if fault not in (*_INSTEAD, NEVER_ARRIVES) and error is None:
            found = await self._carry_out(sent, fault)
            if sent.request.method == "GET":
                fresh = found
                found = self._proxy.answer(url, fresh, old=fault == OLD_ANSWER)
                if found is not fresh:
                    self._service.is_old(sent.request)
            found = _AFTER.get(fault, found)
        if fault:
            self._tell_failed(sent)
        if fault in (NEVER_ARRIVES, LOST):
            return
        if fault == BROKEN:
            error = httpx.RemoteProtocolError("the connection ended")
        await self._loop.gate(f"{who}: is answered")
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(_response(found, cut=fault == CUT))

    def _tell_failed(self, sent: Sent) -> None:
        if sent.request.method != "GET":
            self._service.fails(sent)

    async def _carry_out(self, sent: Sent, fault: str) -> Response:
        writes = sent.request.method != "GET"
        sent.strays = sent.strays or (writes and sent.process.dead)
        self._service.lands(sent)
        found = await self._service.respond(sent.request)
        self._service.landed(sent)
        if fault == TWICE:
            self._service.lands(sent)
            await self._service.respond(sent.request)
        elif fault == LATER_AGAIN:
            self._loop.create_task(self._repeat(sent), context=Context())
        return found

    async def _repeat(self, sent: Sent) -> None:
        await self._loop.gate(f"{self.process.name}: {sent.words}: arrives once more")
        again = Sent(sent.process, sent.request, sent.words, strays=True)
        self._service.lands(again)
        await self._service.respond(again.request)

    def _fault(self, sent: Sent) -> str:
        if sent.request.method == "GET":
            known = READ_FAULTS if self._service.may_be_old(sent.request) else READ_FAULTS[:-1]
        else:
            known = WRITE_FAULTS if self._service.repeatable(sent.request) else WRITE_FAULTS[:-2]
        return self._chosen(f"{self.process.name}: {sent.words}: fails", ["", *known])

    def _chosen(self, label: str, options: list[str]) -> str:
        if self._calm():
            return ""
        return self._chooser.among(label, options, rate=self._chooser.rates.faults)


class _Body(httpx.AsyncByteStream):
    """Give the bytes of an answer; ``cut``: half of them, and then the connection ends."""

    def __init__(self, data: bytes, *, cut: bool) -> None:
        self._data = data
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._cut:
            yield self._data[: len(self._data) // 2]
            raise httpx.RemoteProtocolError("the answer breaks off")
        yield self._data


def _response(found: Response, *, cut: bool) -> httpx.Response:
    headers = [("Content-Type", found.content_type), *found.headers]
    return httpx.Response(found.status, headers=headers, stream=_Body(found.body, cut=cut))
