"""A note that the store does not give, while it serves others; and a store that gives nothing."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.sync import note_fetch, replay
from mcp_notarium.sync.backoff import FIRST_DELAY
from mcp_notarium.sync.batch_apply import SPLIT
from mcp_notarium.sync.cycle_states import State
from mcp_notarium.sync.pull_decisions import Missing
from support.memory_client import Fault

REFUSALS = (Fault.UNAVAILABLE, Fault.TIMEOUT, Fault.LOGIN, Fault.RATE_LIMITED)


@pytest.fixture
def loaded(client, store):
    """A client that has loaded three notes."""
    for number in range(3):
        store.put(f"n{number}", f"note {number}\n")
    asyncio.run(client.sync())
    client.remote.calls.clear()
    return client


def changed_elsewhere(loaded, store, *note_ids):
    """The feed says that these have changed, and not how."""
    for note_id in note_ids:
        store.edit(note_id, lambda text: text + "more\n")
    loaded.faults.plan(Fault.WITHOUT_CONTENT, on="changes")


def unresolved(client):
    return (*client.cache.progress.unresolved(),)


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_note_that_is_refused_while_others_are_served_stays_unresolved(loaded, store, fault):
    changed_elsewhere(loaded, store, "n0", "n1", "n2")
    loaded.faults.plan(fault, on="get")
    assert asyncio.run(loaded.sync()) is State.IDLE
    assert unresolved(loaded) == ("n0",)
    assert loaded.remote.calls == ["changes", "get", "get", "get", "changes"]
    assert loaded.cache.sync_state.metrics().error_count == 0
    asyncio.run(loaded.sync())
    assert loaded.contents() == store.contents()
    assert unresolved(loaded) == ()


@pytest.mark.parametrize("fault", REFUSALS)
def test_alone_it_stays_unresolved_if_a_listing_is_served(loaded, store, fault):
    changed_elsewhere(loaded, store, "n0")
    loaded.faults.plan(fault, on="get")
    assert asyncio.run(loaded.sync()) is State.IDLE
    assert unresolved(loaded) == ("n0",)
    assert loaded.remote.calls == ["changes", "get", "list_page", "changes"]


@pytest.mark.parametrize("fault", REFUSALS)
def test_or_if_the_change_feed_is_where_listings_fail(loaded, store, fault):
    changed_elsewhere(loaded, store, "n0")
    loaded.faults.plan(fault, on="get")
    loaded.faults.plan(fault, on="list_page", times=9)
    assert asyncio.run(loaded.sync()) is State.IDLE
    assert unresolved(loaded) == ("n0",)


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        (Fault.UNAVAILABLE, State.BACKING_OFF),
        (Fault.TIMEOUT, State.BACKING_OFF),
        (Fault.RATE_LIMITED, State.BACKING_OFF),
        (Fault.LOGIN, State.NEEDS_AUTH),
    ],
)
def test_if_every_note_is_refused_the_cycle_ends_and_skips_none(loaded, store, fault, state):
    cursor = loaded.cache.sync_state.cursor()
    changed_elsewhere(loaded, store, "n0", "n1")
    loaded.faults.plan(fault, on="get", times=2)
    loaded.faults.plan(fault, on="list_page")
    loaded.faults.plan(fault, on="changes")
    assert asyncio.run(loaded.sync()) is state
    assert unresolved(loaded) == ()
    assert loaded.cache.sync_state.cursor() == cursor
    assert loaded.cache.sync_state.metrics().error_count == 1
    asyncio.run(loaded.sync())
    assert loaded.contents() == store.contents()


def test_a_failing_note_is_asked_for_after_twice_as_long_each_time(loaded, store, time):
    changed_elsewhere(loaded, store, "n0")
    loaded.faults.plan(Fault.UNAVAILABLE, on="get", times=99)
    asked_at = []
    began = time.now
    for _ in range(40):
        before = loaded.remote.calls.count("get")
        asyncio.run(loaded.sync())
        if loaded.remote.calls.count("get") > before:
            asked_at.append(time.now - began)
        time.now += 1.0
    assert asked_at == [0, 1, 3, 7, 15, 31]
    assert loaded.cache.sync_state.metrics().error_count == 0


def test_news_come_before_what_was_unresolved(loaded, store):
    changed_elsewhere(loaded, store, "n0")
    loaded.faults.plan(Fault.UNAVAILABLE, on="get")
    asyncio.run(loaded.sync())
    loaded.remote.calls.clear()
    asyncio.run(loaded.sync())
    assert loaded.remote.calls == ["changes", "get"]


class Held:
    """A client whose requests for one note are answered when somebody says so."""

    def __init__(self, client, note_id, monkeypatch):
        monkeypatch.setattr(note_fetch, "ITEM_SECONDS", 0.2)
        monkeypatch.setattr(replay, "ITEM_SECONDS", 0.2)
        self.open = asyncio.Event()
        self.asked = 0
        get = client.remote.get

        async def held(asked_for, *, etag=None):
            answer = await get(asked_for, etag=etag)
            if asked_for == note_id:
                self.asked += 1
                await self.open.wait()
            return answer

        monkeypatch.setattr(client.remote, "get", held)


def test_a_slow_note_delays_no_other_and_gets_twice_the_time_at_each_attempt(
    loaded, store, time, monkeypatch
):
    async def scenario():
        held = Held(loaded, "n0", monkeypatch)
        changed_elsewhere(loaded, store, "n0", "n1", "n2")
        assert await loaded.sync() is State.IDLE
        assert unresolved(loaded) == ("n0",)
        assert loaded.note("n2").text == store.text("n2")
        monkeypatch.setattr(loaded.remote, "get", answering_after(0.25, loaded.remote.get))
        held.open.set()
        assert await loaded.sync() is State.IDLE

    asyncio.run(scenario())
    assert loaded.contents() == store.contents()
    assert unresolved(loaded) == ()


def answering_after(seconds, get):
    async def slow(note_id, *, etag=None):
        await asyncio.sleep(seconds)
        return await get(note_id, etag=etag)

    return slow


def test_an_answer_that_is_older_than_the_news_is_not_used_and_asked_for_again(loaded, store):
    changed_elsewhere(loaded, store, "n0")
    loaded.faults.plan(Fault.STALE, on="get")
    asyncio.run(loaded.sync())
    assert unresolved(loaded) == ("n0",)
    asyncio.run(loaded.sync())
    assert loaded.contents() == store.contents()
    assert unresolved(loaded) == ()


@pytest.mark.parametrize("numbered", [True, False])
def test_a_note_can_be_saved_while_the_news_of_it_waits_for_an_answer(loaded, store, numbered):
    changed_elsewhere(loaded, store, "n0")
    loaded.faults.plan(Fault.UNAVAILABLE, on="get")
    asyncio.run(loaded.sync())
    assert unresolved(loaded) == ("n0",)
    if not numbered:  # as of a note that was made again
        loaded.cache.progress.mark_unresolved({"n0": 0})
    saved = asyncio.run(loaded.change(loaded.note("n0"), "mine\nnote 0\n"))
    assert saved.merged
    assert store.text("n0") == "mine\nnote 0\nmore\n"
    asyncio.run(loaded.sync())
    assert loaded.contents() == store.contents()
    assert unresolved(loaded) == ()


def test_another_text_under_the_same_number_is_believed_only_if_it_is_said_twice(
    loaded, monkeypatch
):
    held, get = loaded.cache.notes.base("n0"), loaded.remote.get
    other = replace(held, content=replace(held.content, text="of another note\n"))
    answers = iter([other])

    async def answering(note_id, *, etag=None):
        return next(answers, None) or await get(note_id, etag=etag)

    monkeypatch.setattr(loaded.remote, "get", answering)
    fetcher = note_fetch.NoteFetcher(loaded.cache, loaded.remote, stopwatch=lambda: 0.0)
    fetched = asyncio.run(fetcher.fetch([Missing("n0")]))
    assert fetched["n0"].answer == held
    answers = iter([other, other])
    fetched = asyncio.run(fetcher.fetch([Missing("n0")]))
    assert fetched["n0"].answer == other


def test_many_slow_notes_delay_no_other(loaded, store, monkeypatch):
    async def scenario():
        monkeypatch.setattr(note_fetch, "ITEM_SECONDS", 0.2)
        failing = [f"failing{number}" for number in range(note_fetch.FETCHES + 1)]
        for note_id in failing:
            store.put(note_id, "failing\n")
        changed_elsewhere(loaded, store, "n0")
        loaded.faults.plan(Fault.HANG_BEFORE, on="get", times=len(failing))
        assert await loaded.sync() is State.IDLE
        assert set(unresolved(loaded)) == set(failing)
        assert loaded.note("n0").text == store.text("n0")
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_note_of_the_feed_that_reads_old_is_asked_for_again_a_second_later(loaded, store, time):
    async def scenario():
        runner = loaded.scheduler._runner
        time.now += 2 * FIRST_DELAY
        changed_elsewhere(loaded, store, "n0")
        loaded.faults.plan(Fault.STALE, on="get", times=2)
        await runner.work(await runner.listen())
        assert unresolved(loaded) == ("n0",)
        assert loaded.remote.calls.count("get") == 1
        assert not runner.retries_due()
        time.now += FIRST_DELAY
        assert runner.retries_due()
        loaded.faults.clear()
        await loaded.sync()

    asyncio.run(scenario())
    assert loaded.contents() == store.contents()
    assert unresolved(loaded) == ()


@pytest.fixture
def waits(monkeypatch):
    """The seconds for which each note was waited for; in truth it is a moment."""
    seconds, timeout = [], asyncio.timeout

    def short(given):
        seconds.append(given)
        return timeout(0.02)

    monkeypatch.setattr(asyncio, "timeout", short)
    return seconds


def test_only_after_the_news_a_slow_note_is_waited_for_longer(loaded, store, time, waits):
    changed_elsewhere(loaded, store, "n0")
    loaded.faults.plan(Fault.HANG_BEFORE, on="get", times=99)
    for _ in range(2):
        asyncio.run(loaded.sync())
    assert waits == [4.0, 8.0]
    changed_elsewhere(loaded, store, "n0")
    asyncio.run(loaded.sync())
    assert waits == [4.0, 8.0], "it is backed off from"
    time.now += 2.0
    changed_elsewhere(loaded, store, "n0")
    asyncio.run(loaded.sync())
    assert waits == [4.0, 8.0, 4.0]
    for _ in range(3):
        time.now += 300.0
        asyncio.run(loaded.sync())
    assert waits[3:] == [32.0, 32.0, 32.0]


def test_one_cycle_waits_longer_for_a_few_slow_notes_only(loaded, store, time, waits):
    slow = [f"slow{number}" for number in range(3 * note_fetch.FETCHES)]
    for note_id in slow:
        store.put(note_id, "slow\n")
    changed_elsewhere(loaded, store, "n0")
    loaded.faults.plan(Fault.HANG_BEFORE, on="get", times=999)
    asyncio.run(loaded.sync())
    assert set(waits) == {4.0}
    for _ in range(3):
        waits.clear()
        asyncio.run(loaded.sync())
        assert waits == [8.0] * note_fetch.FETCHES
    loaded.faults.clear()
    time.now += 300.0
    for _ in range(4):
        asyncio.run(loaded.sync())
    assert loaded.contents() == store.contents()
    assert unresolved(loaded) == ()


def test_one_cycle_asks_for_one_batch_of_unresolved_notes(loaded, store):
    notes = [f"many{number:03}" for number in range(SPLIT + 20)]
    for note_id in notes:
        store.put(note_id, "text\n")
    with loaded.cache.transaction():
        loaded.cache.progress.mark_unresolved(dict.fromkeys(notes, 0))
    asyncio.run(loaded.sync())
    assert unresolved(loaded) == tuple(notes[SPLIT:])
    asyncio.run(loaded.sync())
    assert unresolved(loaded) == ()


# Unfinished writes


async def unanswered(client, *note_ids):
    """A line is added to each of these, and no answer comes."""
    for note_id in note_ids:
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.change(client.note(note_id), client.note(note_id).text + "mine\n")


def refuse(client, monkeypatch, note_id, fault):
    """From now on this note is refused, however often it is asked for; gives when that was."""
    get, asked_at = client.remote.get, []

    async def refusing(asked_for, *, etag=None):
        if asked_for == note_id:
            asked_at.append(client.time.now)
            client.faults.plan(fault, on="get")
        return await get(asked_for, etag=etag)

    monkeypatch.setattr(client.remote, "get", refusing)
    return asked_at


@pytest.mark.parametrize("fault", [*REFUSALS, Fault.NONSENSE])
def test_an_unfinished_write_to_a_failing_note_ends_no_cycle_and_keeps_back_no_other(
    loaded, store, monkeypatch, fault
):
    async def scenario():
        await unanswered(loaded, "n0", "n1")
        refuse(loaded, monkeypatch, "n0", fault)
        store.edit("n2", lambda text: text + "elsewhere\n")
        return await loaded.sync()

    assert asyncio.run(scenario()) is State.IDLE
    assert loaded.cache.sync_state.metrics().error_count == 0
    assert [write.note_id for write in loaded.cache.journal.all()] == ["n0"]
    assert store.text("n1") == "note 1\nmine\n"
    assert loaded.note("n2").text == store.text("n2")
    monkeypatch.undo()
    asyncio.run(loaded.run_cycles())
    assert store.text("n0") == "note 0\nmine\n"
    assert loaded.cache.journal.all() == []


def test_an_unfinished_write_to_a_failing_note_is_tried_after_twice_as_long_each_time(
    loaded, monkeypatch, time
):
    asyncio.run(unanswered(loaded, "n0"))
    asked_at = refuse(loaded, monkeypatch, "n0", Fault.UNAVAILABLE)
    began = time.now
    for _ in range(40):
        asyncio.run(loaded.sync())
        time.now += 1.0
    assert [at - began for at in asked_at] == [0, 1, 3, 7, 15, 31]


def test_an_unfinished_write_that_takes_long_continues_after_the_others(loaded, store, monkeypatch):
    async def scenario():
        await unanswered(loaded, "n0", "n1")
        held = Held(loaded, "n0", monkeypatch)
        assert await loaded.sync() is State.IDLE
        assert store.text("n1") == "note 1\nmine\n"
        assert await loaded.sync() is State.IDLE
        assert held.asked == 1
        held.open.set()
        await loaded.writer.locks.drain()

    asyncio.run(scenario())
    assert store.text("n0") == "note 0\nmine\n"
    assert loaded.cache.journal.all() == []


def test_many_unfinished_writes_that_take_long_leave_room_for_others(loaded, store, monkeypatch):
    async def scenario():
        monkeypatch.setattr(replay, "ITEM_SECONDS", 0.2)
        await unanswered(loaded, "n0", "n1", "n2")
        loaded.faults.plan(Fault.HANG_BEFORE, on="get", times=3)
        assert await loaded.sync() is State.IDLE
        assert loaded.remote.calls.count("get") == 3 + replay._MOST_LATE  # one for each change
        late = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(late) == replay._MOST_LATE
        for task in late:
            task.cancel()

    asyncio.run(scenario())
    loaded.faults.clear()
    asyncio.run(loaded.run_cycles())
    assert [store.text(f"n{number}") for number in range(3)] == [
        f"note {number}\nmine\n" for number in range(3)
    ]
