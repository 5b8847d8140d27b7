"""At rest, hardly anything is asked of the cache; whatever is written is noticed at the next look."""

import asyncio

import pytest

from mcp_notarium.sync import calm
from mcp_notarium.sync.calm import Calm
from support.memory_backend import Fault
from support.sync_rig import running, until

PUT = "INSERT OR REPLACE INTO sync_metadata(key, value) VALUES ('k', 'v')"


@pytest.fixture(name="begun")
def _begun(client, time):
    quiet = Calm(client.cache.database, stopwatch=time.stopwatch)
    assert not quiet.lasts()
    quiet.begin()
    assert quiet.lasts()
    return quiet


def test_it_ends_with_a_write_of_this_process(client, begun):
    client.cache.database.run(PUT)
    assert not begun.lasts()


def test_it_ends_with_a_write_of_another_process(clients, begun):
    clients().cache.database.run(PUT)
    assert not begun.lasts()


def test_what_was_written_during_the_look_that_found_nothing_is_looked_at_again(client, begun):
    client.cache.database.run(PUT)
    assert not begun.lasts()
    client.cache.database.run(PUT)
    begun.begin()
    assert not begun.lasts()


def test_it_ends_by_itself_for_what_is_due_by_the_clock(begun, time):
    time.now += calm.SECONDS - 0.1
    assert begun.lasts()
    time.now += 0.1
    assert not begun.lasts()


def test_a_cache_that_cannot_be_asked_is_not_calm(client, begun):
    client.cache.database.close()
    assert not begun.lasts()


def looks_of(client, time, *, seconds):
    """How often a driver at rest has looked at everything within so many seconds."""
    looks = []
    client.cache.notes.tidy = lambda: looks.append(time.now) and False

    async def scenario():
        start = time.now
        await until(lambda: time.now > start + seconds)
        return sum(at > start for at in looks)

    return scenario()


def test_at_rest_a_driver_looks_at_everything_only_now_and_then(client, time):
    client.backend.poll_seconds = 1000.0

    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            return await looks_of(client, time, seconds=100)

    assert 100 / calm.SECONDS - 3 <= asyncio.run(scenario()) <= 100 / calm.SECONDS + 3


def test_a_note_in_doubt_is_not_left_waiting_by_it(client, store, time):
    client.backend.poll_seconds = 1000.0
    store.put("n1", "one\n")
    asyncio.run(client.sync())
    store.edit("n1", lambda text: text + "more\n")
    client.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
    client.faults.plan(Fault.UNAVAILABLE, on="get", times=2)
    asyncio.run(client.sync())
    doubts = client.driver._ledger.doubts
    assert doubts() == ("n1",)

    async def scenario():
        began = time.now
        async with running(client):
            await until(lambda: not doubts())
        return time.now - began

    assert asyncio.run(scenario()) < calm.SECONDS
