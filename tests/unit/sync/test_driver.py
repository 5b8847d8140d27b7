"""The run loop: listening, waking, backing off, following, taking over, resetting."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from mcp_notarium.errors import BackendUnavailable, CacheDamaged, OutcomeUnknown, RateLimited
from mcp_notarium.notes.note import Content
from mcp_notarium.secret import Secret
from mcp_notarium.sync.cycle import State
from mcp_notarium.sync.leader import Leader
from support.memory_backend import Fault
from support.sync_rig import LEASE, until


@asynccontextmanager
async def running(*clients):
    """The drivers of these clients run while this is entered."""
    tasks = [asyncio.create_task(client.driver.run()) for client in clients]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError)


def in_step(store, *clients):
    return lambda: all(client.contents() == store.contents() for client in clients)


def test_running_loads_everything_and_then_follows_the_feed(client, store):
    store.put("n1", "one\n")

    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))
            store.remove("n1")
            await until(in_step(store, client))
            status = client.driver.status()
            assert status.leader
            assert status.feed

    asyncio.run(scenario())


def test_a_change_elsewhere_shows_at_once_and_not_at_the_next_interval(client, store, time):
    client.backend.poll_seconds = 30.0
    store.put("n1", "one\n")

    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().state is State.IDLE)
            await asyncio.sleep(0.01)
            calls = len(client.backend.calls)
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))
            assert client.backend.calls[calls:] in ([], ["changes"])

    asyncio.run(scenario())


def test_waking_starts_a_cycle_without_waiting_for_the_interval(client, store, time):
    client.backend.poll_seconds = 1000.0

    async def stand_still(_seconds):
        await asyncio.Event().wait()

    client.driver._sleep = stand_still

    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().state is State.IDLE)
            calls = client.backend.calls.count("changes")
            client.driver.wake()
            await until(lambda: client.backend.calls.count("changes") >= calls + 2)

    asyncio.run(scenario())


def test_sync_now_is_true_after_a_cycle_that_began_later(client, store):
    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            store.put("n1", "one\n")
            assert await client.driver.sync_now(60.0)
            assert in_step(store, client)()

    asyncio.run(scenario())


def test_sync_now_is_false_if_the_cycle_failed_or_nobody_syncs(client):
    async def scenario():
        assert not await client.driver.sync_now(5.0)
        async with running(client):
            await until(lambda: client.driver.status().complete)
            client.faults.plan(Fault.UNAVAILABLE, times=1000)
            assert not await client.driver.sync_now(60.0)

    asyncio.run(scenario())


def test_an_unanswered_write_is_finished_without_anybody_asking(client, store):
    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            client.faults.plan(Fault.LOST_ANSWER, on="push")
            with pytest.raises(OutcomeUnknown):
                await client.create("mine\n")
            await until(lambda: not client.cache.pending.all())

    asyncio.run(scenario())
    assert client.contents() == store.contents() != {}


def test_a_write_that_stays_unanswered_is_tried_less_and_less_often(client, time):
    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            client.faults.plan(Fault.TIMEOUT, on="push", times=10_000)
            with pytest.raises(OutcomeUnknown):
                await client.create("mine\n")
            start, pushes = time.now, client.backend.calls.count("push")
            await until(lambda: time.now > start + 900)
            return client.backend.calls.count("push") - pushes

    assert 5 <= asyncio.run(scenario()) <= 12


def test_failures_are_followed_by_longer_and_longer_pauses(client, store, time):
    store.put("n1", "one\n")

    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            client.faults.plan(Fault.UNAVAILABLE, times=10_000)
            start, calls = time.now, len(client.backend.calls)
            await until(lambda: time.now > start + 900)
            made = len(client.backend.calls) - calls
            client.faults.clear()
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))
            return made

    assert 8 <= asyncio.run(scenario()) <= 60


def test_a_store_that_asks_for_patience_is_left_alone_even_if_somebody_wakes(client, time):
    asked = []

    async def refusing(*_args, **_options):
        asked.append(time.now)
        client.driver.wake()
        raise RateLimited("slow down", retry_after=120.0)

    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            client.backend.changes = refusing
            client.driver.wake()
            await until(lambda: len(asked) >= 4)

    asyncio.run(scenario())
    pauses = [later - earlier for earlier, later in zip(asked, asked[1:], strict=False)]
    assert min(pauses) >= 120.0


def test_a_feed_that_answers_nothing_at_once_is_not_asked_in_a_tight_loop(client, time):
    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            client.backend.poll_seconds = 0.0
            client.faults.plan(Fault.STALE, on="changes", times=10**6)
            start, calls = time.now, len(client.backend.calls)
            await until(lambda: time.now > start + 600)
            return len(client.backend.calls) - calls

    assert asyncio.run(scenario()) <= 40


def test_without_a_login_it_waits_and_goes_on_when_one_is_stored(client, store):
    store.put("n1", "one\n")
    client.faults.plan(Fault.LOGIN, times=10**6)
    ticks = []

    async def tick(seconds):
        ticks.append(seconds)
        await asyncio.sleep(0.001)

    client.driver._sleep = tick

    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().needs_login)
            await until(lambda: len(ticks) > 5)
            assert len(client.backend.calls) == 1
            assert not await client.driver.wait_first_page(60.0)
            client.faults.clear()
            client.cache.sync_state.set_login_token(Secret("a new token"))
            await until(in_step(store, client))

    asyncio.run(scenario())


def test_the_first_page_is_reported_when_it_is_here(client, store):
    store.put("n1", "one\n")

    async def scenario():
        assert not await client.driver.wait_first_page(1.0)
        async with running(client):
            assert await client.driver.wait_first_page(1e6)
        assert await client.driver.wait_first_page(0.0)

    asyncio.run(scenario())


def test_of_two_processes_one_leads_and_the_other_takes_over(clients, store, time):
    first, second = clients(), clients()
    store.put("n1", "one\n")

    async def scenario():
        one = asyncio.create_task(first.driver.run())
        await until(lambda: first.driver.status().complete)
        async with running(second):
            for _ in range(50):
                await asyncio.sleep(0)
            assert not second.driver.status().leader
            assert second.driver.status().complete
            assert second.backend.calls == []
            left = time.now
            one.cancel()
            await asyncio.wait({one})
            await until(lambda: second.driver.status().leader)
            assert time.now - left <= 2.0
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, second))

    asyncio.run(scenario())


def test_only_the_leader_checkpoints(clients):
    first, second = clients(), clients()

    def checkpoints(client):
        return client.cache.database.number("PRAGMA wal_autocheckpoint") > 0

    async def scenario():
        async with running(first):
            await until(lambda: first.driver.status().complete)
            async with running(second):
                await asyncio.sleep(0.01)
                assert checkpoints(first)
                assert not checkpoints(second)
        assert not checkpoints(first)

    asyncio.run(scenario())


def test_a_follower_has_the_leader_sync_now(clients, store):
    first, second = clients(), clients()

    async def scenario():
        async with running(first):
            await until(lambda: first.driver.status().complete)
            async with running(second):
                store.put("n1", "one\n")
                assert await second.driver.sync_now(60.0)
                assert second.contents() == store.contents()
                assert second.backend.calls == []

    asyncio.run(scenario())


def test_waking_a_follower_reaches_the_leader(clients, store):
    first, second = clients(), clients()
    first.backend.poll_seconds = 1000.0

    async def scenario():
        async with running(first):
            await until(lambda: first.driver.status().state is State.IDLE)
            calls = first.backend.calls.count("changes")
            second.driver.wake()
            await until(lambda: first.backend.calls.count("changes") >= calls + 1)
            await until(lambda: not second.driver._ledger.open_request)

    asyncio.run(scenario())


def test_a_write_of_a_follower_is_seen_by_the_leader_and_not_fetched_again(clients, store):
    first, second = clients(), clients()

    async def scenario():
        async with running(first, second):
            await until(lambda: first.driver.status().complete)
            note = await second.create("mine\n")
            assert first.note(note.id).text == "mine\n"
            assert await first.driver.sync_now(60.0)
            assert first.contents() == store.contents()
            assert "get" not in first.backend.calls

    asyncio.run(scenario())


def test_a_follower_tells_what_the_leader_is_doing(clients, store):
    first, second = clients(), clients()
    first.faults.plan(Fault.LOGIN, times=10**6)

    async def scenario():
        assert second.driver.status().state is State.INDEXING
        async with running(first):
            await until(lambda: second.driver.status().needs_login)
            assert not second.driver.status().leader

    asyncio.run(scenario())


def test_cancelling_leaves_nothing_running_and_the_lock_free(client, store):
    for number in range(700):
        store.put(f"n{number}", "x\n")

    async def scenario():
        task = asyncio.create_task(client.driver.run())
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
            task = asyncio.create_task(client.driver.run())
            await until(lambda: client.driver.status().complete)

            def damaged(*_args, **_options):
                raise CacheDamaged("unreadable")

            client.cache.notes.apply = damaged
            store.put("n1", "x\n")
            await task
        assert Leader(client.folder / "sync.lock").acquire()

    asyncio.run(scenario())


def test_a_reset_loads_everything_again_in_the_running_process(client, store):
    for number in range(250):
        store.put(f"n{number:03}", "x\n")

    async def scenario():
        async with running(client):
            await until(lambda: client.driver.status().complete)
            with client.cache.transaction():
                client.cache.notes.clear()
            await client.driver.reset()
            assert client.cache.notes.counts().total >= 100
            await until(in_step(store, client))
            await until(lambda: client.driver.status().complete)

    asyncio.run(scenario())


def test_a_reset_without_a_connection_is_refused_before_anything_is_emptied(client, store):
    store.put("n1", "one\n")

    async def scenario():
        await client.sync()
        before = client.rows()
        client.faults.plan(Fault.UNAVAILABLE, on="list_page")
        with pytest.raises(BackendUnavailable):
            await client.driver.reset()
        assert client.rows() == before

    asyncio.run(scenario())


def test_a_reset_keeps_unfinished_writes_and_their_base(client, store):
    async def scenario():
        note = await client.create("one\ntwo\n")
        await client.sync()
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.change(note, "one\nmine\n")
        store.edit(note.id, lambda text: "theirs\n" + text)
        store.forget_versions(note.id)
        await client.driver.reset()
        await client.settle()
        return note

    note = asyncio.run(scenario())
    assert store.contents() == {note.id: Content("theirs\none\nmine\n")}
    assert client.contents() == store.contents()
    assert client.cache.pending.all() == []


def test_a_reset_by_a_follower_voids_what_the_leader_has_on_its_way(clients, store):
    first, second = clients(), clients()
    for number in range(5):
        store.put(f"n{number}", "x\n")

    async def scenario():
        await first.sync()
        store.edit("n1", lambda text: text + "more\n")
        commit = first.driver._engine._intake.commit

        async def late(batch, tally):
            first.driver._engine._intake.commit = commit
            await second.driver.reset()
            await commit(batch, tally)

        first.driver._engine._intake.commit = late
        assert await first.sync() is State.IDLE

    asyncio.run(scenario())
    assert first.contents() == store.contents()
    assert first.driver.status().complete


def test_a_lease_that_ran_out_in_a_leader_that_died_is_taken_over(clients, store, time):
    first, second = clients(), clients()

    async def scenario():
        async with running(second):
            await until(lambda: second.driver.status().complete)
            first.faults.plan(Fault.HANG_BEFORE, on="push")
            stuck = asyncio.create_task(first.create("mine\n"))
            await until(lambda: first.cache.pending.count() == 1)
            stuck.cancel()
            began = time.now
            await until(lambda: store.ids() != set())
            assert time.now - began >= LEASE

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["mine\n"]
