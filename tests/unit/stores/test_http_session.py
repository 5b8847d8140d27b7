"""One request: deadline, retries, bounds, and what is promised when no answer comes."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from mcp_notarium.errors import (
    ConfigError,
    OutcomeUnknown,
    RateLimited,
    StoreProtocolError,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.stores import http
from mcp_notarium.stores.contract import LET_CALLS_PASS
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.http_rules import ConnectionDropped, RetryPolicy
from mcp_notarium.stores.json_answers import AnswerTooLarge
from support.certificates import own_certificate, serving, trusted_folder

BASE = "https://notes.example/1"
READ = Request("GET", f"{BASE}/a")
WRITE = Request("POST", f"{BASE}/a", body=b"{}", write=True)

Step = httpx.Response | type[httpx.HTTPError]


class Script:
    """A transport that plays given steps, and a clock that only sleeping moves."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.seen: list[httpx.Request] = []
        self.pauses: list[float] = []
        self.now = 0.0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        step = self.steps.pop(0)
        if isinstance(step, httpx.Response):
            return step
        raise step("made up", request=request)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def send(self, request: Request, *, drawn: float = 1.0, timeout: float = 10.0) -> Reply:
        async def once() -> Reply:
            session = HttpSession(
                bases=[BASE],
                timeout=timeout,
                retry_policy=RetryPolicy(tries=4, first=0.5, longest=8.0),
                draw=lambda: drawn,
                sleep=self.sleep,
                clock=lambda: self.now,
                wall_clock=lambda: 1_700_000_000.0 + self.now,
                transport=httpx.MockTransport(self.answer),
            )
            try:
                return await session.send(request)
            finally:
                await session.close()

        return asyncio.run(once())


def status(code: int, **headers: str) -> httpx.Response:
    return httpx.Response(code, headers={k.replace("_", "-"): v for k, v in headers.items()})


def ok(body: bytes = b"[]", **headers: str) -> httpx.Response:
    return httpx.Response(200, content=body, headers=headers)


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_failing_service_is_asked_again_with_growing_pauses(code: int) -> None:
    script = Script(status(code), status(code), status(code), ok())
    assert script.send(READ).body == b"[]"
    assert script.pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadError, httpx.ReadTimeout])
def test_broken_connection_is_tried_again(error: type[httpx.HTTPError]) -> None:
    assert Script(error, ok()).send(READ).ok


def test_pause_is_drawn_over_the_whole_range() -> None:
    script = Script(status(503), status(503), ok())
    script.send(READ, drawn=0.25)
    assert script.pauses == [0.125, 0.25]


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 412, 413, 440])
def test_definite_answer_is_not_repeated(code: int) -> None:
    script = Script(status(code))
    assert script.send(WRITE).status == code
    assert len(script.seen) == 1


def test_retry_after_in_seconds_is_waited_for() -> None:
    script = Script(status(429, retry_after="3"), ok())
    script.send(READ)
    assert script.pauses == [3.0]


def test_retry_after_as_a_date_is_waited_for() -> None:
    script = Script(status(503, retry_after="Tue, 14 Nov 2023 22:13:25 GMT"), ok())
    script.send(READ)
    assert script.pauses == [5.0]


@pytest.mark.parametrize("hour", [21, 22, 23])
def test_retry_after_as_a_date_is_by_the_clock_of_the_service(hour: int) -> None:
    date, until = (f"Tue, 14 Nov 2023 {hour}:13:{second} GMT" for second in (20, 25))
    script = Script(status(503, date=date, retry_after=until), ok())
    script.send(READ)
    assert script.pauses == [5.0]


def test_retry_after_beyond_the_deadline_is_passed_to_the_caller() -> None:
    script = Script(status(429, retry_after="60"))
    with pytest.raises(RateLimited) as caught:
        script.send(READ)
    assert caught.value.retry_after == 60.0
    assert script.pauses == []


def test_deadline_ends_the_tries() -> None:
    script = Script(*[status(503)] * 10)
    with pytest.raises(StoreUnavailable):
        script.send(READ, timeout=1.4)
    assert len(script.seen) == 2


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (httpx.ConnectError, StoreUnavailable),
        (httpx.ConnectTimeout, StoreUnavailable),
        (httpx.PoolTimeout, StoreUnavailable),
        (httpx.ReadTimeout, StoreTimeout),
        (httpx.RemoteProtocolError, ConnectionDropped),
        (status(500), StoreUnavailable),
        (status(502), ConnectionDropped),
        (status(504), StoreTimeout),
        (status(429), RateLimited),
    ],
    ids=str,
)
def test_last_failure_of_a_read_decides_the_error(step: Step, expected: type) -> None:
    with pytest.raises(expected) as caught:
        Script(*[step] * 4).send(READ)
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (httpx.ConnectError, StoreUnavailable),
        (httpx.ConnectTimeout, StoreUnavailable),
        (httpx.PoolTimeout, StoreUnavailable),
        (httpx.WriteError, OutcomeUnknown),
        (httpx.ReadError, OutcomeUnknown),
        (httpx.ReadTimeout, OutcomeUnknown),
        (httpx.RemoteProtocolError, OutcomeUnknown),
        (status(500), OutcomeUnknown),
        (status(502), OutcomeUnknown),
        (status(503), OutcomeUnknown),
        (status(504), OutcomeUnknown),
        (status(429), RateLimited),
    ],
    ids=str,
)
def test_write_is_in_doubt_only_if_it_may_have_arrived(step: Step, expected: type) -> None:
    with pytest.raises(expected) as caught:
        Script(*[step] * 4).send(WRITE)
    assert type(caught.value) is expected


@pytest.mark.parametrize("last", [httpx.ConnectError, status(429), status(302)], ids=str)
def test_doubt_of_an_earlier_try_stays(last: Step) -> None:
    with pytest.raises(OutcomeUnknown):
        Script(httpx.ReadError, *[last] * 3).send(WRITE)


def test_refusal_after_a_doubtful_try_is_marked() -> None:
    assert Script(httpx.ReadError, status(400)).send(WRITE).in_doubt
    assert not Script(httpx.ConnectError, status(400)).send(WRITE).in_doubt
    assert not Script(status(429), status(400)).send(WRITE).in_doubt
    assert not Script(httpx.ReadError, status(400)).send(READ).in_doubt


def test_single_try_is_single() -> None:
    script = Script(status(503), ok())
    with pytest.raises(StoreUnavailable):
        script.send(Request("GET", f"{BASE}/a", tries=1))
    assert len(script.seen) == 1


@pytest.mark.attack(45)
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(code: int) -> None:
    script = Script(status(code, location="https://evil.example/steal"), ok())
    with pytest.raises(StoreProtocolError):
        script.send(READ)
    assert [request.url.host for request in script.seen] == ["notes.example"]


@pytest.mark.attack(45)
@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/1/a",
        "http://notes.example/1/a",
        "https://notes.example:444/1/a",
        "https://notes.example.evil.example/1",
        "file:///etc/passwd",
        "https://",
        "no url at all",
    ],
)
def test_only_configured_hosts_are_contacted(url: str) -> None:
    script = Script(ok())
    with pytest.raises(ConfigError):
        script.send(Request("GET", url))
    assert script.seen == []


def test_answer_over_the_limit_is_refused_while_it_is_read() -> None:
    given: list[int] = []

    async def parts() -> Iterable[bytes]:
        for number in range(1000):
            given.append(number)
            yield b"x" * 1024

    script = Script(httpx.Response(200, content=parts()))
    with pytest.raises(AnswerTooLarge):
        script.send(Request("GET", f"{BASE}/a", largest=4096))
    assert len(given) < 10


def test_compressed_answer_counts_as_it_unpacks() -> None:
    bomb = gzip.compress(b"0" * 5_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(AnswerTooLarge):
            Script(zipped(bomb)).send(Request("GET", f"{BASE}/a", largest=100_000))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    whole = Script(zipped(bomb[:9], bomb[9:])).send(Request("GET", f"{BASE}/a", largest=5_000_000))
    assert whole.body == b"0" * 5_000_000


def test_compressed_answer_that_unpacks_to_nothing_counts_as_it_is() -> None:
    for tail in (b"junk" * 1000, gzip.compress(b"") * 100):
        script = Script(zipped(gzip.compress(b"[]"), *[tail] * 100))
        with pytest.raises(AnswerTooLarge):
            script.send(Request("GET", f"{BASE}/a", largest=50_000))
        done = Script(zipped(gzip.compress(b"[]"), *[tail] * 100))
        assert done.send(replace(WRITE, largest=50_000)).body == b"[]"


@pytest.mark.parametrize(
    "broken", [b"no gzip at all", gzip.compress(b"[1, 2, 3]" * 99, mtime=0)[:-20]]
)
def test_compressed_answer_that_is_broken_is_asked_for_again(broken: bytes) -> None:
    script = Script(zipped(broken), zipped(gzip.compress(b"[]")))
    assert script.send(READ).body == b"[]"


def zipped(*packed: bytes) -> httpx.Response:
    async def parts() -> AsyncIterator[bytes]:
        for part in packed:
            yield part

    return httpx.Response(200, content=parts(), headers={"content-encoding": "gzip"})


@pytest.mark.parametrize("packing", ["gzip, gzip", "gzip,deflate", "br", "deflate"])
def test_answer_packed_otherwise_than_asked_for_is_not_unpacked(packing: str) -> None:
    given: list[int] = []

    async def parts() -> AsyncIterator[bytes]:
        given.append(1)
        yield gzip.compress(gzip.compress(b"[]"))

    def packed() -> httpx.Response:
        return httpx.Response(200, content=parts(), headers={"content-encoding": packing})

    with pytest.raises(StoreProtocolError):
        Script(packed()).send(READ)
    assert Script(packed()).send(WRITE).body == b""
    assert given == []


def test_calls_pass_an_answer_before_it_is_read() -> None:
    seen: list[str] = []

    async def parts() -> AsyncIterator[bytes]:
        seen.append("read")
        yield b"[]"

    async def calls() -> None:
        seen.append("calls")

    before = LET_CALLS_PASS.set(calls)
    try:
        assert Script(httpx.Response(200, content=parts())).send(READ).ok
    finally:
        LET_CALLS_PASS.reset(before)
    assert seen == ["calls", "read"]


def test_size_of_the_answer_does_not_hide_that_a_write_was_done() -> None:
    request = Request("POST", f"{BASE}/a", body=b"{}", write=True, largest=10)
    reply = Script(ok(b"x" * 100)).send(request)
    assert reply.ok
    assert len(reply.body) == 10


def test_error_body_is_cut_and_kept_out_of_the_message() -> None:
    page = b"<html>canary " + b"x" * 1_000_000
    reply = Script(httpx.Response(404, content=page)).send(READ)
    assert len(reply.body) <= 16 * 1024
    with pytest.raises(StoreUnavailable) as caught:
        Script(*[httpx.Response(500, content=page) for _ in range(4)]).send(READ)
    assert "canary" not in f"{caught.value} {caught.value.to_dict()}"
    assert "500" in str(caught.value)


def test_cookies_are_not_kept() -> None:
    script = Script(ok(b"", **{"set-cookie": "track=1"}), status(503), ok())

    async def twice() -> None:
        session = HttpSession(
            bases=[BASE],
            timeout=5,
            sleep=script.sleep,
            transport=httpx.MockTransport(script.answer),
        )
        await session.send(READ)
        await session.send(READ)
        await session.close()

    asyncio.run(twice())
    assert [request.headers.get("cookie") for request in script.seen] == [None] * 3


def test_a_request_names_the_program_and_asks_for_a_fresh_answer() -> None:
    script = Script(ok())
    script.send(READ)
    assert script.seen[0].headers["user-agent"].startswith("mcp-notarium/")
    assert script.seen[0].headers["cache-control"] == "no-cache"


async def answer_nothing(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]")


def serve(
    reply: Callable[[asyncio.StreamWriter], object],
    request: Request,
    *,
    tls: ssl.SSLContext | None = None,
    **session: float,
):
    """Send ``request`` to a raw loopback server that answers with ``reply``."""

    async def run() -> Reply:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                await reply(writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
        base = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = HttpSession(
            bases=[base],
            **{"timeout": 0.8, **session},
            retry_policy=RetryPolicy(tries=2, first=0.01),
        )
        try:
            return await client.send(replace(request, url=base + "/a"))
        finally:
            await client.close()
            server.close()

    return asyncio.run(run())


async def keep_answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection, late and in pieces; cut one that asks for it."""
    try:
        while True:
            asked = await reader.readuntil(b"\r\n\r\n")
            answer = b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n" + b"x" * 40
            cut = b"GET /cut/" in asked
            sent = answer[: int(asked.split(b"/")[2].split()[0])] if cut else answer
            for part in (sent[:20], sent[20:50], sent[50:]):
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.001)
            if cut:
                return
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


@pytest.mark.timeout(120)
def test_a_request_withdrawn_or_cut_at_any_point_keeps_no_other_from_being_answered() -> None:
    async def withdraw(client: HttpSession, base: str, turns: int) -> None:
        asked = asyncio.create_task(client.send(replace(READ, url=f"{base}/a")))
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.cancel()
        with suppress(asyncio.CancelledError):
            await asked

    async def cut(client: HttpSession, base: str, size: int) -> None:
        with suppress(StoreUnavailable):
            await client.send(replace(READ, url=f"{base}/cut/{size}"))

    async def run() -> list[tuple[str, int]]:
        server = await asyncio.start_server(keep_answering, "127.0.0.1", 0)
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        silent = []
        try:
            for how, point in points:
                client = HttpSession(bases=[base], timeout=1.0, retry_policy=RetryPolicy(tries=1))
                for _ in range(2):  # over a new connection, and over one that is kept
                    await how(client, base, point)
                    try:
                        assert (await client.send(replace(READ, url=f"{base}/a"))).ok
                    except (StoreTimeout, StoreUnavailable):
                        silent.append((how.__name__, point))
                await client.close()
        finally:
            server.close()
        return silent

    points = [(withdraw, turns) for turns in range(60)] + [(cut, size) for size in range(0, 80, 8)]
    assert asyncio.run(run()) == []


async def drip(writer: asyncio.StreamWriter) -> None:
    """An answer that never ends and is never silent long enough for a read timeout."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


def test_dripping_answer_ends_at_the_deadline() -> None:
    begun = time.monotonic()
    with pytest.raises(StoreTimeout):
        serve(drip, READ)
    with pytest.raises(OutcomeUnknown):
        serve(drip, WRITE)
    assert time.monotonic() - begun < 15


def test_silence_after_a_write_was_sent_leaves_it_in_doubt() -> None:
    async def say_nothing(_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    with pytest.raises(OutcomeUnknown):
        serve(say_nothing, WRITE)


def test_secret_in_a_header_is_never_quoted() -> None:
    request = replace(READ, url=f"{READ.url}?t=canary", headers={"x-token": "canary\nvalue"})
    assert "canary" not in repr(request)
    with pytest.raises(StoreProtocolError) as caught:
        serve(drip, request)
    error = caught.value
    assert "canary" not in f"{error} {error.__cause__!r} {error.to_dict()}"


def test_answer_cut_in_the_middle_is_no_answer() -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[1,2")

    with pytest.raises(ConnectionDropped):
        serve(cut, READ)
    with pytest.raises(OutcomeUnknown):
        serve(cut, WRITE)


def test_answer_that_is_not_http_is_no_answer() -> None:
    async def babble(writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")

    with pytest.raises(ConnectionDropped):
        serve(babble, READ)


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]")

    assert serve(answer, READ, timeout=5.0).body == b"[]"


def test_certificates_are_checked() -> None:
    context = http._open_transport()._pool._ssl_context
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"
    assert context.minimum_version >= 0x0303


openssl_decides = pytest.mark.skipif(
    sys.platform in {"darwin", "win32"}, reason="the system itself checks there"
)


def test_an_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="its certificate is not trusted"):
        serve(answer_nothing, READ, tls=serving(own_certificate(tmp_path)), timeout=5.0)


@openssl_decides
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_certificate_that_openssl_trusts_by_configuration_is_accepted(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what is refused above is refused for nothing else."""
    certificate = own_certificate(tmp_path)
    trusted = certificate if variable == "SSL_CERT_FILE" else trusted_folder(certificate)
    monkeypatch.setenv(variable, str(trusted))
    reply = serve(answer_nothing, READ, tls=serving(certificate), timeout=5.0)
    assert reply.body == b"[]"


@openssl_decides
def test_a_trusted_certificate_of_another_host_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = own_certificate(tmp_path, address="127.0.0.9")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(StoreUnavailable):
        serve(answer_nothing, READ, tls=serving(certificate), timeout=5.0)


def test_nothing_of_the_network_is_imported_before_the_first_request() -> None:
    code = (
        "import sys, mcp_notarium.stores.simplenote.store as c, mcp_notarium.stores.http as h;"
        "h.HttpSession(bases=['https://a.example'], timeout=1);"
        "print([m for m in ('httpx', 'truststore', 'diff_match_patch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"
