"""At rest, hardly anything is asked of the cache; whatever is written is noticed at the next look."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, PendingWrite, WriteKind, WriteState
from mcp_notarium.sync.backoff import FEED_FAILURES, IDLE_SECONDS, IdleCheck
from support.memory_client import Fault
from support.sync_rig import running, until

PUT = "INSERT OR REPLACE INTO sync_metadata(key, value) VALUES ('k', 'v')"


@pytest.fixture(name="idle")
def _idle(client, time):
    check = IdleCheck(client.cache.database.stamp, stopwatch=time.stopwatch)
    assert not check.skips()
    check.record_idle()
    assert check.skips()
    return check


def test_it_ends_with_a_write_of_this_process(client, idle):
    client.cache.database.run(PUT)
    assert not idle.skips()


def test_it_ends_with_a_write_of_another_process(clients, idle):
    clients().cache.database.run(PUT)
    assert not idle.skips()


def test_a_write_during_a_poll_that_found_nothing_is_polled_again(client, idle):
    client.cache.database.run(PUT)
    assert not idle.skips()
    client.cache.database.run(PUT)
    idle.record_idle()
    assert not idle.skips()


def test_it_ends_by_itself_for_what_is_due_by_the_clock(idle, time):
    time.now += IDLE_SECONDS - 0.1
    assert idle.skips()
    time.now += 0.1
    assert not idle.skips()


def test_a_cache_that_cannot_be_asked_is_not_idle(client, idle):
    client.cache.database.close()
    assert not idle.skips()


def looks_of(client, time, *, seconds):
    """How often a driver at rest has looked at everything within so many seconds."""
    looks = []
    client.cache.notes.tidy = lambda: looks.append(time.now) and False

    async def scenario():
        start = time.now
        await until(lambda: time.now > start + seconds)
        return sum(start < at <= start + seconds for at in looks)

    return scenario()


def test_at_rest_a_driver_looks_at_everything_only_now_and_then(client, time):
    client.remote.poll_seconds = 1000.0

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            return await looks_of(client, time, seconds=100)

    assert 100 / IDLE_SECONDS - 3 <= asyncio.run(scenario()) <= 100 / IDLE_SECONDS + 3


REJECTED = PendingWrite(
    write_id="w",
    note_id="n",
    kind=WriteKind.UPDATE,
    base_etag="1",
    content=Content("text", (), trash=False),
    body="{}",
    created_at=1.0,
    owner="gone",
    lease_until=2.0,
    state=WriteState.REJECTED,
)


@pytest.mark.parametrize("state", WriteState)
def test_only_an_unfinished_write_keeps_a_driver_looking(client, time, state):
    client.remote.poll_seconds = 1000.0
    client.cache.pending.add(replace(REJECTED, state=state, lease_until=time.now + 1000))

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            return await looks_of(client, time, seconds=100)

    looks = asyncio.run(scenario())
    assert looks > 50 if state is WriteState.IN_FLIGHT else looks < 30


def test_a_feed_that_was_suspended_is_not_left_waiting_by_it(client, time, monkeypatch):
    client.remote.poll_seconds = 1000.0
    feed, ask, asked = client.scheduler._runner.sources.feed, client.remote.changes, []

    async def noted(cursor, *, wait, base_of):
        asked.append(time.now)
        return await ask(cursor, wait=wait, base_of=base_of)

    monkeypatch.setattr(client.remote, "changes", noted)

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.faults.plan(Fault.UNAVAILABLE, on="changes", times=FEED_FAILURES)
            client.scheduler.wake()
            # Suspended and asked again may both happen between two looks: both leave a mark that stays.
            await until(lambda: feed._retry_at and asked[-1] >= feed._retry_at)

    asyncio.run(scenario())
    again = min(at for at in asked if at >= feed._retry_at)
    assert again < feed._retry_at + 2.0


def test_an_unresolved_note_is_not_left_waiting_by_it(client, store, time, monkeypatch):
    client.remote.poll_seconds = 1000.0
    store.put("n1", "one\n")
    asyncio.run(client.sync())
    store.edit("n1", lambda text: text + "more\n")
    client.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
    client.faults.plan(Fault.UNAVAILABLE, on="get", times=2)
    asyncio.run(client.sync())
    unresolved = client.scheduler._progress.unresolved
    assert unresolved() == ("n1",)
    get, asked = client.remote.get, []

    async def noted(note_id):
        asked.append(time.now)
        return await get(note_id)

    monkeypatch.setattr(client.remote, "get", noted)

    async def scenario():
        async with running(client):
            await until(lambda: not unresolved())

    asyncio.run(scenario())
    failed, served = asked
    assert served - failed < IDLE_SECONDS
