"""Many notes at once: stored beside the event loop, through a connection that is gone afterwards."""

import asyncio
import ctypes
import os
import platform
import threading
from pathlib import Path

import pytest

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.errors import CacheBusy, CacheDamaged, CacheFull
from mcp_notarium.files.locks import Leader
from mcp_notarium.storage import cache as stored
from mcp_notarium.storage import fts_index
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.database import Database
from mcp_notarium.sync.batch_apply import Batch, BatchCommitter, Tally
from mcp_notarium.sync.cycle_states import State
from mcp_notarium.sync.pull_decisions import Confirmed
from support.sync_rig import in_step, running, until

PATIENCE = 10.0
GLIBC = platform.libc_ver()[0] == "glibc"


@pytest.fixture
def full_store(store):
    for number in range(2200):
        store.put(f"n{number:04}", f"note {number}\n", now=float(number))
    return store


class Gate:
    """Holds the thread that stores in the middle of its transaction, until it is opened."""

    def __init__(self, monkeypatch):
        self.reached, self.opened = threading.Event(), threading.Event()
        plan = BatchCommitter.plan

        def held(storing, remotes):
            if threading.current_thread() is not threading.main_thread():
                self.reached.set()
                assert self.opened.wait(PATIENCE)
            return plan(storing, remotes)

        monkeypatch.setattr(BatchCommitter, "plan", held)


@pytest.fixture
def gate(monkeypatch):
    return Gate(monkeypatch)


@pytest.fixture
def connections(monkeypatch):
    """Every connection that is opened beside the first."""
    opened = []
    another = Cache.open_another

    def noting(cache, **options):
        opened.append(another(cache, **options))
        return opened[-1]

    monkeypatch.setattr(Cache, "open_another", noting)
    return opened


def test_notes_can_be_read_while_others_are_being_stored(client, full_store, gate):
    async def scenario():
        load = asyncio.create_task(client.sync())
        await until(gate.reached.is_set)
        seen = client.cache.notes.counts().total, client.note("n2199").text
        gate.opened.set()
        await load
        return seen

    assert asyncio.run(scenario()) == (100, "note 2199\n")
    assert client.contents() == full_store.contents()


def test_memory_of_a_load_is_given_back_once(client, full_store, monkeypatch):
    given = []
    monkeypatch.setattr(stored, "release_memory", lambda: given.append(threading.current_thread()))
    asyncio.run(client.sync())
    full_store.put("one more", "text\n")
    asyncio.run(client.sync())
    assert given == [threading.main_thread()]


@pytest.mark.skipif(not GLIBC, reason="other C libraries give back by themselves")
def test_free_memory_of_a_thread_that_has_ended_goes_back_to_the_system():
    def use():
        kept.extend(bytes(3000) for _ in range(20_000))
        del kept[:-1]  # the last one keeps the heap from shrinking by itself

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    kept = []
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    before = resident()
    assert stored.release_memory()
    assert before - resident() > 30_000_000


@pytest.mark.parametrize("gone", [OSError, AttributeError])
def test_a_c_library_without_it_is_no_failure(monkeypatch, gone):
    def missing(_name):
        raise gone

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert stored.release_memory() is False


def test_the_connection_is_open_for_the_load_only(client, full_store, connections):
    asyncio.run(client.sync())
    assert [cache.database.closed for cache in connections] == [True]
    full_store.put("one more", "text\n")
    asyncio.run(client.sync())
    assert len(connections) == 1, "a few notes need none"
    assert client.contents() == full_store.contents()


def test_only_one_connection_moves_the_log_at_any_time(client, full_store, gate, connections):
    def movers():
        return [one.database.checkpointer for one in (client.cache, *connections)]

    async def scenario():
        async with running(client):
            await until(gate.reached.is_set)
            meanwhile = movers()
            gate.opened.set()
            await until(in_step(full_store, client))
            await until(lambda: not client.cache.notes.index.tidy_due)
            assert len(connections) > 1, "one loads, another merges"
            await until(lambda: all(cache.database.closed for cache in connections))
            return meanwhile, client.cache.database.checkpointer

    assert asyncio.run(scenario()) == ([False, True], True)
    assert client.cache.database.checkpointer is False, "it does not lead any more"


def test_a_connection_that_cannot_move_the_log_is_closed_and_the_first_goes_on(
    client, full_store, connections, monkeypatch
):
    first, set_checkpointer = client.cache.database, Database.set_checkpointer
    first.set_checkpointer(True)

    def refuse(database, wanted):
        if wanted and database is not first:
            raise CacheBusy("busy")
        set_checkpointer(database, wanted)

    monkeypatch.setattr(Database, "set_checkpointer", refuse)
    assert asyncio.run(client.sync()) is State.BACKING_OFF
    assert [cache.database.closed for cache in connections] == [True]
    assert first.checkpointer


def test_a_process_that_does_not_lead_moves_no_log(client, full_store, connections):
    asyncio.run(client.sync())
    assert [one.database.checkpointer for one in (client.cache, *connections)] == [False, False]


def test_a_cancelled_load_ends_its_transaction_and_continues_later(
    clients, full_store, gate, connections
):
    client = clients()

    async def scenario():
        load = asyncio.create_task(client.sync())
        await until(gate.reached.is_set)
        load.cancel()
        asyncio.get_running_loop().call_later(0.05, gate.opened.set)
        await asyncio.wait({load})
        assert load.cancelled()

    asyncio.run(scenario())
    assert [cache.database.closed for cache in connections] == [True]
    assert client.scheduler.status().loaded == client.cache.notes.counts().total == 1100
    after = clients()
    asyncio.run(after.sync())
    assert after.contents() == full_store.contents()


def test_a_load_that_cannot_be_stopped_does_not_block_the_end(
    client, full_store, gate, monkeypatch
):
    monkeypatch.setattr("mcp_notarium.storage.cache._LAST_SECONDS", 0.05)

    async def scenario():
        load = asyncio.create_task(client.sync())
        await until(gate.reached.is_set)
        load.cancel()
        await asyncio.wait({load}, timeout=PATIENCE)
        assert load.cancelled()
        gate.opened.set()
        await until(lambda: client.cache.notes.counts().total == 1100)

    asyncio.run(scenario())


def test_the_end_of_a_load_that_could_not_be_stopped_leaves_the_log_to_the_next_leader(
    client, full_store, gate, connections, monkeypatch
):
    monkeypatch.setattr("mcp_notarium.storage.cache._LAST_SECONDS", 0.05)

    async def scenario():
        async with running(client):
            await until(gate.reached.is_set)
        assert Leader(client.folder / "sync.lock").acquire()
        assert not connections[0].database.closed, "it is in use"
        gate.opened.set()
        await until(lambda: connections[0].database.closed)

    asyncio.run(scenario())
    assert client.cache.database.checkpointer is False


def test_a_connection_in_use_stays_open_though_the_event_loop_ends(
    client, full_store, gate, connections, monkeypatch
):
    monkeypatch.setattr("mcp_notarium.storage.cache._LAST_SECONDS", 0.05)

    async def scenario():
        load = asyncio.create_task(client.sync())
        await until(gate.reached.is_set)
        load.cancel()
        await asyncio.wait({load}, timeout=PATIENCE)

    asyncio.run(scenario())
    closed = connections[0].database.closed
    gate.opened.set()
    for thread in threading.enumerate():
        if thread.name == "worker":
            thread.join(PATIENCE)
    assert not closed
    connections[0].close()


def test_a_page_fetched_for_an_emptied_cache_is_not_stored(client, full_store, gate):
    async def scenario():
        load = asyncio.create_task(client.sync())
        await until(gate.reached.is_set)
        gate.opened.set()
        for number in range(2000):
            full_store.remove(f"n{number:04}")
        await client.scheduler.reset()
        await load

    asyncio.run(scenario())
    asyncio.run(client.sync())
    assert client.contents() == full_store.contents()


def test_a_save_made_meanwhile_is_kept(client, full_store, gate):
    async def scenario():
        load = asyncio.create_task(client.sync())
        await until(gate.reached.is_set)
        asyncio.get_running_loop().call_soon(gate.opened.set)
        changed = await client.change(client.note("n2199"), "changed here\n")
        made = await client.create("made here\n")
        await load
        return changed.note.id, made.id

    changed, made = asyncio.run(scenario())
    assert client.note(changed).text == "changed here\n"
    assert client.note(made).text == "made here\n"
    assert client.contents() == full_store.contents()


@pytest.fixture
def small_slices(full_store, monkeypatch):
    """The words of many notes are to be merged in many slices."""
    monkeypatch.setattr(fts_index, "_SLICE_PAGES", 1)


@pytest.mark.parametrize(
    "written", [Tombstone("n0007"), Revision("new", "r1", Content("new\n"), 1.0, 1.0, b"{}")]
)
def test_a_merge_waits_for_those_who_write_and_meanwhile_the_first_connection_moves_the_log(
    client, small_slices, time, connections, written
):
    client.cache.database.set_checkpointer(True)
    asyncio.run(client.sync())
    applier = client.scheduler._runner.applier

    async def merge():
        time.now += 2
        first = await applier.tidy()
        return first, client.cache.database.checkpointer, connections[-1].database.closed

    async def scenario():
        assert not await applier.tidy(), "the load has just written"
        assert await merge() == (True, False, False)
        with client.cache.transaction():
            client.cache.notes.apply([written])
        assert await merge() == (False, True, True)
        assert await merge() == (True, False, False)
        await applier.close()

    asyncio.run(scenario())


def failing(monkeypatch, error):
    plan = BatchCommitter.plan

    def fails(storing, remotes):
        if threading.current_thread() is not threading.main_thread():
            raise error
        return plan(storing, remotes)

    monkeypatch.setattr(BatchCommitter, "plan", fails)


def test_a_full_disk_in_the_thread_is_a_failed_cycle(client, full_store, monkeypatch):
    failing(monkeypatch, CacheFull("the disk is full"))
    assert asyncio.run(client.sync()) is State.BACKING_OFF
    monkeypatch.undo()
    asyncio.run(client.run_cycles(2))
    assert client.contents() == full_store.contents()


def test_damage_met_in_the_thread_ends_the_first_connection_too(client, full_store, monkeypatch):
    failing(monkeypatch, CacheDamaged("page 7 does not fit"))
    with pytest.raises(CacheDamaged):
        asyncio.run(client.sync())
    with pytest.raises(CacheDamaged, match="page 7"):
        client.cache.notes.counts()


def test_a_note_made_again_under_the_same_number_has_a_version_of_its_own(client):
    def revision(text):
        return Revision("n", "r5", Content(text), 1.0, 1.0, b"{}", server_version=5)

    applier = client.scheduler._runner.applier
    versions = []
    for text in ("old\n", "new\n"):
        answer = Confirmed(revision(text), client.cache.notes.etag("n"))
        asyncio.run(applier.commit(Batch((answer,), 0), Tally()))
        versions.append(client.note("n").local_version)
        assert client.note("n").text == text
    assert versions[0] == 5 < versions[1]
