"""How a cycle ended is told although it cannot be stored: the disk is full, the failure is not lost."""

import asyncio

import pytest

from mcp_notarium.errors import CacheFull
from support.memory_client import Fault


class Full:
    """Nothing can be stored until there is ``room``."""

    def __init__(self, client, monkeypatch):
        self._patch = monkeypatch
        database = client.cache.database
        run = database.run

        def refused(sql, *parameters):
            if sql.startswith("BEGIN"):
                raise CacheFull("no space left on the disk")
            return run(sql, *parameters)

        monkeypatch.setattr(database, "run", refused)

    def room(self):
        self._patch.undo()


def test_a_process_that_does_not_lead_says_that_the_one_that_does_stores_nothing(
    clients, store, time
):
    leader = clients()
    store.put("old", "old\n")
    asyncio.run(leader.sync())
    time.now += 5000
    other = clients()
    told = []
    for _ in range(3):
        told.append(other.scheduler.status().failure)
        time.now += 1000
    assert told == [None, None, "the process that syncs stores nothing any more; is the disk full?"]
    asyncio.run(leader.sync())
    assert other.scheduler.status().failure is None


@pytest.fixture
def loaded(client, store):
    store.put("old", "old\n")
    asyncio.run(client.sync())
    assert client.scheduler.status().last_error is None
    return client


def test_a_failure_that_cannot_be_stored_is_told_until_a_cycle_goes_well(
    loaded, store, monkeypatch
):
    before = loaded.scheduler.metrics()
    store.put("new", "new\n")
    full = Full(loaded, monkeypatch)
    for count in (1, 2):
        loaded.time.now += 100
        assert asyncio.run(loaded.sync()) == "backing_off"
        status, metrics = loaded.scheduler.status(), loaded.scheduler.metrics()
        assert status.state == metrics.status == "backing_off"
        assert status.failure == metrics.last_error
        assert "disk" in status.failure
        assert metrics.error_count == count
        assert status.last_sync_at == before.last_sync_at
    assert loaded.cache.sync_state.metrics() == before
    full.room()
    assert asyncio.run(loaded.sync()) == "idle"
    assert loaded.scheduler.status().failure is None
    assert loaded.scheduler.metrics() == loaded.cache.sync_state.metrics() != before
    assert loaded.contents() == store.contents()


def test_a_failure_that_could_not_be_stored_gives_way_to_what_another_process_stores(
    loaded, clients, store, monkeypatch
):
    other = clients()
    full = Full(loaded, monkeypatch)
    loaded.faults.plan(Fault.UNAVAILABLE, on="changes")
    asyncio.run(loaded.sync())
    assert loaded.scheduler.status().failure
    assert other.scheduler.status().failure is None
    full.room()
    other.time.now += 100
    asyncio.run(other.sync())
    assert loaded.scheduler.status().failure is None


def test_a_request_that_was_served_is_not_served_again_because_that_cannot_be_stored(
    loaded, monkeypatch
):
    number = loaded.scheduler._progress.request_cycle()
    full = Full(loaded, monkeypatch)
    assert loaded.scheduler._progress.has_open_request
    asyncio.run(loaded.sync())
    assert not loaded.scheduler._progress.has_open_request
    full.room()
    loaded.scheduler._progress.request_cycle()
    assert loaded.scheduler._progress.has_open_request
    asyncio.run(loaded.sync())
    assert loaded.scheduler._progress.request_result(number) is True
