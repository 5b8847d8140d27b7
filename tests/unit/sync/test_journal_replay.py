"""Finishing writes whose outcome nobody knows: exactly once, and no text is lost."""

import asyncio

import pytest

from mcp_notarium.domain.conflict_copy import MARK, copy_write_id
from mcp_notarium.domain.note import Content, WriteState
from mcp_notarium.errors import (
    CacheError,
    LoginRequired,
    OutcomeUnknown,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import check_not_withdrawn, random_id
from mcp_notarium.sync.write_attempt import ROUNDS
from mcp_notarium.sync.write_decisions import WriteOutcome
from support.memory_client import LIKE_LOCAL, LIKE_VAULT, Fault
from support.sync_rig import LEASE, until


async def unanswered(client, note, text, fault=Fault.TIMEOUT):
    """A change whose answer never came; gives its intent."""
    client.faults.plan(fault, on="push")
    with pytest.raises(OutcomeUnknown):
        await client.writer.save(note=note, content=Content(text, note.tags if note else ()))
    (write,) = client.cache.journal.all()
    return write


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER])
@pytest.mark.parametrize("new", [True, False])
def test_an_unanswered_write_is_there_exactly_once_after_replay(client, store, fault, new):
    async def scenario():
        note = None if new else await client.create("one\n")
        write = await unanswered(client, note, "one\ntwo\n", fault)
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        return write

    write = asyncio.run(scenario())
    assert store.contents() == {write.note_id: Content("one\ntwo\n")}
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []
    assert store.kept(write.note_id).head == (1 if new else 2)


def test_a_replay_merges_with_what_happened_meanwhile(client, store):
    async def scenario():
        note = await client.create("one\ntwo\n")
        await unanswered(client, note, "one\ntwo\nthree\n")
        store.edit(note.id, lambda text: "zero\n" + text)
        await client.writer.replay.finish_all()
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "zero\none\ntwo\nthree\n"
    assert client.contents() == store.contents()


def test_a_replay_that_was_rebased_still_carries_the_first_write_id(client, store):
    sent = []

    async def scenario():
        note = await client.create("one\n")
        write = await unanswered(client, note, "one\ntwo\n")
        store.edit(note.id, lambda text: "zero\n" + text)
        push = client.remote.push

        async def recording(sent_write):
            sent.append(sent_write.write_id)
            return await push(sent_write)

        client.remote.push = recording
        client.faults.plan(Fault.TIMEOUT, on="push")
        await client.writer.replay.finish_all()
        await client.writer.replay.finish_all()
        return write

    write = asyncio.run(scenario())
    assert sent == [write.write_id] * 2


def test_a_write_that_had_arrived_and_was_built_upon_is_not_repeated(client, store):
    async def scenario():
        note = await client.create("one\n")
        await unanswered(client, note, "one\ntwo\n", Fault.LOST_ANSWER)
        store.edit(note.id, lambda text: text + "three\n")
        await client.writer.replay.finish_all()
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "one\ntwo\nthree\n"
    assert store.kept(note.id).head == 3
    assert client.contents() == store.contents()


def test_text_that_cannot_be_merged_becomes_a_marked_note_of_its_own(client, store):
    async def scenario():
        note = await client.create("Title\nline\n", "work")
        write = await unanswered(client, note, "Title\nmine\n")
        store.edit(note.id, lambda _: "Title\ntheirs\n")
        assert await client.writer.replay.finish_all() == {WriteOutcome.COPIED: 1}
        return note, write

    note, write = asyncio.run(scenario())
    assert store.contents() == {
        note.id: Content("Title\ntheirs\n", ("work",)),
        random_id(copy_write_id(write.write_id)): Content(f"{MARK}Title\nmine\n", ("work",)),
    }
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.UNAVAILABLE])
def test_a_conflict_copy_is_made_once_however_often_it_is_tried(client, store, fault):
    async def scenario():
        note = await client.create("line\n")
        await unanswered(client, note, "mine\n")
        store.edit(note.id, lambda _: "theirs\n")
        client.faults.plan(fault, on="push", times=2)
        await client.run_cycles()

    asyncio.run(scenario())
    assert sorted(content.text for content in store.contents().values()) == [
        f"{MARK}mine\n",
        "theirs\n",
    ]
    assert client.contents() == store.contents()


def test_text_for_a_note_removed_elsewhere_becomes_a_note_of_its_own(client, store):
    async def scenario():
        note = await client.create("line\n")
        write = await unanswered(client, note, "line\nmine\n")
        store.remove(note.id)
        await client.writer.replay.finish_all()
        return write

    write = asyncio.run(scenario())
    assert store.contents() == {
        random_id(copy_write_id(write.write_id)): Content(f"{MARK}line\nmine\n")
    }
    assert client.contents() == store.contents()


def test_a_change_of_tags_for_a_note_removed_elsewhere_is_dropped(client, store):
    async def scenario():
        note = await client.create("line\n")
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.writer.save(note=note, content=Content("line\n", ("tag",)))
        store.remove(note.id)
        await client.writer.replay.finish_all()

    asyncio.run(scenario())
    assert store.contents() == client.contents() == {}
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("new", [True, False])
def test_a_write_from_under_a_wrong_clock_is_finished_with_the_date_of_now(client, store, new):
    async def scenario():
        note = None if new else await client.create("one\n")
        client.time.set_by = 4 * 366 * 86_400.0
        write = await unanswered(client, note, "one\ntwo\n")
        client.faults.plan(Fault.DATE, on="push", times=2)
        assert await client.writer.replay.finish_all() == {None: 1}
        (kept,) = client.cache.journal.all()
        assert (kept.state, kept.write_id) == (WriteState.IN_FLIGHT, write.write_id)
        client.time.set_by = 0.0
        client.faults.plan(Fault.DATE, on="push")
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        return write.note_id

    note_id = asyncio.run(scenario())
    assert store.contents() == {note_id: Content("one\ntwo\n")}
    assert client.contents() == store.contents()
    assert client.cache.notes.base(note_id).modified_at == client.time.clock()


def test_a_write_that_another_process_finished_meanwhile_is_left_alone(clients, store):
    """Its lease ran out while the first one waited for the store's answer."""
    first, second = clients(), clients()

    async def scenario():
        note = await first.create("one\n")
        await unanswered(first, note, "one\ntwo\n")
        store.edit(note.id, lambda text: "zero\n" + text)
        get = first.remote.get

        async def overtaken(note_id, *, etag=None):
            head = await get(note_id, etag=etag)
            first.remote.get = get
            first.time.now += LEASE + 1
            assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
            return head

        first.remote.get = overtaken
        pushes = first.remote.calls.count("push")
        assert await first.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        assert first.remote.calls.count("push") == pushes
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "zero\none\ntwo\n"
    assert first.contents() == store.contents()
    assert first.cache.journal.all() == []


@pytest.mark.parametrize("ends", ["pushed", "overtaken", "merged", "unanswered", "refused", "busy"])
def test_nothing_is_remembered_of_a_claimed_write_that_has_ended_in_whatever_way(
    clients, store, time, ends
):
    """Another process has finished it, or may; or the store will never take it."""
    first, second = clients(traits=LIKE_LOCAL), clients(traits=LIKE_LOCAL)

    async def scenario():
        note = await first.create("one\n")
        await unanswered(first, note, "one\ntwo\n")
        if ends == "merged":
            store.edit(note.id, lambda text: "zero\n" + text)
        method = "get" if ends == "merged" else "push"
        asked = getattr(first.remote, method)

        async def late(*given, **named):
            answer = await asked(*given, **named)
            setattr(first.remote, method, asked)
            time.now += LEASE + 1
            assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
            if ends == "overtaken":
                raise VersionConflict("the note has changed")
            return answer

        if ends in ("pushed", "overtaken", "merged"):
            setattr(first.remote, method, late)
        elif ends == "busy":
            first.faults.plan(Fault.RACE, on="push", times=ROUNDS)
        else:
            fault = {"unanswered": Fault.TIMEOUT, "refused": Fault.REJECTED}[ends]
            first.faults.plan(fault, on="push")
        ended = {"refused": WriteOutcome.REFUSED, "unanswered": None, "busy": None}
        assert await first.writer.replay.finish_all() == {ended.get(ends, WriteOutcome.STORED): 1}

    asyncio.run(scenario())
    assert first.writer._journal._ends_flushed == set()


def test_what_the_store_refuses_for_good_is_kept_as_rejected_and_not_sent_again(client, store):
    async def scenario():
        note = await client.create("one\n")
        write = await unanswered(client, note, "mine\n")
        client.faults.plan(Fault.REJECTED, on="push")
        assert await client.writer.replay.finish_all() == {WriteOutcome.REFUSED: 1}
        calls = len(client.remote.calls)
        assert await client.writer.replay.finish_all() == {}
        assert len(client.remote.calls) == calls
        return write

    write = asyncio.run(scenario())
    (kept,) = client.cache.journal.all()
    assert kept.state is WriteState.REJECTED
    assert kept.content == write.content
    assert kept.reason


def test_one_failing_write_does_not_delay_the_others(client, store):
    async def scenario():
        first, second = await client.create("one\n"), await client.create("two\n")
        client.faults.plan(Fault.TIMEOUT, on="push", times=2)
        for note in (first, second):
            with pytest.raises(OutcomeUnknown):
                await client.change(note, note.text + "more\n")
        client.faults.plan(Fault.NONSENSE, on="get")
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1, None: 1}

    asyncio.run(scenario())
    (write,) = client.cache.journal.all()
    saved = {content.text for content in store.contents().values()}
    assert write.content.text not in saved
    assert len([text for text in saved if text.endswith("more\n")]) == 1


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.UNAVAILABLE, StoreUnavailable), (Fault.LOGIN, LoginRequired)]
)
def test_a_refusal_that_concerns_everything_is_raised_and_the_intent_stays(client, fault, error):
    async def scenario():
        await unanswered(client, None, "mine\n")
        client.faults.plan(fault, on="get")
        client.faults.plan(fault, on="list_page")
        with pytest.raises(error):
            await client.writer.replay.finish_all()
        assert client.writer.replay.is_due()

    asyncio.run(scenario())
    assert len(client.cache.journal.all()) == 1


def test_a_write_in_other_hands_is_left_to_them_until_their_lease_runs_out(clients, store, time):
    first, second = clients(), clients()

    async def scenario():
        first.faults.plan(Fault.HANG_BEFORE, on="push")
        stuck = asyncio.create_task(first.create("mine\n"))
        await asyncio.sleep(0.01)
        assert not second.writer.replay.is_due()
        assert await second.writer.replay.finish_all() == {None: 1}
        assert store.ids() == set()
        time.now += LEASE + 1
        assert second.writer.replay.is_due()
        assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        stuck.cancel()

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["mine\n"]


def test_a_save_that_was_taken_over_while_it_was_answered_is_shown_with_its_text(clients, store):
    first, second = clients(), clients()

    async def scenario():
        note = await first.create("one\n")
        push = first.remote.push

        async def taken_over(write):
            answer = await push(write)
            first.time.now += LEASE + 1
            second.faults.plan(Fault.HANG_BEFORE, on="get")
            replays.append(asyncio.create_task(second.writer.replay.finish_all()))
            await until(lambda: first.cache.journal.get(write.write_id).owner == second.owner)
            return answer

        replays = []
        first.remote.push = taken_over
        created, changed = await first.create("new\n"), await first.change(note, "one\ntwo\n")
        for replay in replays:
            replay.cancel()
        return created.text, changed.note.text

    assert asyncio.run(scenario()) == ("new\n", "one\ntwo\n")
    first.time.now += LEASE + 1
    asyncio.run(second.writer.replay.finish_all())
    assert first.cache.journal.all() == []
    assert first.contents() == store.contents()


def test_a_write_is_in_doubt_if_the_disk_fails_and_another_process_has_stored_it(clients, store):
    first, second = clients(traits=LIKE_VAULT), clients(traits=LIKE_VAULT)

    async def full():
        first.time.now += LEASE + 1
        await second.sync()
        raise CacheError("the disk is full")

    first.cache.flush = full
    with pytest.raises(OutcomeUnknown, match="another process"):
        asyncio.run(first.create("mine\n"))
    assert [content.text for content in store.contents().values()] == ["mine\n"]
    assert second.contents() == store.contents()
    assert not second.cache.journal.all()


def test_a_new_note_that_another_process_has_made_meanwhile_is_answered_as_made(clients, store):
    first, second = clients(traits=LIKE_VAULT), clients(traits=LIKE_VAULT)

    async def scenario():
        push = first.remote.push

        async def late(write):
            first.time.now += LEASE + 1
            await second.sync()
            assert len(store.ids()) == 1
            return await push(write)

        first.remote.push = late
        return await first.create("mine\n")

    note = asyncio.run(scenario())
    assert store.contents() == {note.id: note.content}
    assert first.contents() == store.contents()


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_a_write_that_another_process_has_finished_after_its_lease_is_not_sent(
    clients, store, time, again
):
    """Somebody has taken it back since, so the note looks as it did before."""
    first, second = clients(traits=LIKE_VAULT), clients(traits=LIKE_VAULT)

    async def scenario():
        note = await first.create("one\n")
        if again:
            await unanswered(first, note, "one\ntwo\n")
        push = first.remote.push

        async def late(write):
            time.now += LEASE + 1
            assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
            store.edit(note.id, lambda _text: "one\n")
            check_not_withdrawn()
            return await push(write)

        first.remote.push = late
        if again:
            assert await first.writer.replay.finish_all() == {None: 1}
        else:
            assert (await first.change(note, "one\ntwo\n")).note.text == "one\ntwo\n"
        return note.id

    note_id = asyncio.run(scenario())
    assert store.text(note_id) == "one\n"
    assert first.cache.journal.all() == []


def test_a_save_whose_lease_ran_out_before_it_was_sent_has_saved_nothing(client, store, time):
    async def scenario():
        note = await client.create("one\n")
        push = client.remote.push

        async def late(write):
            client.remote.push = push
            time.now += LEASE + 1
            check_not_withdrawn()
            return await push(write)

        client.remote.push = late
        with pytest.raises(StoreUnavailable) as caught:
            await client.change(note, "one\ntwo\n")
        assert "nothing was saved" in caught.value.message
        assert caught.value.retryable
        assert store.text(note.id) == "one\n"
        assert client.cache.journal.all() == []
        return await client.change(note, "one\ntwo\n")

    assert asyncio.run(scenario()).note.text == "one\ntwo\n"


def test_a_save_that_waited_longer_than_its_lease_before_it_was_recorded_is_sent(
    client, store, time
):
    async def scenario():
        note = await client.create("one\n")
        get, push = client.remote.get, client.remote.push

        async def late(note_id, *, etag=None):
            time.now += LEASE + 1
            return await get(note_id, etag=etag)

        async def in_time(write):
            check_not_withdrawn()
            (entry,) = client.cache.journal.all()
            assert entry.lease_until == time.now + LEASE
            return await push(write)

        client.remote.get, client.remote.push = late, in_time
        return await client.change(note, "one\ntwo\n")

    note_id = asyncio.run(scenario()).note.id
    assert store.text(note_id) == "one\ntwo\n"


@pytest.mark.parametrize("hung", [True, False])
def test_a_lease_from_before_the_clock_was_set_back_blocks_nobody(clients, store, time, hung):
    first, second = clients(), clients()

    async def scenario():
        time.set_by = 15 * 365 * 86_400.0
        first.faults.plan(Fault.HANG_BEFORE if hung else Fault.TIMEOUT, on="push")
        stuck = asyncio.create_task(first.create("mine\n"))
        await until(lambda: first.remote.calls.count("push") == 1)
        if not hung:
            await asyncio.wait({stuck})
            assert isinstance(stuck.exception(), OutcomeUnknown)
        time.set_by = 0.0
        assert second.writer.replay.is_due()
        assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        stuck.cancel()

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["mine\n"]


def test_a_released_write_is_taken_over_at_once_by_any_clock(clients, store, time):
    first, second = clients(), clients()

    async def scenario():
        first.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await first.create("mine\n")
        time.set_by = -600.0
        assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["mine\n"]


def test_a_write_of_an_ended_process_is_taken_over_at_once(clients, store):
    first = clients()
    second = clients(owner_ended=lambda owner: owner == first.owner)

    async def scenario():
        first.faults.plan(Fault.HANG_BEFORE, on="push")
        stuck = asyncio.create_task(first.create("mine\n"))
        await asyncio.sleep(0.01)
        assert second.writer.replay.is_due()
        assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        stuck.cancel()

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["mine\n"]


def test_an_answer_that_comes_after_somebody_else_finished_the_write_changes_nothing(
    clients, store, time
):
    first, second = clients(), clients()

    async def scenario():
        entered, go_on = asyncio.Event(), asyncio.Event()
        push = first.remote.push

        async def slow(write):
            answer = await push(write)
            entered.set()
            await go_on.wait()
            return answer

        first.remote.push = slow
        save = asyncio.create_task(first.create("mine\n"))
        await entered.wait()
        time.now += LEASE + 1
        assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        (note_id,) = store.ids()
        store.edit(note_id, lambda text: text + "theirs\n")
        await second.sync()
        go_on.set()
        return await save

    note = asyncio.run(scenario())
    assert note.text == "mine\ntheirs\n"
    assert first.contents() == store.contents()


def test_a_base_that_the_cache_has_lost_comes_from_the_stores_history(client, store):
    async def scenario():
        note = await client.create("one\n")
        await unanswered(client, note, "one\ntwo\n")
        store.edit(note.id, lambda text: "zero\n" + text)
        with client.cache.transaction():
            client.cache.notes.clear()
        await client.writer.replay.finish_all()
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "zero\none\ntwo\n"


def test_without_any_base_the_text_is_kept_as_a_copy(client, store):
    async def scenario():
        note = await client.create("one\n")
        await unanswered(client, note, "one\ntwo\n")
        store.edit(note.id, lambda text: "zero\n" + text)
        store.forget_versions(note.id)
        with client.cache.transaction():
            client.cache.notes.clear()
        await client.writer.replay.finish_all()

    asyncio.run(scenario())
    assert sorted(content.text for content in store.contents().values()) == [
        f"{MARK}one\ntwo\n",
        "zero\none\n",
    ]
    assert client.contents() == store.contents()


def test_a_created_note_that_was_removed_since_does_not_come_back(client, store):
    async def scenario():
        write = await unanswered(client, None, "mine\n", Fault.LOST_ANSWER)
        store.remove(write.note_id)
        await client.writer.replay.finish_all()

    asyncio.run(scenario())
    assert store.contents() == client.contents() == {}
    assert client.cache.journal.all() == []


def test_a_write_known_to_the_store_is_not_looked_for_in_the_version_after_its_second_base(
    client, store
):
    async def scenario():
        note = await client.create("one\n")
        await unanswered(client, note, "one\ntwo\n", Fault.LOST_ANSWER)
        store.edit(note.id, lambda _: "one\n")
        store.forget_versions(note.id)
        client.faults.plan(Fault.RACE, on="push")
        assert await client.writer.replay.finish_all() == {WriteOutcome.COPIED: 1}

    asyncio.run(scenario())
    assert any("two\n" in content.text for content in store.contents().values())
    assert client.contents() == store.contents()
    assert client.cache.sync_state.differences().count == 0


def test_a_conflict_copy_that_a_crash_left_behind_is_still_known_as_one(clients, store):
    class Stop(BaseException):
        pass

    steps = []

    def reached(step):
        steps.append(step)
        if steps.count("committed") == 2:
            raise Stop

    first = clients(on_step=reached)

    async def scenario():
        note = await first.create("line\n")
        await unanswered(first, note, "mine\n")
        store.edit(note.id, lambda _: "theirs\n")
        with pytest.raises(Stop):
            await first.writer.replay.finish_all()
        (copy,) = first.cache.journal.all()
        assert copy.copied
        second = clients(owner_ended=lambda _owner: True)
        # Somebody has made a note of this very id, and the store merges the copy into it.
        store.put(copy.note_id, "in the way\n")
        store.rewrite = lambda fields: fields | {"text": "mixed up\n"}
        await second.run_cycles()
        assert second.cache.journal.all() == []
        return note, copy

    note, copy = asyncio.run(scenario())
    assert store.ids() == {note.id, copy.note_id}
