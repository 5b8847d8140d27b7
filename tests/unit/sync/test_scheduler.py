"""The run loop: listening, waking, backing off, following, taking over, resetting."""

import asyncio
import threading
import time
from contextlib import closing
from itertools import pairwise

import pytest

from mcp_notarium.errors import CacheBusy, CacheDamaged, OutcomeUnknown, RateLimited
from mcp_notarium.files.locks import Leader
from mcp_notarium.secret import Secret
from mcp_notarium.storage import cache as stored
from mcp_notarium.storage import database
from mcp_notarium.storage.fts_index import FtsIndex
from mcp_notarium.sync import scheduler
from mcp_notarium.sync.backoff import FIRST_DELAY
from mcp_notarium.sync.cycle_states import State
from support.memory_client import LIKE_VAULT, Fault
from support.sync_rig import in_step, running, until


def test_running_loads_everything_and_then_follows_the_feed(client, store):
    store.put("n1", "one\n")

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))
            store.remove("n1")
            await until(in_step(store, client))
            status = client.scheduler.status()
            assert status.leader
            assert client.scheduler.feed_usable

    asyncio.run(scenario())


def test_a_change_elsewhere_shows_at_once_and_not_at_the_next_interval(client, store, time):
    client.remote.poll_seconds = 30.0
    store.put("n1", "one\n")

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().state is State.IDLE)
            await asyncio.sleep(0.01)
            calls = len(client.remote.calls)
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))
            assert client.remote.calls[calls:] in ([], ["changes"])

    asyncio.run(scenario())


@pytest.mark.parametrize("forever", [False, True])
def test_news_wait_for_calls_that_are_writing_but_not_forever(client, store, monkeypatch, forever):
    if forever:
        monkeypatch.setattr(scheduler, "CALLS_SECONDS", 0.02)
    store.put("n1", "one\n")

    async def scenario():
        async with running(client):
            await until(in_step(store, client))
            await asyncio.sleep(0.01)
            async with client.writer.locks.call(""):
                store.edit("n1", lambda text: text + "more\n")
                if forever:
                    await until(in_step(store, client))
                else:
                    await asyncio.sleep(0.05)
                    assert client.contents() != store.contents()
            await until(in_step(store, client))

    asyncio.run(scenario())


def test_a_halted_sync_looks_again_when_the_store_tells_of_a_change(clients, store, monkeypatch):
    monkeypatch.setattr(scheduler, "SLOW_RETRY", 1e9)
    client = clients(traits=LIKE_VAULT)
    texts = {f"n{number:02}": f"note {number}\n" for number in range(20)}
    for note_id, text in texts.items():
        store.put(note_id, text)

    async def scenario():
        async with running(client):
            await until(in_step(store, client))
            before = client.contents()
            for note_id in texts:
                store.remove(note_id)
            await until(lambda: client.scheduler.status().state is State.HALTED)
            assert client.contents() == before
            for note_id, text in texts.items():
                store.put(note_id, f"{text}again\n")
            await until(in_step(store, client))

    asyncio.run(scenario())


def test_a_short_outage_costs_seconds_of_listening_and_not_minutes(
    client, store, time, monkeypatch
):
    store.put("n1", "one\n")
    ask, asked = client.remote.changes, []

    async def noted(cursor, *, wait, base_of):
        asked.append((time.now, wait, bool(client.faults.planned)))
        return await ask(cursor, wait=wait, base_of=base_of)

    monkeypatch.setattr(client.remote, "changes", noted)

    def listened_again():
        """The moments of the last failure and of the listening after it."""
        last = max((at for at, (_, _, failed) in enumerate(asked) if failed), default=None)
        after = [when for when, wait, _ in asked[last + 1 :] if wait] if last is not None else []
        return (asked[last][0], after[0]) if after else None

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().state is State.IDLE)
            client.faults.plan(Fault.UNAVAILABLE, on="changes", times=2)
            await until(lambda: not client.faults.planned and listened_again())
            failed, listening = listened_again()
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))
            return listening - failed

    assert asyncio.run(scenario()) < 10


def test_waking_starts_a_cycle_without_waiting_for_the_interval(client, store, time):
    client.remote.poll_seconds = 1000.0

    async def stand_still(_seconds):
        await asyncio.Event().wait()

    client.scheduler._sleep = stand_still

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().state is State.IDLE)
            calls = client.remote.calls.count("changes")
            client.scheduler.wake()
            await until(lambda: client.remote.calls.count("changes") >= calls + 2)

    asyncio.run(scenario())


@pytest.fixture
def slices(monkeypatch):
    """Slices of work on the search index that are left to do; True for each."""
    left = [True] * 5
    monkeypatch.setattr(FtsIndex, "tidy_due", property(lambda _: bool(left)))

    def tidy(_table):
        threads.append(threading.current_thread())
        left.pop()
        return bool(left)

    threads = []
    monkeypatch.setattr(FtsIndex, "tidy", tidy)
    yield left
    assert threading.main_thread() not in threads, "the event loop does none of it"


def test_the_search_index_is_tidied_while_nothing_else_is_to_do(client, slices):
    async def scenario():
        async with running(client):
            await until(lambda: not slices)
            assert client.scheduler.status().complete

    asyncio.run(scenario())


def test_memory_is_given_back_once_when_the_search_index_has_been_merged(
    client, slices, monkeypatch
):
    client.remote.poll_seconds = 30.0  # a cycle in between would give back memory, too
    trims = []
    monkeypatch.setattr(stored, "release_memory", lambda: trims.append(len(slices)))

    async def scenario():
        async with running(client):
            await until(lambda: trims)
            assert await client.scheduler.sync_now(60.0)

    asyncio.run(scenario())
    assert trims == [0]


def test_a_write_of_another_process_puts_the_tidying_off(client, slices, monkeypatch):
    busy = [CacheBusy("busy")] * 2
    tidy = FtsIndex.tidy
    monkeypatch.setattr(
        FtsIndex, "tidy", lambda table: tidy(table) if not busy else raised(busy.pop())
    )

    def raised(error):
        raise error

    async def scenario():
        async with running(client):
            await until(lambda: not slices)

    asyncio.run(scenario())
    assert not busy


def test_the_search_index_is_tidied_when_nobody_has_written_for_a_second(
    client, slices, monkeypatch
):
    stopwatch, tidy, written_at, merged_at = client.scheduler._stopwatch, FtsIndex.tidy, [], []

    def changes(_table):
        if len(written_at) < 5:
            written_at.append(stopwatch())
        return 1000 + len(written_at)

    def noted(table):
        merged_at.append(stopwatch())
        return tidy(table)

    monkeypatch.setattr(FtsIndex, "changes", changes)
    monkeypatch.setattr(FtsIndex, "tidy", noted)

    async def scenario():
        async with running(client):
            await until(lambda: not slices)

    asyncio.run(scenario())
    assert len(written_at) == 5
    assert merged_at[0] - written_at[-1] >= 1


@pytest.mark.slow("SQLite waits for a real lock")
def test_cycles_that_another_program_holds_up_wait_once_each_and_leave_time_for_calls(
    client, store, monkeypatch
):
    """A statement that waits for the lock lets nothing else run here."""
    began, took, work = [], [], client.scheduler._runner.work
    monkeypatch.setattr(database, "BUSY_SECONDS", 1)
    with client.cache.database.without_waiting():
        pass  # from now on it waits as long as that

    async def timed(event):
        at, since = client.scheduler._stopwatch(), time.perf_counter()
        state = await work(event)
        if state is State.BACKING_OFF:
            began.append(at)
            took.append(time.perf_counter() - since)
        return state

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.scheduler._runner.work = timed
            with closing(client.cache.database.open_another()) as another:
                another.run("BEGIN IMMEDIATE")
                store.put("n1", "one\n")
                await until(lambda: len(began) >= 2, seconds=20)
                another.run("ROLLBACK")
            await until(in_step(store, client))

    asyncio.run(scenario())
    assert 0.9 < max(took) < 1.9
    assert min(after - before for before, after in pairwise(began)) >= scheduler.HELD_UP_PAUSE


def test_sync_now_is_true_after_a_cycle_that_began_later(client, store):
    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            store.put("n1", "one\n")
            assert await client.scheduler.sync_now(60.0)
            assert in_step(store, client)()

    asyncio.run(scenario())


def test_sync_now_is_false_if_the_cycle_failed_or_nobody_syncs(client):
    async def scenario():
        assert not await client.scheduler.sync_now(5.0)
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.faults.plan(Fault.UNAVAILABLE, times=1000)
            assert not await client.scheduler.sync_now(60.0)

    asyncio.run(scenario())


def test_an_unanswered_write_is_finished_without_anybody_asking(client, store):
    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.faults.plan(Fault.LOST_ANSWER, on="push")
            with pytest.raises(OutcomeUnknown):
                await client.create("mine\n")
            await until(lambda: not client.cache.journal.all())

    asyncio.run(scenario())
    assert client.contents() == store.contents() != {}


def test_a_write_that_stays_unanswered_is_tried_less_and_less_often(client, time):
    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.faults.plan(Fault.TIMEOUT, on="push", times=10_000)
            with pytest.raises(OutcomeUnknown):
                await client.create("mine\n")
            start, pushes = time.now, client.remote.calls.count("push")
            await until(lambda: time.now > start + 900)
            return client.remote.calls.count("push") - pushes

    assert 5 <= asyncio.run(scenario()) <= 12


def test_an_unresolved_note_is_asked_for_again_soon_and_not_at_once(
    client, store, time, monkeypatch
):
    client.remote.poll_seconds = 1000.0
    store.put("n1", "one\n")
    asyncio.run(client.sync())
    store.edit("n1", lambda text: text + "more\n")
    client.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
    client.faults.plan(Fault.UNAVAILABLE, on="get", times=2)
    get, asked = client.remote.get, []

    async def noted(note_id):
        asked.append(time.now)
        return await get(note_id)

    monkeypatch.setattr(client.remote, "get", noted)

    async def scenario():
        async with running(client):
            await until(in_step(store, client))

    asyncio.run(scenario())
    first, second, third = asked
    assert FIRST_DELAY <= second - first < 5.0
    assert 2.0 <= third - second < 5.0


def test_failures_are_followed_by_longer_and_longer_pauses(client, store, time):
    store.put("n1", "one\n")

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.faults.plan(Fault.UNAVAILABLE, times=10_000)
            start, calls = time.now, len(client.remote.calls)
            await until(lambda: time.now > start + 900)
            made = len(client.remote.calls) - calls
            client.faults.clear()
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))
            return made

    assert 8 <= asyncio.run(scenario()) <= 60


def test_a_store_that_asks_for_patience_is_left_alone_even_if_somebody_wakes(client, time):
    asked = []

    async def refusing(*_args, **_options):
        asked.append(time.now)
        client.scheduler.wake()
        raise RateLimited("slow down", retry_after=120.0)

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.remote.changes = refusing
            client.scheduler.wake()
            await until(lambda: len(asked) >= 4)

    asyncio.run(scenario())
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert min(pauses) >= 120.0


def test_a_feed_that_answers_nothing_at_once_is_not_asked_in_a_tight_loop(client, time):
    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.remote.poll_seconds = 0.0
            client.faults.plan(Fault.STALE, on="changes", times=10**6)
            start, calls = time.now, len(client.remote.calls)
            await until(lambda: time.now > start + 600)
            return len(client.remote.calls) - calls

    assert asyncio.run(scenario()) <= 40


def test_without_a_login_it_waits_and_continues_when_one_is_stored(client, store):
    store.put("n1", "one\n")
    client.faults.plan(Fault.LOGIN, times=10**6)
    ticks = []

    async def tick(seconds):
        ticks.append(seconds)
        await asyncio.sleep(0.001)

    client.scheduler._sleep = tick

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().needs_login)
            await until(lambda: len(ticks) > 5)
            assert len(client.remote.calls) == 1
            client.faults.clear()
            client.cache.sync_state.set_login_token(Secret("a new token"))
            await until(in_step(store, client))

    asyncio.run(scenario())


def test_cancelling_leaves_nothing_running_and_the_lock_free(client, store):
    for number in range(700):
        store.put(f"n{number}", "x\n")

    async def scenario():
        task = asyncio.create_task(client.scheduler.run())
        await until(lambda: client.cache.notes.counts().total > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert Leader(client.folder / "sync.lock").acquire()

    asyncio.run(scenario())


def test_a_damaged_cache_ends_the_run_and_gives_the_lock_away(client, store):
    async def scenario():
        async with asyncio.timeout(10):
            task = asyncio.create_task(client.scheduler.run())
            await until(lambda: client.scheduler.status().complete)

            def damaged(*_args, **_options):
                raise CacheDamaged("unreadable")

            client.cache.notes.apply = damaged
            store.put("n1", "x\n")
            await task
        assert Leader(client.folder / "sync.lock").acquire()

    asyncio.run(scenario())


@pytest.mark.parametrize("years", [-4, 4])
def test_a_clock_that_is_set_changes_no_pause(client, store, time, years):
    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            client.faults.plan(Fault.UNAVAILABLE, times=10_000)
            start = time.now
            await until(lambda: time.now > start + 100)  # pauses are long by now: it is in one
            start, calls = time.now, len(client.remote.calls)
            time.set_by = years * 365 * 86_400.0
            await until(lambda: time.now > start + 900)
            made = len(client.remote.calls) - calls
            client.faults.clear()
            store.put("n1", "one\n")
            await until(lambda: in_step(store, client)() or time.now > start + 9_000)
            return made, in_step(store, client)()

    made, followed = asyncio.run(scenario())
    assert 3 <= made <= 30
    assert followed


def test_a_feed_that_fails_in_an_unexpected_way_does_not_end_sync(client, store, monkeypatch):
    store.put("n1", "one\n")
    ask, failed = client.remote.changes, []

    async def odd(cursor, *, wait, base_of):
        if wait and not failed:
            failed.append(cursor)
            raise ValueError("not foreseen")
        return await ask(cursor, wait=wait, base_of=base_of)

    monkeypatch.setattr(client.remote, "changes", odd)

    async def scenario():
        async with running(client):
            await until(lambda: failed)
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))

    asyncio.run(scenario())


@pytest.mark.parametrize("news", [True, False])
def test_a_feed_answer_from_before_a_request_does_not_answer_the_request(
    client, store, monkeypatch, news
):
    """A cycle for somebody asks the store after he has asked for it, and finishes open writes."""
    store.put("n1", "one\n")
    engine, ledger = client.scheduler._runner, client.cache.progress
    ask, requests = client.remote.changes, []

    async def asked_meanwhile(cursor, *, wait, base_of):
        page = await ask(cursor, wait=wait, base_of=base_of)
        requests.append(ledger.request_cycle())
        return page

    async def scenario():
        await client.sync()
        if news:
            store.edit("n1", lambda text: text + "more\n")
        monkeypatch.setattr(client.remote, "changes", asked_meanwhile)
        await engine.work(await engine.listen())
        monkeypatch.undo()
        assert client.contents() == store.contents()
        assert ledger.request_result(requests[-1]) is None
        await client.sync()
        assert ledger.request_result(requests[-1])

    asyncio.run(scenario())


def test_damage_that_is_met_while_listening_ends_the_run(client, store, monkeypatch):
    store.put("n1", "one\n")

    async def damaged(_cursor, *, wait, base_of):
        del wait, base_of
        raise CacheDamaged("unreadable")

    async def scenario():
        await client.sync()
        monkeypatch.setattr(client.remote, "changes", damaged)
        with pytest.raises(CacheDamaged):
            await client.scheduler._runner.listen()

    asyncio.run(scenario())
