"""Logging in: each refusal in the user's words, and never a second try with a wrong password."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mcp_notarium.errors import (
    InvalidRequest,
    LoginRequired,
    NotariumError,
    RateLimited,
    StoreProtocolError,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.simplenote.login import Authenticator, WrongCode, normal_username
from notarium_devtools.simperium import Simulator
from support.simplenote_client import open_session, urls_of

Step = Callable[[Simulator, Authenticator], Coroutine[Any, Any, Any]]


def run_login(step: Step, *, api_key: str | None = None) -> Any:
    async def run() -> Any:
        async with Simulator().serving() as sim:
            key = sim.api_key if api_key is None else api_key
            authenticator = Authenticator(
                session=open_session(sim), urls=urls_of(sim), api_key=Secret(key)
            )
            try:
                return await step(sim, authenticator)
            finally:
                await authenticator.close()

    return asyncio.run(run())


def refusal(step: Step, *, api_key: str | None = None, error: type = LoginRequired) -> Any:
    with pytest.raises(error) as caught:
        run_login(step, api_key=api_key)
    return caught.value


async def by_password(sim: Simulator, authenticator: Authenticator) -> Secret:
    return await authenticator.by_password(sim.username, Secret(sim.password))


# By password


def test_password_gives_the_token_however_the_address_is_typed() -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        token = await authenticator.by_password(
            f"  {sim.username.upper()} \n", Secret(sim.password)
        )
        assert token == Secret(sim.token)
        assert sim.requests[-1].path.endswith("/authorize/")

    run_login(step)


def test_address_goes_out_as_the_service_knows_it() -> None:
    assert normal_username("  Me@Example.COM\n") == "me@example.com"


def test_wrong_password_is_said_and_tried_once() -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        try:
            await authenticator.by_password(sim.username, Secret("canary"))
        finally:
            assert len(sim.requests) == 1

    error = refusal(step)
    assert "username and password" in error.message
    assert "canary" not in f"{error} {error.to_dict()}"


def test_unknown_username_gets_the_same_error_as_a_wrong_password() -> None:
    error = refusal(
        lambda sim, authenticator: authenticator.by_password("nobody@example.com", Secret("x"))
    )
    assert "username and password" in error.message
    assert "nobody" not in str(error)


def test_compromised_password_asks_for_a_new_one() -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        sim.account(sim.username).compromised = True
        await by_password(sim, authenticator)

    assert "stolen" in refusal(step).message


def test_unverified_address_asks_for_the_verification() -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        sim.account(sim.username).unverified = True
        await by_password(sim, authenticator)

    assert "verified" in refusal(step).message


def test_wrong_app_key_points_to_the_code() -> None:
    error = refusal(by_password, api_key="wrong")
    assert "app key" in error.message
    assert "mcp-notarium login" in error.resolution_hint


@pytest.mark.parametrize("api_key", ["", "with\nnewline", "schlüssel"])
def test_unusable_app_key_is_not_sent(api_key: str) -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        try:
            await by_password(sim, authenticator)
        finally:
            assert sim.requests == []

    assert "app key" in refusal(step, api_key=api_key).message


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, b"rate limited", RateLimited),
        (429, b"", RateLimited),
        (500, b"<html>", StoreUnavailable),
        (503, b"", StoreUnavailable),
        (504, b"", StoreTimeout),
        (400, b"whatever", StoreProtocolError),
        (404, b"", StoreProtocolError),
        (200, b"not json", StoreProtocolError),
        (200, b"{}", StoreProtocolError),
        (200, b'{"access_token": 5}', StoreProtocolError),
        (200, b'{"access_token": ""}', StoreProtocolError),
        (200, b'{"access_token": "two words"}', StoreProtocolError),
        (200, b'{"access_token": "\\ud800"}', StoreProtocolError),
        (302, b"", StoreProtocolError),
    ],
)
def test_strange_answer_to_a_login_is_tried_once(status: int, body: bytes, error: type) -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        rule = sim.faults.status(status, path="*/authorize/", body=body, times=9)
        try:
            await by_password(sim, authenticator)
        finally:
            assert rule.fired == 1

    assert type(refusal(step, error=NotariumError)) is error


# By code


def test_code_gives_a_token_and_carries_our_own_name() -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        await authenticator.request_code(sim.username, request_source="mcp-notarium")
        (sent,) = sim.sent_codes
        assert sent.request_source == "mcp-notarium"
        token = await authenticator.complete_code(sim.username, f" {sent.code.lower()} ")
        assert token == Secret(sim.token)

    run_login(step, api_key="")


def test_wrong_code_is_said_and_sent_once() -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        await authenticator.request_code(sim.username, request_source="x")
        sim.reset_log()
        try:
            await authenticator.complete_code(sim.username, "WRONG1")
        finally:
            assert len(sim.requests) == 1

    assert "does not accept this code" in refusal(step).message


def test_code_never_asked_for_is_said() -> None:
    error = refusal(lambda sim, authenticator: authenticator.complete_code(sim.username, "ABC123"))
    assert "expired" in error.message


@pytest.mark.parametrize("status", [401, 403])
def test_refused_code_in_any_form_is_a_wrong_code(status: int) -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        sim.faults.status(status, path="*/complete-login", body=b"<html>")
        await authenticator.complete_code(sim.username, "ABC123")

    assert isinstance(refusal(step), WrongCode)


def test_code_after_too_many_wrong_ones_is_rate_limited() -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        sim.faults.status(429, path="*/complete-login", retry_after="600")
        await authenticator.complete_code(sim.username, "ABC123")

    assert refusal(step, error=RateLimited).retry_after == 600.0


@pytest.mark.parametrize("code", ["", "   ", "AB-12", "x" * 40, "ÄÖÜ123"])
def test_what_cannot_be_a_code_is_not_sent(code: str) -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        try:
            await authenticator.complete_code(sim.username, code)
        finally:
            assert sim.requests == []

    refusal(step, error=InvalidRequest)


def test_address_that_gets_no_code_is_said() -> None:
    async def step(sim: Simulator, authenticator: Authenticator) -> None:
        sim.faults.status(400, path="*/request-login", body=b"{}")
        await authenticator.request_code("nobody", request_source="x")

    assert "does not send a code" in refusal(step).message
