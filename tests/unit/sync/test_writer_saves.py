"""Saving: the store first, then the cache; merged or refused, never over somebody else's change."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.backends.base import Capabilities
from mcp_notarium.errors import (
    BackendRejected,
    BackendUnavailable,
    CacheBusy,
    CacheFull,
    LoginRequired,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    VersionConflict,
)
from mcp_notarium.notes.note import Content
from mcp_notarium.notes.pending import WriteState
from mcp_notarium.sync.conflict import MARK, copy_id
from support.memory_backend import Fault
from support.sync_rig import Crash

STRICT = Capabilities(
    change_feed=True, long_poll=True, idempotent_push=True, detects_stale_base=True
)


def test_a_new_note_is_in_the_store_and_in_the_cache_when_save_returns(client, store):
    note = asyncio.run(client.create("hello\n", "a", "b"))
    assert store.contents() == {note.id: Content("hello\n", ("a", "b"))}
    assert client.contents() == store.contents()
    assert client.cache.pending.all() == []
    assert len(note.id) == 32


def test_an_intent_is_on_record_before_anything_is_sent(clients, store):
    seen = []
    client = clients(reached=lambda step: seen.append((step, len(client.cache.pending.all()))))
    asyncio.run(client.create("hello"))
    assert seen == [("recorded", 1), ("pushed", 1), ("committed", 0)]


def test_a_change_goes_to_the_store_and_comes_back_as_the_new_base(client, store):
    async def scenario():
        note = await client.create("one\n")
        return await client.change(note, "one\ntwo\n")

    saved = asyncio.run(scenario())
    assert store.text(saved.note.id) == "one\ntwo\n"
    assert saved.merged is False
    assert client.cache.notes.base(saved.note.id).etag == "r2"


def test_unknown_fields_of_another_program_survive_a_change(client, store):
    async def scenario():
        note = await client.create("one\n")
        kept = store._notes[note.id]
        kept.versions[kept.head]["junk"] = {"from": "another program"}
        store.edit(note.id, lambda text: text + "two\n")
        await client.change(note, "zero\none\n")
        return note.id

    note_id = asyncio.run(scenario())
    assert store.fields(note_id)["junk"] == {"from": "another program"}


def test_saving_what_is_already_there_sends_nothing(client):
    async def scenario():
        note = await client.create("same")
        client.backend.calls.clear()
        return await client.change(note, "same")

    saved = asyncio.run(scenario())
    assert client.backend.calls == ["get"]
    assert saved.merged is False


def test_a_change_elsewhere_in_another_place_is_merged(client, store):
    async def scenario():
        note = await client.create("one\ntwo\nthree\n")
        store.edit(note.id, lambda text: text.replace("three", "THREE"))
        return await client.change(note, "ONE\ntwo\nthree\n")

    saved = asyncio.run(scenario())
    assert saved.merged is True
    assert saved.note.text == "ONE\ntwo\nTHREE\n"
    assert store.text(saved.note.id) == saved.note.text


def test_the_same_edit_made_on_both_sides_is_not_doubled(client, store):
    async def scenario():
        note = await client.create("a\n")
        store.edit(note.id, lambda text: text + "b\n")
        return await client.change(note, "a\nb\n")

    assert asyncio.run(scenario()).note.text == "a\nb\n"


def test_a_change_of_the_same_line_is_refused_and_the_cache_shows_the_other_one(client, store):
    async def scenario():
        note = await client.create("one\n")
        store.edit(note.id, lambda _: "theirs\n")
        before = store.contents()
        with pytest.raises(VersionConflict) as caught:
            await client.change(note, "mine\n")
        assert store.contents() == before
        return note, caught.value

    note, error = asyncio.run(scenario())
    current = client.note(note.id)
    assert current.text == "theirs\n"
    assert error.details == {"id": note.id, "current_local_version": current.local_version}
    assert client.cache.pending.all() == []


def test_the_callers_view_is_the_base_even_if_the_cache_has_moved_on(client, store):
    async def scenario():
        note = await client.create("one\ntwo\n")
        store.edit(note.id, lambda text: text + "three\n")
        await client.sync()
        return await client.change(note, "ONE\ntwo\n")

    assert asyncio.run(scenario()).note.text == "ONE\ntwo\nthree\n"


def test_a_race_between_looking_and_posting_loses_nothing(client, store):
    client.faults.plan(Fault.RACE, on="push")

    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda text: "zero\n" + text)
        return await client.change(note, "one\ntwo\n")

    saved = asyncio.run(scenario())
    assert saved.merged is True
    assert set(store.text(saved.note.id).split()) == {"zero", "one", "two"}
    assert saved.copy_id is None


def test_text_that_the_store_dropped_in_a_race_is_tried_again(client, store):
    async def scenario():
        note = await client.create("para one. " * 4 + "\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "wholly different words\n" * 8)
        with pytest.raises(VersionConflict):
            await client.change(note, "para one! " * 4 + "\n")
        return note

    note = asyncio.run(scenario())
    assert client.note(note.id).text == store.text(note.id)
    assert client.cache.pending.all() == []


def test_a_line_that_the_store_mixed_up_is_kept_in_a_conflict_copy(client, store):
    async def scenario():
        note = await client.create("hello world\n", "a")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "hello brave world\n")
        return await client.change(note, "hello\n")

    saved = asyncio.run(scenario())
    assert saved.note.text == "hello brave\n"
    assert store.contents()[saved.copy_id] == Content(f"{MARK}hello\n", ("a",))
    assert client.contents() == store.contents()


def test_tags_that_the_store_dropped_in_a_merge_are_put_back(client, store):
    async def scenario():
        note = await client.create("x\n", "old")
        push = client.backend.push

        async def drops_our_tags(write):
            client.backend.push = push
            answer = await push(write)
            store.put(note.id, "x\n", tags=("old", "theirs"))
            return replace(answer, revision=await client.backend.get(note.id))

        client.backend.push = drops_our_tags
        content = Content("x\n", ("old", "mine"))
        return await client.writer.save(note=note, content=content)

    saved = asyncio.run(scenario())
    assert set(store.contents()[saved.note.id].tags) == {"old", "theirs", "mine"}
    assert client.contents() == store.contents()
    assert client.cache.pending.all() == []


def test_a_store_that_refuses_stale_bases_is_asked_again_with_the_merge(clients, store):
    client = clients(capabilities=STRICT)

    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.RACE, on="push", times=2)
        return await client.change(note, "zero\none\n")

    saved = asyncio.run(scenario())
    assert saved.note.text == "zero\none\nfrom elsewhere\nfrom elsewhere\n"
    assert saved.merged is True


def test_a_note_that_never_stands_still_is_refused_with_nothing_left_behind(clients, store):
    client = clients(capabilities=STRICT)

    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.RACE, on="push", times=99)
        with pytest.raises(VersionConflict):
            await client.change(note, "zero\none\n")

    asyncio.run(scenario())
    assert client.cache.pending.all() == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.UNAVAILABLE, BackendUnavailable),
        (Fault.REJECTED, BackendRejected),
        (Fault.LOGIN, LoginRequired),
        (Fault.RATE_LIMITED, RateLimited),
    ],
)
@pytest.mark.parametrize("new", [True, False])
def test_a_definite_refusal_drops_the_intent_and_says_that_nothing_was_saved(
    client, store, fault, error, new
):
    async def scenario():
        note = None if new else await client.create("one\n")
        before = store.contents(), client.contents()
        client.faults.plan(fault, on="push")
        with pytest.raises(error) as caught:
            await client.writer.save(note=note, content=Content("two\n"))
        assert (store.contents(), client.contents()) == before
        return caught.value

    raised = asyncio.run(scenario())
    assert "nothing was saved" in raised.user_message
    assert client.cache.pending.all() == []


def test_without_a_connection_nothing_is_recorded_at_all(client):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.UNAVAILABLE, on="get")
        with pytest.raises(BackendUnavailable):
            await client.change(note, "two\n")

    asyncio.run(scenario())
    assert client.cache.pending.all() == []


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.NONSENSE])
def test_without_an_answer_the_intent_stays_and_the_error_names_it(client, fault):
    client.faults.plan(fault, on="push")

    async def scenario():
        with pytest.raises(OutcomeUnknown) as caught:
            await client.create("mine\n")
        return caught.value

    error = asyncio.run(scenario())
    (write,) = client.cache.pending.all()
    assert error.details == {"id": write.note_id, "write_id": write.write_id}
    assert write.content == Content("mine\n")


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER])
def test_creating_the_same_again_finishes_the_first_instead_of_doubling_it(client, store, fault):
    async def scenario():
        client.faults.plan(fault, on="push")
        with pytest.raises(OutcomeUnknown) as caught:
            await client.create("mine\n")
        note = await client.create("mine\n")
        assert note.id == caught.value.details["id"]
        another = await client.create("mine\n")
        return note, another

    note, another = asyncio.run(scenario())
    assert store.ids() == {note.id, another.id}
    assert note.id != another.id


def test_an_unanswered_write_is_finished_before_the_next_one_of_its_note(client, store):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.change(note, "one\ntwo\n")
        saved = await client.change(note, "zero\none\n")
        assert saved.note.text == "zero\none\ntwo\n"
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "zero\none\ntwo\n"
    assert client.cache.pending.all() == []


def test_while_the_first_stays_unanswered_the_second_is_not_saved_and_says_so(client):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.TIMEOUT, on="push", times=2)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, "one\ntwo\n")
        with pytest.raises(BackendUnavailable, match="nothing was saved"):
            await client.change(note, "zero\none\n")

    asyncio.run(scenario())
    (write,) = client.cache.pending.all()
    assert write.content.text == "one\ntwo\n"


def test_a_note_with_a_rejected_write_can_be_saved_anew(client, store):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.change(note, "far too large\n")
        client.faults.plan(Fault.REJECTED, on="push")
        await client.writer.replay()
        (write,) = client.cache.pending.all()
        assert write.state is WriteState.REJECTED
        assert write.content.text == "far too large\n"
        return await client.change(note, "small\n")

    saved = asyncio.run(scenario())
    assert store.text(saved.note.id) == "small\n"
    assert len(client.cache.pending.all()) == 1


def test_two_saves_of_one_note_wait_for_each_other_and_both_are_kept(client, store):
    async def scenario():
        note = await client.create("one\n")
        await asyncio.gather(client.change(note, "zero\none\n"), client.change(note, "one\ntwo\n"))
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "zero\none\ntwo\n"
    assert client.cache.pending.all() == []


def test_saves_of_different_notes_do_not_wait_for_each_other(client):
    async def scenario():
        client.faults.plan(Fault.HANG_BEFORE, on="push")
        stuck = asyncio.create_task(client.create("stuck"))
        await asyncio.sleep(0.01)
        assert (await client.create("free")).text == "free"
        stuck.cancel()
        await asyncio.wait({stuck})

    asyncio.run(scenario())


def test_a_cancelled_caller_leaves_at_once_and_the_write_is_finished(client, store):
    async def scenario():
        note = await client.create("one\n")
        entered, go_on = asyncio.Event(), asyncio.Event()
        push = client.backend.push

        async def slow(write):
            entered.set()
            await go_on.wait()
            return await push(write)

        client.backend.push = slow
        save = asyncio.create_task(client.change(note, "two\n"))
        await entered.wait()
        save.cancel()
        with pytest.raises(asyncio.CancelledError):
            await save
        assert client.note(note.id).text == "one\n"
        go_on.set()
        await client.writer.drain()
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "two\n"
    assert client.note(note.id).text == "two\n"
    assert client.cache.pending.all() == []


def test_the_note_stays_taken_until_the_write_of_a_cancelled_caller_is_over(client, store):
    async def scenario():
        note = await client.create("one\n")
        entered, go_on = asyncio.Event(), asyncio.Event()
        push = client.backend.push

        async def slow(write):
            entered.set()
            await go_on.wait()
            return await push(write)

        client.backend.push = slow
        first = asyncio.create_task(client.change(note, "one\ntwo\n"))
        await entered.wait()
        first.cancel()
        second = asyncio.create_task(client.change(note, "zero\none\n"))
        await asyncio.sleep(0.01)
        assert not second.done()
        go_on.set()
        return await second

    saved = asyncio.run(scenario())
    assert store.text(saved.note.id) == "zero\none\ntwo\n"


def test_a_save_cancelled_before_it_is_sent_changes_nothing(client, store):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.HANG_BEFORE, on="get")
        save = asyncio.create_task(client.change(note, "two\n"))
        await asyncio.sleep(0.01)
        save.cancel()
        with pytest.raises(asyncio.CancelledError):
            await save
        assert client.cache.pending.all() == []
        await client.change(note, "three\n")
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "three\n"


def test_a_save_by_another_process_is_waited_for_and_then_reported_as_busy(clients, store):
    first, second = clients(), clients()

    async def scenario():
        note = await first.create("one\n")
        first.faults.plan(Fault.HANG_AFTER, on="push")
        stuck = asyncio.create_task(first.change(note, "two\n"))
        await asyncio.sleep(0.01)
        with pytest.raises(CacheBusy):
            await second.change(note, "one\nthree\n")
        stuck.cancel()
        await asyncio.wait({stuck})

    asyncio.run(scenario())


def test_a_note_removed_elsewhere_is_not_found_and_leaves_the_cache(client, store):
    async def scenario():
        note = await client.create("one\n")
        store.remove(note.id)
        with pytest.raises(NoteNotFound):
            await client.change(note, "two\n")
        return note

    note = asyncio.run(scenario())
    assert client.cache.notes.get(note.id) is None
    assert client.cache.pending.all() == []


def test_a_note_too_large_for_the_store_is_refused_before_it_is_sent(clients):
    client = clients(capabilities=Capabilities(max_note_bytes=200))

    async def scenario():
        with pytest.raises(BackendRejected) as caught:
            await client.create("x" * 300)
        return caught.value

    error = asyncio.run(scenario())
    assert error.http_status_code == 413
    assert client.backend.calls == []


def test_a_lone_surrogate_is_stored_the_same_way_on_both_sides(client, store):
    note = asyncio.run(client.create("a\ud800b", "t\udfff"))
    assert store.contents()[note.id] == Content("a\ufffdb", ("t\ufffd",))
    assert client.contents() == store.contents()


def test_if_the_answer_cannot_be_recorded_the_write_stays_in_doubt(client, store):
    async def scenario():
        finish = client.writer._intents.finish

        def full(*_args, **_options):
            raise CacheFull("no space")

        client.writer._intents.finish = full
        with pytest.raises(OutcomeUnknown):
            await client.create("mine\n")
        client.writer._intents.finish = finish
        assert len(client.cache.pending.all()) == 1
        await client.writer.replay()

    asyncio.run(scenario())
    assert client.contents() == store.contents()
    assert client.cache.pending.all() == []


def test_the_flag_of_unfinished_writes_is_up_whenever_there_is_one(clients, store):
    flag = []

    def up():
        flag.append(True)

    client = clients(before_intent=up, after_last_intent=flag.clear)

    async def scenario():
        await client.create("one\n")
        assert flag == []
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.create("two\n")
        assert flag
        await client.create("three\n")
        assert flag
        await client.writer.replay()
        assert flag == []

    asyncio.run(scenario())


def test_if_the_flag_cannot_be_raised_nothing_is_recorded_or_sent(clients):
    def fails():
        raise CacheFull("no space for the flag")

    client = clients(before_intent=fails)

    async def scenario():
        with pytest.raises(CacheFull):
            await client.create("one\n")

    asyncio.run(scenario())
    assert client.cache.pending.all() == []
    assert client.backend.calls == []


@pytest.mark.parametrize("step", ["recorded", "pushed", "committed"])
def test_a_process_that_ends_at_any_step_of_a_save_leaves_one_note_with_the_new_text(
    clients, store, step
):
    def end(reached):
        if reached == step and client.ended:
            raise Crash

    client = clients(reached=end)

    async def scenario():
        note = await client.create("one\n")
        client.ended = True
        with pytest.raises(Crash):
            await client.change(note, "two\n")
        client.close()
        after = clients(gone=lambda owner: owner == client.owner)
        await after.sync()
        return note, after

    note, after = asyncio.run(scenario())
    assert store.contents() == {note.id: Content("two\n")}
    assert after.contents() == store.contents()
    assert after.cache.pending.all() == []


def test_an_older_answer_to_the_first_look_is_not_taken_for_a_revert(client, store):
    async def scenario():
        note = await client.create("one\n")
        store.edit(note.id, lambda text: text + "two\n")
        await client.sync()
        current = client.note(note.id)
        client.faults.plan(Fault.STALE, on="get")
        return await client.change(current, "zero\none\ntwo\n")

    assert asyncio.run(scenario()).note.text == "zero\none\ntwo\n"


def test_a_copy_that_cannot_be_sent_now_is_sent_later(client, store):
    async def scenario():
        note = await client.create("hello world\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "hello brave world\n")
        client.faults.plan(Fault.UNAVAILABLE, on="push")
        saved = await client.change(note, "hello\n")
        (waiting,) = client.cache.pending.all()
        assert waiting.note_id == saved.copy_id == copy_id_of(saved)
        await client.sync()
        return saved

    def copy_id_of(saved):
        return saved.copy_id

    saved = asyncio.run(scenario())
    assert store.text(saved.copy_id) == f"{MARK}hello\n"
    assert client.contents() == store.contents()
    assert copy_id("x") != saved.copy_id
