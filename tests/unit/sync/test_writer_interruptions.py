"""What becomes of a save that is refused, not answered, cancelled, or cut off with its process."""

import asyncio
import errno

import pytest

from mcp_notarium.audit.chain import OPEN, UNKNOWN, AuditEntry, AuditKeys
from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content, WriteState
from mcp_notarium.errors import (
    CacheBusy,
    CacheFull,
    LoginRequired,
    NotRecorded,
    OutcomeUnknown,
    RateLimited,
    StoreRejected,
    StoreUnavailable,
)
from mcp_notarium.storage import write_ahead_log
from mcp_notarium.storage.audit_log import Act, AuditLog
from mcp_notarium.sync.write_errors import NOT_SAVED, add_outcome
from support.memory_client import LIKE_TRILIUM, LIKE_VAULT, Fault
from support.sync_rig import Crash, Slow, until


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.UNAVAILABLE, StoreUnavailable),
        (Fault.REJECTED, StoreRejected),
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
    assert "nothing was saved" in raised.message
    assert client.cache.journal.all() == []


def test_without_a_connection_nothing_is_recorded_at_all(client):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.UNAVAILABLE, on="get")
        with pytest.raises(StoreUnavailable):
            await client.change(note, "two\n")

    asyncio.run(scenario())
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.NONSENSE])
def test_without_an_answer_the_intent_stays_and_the_error_names_it(client, fault):
    client.faults.plan(fault, on="push")

    async def scenario():
        with pytest.raises(OutcomeUnknown) as caught:
            await client.create("mine\n")
        return caught.value

    error = asyncio.run(scenario())
    (write,) = client.cache.journal.all()
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
    assert client.cache.journal.all() == []


def test_while_the_first_stays_unanswered_the_second_is_not_saved(client):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.TIMEOUT, on="push", times=2)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, "one\ntwo\n")
        with pytest.raises(StoreUnavailable):
            await client.change(note, "zero\none\n")

    asyncio.run(scenario())
    (write,) = client.cache.journal.all()
    assert write.content.text == "one\ntwo\n"


def test_a_note_with_a_rejected_write_can_be_saved_again(client, store):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.change(note, "far too large\n")
        client.faults.plan(Fault.REJECTED, on="push")
        await client.writer.replay.finish_all()
        (write,) = client.cache.journal.all()
        assert write.state is WriteState.REJECTED
        assert write.content.text == "far too large\n"
        return await client.change(note, "small\n")

    saved = asyncio.run(scenario())
    assert store.text(saved.note.id) == "small\n"
    assert len(client.cache.journal.all()) == 1


def test_news_of_a_note_with_a_rejected_write_is_stored(client, store):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.change(note, "far too large\n")
        client.faults.plan(Fault.REJECTED, on="push")
        await client.sync()
        store.edit(note.id, lambda text: text + "from elsewhere\n")
        await client.sync()

    asyncio.run(scenario())
    (write,) = client.cache.journal.all()
    assert write.state is WriteState.REJECTED
    assert client.note(write.note_id).text == "one\nfrom elsewhere\n"
    assert client.contents() == store.contents()


def test_two_saves_of_one_note_wait_for_each_other_and_both_are_kept(client, store):
    async def scenario():
        note = await client.create("one\n")
        await asyncio.gather(client.change(note, "zero\none\n"), client.change(note, "one\ntwo\n"))
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "zero\none\ntwo\n"
    assert client.cache.journal.all() == []


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
        push = client.remote.push

        async def slow(write):
            entered.set()
            await go_on.wait()
            return await push(write)

        client.remote.push = slow
        save = asyncio.create_task(client.change(note, "two\n"))
        await entered.wait()
        save.cancel()
        with pytest.raises(asyncio.CancelledError):
            await save
        assert client.note(note.id).text == "one\n"
        begin = client.cache.transaction
        client.cache.transaction = lambda *, durable=False: (
            flushed.append(durable) or begin(durable=durable)
        )
        go_on.set()
        await client.writer.locks.drain()
        return note

    flushed = []
    note = asyncio.run(scenario())
    assert flushed == [True], "no outcome is recorded right after it"
    assert store.text(note.id) == "two\n"
    assert client.note(note.id).text == "two\n"
    assert client.cache.journal.all() == []


@pytest.mark.parametrize(("kept", "notes"), [(20, 4), (1, 5)])
def test_the_same_text_saved_again_after_its_creation_was_finished_gets_its_note_once(
    client, store, monkeypatch, kept, notes
):
    monkeypatch.setattr("mcp_notarium.sync.replay._MOST_CREATED", kept)

    async def scenario():
        for text in ("one\n", "two\n"):
            client.faults.plan(Fault.LOST_ANSWER, on="push")
            with pytest.raises(OutcomeUnknown):
                await client.create(text)
            await client.writer.replay.finish_all()
        for text in ("one\n", "one\n", "one\n", "two\n"):
            await client.create(text)

    asyncio.run(scenario())
    assert len(store.ids()) == notes


def test_the_note_stays_taken_until_the_write_of_a_cancelled_caller_is_over(client, store):
    async def scenario():
        note = await client.create("one\n")
        pushed, go_on = [], asyncio.Event()
        push = client.remote.push

        async def slow(write):
            pushed.append(write.write_id)
            await go_on.wait()
            return await push(write)

        client.remote.push = slow
        first = asyncio.create_task(client.change(note, "one\ntwo\n"))
        await until(lambda: pushed)
        first.cancel()
        second = asyncio.create_task(client.change(note, "zero\none\n"))
        await asyncio.sleep(0.01)
        assert len(pushed) == 1
        go_on.set()
        saved = await second
        assert len(set(pushed)) == len(pushed) == 2
        return saved

    saved = asyncio.run(scenario())
    assert store.text(saved.note.id) == "zero\none\ntwo\n"


@pytest.mark.parametrize("many", [6, 60])
def test_of_calls_cancelled_in_the_order_they_came_only_the_one_sent_is_stored(client, store, many):
    async def save(number):
        async with client.writer.locks.call(""):
            await client.create(f"{number}\n")

    async def scenario():
        slow = Slow(client)
        calls = [asyncio.create_task(save(number)) for number in range(many)]
        await until(lambda: slow.begun)
        for call in calls:
            call.cancel()
            await asyncio.wait({call})
            for _ in range(20):  # whoever is next would begin now
                await asyncio.sleep(0)
        slow.go_on.set()
        await save("last")
        await client.writer.locks.drain()
        return slow.most

    assert asyncio.run(scenario()) == 1
    texts = [content.text for content in store.contents().values()]
    assert sorted(texts) == ["0\n", "last\n"]
    assert client.cache.journal.all() == []


def test_no_call_begins_before_what_a_cancelled_one_has_sent_is_over(client, store):
    async def call(write):
        async with client.writer.locks.call(""):
            return await write()

    async def scenario():
        note = await client.trash(await client.create("one\n"))
        entered, go_on = asyncio.Event(), asyncio.Event()
        delete = client.remote.delete

        async def slow(*args, **options):
            entered.set()
            await go_on.wait()
            await delete(*args, **options)

        client.remote.delete = slow
        first = asyncio.create_task(call(lambda: client.writer.remove(note)))
        await entered.wait()
        first.cancel()
        await asyncio.wait({first})
        second = asyncio.create_task(call(lambda: client.create("two\n")))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(client.cache.journal.all()) == 1
        go_on.set()
        await second

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["two\n"]


def test_a_call_waits_for_no_write_that_is_finished_behind_the_callers_back(client, store):
    async def scenario():
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.create("stuck\n")
        slow = Slow(client)
        replay = asyncio.create_task(client.writer.replay.finish_all())
        await until(lambda: slow.begun)
        async with client.writer.locks.call(""):
            pass  # it had nothing to write
        client.remote.push = slow._push
        async with asyncio.timeout(10), client.writer.locks.call(""):
            await client.create("free\n")
        slow.go_on.set()
        await replay

    asyncio.run(scenario())
    assert len(store.ids()) == 2


def test_requests_that_follow_a_write_are_sent_although_its_caller_has_left(client, store):
    async def scenario():
        note = await client.create("hello world\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "hello brave world\n")
        slow = Slow(client)
        save = asyncio.create_task(client.change(note, "hello\n"))
        await until(lambda: slow.begun)
        save.cancel()
        await asyncio.wait({save})
        slow.go_on.set()
        await client.writer.locks.drain()

    asyncio.run(scenario())
    assert f"{MARK}hello\n" in [content.text for content in store.contents().values()]
    assert client.cache.journal.all() == []


def test_a_save_cancelled_before_it_is_sent_changes_nothing(client, store):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.HANG_BEFORE, on="get")
        save = asyncio.create_task(client.change(note, "two\n"))
        await asyncio.sleep(0.01)
        save.cancel()
        with pytest.raises(asyncio.CancelledError):
            await save
        assert client.cache.journal.all() == []
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


def test_if_the_answer_cannot_be_recorded_the_write_stays_in_doubt(client, store):
    async def scenario():
        finish = client.writer._journal.finish

        def full(*_args, **_options):
            raise CacheFull("no space")

        client.writer._journal.finish = full
        with pytest.raises(OutcomeUnknown):
            await client.create("mine\n")
        client.writer._journal.finish = finish
        assert len(client.cache.journal.all()) == 1
        await client.writer.replay.finish_all()

    asyncio.run(scenario())
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


class Busy:
    """Another process holds the cache while one method of the pending writes is called."""

    def __init__(self, client, monkeypatch, method):
        self.met = 0

        def busy(*_args, **_options):
            self.met += 1
            raise CacheBusy("another process is writing")

        monkeypatch.setattr(client.cache.journal, method, busy)


@pytest.mark.parametrize("new", [True, False])
def test_an_unanswered_write_that_cannot_be_released_is_in_doubt_all_the_same(
    client, store, monkeypatch, new
):
    async def scenario():
        note = None if new else await client.create("one\n")
        client.faults.plan(Fault.LOST_ANSWER, on="push")
        busy = Busy(client, monkeypatch, "renew")
        with pytest.raises(OutcomeUnknown):
            await client.writer.save(note=note, content=Content("two\n"))
        assert busy.met
        monkeypatch.undo()
        await client.run_cycles()

    asyncio.run(scenario())
    assert [content.text for content in store.contents().values()] == ["two\n"]


@pytest.mark.parametrize("kind", ["create", "update", "delete"])
def test_a_refused_write_whose_intent_cannot_be_dropped_is_in_doubt(
    client, store, monkeypatch, kind
):
    """It will be finished later: nobody may be told that nothing was saved."""

    async def scenario():
        note = None if kind == "create" else await client.trash(await client.create("one\n"))
        client.faults.plan(Fault.UNAVAILABLE, on="delete" if kind == "delete" else "push")
        busy = Busy(client, monkeypatch, "drop")
        deleting = kind == "delete"
        save = client.writer.save(note=note, content=Content("two\n")) if not deleting else None
        with pytest.raises(OutcomeUnknown) as caught:
            await (save or client.writer.remove(note))
        assert busy.met
        monkeypatch.undo()
        (write,) = client.cache.journal.all()
        assert caught.value.details == {"id": write.note_id, "write_id": write.write_id}
        await client.run_cycles()

    asyncio.run(scenario())
    texts = [content.text for content in store.contents().values()]
    assert texts == ([] if kind == "delete" else ["two\n"])


def test_a_save_whose_copy_can_be_neither_sent_nor_released_is_in_doubt_and_finished_later(
    client, store, monkeypatch
):
    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _text: "theirs\n")
        client.faults.plan(Fault.UNAVAILABLE, on="push")
        busy = Busy(client, monkeypatch, "renew")
        with pytest.raises(OutcomeUnknown):
            await client.change(note, "mine\n")
        assert busy.met
        monkeypatch.undo()
        await client.run_cycles()

    asyncio.run(scenario())
    assert f"{MARK}mine\n" in [content.text for content in store.contents().values()]
    assert client.contents() == store.contents()


@pytest.mark.parametrize("step", ["recorded", "pushed", "committed"])
def test_a_process_that_ends_at_any_step_of_a_save_leaves_one_note_with_the_new_text(
    clients, store, step
):
    def end(reached):
        if reached == step and client.ended:
            raise Crash

    client = clients(on_step=end)

    async def scenario():
        note = await client.create("one\n")
        client.ended = True
        with pytest.raises(Crash):
            await client.change(note, "two\n")
        client.close()
        after = clients(owner_ended=lambda owner: owner == client.owner)
        await after.sync()
        return note, after

    note, after = asyncio.run(scenario())
    assert store.contents() == {note.id: Content("two\n")}
    assert after.contents() == store.contents()
    assert after.cache.journal.all() == []


@pytest.mark.parametrize("step", ["recorded", "pushed", "committed"])
def test_a_process_that_ends_at_any_step_of_a_late_save_leaves_both_edits_once(
    clients, store, step
):
    def end(reached):
        if reached == step and client.ended:
            raise Crash

    client = clients(on_step=end)

    async def scenario():
        read = await client.create("one\ntwo\nthree\n")
        store.edit(read.id, lambda text: text.replace("one", "theirs"))
        await client.sync()
        assert client.note(read.id).text == "theirs\ntwo\nthree\n"
        client.ended = True
        with pytest.raises(Crash):
            await client.change(read, "one\ntwo\nmine\n")
        (entry,) = client.cache.journal.all() if step != "committed" else (None,)
        assert entry is None or entry.content.text == "theirs\ntwo\nmine\n"
        client.close()
        after = clients(owner_ended=lambda owner: owner == client.owner)
        await after.sync()
        return read, after

    read, after = asyncio.run(scenario())
    assert store.contents() == {read.id: Content("theirs\ntwo\nmine\n")}
    assert after.contents() == store.contents()
    assert after.cache.journal.all() == []


def test_a_copy_that_cannot_be_sent_now_is_not_named_and_is_sent_later(client, store):
    log = AuditLog(client.cache.database, AuditKeys(), clock=lambda: 1, days=9)
    act = Act(log, lambda: AuditEntry(at=1.0, act="tool.save", outcome=OPEN))

    async def scenario():
        note = await client.create("hello world\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "hello brave world\n")
        client.faults.plan(Fault.UNAVAILABLE, on="push")
        with pytest.raises(OutcomeUnknown, match="not stored beside that yet"):
            await client.writer.save(note=note, content=Content("hello\n"), act=act)
        assert act.outcome == UNKNOWN, "if its caller had left"
        (waiting,) = client.cache.journal.all()
        assert waiting.note_id not in store.ids()
        await client.sync()
        return waiting.note_id

    copy_id = asyncio.run(scenario())
    assert store.text(copy_id) == f"{MARK}hello\n"
    assert client.contents() == store.contents()


def test_a_refusal_that_ends_its_sentence_still_reads_well():
    assert (
        add_outcome(LoginRequired("No login is known."), NOT_SAVED).message
        == "No login is known; nothing was saved"
    )


def test_a_save_that_another_process_began_in_the_middle_of_ours_is_waited_for(clients, store):
    first, second = clients(), clients()
    push, get = first.remote.push, second.remote.get
    answered, others = asyncio.Event(), []

    async def slow(*args, **options):
        await answered.wait()
        return await push(*args, **options)

    async def overtaken(note_id, **options):
        head = await get(note_id, **options)
        if not others:
            others.append(asyncio.create_task(first.change(note, "zero\none\n")))
            await until(first.cache.journal.all)
            asyncio.get_running_loop().call_soon(answered.set)
        return head

    async def scenario():
        nonlocal note
        note = await first.create("one\n")
        first.remote.push, second.remote.get = slow, overtaken
        await second.change(note, "one\ntwo\n")
        await others[0]

    note = None
    asyncio.run(scenario())
    assert store.text(note.id) == "zero\none\ntwo\n"
    assert first.cache.journal.all() == []


# Calls beside each other.


@pytest.mark.parametrize(("traits", "most"), [(LIKE_TRILIUM, 5), (LIKE_VAULT, 1)])
def test_calls_about_other_notes_write_beside_each_other_unless_ids_are_names(
    clients, store, traits, most
):
    client = clients(traits=traits)

    async def save(number):
        async with client.writer.locks.call(f"{number}\n"):
            await client.create(f"{number}\n")

    async def scenario():
        slow = Slow(client)
        calls = [asyncio.create_task(save(number)) for number in range(20)]
        await until(lambda: len(slow.begun) == most)
        for _ in range(100):  # one more would begin now
            await asyncio.sleep(0)
        slow.go_on.set()
        await asyncio.gather(*calls)
        return slow.most

    assert asyncio.run(scenario()) == most
    assert len(store.ids()) == 20
    assert client.cache.journal.all() == []


def test_two_calls_for_the_same_new_text_make_two_notes(client, store):
    async def save():
        async with client.writer.locks.call("same\n"):
            return (await client.create("same\n")).id

    async def scenario():
        return await asyncio.gather(save(), save())

    assert len(set(asyncio.run(scenario()))) == 2
    assert len(store.ids()) == 2


def test_writes_that_come_together_share_a_flush(client, monkeypatch):
    flushed = []
    monkeypatch.setattr(write_ahead_log, "flush_file", flushed.append)

    async def scenario():
        await asyncio.gather(*(client.create(f"{number}\n") for number in range(8)))

    asyncio.run(scenario())
    assert len(flushed) == 1


def test_nothing_is_sent_if_the_disk_does_not_take_what_was_recorded(client, store, monkeypatch):
    def full(_path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(write_ahead_log, "flush_file", full)
    with pytest.raises(NotRecorded) as refusal:
        asyncio.run(client.create("one\n"))
    assert refusal.value.details["reason"] == "disk_full"
    assert store.ids() == set()
    assert client.cache.journal.all() == []
