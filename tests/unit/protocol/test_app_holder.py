"""The holder: opened once, on demand; locked for good or tried again, by what went wrong."""

from contextlib import asynccontextmanager

import anyio
import pytest

from mcp_notarium.errors import (
    CacheBusy,
    CacheDamaged,
    ConfigError,
    LockedError,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    Verdict,
)
from mcp_notarium.protocol.app_holder import AppHolder

pytestmark = pytest.mark.anyio


class Opener:
    """Opens a stand-in app; raises the planned errors first."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.opened = self.closed = 0
        self.visibility = anyio.Event()
        self.visibility.set()

    @asynccontextmanager
    async def __call__(self):
        await self.visibility.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.opened += 1
        yield "the app"
        self.closed += 1


@asynccontextmanager
async def kept(opener):
    reports = []
    holder = AppHolder(opener, report=reports.append)
    holder.reports = reports
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(holder.keep)
            yield holder
            await holder.leave(within=1)


def locked(verdict=Verdict.WRONG_KEY):
    return LockedError(verdict, "locked", resolution_hint="all ways", agent_hint="unlock")


async def refused(holder):
    with pytest.raises(LockedError):
        await holder.app()


async def test_nothing_is_opened_until_somebody_asks():
    opener = Opener()
    async with kept(opener):
        await anyio.wait_all_tasks_blocked()
        assert opener.opened == 0
    assert opener.opened == 0


async def test_calls_that_come_together_share_one_opening():
    opener = Opener()
    opener.visibility = anyio.Event()
    found = []

    async def ask(holder):
        found.append(await holder.app())

    async with kept(opener) as holder, anyio.create_task_group() as calls:
        for _ in range(5):
            calls.start_soon(ask, holder)
        await anyio.wait_all_tasks_blocked()
        opener.visibility.set()
    assert found == ["the app"] * 5
    assert (opener.opened, opener.closed) == (1, 1)


@pytest.mark.parametrize("error", [locked(), ConfigError("odd")])
async def test_final_refusal_is_the_answer_to_every_call_and_is_reported_once(error):
    opener = Opener(error)
    async with kept(opener) as holder:
        for _ in range(3):
            with pytest.raises(type(error)) as caught:
                await holder.app()
            assert caught.value is error
        assert holder.locked
        assert holder.reports == [error]
    assert opener.opened == 0


@pytest.mark.parametrize("error", [CacheBusy("busy"), locked(Verdict.BUSY)])
async def test_a_temporary_error_is_reported_and_the_next_call_tries_again(error):
    opener = Opener(error)
    async with kept(opener) as holder:
        with pytest.raises(type(error)):
            await holder.app()
        assert not holder.locked
        assert await holder.app() == "the app"
    assert opener.closed == 1


async def test_leaving_an_unopened_app_opens_nothing():
    opener = Opener()
    async with kept(opener) as holder:
        await holder.leave(within=1)
        holder.open()
        await anyio.wait_all_tasks_blocked()
    assert opener.opened == 0


async def test_damage_met_while_open_locks_the_app_and_closes_it_at_once():
    opener = Opener()
    async with kept(opener) as holder:
        await holder.app()
        holder.lock(locked(Verdict.DATABASE_DAMAGED))
        holder.lock(locked(Verdict.DATABASE_DAMAGED))
        await anyio.wait_all_tasks_blocked()
        assert (holder.locked, opener.closed, len(holder.reports)) == (True, 1, 1)
        with pytest.raises(LockedError):
            await holder.app()
    assert opener.opened == 1


@pytest.mark.parametrize("errors", [[], [CacheDamaged("met")], [locked()]])
async def test_damage_met_while_opening_is_reported_once(errors):
    opener = Opener(*errors)
    opener.visibility = anyio.Event()
    async with kept(opener) as holder, anyio.create_task_group() as calls:
        calls.start_soon(refused, holder)
        await anyio.wait_all_tasks_blocked()
        holder.lock(locked(Verdict.DATABASE_DAMAGED))
        opener.visibility.set()
    assert [error.verdict for error in holder.reports] == [Verdict.DATABASE_DAMAGED]
    assert holder.locked
    assert opener.opened == opener.closed


async def test_a_damaged_account_is_opened_again_once_and_then_refused():
    opener = Opener()
    async with kept(opener) as holder:
        await holder.app()
        holder.reopen(locked(Verdict.DATABASE_DAMAGED))
        assert not holder.locked
        await holder.app()
        assert (opener.opened, opener.closed) == (2, 1)
        holder.reopen(locked(Verdict.DATABASE_DAMAGED))
        assert holder.locked
        with pytest.raises(LockedError):
            await holder.app()
    assert opener.opened == opener.closed == 2


async def test_damage_met_by_a_call_in_a_locked_app_is_answered_as_the_lock():
    async with kept(Opener()) as holder:
        await holder.app()
        damage, other = CacheDamaged("met"), NoteNotFound("gone")
        assert isinstance(holder.answer(damage), CacheBusy)
        holder.lock(locked(Verdict.DATABASE_DAMAGED))
        assert isinstance(holder.answer(damage), LockedError)
        assert holder.answer(other) is other
        sent = holder.answer(OutcomeUnknown("sent"))
        assert sent.resolution_hint == "Do not repeat the write. unlock"
        assert sent.details["exit_code"] == 13


async def test_a_call_that_waits_while_the_account_is_found_damaged_gets_the_one_opened_again():
    opener, found = Opener(), []
    opener.visibility = anyio.Event()

    async def ask(holder):
        found.append(await holder.app())

    async with kept(opener) as holder, anyio.create_task_group() as calls:
        holder.on_open = lambda: opener.opened == 1 and calls.start_soon(damage, holder)
        calls.start_soon(ask, holder)
        await anyio.wait_all_tasks_blocked()
        opener.visibility.set()
    assert found == ["the app"]
    assert opener.opened == 2


async def damage(holder):
    """Comes before whoever waits hears that the account is open."""
    holder.reopen(locked(Verdict.DATABASE_DAMAGED))


async def test_a_call_that_waits_while_the_server_leaves_is_refused():
    opener = Opener()
    opener.visibility = anyio.Event()
    refusals = []

    async def ask(holder):
        with pytest.raises(NotariumError) as caught:
            await holder.app()
        refusals.append(caught.value.message)

    async with anyio.create_task_group() as tasks:
        holder = AppHolder(opener, report=lambda _error: None)
        tasks.start_soon(ask, holder)
        await anyio.wait_all_tasks_blocked()
        await holder.leave(within=0)
        tasks.start_soon(holder.keep)
    assert refusals == ["The server is stopping."]
