"""The house: opened once, on demand; locked for good or tried again, by what went wrong."""

from contextlib import asynccontextmanager

import anyio
import pytest

from mcp_notarium.errors import CacheBusy, ConfigError, LockedError, Verdict
from mcp_notarium.server.house import House

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Opener:
    """Opens a stand-in app; raises the planned errors first."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.opened = self.closed = 0
        self.gate = anyio.Event()
        self.gate.set()

    @asynccontextmanager
    async def __call__(self):
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.opened += 1
        yield "the app"
        self.closed += 1


@asynccontextmanager
async def kept(opener):
    reports = []
    house = House(opener, report=reports.append)
    house.reports = reports
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.keep)
            yield house
            await house.leave(within=1)


def locked(verdict=Verdict.WRONG_KEY):
    return LockedError(verdict, "locked", resolution_hint="unlock")


async def test_nothing_is_opened_until_somebody_asks():
    opener = Opener()
    async with kept(opener):
        await anyio.wait_all_tasks_blocked()
        assert opener.opened == 0
    assert opener.opened == 0


async def test_calls_that_come_together_share_one_opening():
    opener = Opener()
    opener.gate = anyio.Event()
    found = []

    async def ask(house):
        found.append(await house.app())

    async with kept(opener) as house, anyio.create_task_group() as calls:
        for _ in range(5):
            calls.start_soon(ask, house)
        await anyio.wait_all_tasks_blocked()
        opener.gate.set()
    assert found == ["the app"] * 5
    assert (opener.opened, opener.closed) == (1, 1)


@pytest.mark.parametrize("error", [locked(), ConfigError("odd")])
async def test_final_refusal_is_the_answer_to_every_call_and_is_reported_once(error):
    opener = Opener(error)
    async with kept(opener) as house:
        for _ in range(3):
            with pytest.raises(type(error)) as caught:
                await house.app()
            assert caught.value is error
        assert house.locked
        assert house.reports == [error]
    assert opener.opened == 0


@pytest.mark.parametrize("error", [CacheBusy("busy"), locked(Verdict.BUSY)])
async def test_passing_trouble_is_told_and_the_next_call_tries_again(error):
    opener = Opener(error)
    async with kept(opener) as house:
        with pytest.raises(type(error)):
            await house.app()
        assert not house.locked
        assert await house.app() == "the app"
    assert opener.closed == 1


async def test_leaving_an_unopened_house_opens_nothing():
    opener = Opener()
    async with kept(opener) as house:
        await house.leave(within=1)
        house.open()
        await anyio.wait_all_tasks_blocked()
    assert opener.opened == 0
