"""How a cycle ended is told although it cannot be stored: the disk is full, the failure is not lost."""

import asyncio

import pytest

from mcp_notarium.errors import CacheFull
from mcp_notarium.sync.scheduler import LEADER_SILENT
from support.sync_rig import running, until


class Full:
    """Nothing can be stored until :meth:`free`."""

    def __init__(self, client, monkeypatch):
        self._patch = monkeypatch
        database = client.cache.database
        run = database.run

        def refused(sql, *parameters):
            if sql.startswith("BEGIN"):
                raise CacheFull("no space left on the disk")
            return run(sql, *parameters)

        monkeypatch.setattr(database, "run", refused)

    def free(self):
        self._patch.undo()


def test_a_process_that_does_not_lead_says_that_the_one_that_does_stores_nothing(
    clients, store, time
):
    leader = clients()
    store.put("old", "old\n")
    asyncio.run(leader.sync())
    time.now += 5000
    other = clients()
    errors = []
    for _ in range(3):
        errors.append(other.scheduler.status().last_error)
        time.now += 1000
    assert errors == [None, None, LEADER_SILENT]
    asyncio.run(leader.sync())
    assert other.scheduler.status().last_error is None


def test_that_cycles_cannot_be_stored_is_logged_once_each_time_it_begins(loaded, monkeypatch):
    class Log:
        def __init__(self):
            self.warnings = []

        def warning(self, event, **_facts):
            self.warnings.append(event)

    log = loaded.scheduler._runner._log = Log()
    for times in (1, 2):
        full = Full(loaded, monkeypatch)
        for _ in range(3):
            asyncio.run(loaded.sync())
        assert log.warnings.count("sync.not_recorded") == times
        full.free()
        asyncio.run(loaded.sync())


@pytest.fixture
def loaded(client, store):
    store.put("old", "old\n")
    asyncio.run(client.sync())
    assert client.scheduler.status().last_error is None
    return client


def test_a_failure_that_cannot_be_stored_is_told_until_a_cycle_goes_well(
    loaded, store, monkeypatch
):
    async def scenario():
        status = loaded.scheduler.status
        async with running(loaded):
            await until(lambda: status().leader and status().state == "idle")
            before = loaded.cache.sync_state.metrics()
            full = Full(loaded, monkeypatch)
            store.put("new", "new\n")
            loaded.scheduler.wake()
            await until(lambda: status().last_error)
            assert "disk" in status().last_error
            assert loaded.cache.sync_state.metrics() == before
            full.free()
            await until(lambda: status().last_error is None)

    asyncio.run(scenario())
    assert loaded.contents() == store.contents()


def test_a_request_that_was_served_is_not_served_again_because_that_cannot_be_stored(
    loaded, monkeypatch
):
    number = loaded.cache.progress.request_cycle()
    full = Full(loaded, monkeypatch)
    assert loaded.cache.progress.has_open_request
    asyncio.run(loaded.sync())
    assert not loaded.cache.progress.has_open_request
    full.free()
    loaded.cache.progress.request_cycle()
    assert loaded.cache.progress.has_open_request
    asyncio.run(loaded.sync())
    assert loaded.cache.progress.request_result(number) is True
