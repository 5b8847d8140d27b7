"""Which token is used, when it is renewed, and how long a refused password is left in peace."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from mcp_notarium.errors import (
    CacheBusy,
    ConfigError,
    LoginRequired,
    NotariumError,
    RateLimited,
    StoreProtocolError,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.simplenote.kind import Urls
from mcp_notarium.stores.simplenote.session import FIRST_PAUSE, LONGEST_PAUSE, RELOGIN_PAUSE, Tokens
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from notarium_devtools.simperium import Simulator
from support.simplenote_client import MemoryRecord, MemoryTokens, open_store


class FakeAuthenticator:
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


class Believing:
    """Stands in for the judgement of tokens: takes every one, see test_simplenote_token_owner."""

    def recognises(self, _token: Secret) -> bool:
        return False

    async def accepts(self, _token: Secret, *, from_service: bool) -> bool:
        del from_service
        return True


def tokens_of(
    authenticator: FakeAuthenticator,
    store: Any = None,
    clock: Clock | None = None,
    **configured: Any,
) -> Tokens:
    return Tokens(
        authenticator=authenticator,
        username="u",
        password=configured.get("password", Secret("p")),
        token=configured.get("token"),
        store=store or MemoryTokens(),
        owner=Believing(),
        clock=clock or Clock(),
    )


def test_given_token_comes_before_the_stored_one_and_the_password() -> None:
    authenticator, store = FakeAuthenticator(), MemoryTokens(Secret("stored"))
    configured = tokens_of(authenticator, store, token=Secret("configured"))
    assert asyncio.run(configured.current()) == Secret("configured")
    assert asyncio.run(tokens_of(authenticator, store).current()) == Secret("stored")
    assert authenticator.calls == 0


def test_password_is_used_last_and_its_token_is_stored() -> None:
    authenticator, store = FakeAuthenticator(), MemoryTokens()
    assert asyncio.run(tokens_of(authenticator, store).current()) == Secret("new-1")
    assert store.load() == Secret("new-1")


def test_without_any_way_in_the_login_is_asked_for() -> None:
    with pytest.raises(LoginRequired):
        asyncio.run(tokens_of(FakeAuthenticator(), password=None).current())
    with pytest.raises(LoginRequired):
        asyncio.run(tokens_of(FakeAuthenticator(), password=None, token=Secret("")).current())


def test_token_that_no_header_can_carry_is_refused_unquoted() -> None:
    with pytest.raises(LoginRequired) as caught:
        asyncio.run(tokens_of(FakeAuthenticator(), token=Secret("canary\n")).current())
    assert "canary" not in str(caught.value)


class Declining(MemoryTokens):
    def load(self) -> Secret | None:
        raise CacheBusy("busy")

    def store(self, token: Secret) -> None:
        raise CacheBusy("busy")


@pytest.mark.parametrize("store", [MemoryTokens, Declining])
def test_many_refusals_at_once_renew_once(store: type[MemoryTokens]) -> None:
    authenticator = FakeAuthenticator()

    async def run() -> list[Secret]:
        tokens = tokens_of(authenticator, store())
        old = await tokens.current()
        return await asyncio.gather(*[tokens.renew(old) for _ in range(10)])

    assert asyncio.run(run()) == [Secret("new-2")] * 10
    assert authenticator.calls == 2


def test_login_of_another_process_is_taken_up() -> None:
    authenticator, store = FakeAuthenticator(), MemoryTokens(Secret("old"))

    async def run() -> Secret:
        tokens = tokens_of(authenticator, store, password=None)
        old = await tokens.current()
        store.store(Secret("fresh"))
        return await tokens.renew(old)

    assert asyncio.run(run()) == Secret("fresh")


def test_store_that_declines_does_not_spoil_the_login() -> None:
    assert asyncio.run(tokens_of(FakeAuthenticator(), Declining()).current()) == Secret("new-1")


def test_a_service_that_asks_to_slow_down_is_asked_again_when_it_says() -> None:
    authenticator, clock = FakeAuthenticator(), Clock()
    authenticator.refuse = RateLimited("slow", retry_after=2.0)
    tokens = tokens_of(authenticator, clock=clock)
    for _ in range(2):
        with pytest.raises(RateLimited):
            asyncio.run(tokens.current())
    assert authenticator.calls == 1
    authenticator.refuse = None
    clock.now += 2
    assert asyncio.run(tokens.current())


@pytest.mark.parametrize("error", [LoginRequired("wrong"), RateLimited("slow")])
def test_refused_password_rests_for_minutes_that_grow_to_an_hour(error: NotariumError) -> None:
    authenticator, clock = FakeAuthenticator(), Clock()
    authenticator.refuse = error
    tokens = tokens_of(authenticator, clock=clock)

    def attempt() -> None:
        with pytest.raises(type(error)) as caught:
            asyncio.run(tokens.current())
        assert caught.value.message == error.message

    pause = FIRST_PAUSE
    for tries in range(1, 7):
        attempt()
        clock.now += pause - 1
        attempt()
        assert authenticator.calls == tries
        clock.now += 1
        pause = min(LONGEST_PAUSE, pause * 2)
    assert pause == LONGEST_PAUSE
    authenticator.refuse = None
    assert asyncio.run(tokens.current())


def test_outage_during_a_login_is_no_reason_to_rest() -> None:
    authenticator = FakeAuthenticator()
    authenticator.refuse = StoreUnavailable("down")
    tokens = tokens_of(authenticator)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            asyncio.run(tokens.current())
    assert authenticator.calls == 2


# Through the store


@asynccontextmanager
async def account(**options: Any) -> AsyncIterator[tuple[Simulator, SimplenoteStore]]:
    async with Simulator().serving() as sim:
        sim.put("n1", content="x")
        simplenote = open_store(sim, **options)
        try:
            yield sim, simplenote
        finally:
            await simplenote.close()


def test_expired_token_is_renewed_in_the_middle_of_things() -> None:
    async def run() -> None:
        async with account() as (sim, simplenote):
            await simplenote.get("n1")
            sim.account(sim.username).token = "f" * 32
            found = await asyncio.gather(*[simplenote.get("n1") for _ in range(5)])
            assert [revision.content.text for revision in found] == ["x"] * 5
            assert sum(r.path.endswith("/authorize/") for r in sim.requests) == 2

    asyncio.run(run())


@pytest.mark.parametrize("status", [401, 403])
def test_refusal_is_tried_once_more_with_a_new_token_and_no_further(status: int) -> None:
    async def run() -> None:
        async with account() as (sim, simplenote):
            rule = sim.faults.status(status, path="*/note/*", times=99)
            with pytest.raises(LoginRequired):
                await simplenote.get("n1")
            assert rule.fired == 2

    asyncio.run(run())


def logins(sim: Simulator) -> int:
    return sum(request.path.endswith("/authorize/") for request in sim.requests)


@pytest.mark.parametrize("status", [401, 403])
def test_one_note_that_is_refused_is_a_reason_for_one_login_and_not_for_one_at_each_attempt(
    status: int,
) -> None:
    async def run() -> None:
        async with account() as (sim, simplenote):
            sim.put("n2", content="y")
            await simplenote.get("n1")
            sim.faults.status(status, path="*/note/i/n2", times=999)
            for _ in range(3):
                found = await asyncio.gather(
                    *[simplenote.get("n2") for _ in range(5)], return_exceptions=True
                )
                assert {type(one) for one in found} == {LoginRequired}
                assert (await simplenote.get("n1")).content.text == "x"
            assert logins(sim) == 2
            sim.faults.clear()
            assert (await simplenote.get("n2")).content.text == "y"

    asyncio.run(run())


@pytest.mark.parametrize("store", [MemoryTokens, Declining])
def test_logins_after_the_token_of_a_login_is_refused_rest_for_minutes_that_grow_to_an_hour(
    store: type[MemoryTokens],
) -> None:
    """Also where each login gives another token, and where none can be stored."""
    authenticator, clock = FakeAuthenticator(), Clock()

    async def refused_once(tokens: Tokens) -> None:
        try:
            renewed = await tokens.renew(await tokens.current())
        except LoginRequired:
            return
        tokens.record_use(renewed, accepted=False)

    async def run() -> list[float]:
        tokens = tokens_of(authenticator, store(), clock=clock)
        await tokens.current()
        began, at = clock.now, []
        while clock.now < began + 5 * LONGEST_PAUSE:
            calls = authenticator.calls
            await refused_once(tokens)
            at += [clock.now - began] * (authenticator.calls - calls)
            clock.now += RELOGIN_PAUSE / 2
        return at

    pauses = [after - before for before, after in pairwise(asyncio.run(run()))]
    doubled = [RELOGIN_PAUSE * factor for factor in (1, 2, 4)]
    assert pauses == [*doubled, *[LONGEST_PAUSE] * 3]


def test_token_that_is_accepted_ends_the_rest() -> None:
    authenticator, clock = FakeAuthenticator(), Clock()

    async def run() -> None:
        tokens = tokens_of(authenticator, clock=clock)
        made = await tokens.renew(await tokens.current())
        tokens.record_use(made, accepted=False)
        with pytest.raises(LoginRequired):
            await tokens.renew(made)
        tokens.record_use(made, accepted=True)
        again = await tokens.renew(made)
        assert again != made
        tokens.record_use(again, accepted=False)
        clock.now += RELOGIN_PAUSE
        assert await tokens.renew(again) != again

    asyncio.run(run())


def test_requests_refused_at_once_with_the_token_of_a_login_count_as_one() -> None:
    clock = Clock()

    async def run() -> None:
        tokens = tokens_of(FakeAuthenticator(), clock=clock)
        made = await tokens.renew(await tokens.current())
        for _ in range(5):
            tokens.record_use(made, accepted=False)
        clock.now += RELOGIN_PAUSE
        made = await tokens.renew(made)
        tokens.record_use(made, accepted=False)
        clock.now += 2 * RELOGIN_PAUSE
        assert await tokens.renew(made) != made

    asyncio.run(run())


@pytest.mark.parametrize("error", [LoginRequired("no"), RateLimited("slow down")])
def test_the_exception_of_a_refused_login_is_not_kept(error: NotariumError) -> None:
    """The frames of its traceback hold the password."""
    authenticator = FakeAuthenticator()
    authenticator.refuse = error
    tokens = tokens_of(authenticator)
    with pytest.raises(type(error)):
        asyncio.run(tokens.current())
    assert not any(kept is error for kept in gc.get_referents(tokens._refusal))


def test_login_of_another_process_is_taken_up_also_while_a_token_rests() -> None:
    authenticator, store = FakeAuthenticator(), MemoryTokens()

    async def run() -> Secret:
        tokens = tokens_of(authenticator, store)
        made = await tokens.renew(await tokens.current())
        tokens.record_use(made, accepted=False)
        store.store(Secret("fresh"))
        return await tokens.renew(made)

    assert asyncio.run(run()) == Secret("fresh")


def test_token_alone_is_enough_until_it_is_refused() -> None:
    async def run() -> None:
        async with Simulator().serving() as sim:
            sim.put("n1", content="x")
            simplenote = open_store(sim, token=sim.token, password="")
            assert (await simplenote.get("n1")).content.text == "x"
            sim.change_password("other")
            with pytest.raises(LoginRequired):
                await simplenote.get("n1")
            await simplenote.close()
            assert not [r for r in sim.requests if r.path.endswith("/authorize/")]

    asyncio.run(run())


def test_wrong_password_goes_out_once_whatever_is_called() -> None:
    async def run() -> None:
        async with account(password="wrong") as (sim, simplenote):
            for _ in range(5):
                with pytest.raises(LoginRequired):
                    await simplenote.get("n1")
            assert len(sim.requests) == 1

    asyncio.run(run())


def test_login_that_takes_too_long_promises_that_nothing_was_written() -> None:
    async def run() -> None:
        async with account(timeout=0.5) as (sim, simplenote):
            sim.faults.delay(20, path="*/authorize/", times=9)
            with pytest.raises(StoreUnavailable):
                await simplenote.delete("n1", etag="1", write_id="0d")
            with pytest.raises(StoreTimeout):
                await simplenote.get("n1")

    asyncio.run(run())


def test_login_that_makes_no_sense_promises_that_nothing_was_written() -> None:
    async def run() -> None:
        async with account() as (sim, simplenote):
            sim.faults.status(200, body=b"<html>", path="*/authorize/", times=9)
            with pytest.raises(StoreUnavailable):
                await simplenote.delete("n1", etag="1", write_id="0d")
            with pytest.raises(StoreProtocolError):
                await simplenote.get("n1")

    asyncio.run(run())


def test_plain_http_to_elsewhere_is_refused_at_construction() -> None:
    with pytest.raises(ConfigError):
        SimplenoteStore(
            urls=Urls(api="http://api.example/1"),
            username="u",
            password=None,
            token=None,
            tokens=MemoryTokens(),
            record=MemoryRecord(),
            api_key=Secret(""),
            client_id="x",
            timeout=1,
        )


def test_rest_after_a_refused_password_is_measured_by_a_clock_that_nobody_sets() -> None:
    async def run() -> None:
        async with account() as (_, simplenote):
            assert simplenote._account._tokens.clock is time.monotonic

    asyncio.run(run())
