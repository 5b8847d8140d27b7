"""Logging in: each refusal in the user's words, and never a second try with a wrong password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcp_notarium.backends.registry import load, names
from mcp_notarium.backends.simplenote.auth import Authenticator, normal_username
from mcp_notarium.backends.simplenote.client import SimplenoteBackend
from mcp_notarium.backends.simplenote.tokens import FIRST_PAUSE, LONGEST_PAUSE, Tokens
from mcp_notarium.backends.simplenote.urls import Urls
from mcp_notarium.errors import (
    BackendProtocolError,
    BackendTimeout,
    BackendUnavailable,
    CacheBusy,
    ConfigError,
    InvalidRequest,
    LoginRequired,
    NotariumError,
    RateLimited,
)
from mcp_notarium.secret import Secret
from mcp_notarium.simulator import Simulator
from support.simplenote_client import MemoryTokens, open_backend, open_session, urls_of

Step = Callable[[Simulator, Authenticator], Coroutine[Any, Any, Any]]


def at_the_desk(step: Step, *, api_key: str | None = None) -> Any:
    async def run() -> Any:
        async with Simulator().serving() as sim:
            key = sim.api_key if api_key is None else api_key
            desk = Authenticator(session=open_session(sim), urls=urls_of(sim), api_key=Secret(key))
            try:
                return await step(sim, desk)
            finally:
                await desk.close()

    return asyncio.run(run())


def refusal(step: Step, *, api_key: str | None = None, error: type = LoginRequired) -> Any:
    with pytest.raises(error) as caught:
        at_the_desk(step, api_key=api_key)
    return caught.value


async def by_password(sim: Simulator, desk: Authenticator) -> Secret:
    return await desk.by_password(sim.username, Secret(sim.password))


# By password


def test_password_gives_the_token_however_the_address_is_typed() -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        token = await desk.by_password(f"  {sim.username.upper()} \n", Secret(sim.password))
        assert token == Secret(sim.token)
        assert sim.requests[-1].path.endswith("/authorize/")

    at_the_desk(step)


def test_address_goes_out_as_the_service_knows_it() -> None:
    assert normal_username("  Me@Example.COM\n") == "me@example.com"


def test_wrong_password_is_said_and_tried_once() -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        try:
            await desk.by_password(sim.username, Secret("canary"))
        finally:
            assert len(sim.requests) == 1

    error = refusal(step)
    assert "username and password" in error.message
    assert "canary" not in f"{error} {error.to_dict()}"


def test_unknown_username_is_not_told_from_a_wrong_password() -> None:
    error = refusal(lambda sim, desk: desk.by_password("nobody@example.com", Secret("x")))
    assert "username and password" in error.message
    assert "nobody" not in str(error)


def test_compromised_password_asks_for_a_new_one() -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        sim.account(sim.username).compromised = True
        await by_password(sim, desk)

    assert "stolen" in refusal(step).message


def test_unverified_address_asks_for_the_verification() -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        sim.account(sim.username).unverified = True
        await by_password(sim, desk)

    assert "verified" in refusal(step).message


def test_wrong_app_key_points_to_the_code() -> None:
    error = refusal(by_password, api_key="wrong")
    assert "app key" in error.message
    assert "mcp-notarium login" in error.resolution_hint


@pytest.mark.parametrize("api_key", ["", "with\nnewline", "schlüssel"])
def test_unusable_app_key_is_not_sent(api_key: str) -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        try:
            await by_password(sim, desk)
        finally:
            assert sim.requests == []

    assert "app key" in refusal(step, api_key=api_key).message


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, b"rate limited", RateLimited),
        (429, b"", RateLimited),
        (500, b"<html>", BackendUnavailable),
        (503, b"", BackendUnavailable),
        (504, b"", BackendTimeout),
        (400, b"whatever", BackendProtocolError),
        (404, b"", BackendProtocolError),
        (200, b"not json", BackendProtocolError),
        (200, b"{}", BackendProtocolError),
        (200, b'{"access_token": 5}', BackendProtocolError),
        (200, b'{"access_token": ""}', BackendProtocolError),
        (200, b'{"access_token": "two words"}', BackendProtocolError),
        (200, b'{"access_token": "\\ud800"}', BackendProtocolError),
        (302, b"", BackendProtocolError),
    ],
)
def test_strange_answer_to_a_login_is_tried_once(status: int, body: bytes, error: type) -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        rule = sim.faults.status(status, path="*/authorize/", body=body, times=9)
        try:
            await by_password(sim, desk)
        finally:
            assert rule.fired == 1

    assert type(refusal(step, error=NotariumError)) is error


# By code


def test_code_gives_a_token_and_carries_our_own_name() -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        await desk.request_code(sim.username, request_source="mcp-notarium")
        (sent,) = sim.sent_codes
        assert sent.request_source == "mcp-notarium"
        token = await desk.complete_code(sim.username, f" {sent.code.lower()} ")
        assert token == Secret(sim.token)

    at_the_desk(step, api_key="")


def test_wrong_code_is_said_and_sent_once() -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        await desk.request_code(sim.username, request_source="x")
        sim.reset_log()
        try:
            await desk.complete_code(sim.username, "WRONG1")
        finally:
            assert len(sim.requests) == 1

    assert "does not accept this code" in refusal(step).message


def test_code_never_asked_for_is_said() -> None:
    error = refusal(lambda sim, desk: desk.complete_code(sim.username, "ABC123"))
    assert "expired" in error.message


@pytest.mark.parametrize("status", [401, 403])
def test_refused_code_in_any_form_is_a_wrong_code(status: int) -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        sim.faults.status(status, path="*/complete-login", body=b"<html>")
        await desk.complete_code(sim.username, "ABC123")

    assert "does not accept this code" in refusal(step).message


def test_code_after_too_many_wrong_ones_is_rate_limited() -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        sim.faults.status(429, path="*/complete-login", retry_after="600")
        await desk.complete_code(sim.username, "ABC123")

    assert refusal(step, error=RateLimited).retry_after == 600.0


@pytest.mark.parametrize("code", ["", "   ", "AB-12", "x" * 40, "ÄÖÜ123"])
def test_what_cannot_be_a_code_is_not_sent(code: str) -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        try:
            await desk.complete_code(sim.username, code)
        finally:
            assert sim.requests == []

    refusal(step, error=InvalidRequest)


def test_address_that_gets_no_code_is_said() -> None:
    async def step(sim: Simulator, desk: Authenticator) -> None:
        sim.faults.status(400, path="*/request-login", body=b"{}")
        await desk.request_code("nobody", request_source="x")

    assert "does not send a code" in refusal(step).message


# Which token


class Desk:
    """Stands in for the service's login: counts, and refuses as told."""

    def __init__(self) -> None:
        self.calls = 0
        self.refuse: Exception | None = None

    async def by_password(self, _username: str, _password: Secret) -> Secret:
        self.calls += 1
        await asyncio.sleep(0)
        if self.refuse is not None:
            raise self.refuse
        return Secret(f"new-{self.calls}")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def tokens_of(desk: Desk, store: Any = None, clock: Clock | None = None, **given: Any) -> Tokens:
    return Tokens(
        authenticator=desk,
        username="u",
        password=given.get("password", Secret("p")),
        token=given.get("token"),
        store=store or MemoryTokens(),
        clock=clock or Clock(),
    )


def test_given_token_comes_before_the_stored_one_and_the_password() -> None:
    desk, store = Desk(), MemoryTokens(Secret("stored"))
    given = tokens_of(desk, store, token=Secret("given"))
    assert asyncio.run(given.current()) == Secret("given")
    assert asyncio.run(tokens_of(desk, store).current()) == Secret("stored")
    assert desk.calls == 0


def test_password_is_used_last_and_its_token_is_stored() -> None:
    desk, store = Desk(), MemoryTokens()
    assert asyncio.run(tokens_of(desk, store).current()) == Secret("new-1")
    assert store.load() == Secret("new-1")


def test_without_any_way_in_the_login_is_asked_for() -> None:
    with pytest.raises(LoginRequired):
        asyncio.run(tokens_of(Desk(), password=None).current())
    with pytest.raises(LoginRequired):
        asyncio.run(tokens_of(Desk(), password=None, token=Secret("")).current())


def test_token_that_no_header_can_carry_is_refused_unquoted() -> None:
    with pytest.raises(LoginRequired) as caught:
        asyncio.run(tokens_of(Desk(), token=Secret("canary\n")).current())
    assert "canary" not in str(caught.value)


class Declining(MemoryTokens):
    def load(self) -> Secret | None:
        raise CacheBusy("busy")

    def store(self, token: Secret) -> None:
        raise CacheBusy("busy")


@pytest.mark.parametrize("store", [MemoryTokens, Declining])
def test_many_refusals_at_once_renew_once(store: type[MemoryTokens]) -> None:
    desk = Desk()

    async def run() -> list[Secret]:
        tokens = tokens_of(desk, store())
        old = await tokens.current()
        return await asyncio.gather(*[tokens.renewed(old) for _ in range(10)])

    assert asyncio.run(run()) == [Secret("new-2")] * 10
    assert desk.calls == 2


def test_login_of_another_process_is_taken_up() -> None:
    desk, store = Desk(), MemoryTokens(Secret("old"))

    async def run() -> Secret:
        tokens = tokens_of(desk, store, password=None)
        old = await tokens.current()
        store.store(Secret("fresh"))
        return await tokens.renewed(old)

    assert asyncio.run(run()) == Secret("fresh")


def test_store_that_declines_does_not_spoil_the_login() -> None:
    assert asyncio.run(tokens_of(Desk(), Declining()).current()) == Secret("new-1")


@pytest.mark.parametrize("error", [LoginRequired("wrong"), RateLimited("slow")])
def test_refused_password_rests_for_minutes_that_grow_to_an_hour(error: NotariumError) -> None:
    desk, clock = Desk(), Clock()
    desk.refuse = error
    tokens = tokens_of(desk, clock=clock)

    def attempt() -> None:
        with pytest.raises(type(error)) as caught:
            asyncio.run(tokens.current())
        assert caught.value.message == error.message

    pause = FIRST_PAUSE
    for tries in range(1, 7):
        attempt()
        clock.now += pause - 1
        attempt()
        assert desk.calls == tries
        clock.now += 1
        pause = min(LONGEST_PAUSE, pause * 2)
    assert pause == LONGEST_PAUSE
    desk.refuse = None
    assert asyncio.run(tokens.current())


def test_outage_during_a_login_is_no_reason_to_rest() -> None:
    desk = Desk()
    desk.refuse = BackendUnavailable("down")
    tokens = tokens_of(desk)
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            asyncio.run(tokens.current())
    assert desk.calls == 2


# Through the backend


@asynccontextmanager
async def account(**options: Any) -> AsyncIterator[tuple[Simulator, SimplenoteBackend]]:
    async with Simulator().serving() as sim:
        sim.put("n1", content="x")
        backend = open_backend(sim, **options)
        try:
            yield sim, backend
        finally:
            await backend.close()


def test_expired_token_is_renewed_in_the_middle_of_things() -> None:
    async def run() -> None:
        async with account() as (sim, backend):
            await backend.get("n1")
            sim.account(sim.username).token = "f" * 32
            found = await asyncio.gather(*[backend.get("n1") for _ in range(5)])
            assert [revision.content.text for revision in found] == ["x"] * 5
            assert sum(r.path.endswith("/authorize/") for r in sim.requests) == 2

    asyncio.run(run())


@pytest.mark.parametrize("status", [401, 403])
def test_refusal_is_tried_once_more_with_a_new_token_and_no_further(status: int) -> None:
    async def run() -> None:
        async with account() as (sim, backend):
            rule = sim.faults.status(status, path="*/note/*", times=99)
            with pytest.raises(LoginRequired):
                await backend.get("n1")
            assert rule.fired == 2

    asyncio.run(run())


def test_token_alone_is_enough_until_it_is_refused() -> None:
    async def run() -> None:
        async with Simulator().serving() as sim:
            sim.put("n1", content="x")
            backend = open_backend(sim, token=sim.token, password="")
            assert (await backend.get("n1")).content.text == "x"
            sim.change_password("other")
            with pytest.raises(LoginRequired):
                await backend.get("n1")
            await backend.close()
            assert not [r for r in sim.requests if r.path.endswith("/authorize/")]

    asyncio.run(run())


def test_wrong_password_goes_out_once_whatever_is_called() -> None:
    async def run() -> None:
        async with account(password="wrong") as (sim, backend):
            for _ in range(5):
                with pytest.raises(LoginRequired):
                    await backend.get("n1")
            assert len(sim.requests) == 1

    asyncio.run(run())


def test_login_that_takes_too_long_promises_that_nothing_was_written() -> None:
    async def run() -> None:
        async with account(timeout=0.5) as (sim, backend):
            sim.faults.delay(20, path="*/authorize/", times=9)
            with pytest.raises(BackendUnavailable):
                await backend.delete("n1", etag="1", write_id="0d")
            with pytest.raises(BackendTimeout):
                await backend.get("n1")

    asyncio.run(run())


# The registry


def test_backend_is_found_by_its_name() -> None:
    assert load("simplenote") is SimplenoteBackend
    assert "simplenote" in names()


def test_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        load("evernote")
    assert "simplenote" in str(caught.value.resolution_hint)


def test_plain_http_to_elsewhere_is_refused_at_construction() -> None:
    with pytest.raises(ConfigError):
        SimplenoteBackend(
            urls=Urls(api="http://api.example/1"),
            username="u",
            password=None,
            token=None,
            tokens=MemoryTokens(),
            api_key=Secret(""),
            client_id="x",
            timeout=1,
        )
