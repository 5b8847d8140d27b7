"""Several processes on one cache: who leads, who takes over, what a reset does to all of them."""

import asyncio

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import OutcomeUnknown, StoreUnavailable
from mcp_notarium.stores.contract import WriteGuard
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.sync.cycle_states import State
from support.memory_client import ROWS, Fault
from support.sync_rig import LEASE, Slow, in_step, running, until


def test_of_two_processes_one_leads_and_the_other_takes_over(clients, store, time):
    first, second = clients(), clients()
    store.put("n1", "one\n")

    async def scenario():
        one = asyncio.create_task(first.scheduler.run())
        await until(lambda: first.scheduler.status().complete)
        async with running(second):
            for _ in range(50):
                await asyncio.sleep(0)
            assert not second.scheduler.status().leader
            assert second.scheduler.status().complete
            assert second.remote.calls == []
            took_over, acquire = [], second.scheduler._leader.acquire

            def noted():
                if acquire():
                    took_over.append(time.now)
                return bool(took_over)

            second.scheduler._leader.acquire = noted
            one.cancel()
            await asyncio.wait({one})
            left = time.now  # the second one's time flies also while the first one ends
            await until(lambda: second.scheduler.status().leader)
            assert took_over[0] - left <= 2.0
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, second))

    asyncio.run(scenario())


def test_only_the_leader_checkpoints(clients):
    first, second = clients(), clients()

    def checkpoints(client):
        assert client.cache.database.number("PRAGMA wal_autocheckpoint") == 0  # never by itself
        return client.cache.database.checkpointer

    async def scenario():
        async with running(first):
            await until(lambda: first.scheduler.status().complete)
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
            await until(lambda: first.scheduler.status().complete)
            async with running(second):
                store.put("n1", "one\n")
                assert await second.scheduler.sync_now(60.0)
                assert second.contents() == store.contents()
                assert second.remote.calls == []

    asyncio.run(scenario())


def test_waking_a_follower_reaches_the_leader(clients, store):
    first, second = clients(), clients()
    first.remote.poll_seconds = 1000.0

    async def scenario():
        async with running(first):
            await until(lambda: first.scheduler.status().state is State.IDLE)
            calls = first.remote.calls.count("changes")
            second.scheduler.wake()
            await until(lambda: first.remote.calls.count("changes") >= calls + 1)
            await until(lambda: not second.cache.progress.has_open_request)

    asyncio.run(scenario())


def test_a_write_of_a_follower_is_seen_by_the_leader_and_not_fetched_again(clients, store):
    first, second = clients(), clients()

    async def scenario():
        async with running(first, second):
            await until(lambda: first.scheduler.status().complete)
            note = await second.create("mine\n")
            assert first.note(note.id).text == "mine\n"
            assert await first.scheduler.sync_now(60.0)
            assert first.contents() == store.contents()
            assert "get" not in first.remote.calls

    asyncio.run(scenario())


def test_a_follower_tells_what_the_leader_is_doing(clients, store):
    first, second = clients(), clients()
    first.faults.plan(Fault.LOGIN, times=10**6)

    async def scenario():
        assert second.scheduler.status().state is State.INDEXING
        async with running(first):
            await until(lambda: second.scheduler.status().needs_login)
            assert not second.scheduler.status().leader

    asyncio.run(scenario())


def test_a_leader_without_a_login_lets_one_with_a_login_lead(clients, store, time):
    first, second = clients(), clients()
    store.put("n1", "one\n")

    async def scenario():
        async with running(first):
            await until(lambda: first.scheduler.status().complete)
            async with running(second):
                first.faults.plan(Fault.LOGIN, times=10**6)
                store.edit("n1", lambda text: text + "more\n")
                await until(lambda: second.scheduler.status().leader)
                await until(in_step(store, first, second))
                await until(lambda: not first.scheduler.status().needs_login)
                assert not first.cache.database.checkpointer
                start, calls = time.now, len(first.remote.calls)
                await until(lambda: time.now > start + 3600.0)
                assert len(first.remote.calls) == calls
                assert second.scheduler.status().leader

    asyncio.run(scenario())


def test_without_any_login_all_servers_say_so_and_retry_only_after_minutes(clients, store, time):
    group = [clients() for _ in range(3)]
    for client in group:
        client.faults.plan(Fault.LOGIN, times=10**6)

    async def scenario():
        async with running(*group):
            await until(lambda: all(client.scheduler.status().needs_login for client in group))
            await until(lambda: all(client.remote.calls for client in group))
            start = time.now
            while time.now < start + 1200.0:
                await asyncio.sleep(0.001)
                statuses = [client.scheduler.status() for client in group]
                assert all(status.needs_login for status in statuses if not status.leader)

    asyncio.run(scenario())
    for client in group:
        assert 2 <= len(client.remote.calls) <= 6


def test_a_request_is_answered_where_nobody_has_a_login(clients):
    first, second = clients(), clients()
    for client in (first, second):
        client.faults.plan(Fault.LOGIN, times=10**6)

    async def scenario():
        async with running(first, second):
            await until(lambda: second.scheduler.status().needs_login)
            number = second.cache.progress.last_request + 1
            assert not await second.scheduler.sync_now(600.0)
            assert second.cache.progress.request_result(number) is False

    asyncio.run(scenario())


def test_a_reset_loads_everything_again_in_the_running_process(client, store):
    for number in range(250):
        store.put(f"n{number:03}", "x\n")

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            with client.cache.transaction():
                client.cache.notes.clear()
            await client.scheduler.reset()
            await until(in_step(store, client))
            await until(lambda: client.scheduler.status().complete)

    asyncio.run(scenario())


def test_a_reset_without_a_connection_is_refused_before_anything_is_emptied(client, store):
    store.put("n1", "one\n")

    async def scenario():
        await client.sync()
        before = client.rows()
        client.faults.plan(Fault.UNAVAILABLE, on="list_page")
        with pytest.raises(StoreUnavailable):
            await client.scheduler.reset()
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
        await client.scheduler.reset()
        await client.run_cycles()
        return note

    note = asyncio.run(scenario())
    assert store.contents() == {note.id: Content("theirs\none\nmine\n")}
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def test_a_reset_by_a_follower_voids_what_the_leader_has_on_its_way(clients, store):
    first, second = clients(), clients()
    for number in range(1300):
        store.put(f"n{number:04}", "x\n")

    async def scenario():
        commit, batches = first.scheduler._runner.applier.commit, []

        async def interrupted(batch, tally):
            batches.append(batch)
            if len(batches) == 3:
                await second.scheduler.reset()
            await commit(batch, tally)

        first.scheduler._runner.applier.commit = interrupted
        assert await first.sync() is State.IDLE

    asyncio.run(scenario())
    assert first.contents() == store.contents()
    assert first.scheduler.status().complete


def test_a_lease_that_ran_out_in_a_leader_that_died_is_taken_over(clients, store, time):
    first, second = clients(), clients()

    async def scenario():
        async with running(second):
            await until(lambda: second.scheduler.status().complete)
            first.faults.plan(Fault.HANG_BEFORE, on="push")
            stuck = asyncio.create_task(first.create("mine\n"))
            await until(lambda: first.cache.journal.count() == 1)
            (left,) = first.cache.journal.all()
            stuck.cancel()
            await until(lambda: store.ids() != set())
            assert left.lease_until == left.created_at + LEASE
            assert time.now >= left.lease_until

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["mine\n"]


@pytest.mark.parametrize(
    "kind",
    [*({"traits": row} for row in ROWS.values()), {"remote": LocalStore}],
    ids=[*ROWS, "local notebook"],
)
def test_a_save_tells_of_an_edit_that_another_process_has_made_before_it_is_answered(clients, kind):
    client, other = clients(**kind), clients(**kind)
    first = client.writer._attempt.first

    async def with_an_edit(*given):
        result = await first(*given)
        await other.change(other.note(result.note_id), "one\nours\ntheirs\n")
        return result

    async def scenario():
        note = await client.create("one\n")
        client.writer._attempt.first = with_an_edit
        return await client.change(note, "one\nours\n")

    saved = asyncio.run(scenario())
    assert (saved.note.text, saved.merged) == ("one\nours\ntheirs\n", True)


@pytest.mark.parametrize(
    ("row", "case"),
    [
        (row, case)
        for row in ROWS
        for case in ("new", "changed", "removed")
        if case != "removed" or ROWS[row].write_guard is not WriteGuard.LAST_WRITER
    ],
)
def test_a_write_that_two_processes_send_and_others_edit_between_is_stored_once(
    clients, store, time, row, case
):
    first, second = (clients(traits=ROWS[row]) for _ in range(2))

    async def finish():
        await second.writer.replay.finish_all()
        await second.writer.replay.finish_not_found()

    async def scenario():
        new = case == "new"
        note = None if new else await first.create("one\n\nend\n")
        slow, late = Slow(first), Slow(second)
        sent = "one\nmine\n\nend\n"
        save = asyncio.create_task(first.create(sent) if new else first.change(note, sent))
        await until(lambda: slow.begun)
        time.now += 2 * LEASE
        replay = asyncio.create_task(finish())
        await until(lambda: late.begun)
        slow.go_on.set()
        await save
        (note_id,) = store.ids()
        if case == "removed":  # by somebody who has seen it: no copy keeps it
            store.remove(note_id)
        else:
            store.edit(note_id, lambda text: text.replace("mine\n", "mine\ntheirs\n"))
        late.go_on.set()
        await replay

    asyncio.run(scenario())
    texts = [content.text for content in store.contents().values()]
    assert texts == ([] if case == "removed" else ["one\nmine\ntheirs\n\nend\n"])
    assert first.cache.journal.all() == []


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "stays unanswered"])
def test_a_new_note_that_another_process_is_finishing_is_not_made_by_a_repeated_call(
    clients, store, time, ends
):
    first, second = clients(), clients()

    async def scenario():
        first.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await first.create("mine\n")
        time.now += 1
        slow = Slow(second)
        replay = asyncio.create_task(second.writer.replay.finish_all())
        await until(lambda: slow.begun)
        again = asyncio.create_task(first.create("mine\n"))
        if ends:
            await asyncio.sleep(0)
            slow.go_on.set()
            assert (await again).text == "mine\n"
        else:
            with pytest.raises(OutcomeUnknown):
                await again
        slow.go_on.set()
        await replay

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["mine\n"]
    assert first.cache.journal.all() == []


def test_two_processes_whose_callers_save_the_same_new_text_at_once_make_two_notes(clients, store):
    first, second = clients(), clients()

    async def scenario():
        slow = Slow(second)
        other = asyncio.create_task(second.create("the same\n"))
        await until(lambda: slow.begun)
        notes = {(await first.create("the same\n")).id}
        slow.go_on.set()
        return notes | {(await other).id}

    assert asyncio.run(scenario()) == store.ids()
    assert len(store.ids()) == 2
