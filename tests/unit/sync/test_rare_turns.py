"""What a write meets seldom on its way: the answer is true all the same, nothing is lost and nothing made twice."""

import asyncio
from contextlib import nullcontext

import pytest

from mcp_notarium.audit.chain import OPEN, AuditEntry, AuditKeys
from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content, WriteState
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    NoteUnreadable,
    OutcomeUnknown,
    OutOfSight,
    StoreRejected,
    StoreUnavailable,
)
from mcp_notarium.storage.audit_log import Act, AuditLog
from mcp_notarium.stores.memento.note_codec import made_of
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.sync.write_attempt import MOST_IDS
from mcp_notarium.sync.write_decisions import WriteOutcome
from support.memento_file import MementoFile
from support.memory_client import (
    LIKE_EXAMPLE,
    LIKE_LOCAL,
    LIKE_TRILIUM,
    LIKE_VAULT,
    Fault,
)
from support.sync_rig import LEASE, Client, Crash, quick_folder

BASE = "Title\none\ntwo\nthree\n"
OURS = "Title\none\nTWO, I say\nthree\n"
THEIRS = "Title\none\nTWO, they say\nthree\n"


def texts(store):
    return sorted(content.text for content in store.contents().values())


def settled(client, store):
    return client.contents() == store.contents() and client.cache.journal.all() == []


def rejected(client):
    writes = client.cache.journal.all()
    assert all(write.state is WriteState.REJECTED for write in writes)
    return [write.content.text for write in writes]


async def open_note(client, store):
    store.put("n1", BASE, now=5.0)
    await client.sync()
    return client.note("n1")


async def unanswered(client, note, content, fault=Fault.TIMEOUT):
    """A save whose answer never came; gives its entry."""
    client.faults.plan(fault, on="push")
    with pytest.raises(OutcomeUnknown):
        await client.writer.save(note=note, content=content)
    (write,) = client.cache.journal.all()
    return write


def behind(client, method, number, act):
    """Let something happen behind one answer of a method, before the engine sees it."""
    original, asked = getattr(client.remote, method), []

    async def late(*given, **named):
        answer = await original(*given, **named)
        asked.append(answer)
        if len(asked) == number:
            await act()
        return answer

    setattr(client.remote, method, late)


def refuse_copies(client):
    compose = client.remote.compose

    def refusing(base, content, *, now):
        if content.text.startswith(MARK):
            raise StoreRejected("no such text can be stored")
        return compose(base, content, now=now)

    client.remote.compose = refusing


# Another process is quicker.


def test_a_new_note_that_another_process_finishes_and_somebody_edits_is_there_once(clients, store):
    first, second = clients(traits=LIKE_EXAMPLE), clients(traits=LIKE_EXAMPLE)

    async def taken_over():
        first.time.now += LEASE + 1
        await second.sync()
        (note_id,) = store.ids()
        store.edit(note_id, lambda text: text + "theirs\n")

    async def scenario():
        behind(first, "push", 1, taken_over)
        assert (await first.create("mine\n")).text == "mine\n"
        await second.run_cycles(2)

    asyncio.run(scenario())
    assert texts(store) == ["mine\ntheirs\n"]
    assert settled(first, store)


@pytest.mark.parametrize("late", [True, False])
def test_an_answer_that_comes_when_another_process_may_have_the_write_is_flushed(
    client, store, late
):
    """It is shown at once, and no record of that process flushes it: its version must not be given again."""
    begun, transaction = [], client.cache.transaction

    def begins(*, durable=False):
        begun.append(durable)
        return transaction(durable=durable)

    async def pass_time():
        client.time.now += LEASE + 1 if late else 0
        client.cache.transaction = begins

    behind(client, "push", 1, pass_time)
    asyncio.run(client.create("mine\n"))
    assert begun == [late]
    assert settled(client, store)


def test_a_merge_that_another_process_finishes_before_somebody_edits_it_is_made_once(
    clients, store
):
    first, second = clients(traits=LIKE_EXAMPLE), clients(traits=LIKE_EXAMPLE)

    async def taken_over():
        first.time.now += LEASE + 1
        await second.sync()
        store.edit("n1", lambda text: text + "later\n")

    async def scenario():
        note = await open_note(first, store)
        behind(first, "push", 2, taken_over)  # the first one is our text
        first.faults.plan(Fault.OVERWRITE, on="push", edit=lambda text: text + "theirs\n")
        with pytest.raises(OutcomeUnknown, match="not stored beside that yet"):
            await first.change(note, "Title\nzero\none\ntwo\nthree\n")
        await second.run_cycles(2)

    asyncio.run(scenario())
    assert texts(store) == ["Title\nzero\none\ntwo\nthree\ntheirs\nlater\n"]
    assert settled(first, store)


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER])
def test_a_write_that_another_process_begins_after_the_look_is_finished_first(
    clients, store, fault
):
    """A note has one entry at a time: two of them would be repeated over each other."""
    first, second = clients(), clients()
    entries, push = [], first.remote.push

    async def begin():
        await unanswered(second, second.note("n1"), Content(f"{BASE}theirs\n"), fault)

    async def counted(write):
        entries.append([one.write_id for one in first.cache.journal.all()] == [write.write_id])
        return await push(write)

    async def scenario():
        note = await open_note(first, store)
        behind(first, "get", 1, begin)
        first.remote.push = counted
        await first.change(note, BASE.replace("Title", "Title\nmine"))

    asyncio.run(scenario())
    assert entries
    assert all(entries)
    assert texts(store) == ["Title\nmine\none\ntwo\nthree\ntheirs\n"]
    assert settled(first, store)


@pytest.mark.parametrize("stays", [True, False], ids=["there", "removed since"])
def test_a_repeated_creation_that_another_process_finishes_first_gets_that_note(
    clients, store, time, stays
):
    first, second = clients(), clients()

    async def scenario():
        write = await unanswered(first, None, Content("mine\n"))
        async with first.writer.locks.lock(write.note_id):  # something else of its process has it
            again = asyncio.create_task(first.create("mine\n"))
            for _ in range(5):
                await asyncio.sleep(0)
            time.now += LEASE + 1
            assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
            if not stays:
                store.remove(write.note_id)
                await second.sync()
        return write, await again

    write, note = asyncio.run(scenario())
    assert (note.id == write.note_id) is stays
    assert texts(store) == ["mine\n"]
    assert settled(first, store)


# Creations that were in doubt.


@pytest.mark.parametrize("finished", [True, False], ids=["by a cycle", "by the call"])
def test_a_repeated_creation_is_in_the_audit_log_also_if_its_note_is_there_already(
    client, store, finished
):
    log = AuditLog(client.cache.database, AuditKeys(), clock=lambda: 1, days=9)
    act = Act(log, lambda: AuditEntry(at=1, act="tool.save", client="agent", outcome=OPEN))

    async def scenario():
        await unanswered(client, None, Content("mine\n"), Fault.LOST_ANSWER)
        if finished:
            await client.run_cycles(1)
        await client.writer.save(note=None, content=Content("mine\n"), act=act)

    asyncio.run(scenario())
    assert client.cache.database.rows("SELECT act, outcome FROM audit") == [("tool.save", OPEN)]
    assert texts(store) == ["mine\n"]


def test_a_creation_that_a_cycle_has_found_is_known_as_its_clients(client, store):
    log = AuditLog(client.cache.database, AuditKeys(), clock=lambda: 1, days=9)
    act = Act(log, lambda: AuditEntry(at=1, act="tool.save", client="agent", outcome=OPEN))

    async def scenario():
        client.faults.plan(Fault.LOST_ANSWER, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.writer.save(note=None, content=Content("mine\n"), act=act)
        await client.run_cycles(1)

    asyncio.run(scenario())
    (note_id,) = store.ids()
    assert client.cache.versions.makers(note_id).of(client.cache.notes.etag(note_id)) == "agent"


def test_a_creation_whose_note_somebody_has_removed_since_is_made_anew_if_it_is_asked_for_again(
    client, store
):
    async def scenario():
        write = await unanswered(client, None, Content("mine\n"), Fault.LOST_ANSWER)
        store.remove(write.note_id)
        note = await client.create("mine\n")
        return write.note_id, note.id

    before, now = asyncio.run(scenario())
    assert before != now
    assert store.contents() == {now: Content("mine\n")}
    assert settled(client, store)


def test_the_text_of_a_creation_in_doubt_for_which_no_name_is_left_is_kept(clients, store):
    client = clients(traits=LIKE_VAULT)
    client.remote.new_id = lambda _content, *, seed, attempt: f"n{attempt + 1}"

    async def scenario():
        await unanswered(client, None, Content("mine\n"))
        for number in range(MOST_IDS):
            store.put(f"n{number + 1}", "not mine\n")
        await client.run_cycles()

    asyncio.run(scenario())
    assert texts(store) == ["not mine\n"] * MOST_IDS
    assert rejected(client) == ["mine\n"]


@pytest.mark.parametrize("new", [True, False])
def test_what_is_no_note_has_the_name_of_a_write_right_before_it_is_sent(clients, store, new):
    """A new note takes the next name; a change says that nothing was saved."""
    client = clients(traits=LIKE_VAULT)
    store.put("n1.md", "one\n")
    get = client.remote.get

    async def unreadable(note_id, *, etag=None):
        client.remote.get = get
        raise NoteUnreadable("it is no text")

    async def spoil():
        client.remote.get = unreadable

    async def scenario():
        await client.sync()
        if new:
            await spoil()
            return await client.create("mine\n")
        behind(client, "get", 1, spoil)
        with pytest.raises(StoreUnavailable) as refusal:
            await client.change(client.note("n1.md"), "mine\n")
        assert refusal.value.message == "it is no text; nothing was saved"
        return None

    note = asyncio.run(scenario())
    if new:
        assert (note.id, note.text) == ("mine 2.md", "mine\n")
    else:
        assert texts(store) == ["one\n"]
    assert client.cache.journal.all() == []


# Copies that the store does not take now, or never.


def test_a_copy_whose_date_the_store_refuses_is_made_when_the_clock_is_right(clients, store):
    client = clients(traits=LIKE_TRILIUM)

    async def scenario():
        note = await open_note(client, store)
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
        client.faults.plan(Fault.DATE, on="push", times=2)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, OURS)
        await client.run_cycles()

    asyncio.run(scenario())
    assert texts(store) == sorted([THEIRS, MARK + OURS])
    assert settled(client, store)


def test_a_text_of_which_no_copy_can_be_made_when_it_is_sent_again_is_kept(client, store):
    refuse_copies(client)
    ours, theirs = "Title\none\nTWO\nthree\n", "Title\none\nquite another\nthree\n"

    async def scenario():
        note = await open_note(client, store)
        await unanswered(client, note, Content(ours))
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: theirs)
        assert await client.writer.replay.finish_all() == {WriteOutcome.REFUSED: 1}
        await client.sync()

    asyncio.run(scenario())
    assert texts(store) == [theirs]
    assert rejected(client) == [ours]
    assert client.contents() == store.contents()


# Tags that a merging store has taken from somebody else's revision.


def tag_before(client, store, *given):
    """Let another device give the note a tag ('': take all) right before each of the next pushes, which go over that."""
    push, left = client.remote.push, [*given]

    async def late(write):
        if left:
            fields = store.fields(write.note_id)
            tag = left.pop(0)
            tagged = {"tags": [*fields["tags"], tag] if tag else [], "modified": 7.0}
            store.overwrite(write.note_id, fields | tagged)
        return await push(write)

    client.remote.push = late


def tags_of(store):
    (content,) = store.contents().values()
    return {*content.tags}


@pytest.mark.parametrize("since", ["nothing", "an edit", "its versions forgotten"])
@pytest.mark.parametrize("given", ["theirs", ""])
@pytest.mark.parametrize("step", ["pushed", "committed"])
def test_a_tag_of_others_is_put_back_by_whoever_finishes_the_write(
    clients, store, step, given, since
):
    client = clients()
    note = asyncio.run(client.create("one\n", "t"))

    def stop(name):
        if name == step:
            raise Crash

    killed = clients(on_step=stop)
    killed.time.now += 1
    tag_before(killed, store, given)
    with pytest.raises(Crash):
        asyncio.run(killed.writer.save(note=note, content=Content("one\n", ("t", "ours"))))
    assert tags_of(store) == {"t", "ours"}
    edited, forgotten = since == "an edit", since == "its versions forgotten"
    if edited:
        store.edit(note.id, lambda text: text + "theirs\n", now=8.0)
    if forgotten:
        store.forget_versions(note.id)
    later = clients(owner_ended=lambda _owner: True)
    asyncio.run(later.run_cycles(2))
    lost = {given} if given and not (forgotten and step == "pushed") else set()
    assert tags_of(store) == {"t", "ours", *lost}
    assert store.text(note.id) == ("one\ntheirs\n" if edited else "one\n")
    assert store.kept(note.id).head == 3 + len(lost) + edited
    assert settled(later, store)


def killed_and_edited(clients, store, *given, now):
    """Save a line and a tag over tags given right before, end before the answer is stored, and let others change the line."""
    client = clients()
    note = asyncio.run(client.create("one\n", "t"))

    def stop(name):
        if name == "pushed":
            raise Crash

    killed = clients(on_step=stop)
    killed.time.now += 1
    tag_before(killed, store, *given)
    with pytest.raises(Crash):
        asyncio.run(killed.writer.save(note=note, content=Content("one\nours\n", ("t", "ours"))))
    store.edit(note.id, lambda text: text.replace("ours\n", now), now=8.0)
    return note


@pytest.mark.parametrize("now", ["Ours, better\n", ""])
@pytest.mark.parametrize("given", [["theirs"], []])
def test_a_write_is_known_in_a_note_where_its_line_was_changed_since(clients, store, given, now):
    note = killed_and_edited(clients, store, *given, now=now)
    later = clients(owner_ended=lambda _owner: True)
    asyncio.run(later.run_cycles(2))
    assert store.contents() == {note.id: Content("one\n" + now, ("t", *given, "ours"))}
    assert settled(later, store)


@pytest.mark.parametrize("reachable", [True, False])
def test_a_tag_of_others_is_put_back_after_an_answer_that_came_when_they_had_gone_on(
    client, store, reachable
):
    async def scenario():
        note = await client.create("one\n", "t")
        push = client.remote.push

        async def arrives_twice(write):
            store.write(write)
            store.edit(note.id, lambda text: f"{text}theirs\n", now=8.0)
            client.remote.push = push
            answer = await push(write)
            if not reachable:
                client.faults.plan(Fault.UNAVAILABLE, on="get")
            return answer

        client.remote.push = arrives_twice
        tag_before(client, store, "theirs")
        client.time.now += 1
        with nullcontext() if reachable else pytest.raises(OutcomeUnknown):
            saved = await client.writer.save(note=note, content=Content("one\n", ("t", "ours")))
            assert saved.merged
        await client.run_cycles(2)
        assert store.contents() == {note.id: Content("one\ntheirs\n", ("t", "theirs", "ours"))}
        assert settled(client, store)

    asyncio.run(scenario())


def test_of_a_note_that_was_hidden_when_a_write_arrived_nothing_is_put_back(clients, store):
    note = killed_and_edited(clients, store, "private", now="Ours, better\n")
    rules = Visibility(hidden_tags=("private",))
    later = clients(owner_ended=lambda _owner: True, rules=rules)
    asyncio.run(later.run_cycles(2))
    assert store.contents()[note.id] == Content("one\nOurs, better\n", ("t", "ours"))
    assert settled(later, store)


def test_a_tag_that_comes_while_another_is_put_back_is_put_back_as_well(client, store):
    async def scenario():
        note = await client.create("one\n", "t")
        tag_before(client, store, "theirs", "late")
        await client.writer.save(note=note, content=Content("one\n", ("t", "ours")))
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert tags_of(store) == {"t", "ours", "theirs", "late"}
    assert settled(client, store)


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_save_is_in_doubt_while_what_it_went_over_cannot_be_read(client, store, forgotten):
    async def unread():
        if forgotten:
            store.forget_versions(*store.ids())
        else:
            client.faults.plan(Fault.TIMEOUT, on="get", times=2)

    async def scenario():
        note = await client.create("one\n", "t")
        client.time.now += 1
        tag_before(client, store, "theirs")
        behind(client, "push", 1, unread)
        with nullcontext() if forgotten else pytest.raises(OutcomeUnknown, match="just before it"):
            await client.writer.save(note=note, content=Content("one\n", ("t", "ours")))
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert tags_of(store) == ({"t", "ours"} if forgotten else {"t", "ours", "theirs"})
    assert settled(client, store)


# Notes that are gone, or hidden.


@pytest.mark.parametrize("hides", [True, False], ids=["hidden", "removed"])
def test_a_note_that_goes_out_of_sight_under_a_save_is_told_in_the_same_words(
    clients, store, hides
):
    client = clients(traits=LIKE_LOCAL, rules=Visibility(hidden_tags=("private",)))
    push = client.remote.push

    async def meanwhile(write):
        client.remote.push = push
        if hides:
            store.put("n1", BASE, tags=["private"])
            return await push(write)
        store.edit("n1", lambda text: text + "theirs\n")
        try:
            return await push(write)
        finally:
            store.remove("n1")

    async def scenario():
        note = await open_note(client, store)
        client.remote.push = meanwhile
        with pytest.raises(OutOfSight) as refusal:
            await client.change(note, OURS)
        return refusal.value

    error = asyncio.run(scenario())
    assert error.message == (
        "the note was removed elsewhere while it was saved, or a rule of the policy hides it now; "
        "your change may be stored"
    )
    assert texts(store) == ([BASE] if hides else [])
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_a_new_tag_in_doubt_is_not_put_on_a_note_that_is_hidden_since(clients, store):
    client = clients(traits=LIKE_LOCAL, rules=Visibility(allowed_tags=("a", "b"), untagged=False))

    async def scenario():
        note = await client.create("one\n", "a")
        await unanswered(client, note, Content("one\n", ("a", "b")))
        store.put(note.id, "one\nsecret\n")
        client.remote.calls.clear()
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    assert [*store.contents().values()] == [Content("one\nsecret\n")]
    assert "push" not in client.remote.calls
    assert (client.contents(), client.cache.journal.all()) == ({}, [])


def test_a_new_tag_in_doubt_is_put_on_a_note_that_a_tag_hides_since(clients, store):
    client = clients(rules=Visibility(hidden_tags=("private",)))

    async def scenario():
        note = await client.create("one\n", "t")
        await unanswered(client, note, Content("one\n", ("t", "ours")))
        store.put(note.id, "one\ntheirs\n", tags=("t", "private"), now=8.0)
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert texts(store) == ["one\ntheirs\n"]
    assert tags_of(store) == {"t", "ours", "private"}
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_a_removal_that_is_forestalled_by_a_change_and_then_a_removal_is_success(clients, store):
    client = clients(traits=LIKE_LOCAL)
    delete = client.remote.delete

    async def meanwhile(note_id, **how):
        store.edit(note_id, lambda text: text + "theirs\n")
        try:
            return await delete(note_id, **how)
        finally:
            store.remove(note_id)

    async def scenario():
        note = await client.trash(await client.create("old\n"))
        client.remote.delete = meanwhile
        await client.writer.remove(note)

    asyncio.run(scenario())
    assert texts(store) == []
    assert settled(client, store)


@pytest.fixture(name="app")
def _app():
    """Memento's file, and a client that has loaded a note of it."""
    with quick_folder() as place:
        (place / "account").mkdir(mode=0o700)
        file = MementoFile(place / "dev.db")
        file.put("n1", "text\n")
        client = Client(place / "account", None, remote=MementoStore(file.path))
        asyncio.run(client.sync())
        yield file, client
        client.close()
        asyncio.run(client.remote.close())


def test_a_note_that_the_app_has_removed_already_is_removed(app):
    file, client = app
    file.remove("n1")
    asyncio.run(client.writer.remove(client.note("n1")))
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_a_change_to_what_the_app_shows_already_writes_nothing(app):
    file, client = app
    file.run('UPDATE "Note" SET "size" = \'large\' WHERE "id" = \'n1\'')
    before = file.row("n1")
    large = made_of({"size": "large"}, client.cache.notes.base("n1"))
    asyncio.run(client.writer.save(note=client.note("n1"), content=large))
    assert file.row("n1") == before
    assert client.cache.journal.all() == []
