"""Finishing one write while the store goes on changing, or another process has the same entry."""

import asyncio
import inspect
import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from mcp_notarium.audit.chain import OPEN, AuditEntry, AuditKeys
from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    CacheBusy,
    DateRefused,
    NoteNotFound,
    OutcomeUnknown,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.library.history import History
from mcp_notarium.storage.audit_log import Act, AuditLog
from mcp_notarium.storage.version_table import CREATION
from mcp_notarium.stores.contract import PushStatus
from mcp_notarium.stores.kind import Ids
from mcp_notarium.stores.memento.note_codec import made_of
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.sync.write_attempt import ROUNDS
from mcp_notarium.sync.write_decisions import WriteOutcome
from notarium_devtools.simperium import Simulator
from support.cache_room import second_connection
from support.memento_file import MementoFile
from support.memory_client import (
    LIKE_EXAMPLE,
    LIKE_LOCAL,
    LIKE_MEMENTO,
    LIKE_TRILIUM,
    LIKE_VAULT,
    ROWS,
    Fault,
)
from support.simplenote_client import open_store
from support.sync_rig import KEY, LEASE, Client, quick_folder


async def unanswered(client, note, content, fault=Fault.TIMEOUT):
    """A change whose answer never came; gives its entry."""
    client.faults.plan(fault, on="push")
    with pytest.raises(OutcomeUnknown):
        await client.writer.save(note=note, content=content)
    (write,) = client.cache.journal.all()
    return write


def texts(store):
    return sorted(content.text for content in store.contents().values())


def settled(client, store):
    return client.contents() == store.contents() and client.cache.journal.all() == []


def after(client, method, act, *, times=1):
    """Let something happen behind the next answers of a method, before the engine sees them."""
    original, left = getattr(client.remote, method), [times]

    async def late(*given, **named):
        try:
            return await original(*given, **named)
        finally:
            if left[0]:
                left[0] -= 1
                found = act()
                if inspect.isawaitable(found):
                    await found

    setattr(client.remote, method, late)


def test_a_note_that_keeps_changing_is_left_to_a_later_cycle_of_any_process(clients, store, time):
    first, second = clients(traits=LIKE_LOCAL), clients(traits=LIKE_LOCAL)

    async def scenario():
        note = await first.create("one\n")
        await unanswered(first, note, Content("zero\none\n"))
        first.faults.plan(Fault.RACE, on="push", times=ROUNDS)
        assert await first.writer.replay.finish_all() == {None: 1}
        (left,) = first.cache.journal.all()
        assert left.lease_until <= time.clock()
        assert store.text(note.id) == "one\n" + "from elsewhere\n" * ROUNDS
        assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == "zero\none\n" + "from elsewhere\n" * ROUNDS
    assert settled(second, store)


@pytest.mark.parametrize(
    "traits", [LIKE_TRILIUM, LIKE_MEMENTO, LIKE_EXAMPLE], ids=["trilium", "memento", "example"]
)
def test_a_creation_that_arrives_while_it_is_repeated_is_made_once(clients, store, traits):
    client = clients(traits=traits)

    async def scenario():
        write = await unanswered(client, None, Content("late\n"))
        after(client, "get", lambda: store.put(write.note_id, "late\n"))
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    assert texts(store) == ["late\n"]
    assert settled(client, store)


def test_a_creation_that_is_edited_while_the_store_answers_that_it_has_it_is_looked_at_again(
    clients, store
):
    client = clients()
    push = client.remote.push

    async def edited(write):
        client.remote.push = push
        answer = await push(write)
        store.edit(write.note_id, lambda _: "quite another\n")
        head = await client.remote.get(write.note_id)
        return replace(answer, revision=head, status=PushStatus.UNCHANGED, alone=False)

    async def scenario():
        await unanswered(client, None, Content("late\n"))
        client.remote.push = edited
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    assert texts(store) == ["quite another\n"]
    assert settled(client, store)


def test_a_new_note_that_is_removed_before_it_is_read_again_is_gone(clients, store):
    client = clients(traits=LIKE_EXAMPLE)
    push = client.remote.push

    async def removed(write):
        answer = await push(write)
        store.remove(write.note_id)
        return answer

    client.remote.push = removed
    with pytest.raises(NoteNotFound):
        asyncio.run(client.create("new\n"))
    assert texts(store) == []
    assert settled(client, store)


def test_a_note_that_was_made_without_its_tags_gets_them_beside_those_that_came(clients, store):
    client = clients(traits=LIKE_TRILIUM)

    async def scenario():
        write = await unanswered(client, None, Content("Trip\nplan\n", ("work",)))
        store.put(write.note_id, "Trip\nplan\n", tags=["inbox"])
        await client.writer.replay.finish_all()

    asyncio.run(scenario())
    (content,) = store.contents().values()
    assert (content.text, set(content.tags)) == ("Trip\nplan\n", {"work", "inbox"})
    assert settled(client, store)


def test_a_note_that_said_the_same_before_and_says_something_else_now_is_not_the_new_one(
    clients, store
):
    client = clients(traits=LIKE_VAULT)
    store.put("old.md", "New\nmine\n")

    async def scenario():
        await client.sync()
        await unanswered(client, None, Content("New\nmine\n"))
        now = client.time.clock() + 1
        after(client, "changes", lambda: store.edit("old.md", lambda _: "New\ntheirs\n", now=now))
        await client.run_cycles(3)

    asyncio.run(scenario())
    assert store.contents() == {
        "old.md": Content("New\ntheirs\n"),
        "New.md": Content("New\nmine\n"),
    }
    assert settled(client, store)


@pytest.mark.parametrize("added", ["two", "two  words"])
def test_a_change_that_its_store_has_written_in_its_own_way_is_not_sent_again(
    clients, store, added
):
    client = clients(traits=LIKE_EXAMPLE)
    store.rewrite = lambda fields: (
        fields | {"text": fields["text"].strip().replace("  ", " ") + "\n\n"}
    )

    async def scenario():
        note = await client.create("one\n")
        await unanswered(client, note, Content(f"one\n{added}\n"), Fault.LOST_ANSWER)
        client.remote.calls.clear()
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    assert texts(store) == [f"one\n{' '.join(added.split())}\n\n"]
    assert "push" not in client.remote.calls
    assert settled(client, store)


NESTED = "- a\n  - b\n\ntext\n"


@pytest.mark.parametrize("traits", [LIKE_VAULT, LIKE_TRILIUM, LIKE_MEMENTO])
@pytest.mark.parametrize(
    "theirs", ["- a\n- b\n\ntext\n", "- a\n- b\n\ntext\n\n", "- a\n- b\n\ntext \n"]
)
def test_a_change_of_blanks_alone_that_never_arrived_is_sent(clients, store, traits, theirs):
    client = clients(traits=traits)

    async def scenario():
        store.put("n", "- a\n- b\n\ntext\n")
        await client.sync()
        await unanswered(client, client.note("n"), Content(NESTED))
        store.put("n", theirs, now=9.0)
        await client.run_cycles(3)

    asyncio.run(scenario())
    assert any("\n  - b\n" in text for text in texts(store))
    assert settled(client, store)


def test_an_entry_from_before_the_rules_shows_no_note_that_they_hide(clients, store):
    client = clients(traits=LIKE_MEMENTO)

    async def scenario():
        store.put("n", "one\n", tags=("private",))
        await client.sync()
        await unanswered(client, client.note("n"), Content("one\ntwo\n"))
        client.close()
        under_rules = clients(traits=LIKE_MEMENTO, rules=Visibility(hidden_tags=("private",)))
        under_rules.time.now += 2 * LEASE
        await under_rules.run_cycles(3)
        return under_rules

    under_rules = asyncio.run(scenario())
    assert store.contents() == {"n": Content("one\ntwo\n", ("private",))}
    assert under_rules.contents() == {}
    assert under_rules.cache.journal.all() == []


@pytest.mark.parametrize("traits", [LIKE_VAULT, LIKE_EXAMPLE])
def test_an_entry_that_another_process_has_taken_over_is_left_to_that_one(
    clients, store, time, traits
):
    one, two = clients(traits=traits), clients(traits=traits)
    senders = []

    async def scenario():
        store.put("n", "a\nb\nc\n")
        await one.sync()
        await unanswered(one, one.note("n"), Content("a\nours\nb\nc\n"))
        store.edit("n", lambda text: text + "theirs\n", now=5.0)
        rebase, push = one.writer._journal.rebase, one.remote.push

        def slow(write, **how):
            one.writer._journal.rebase = rebase
            time.now += LEASE * 2
            other = two.writer._journal
            claimed = other.claim(two.cache.journal.in_flight()[0])
            assert other.rebase(
                replace(claimed, content=write.content, body=write.body), base=how["base"]
            )
            return rebase(write, **how)

        async def counted(write):
            senders.append(write.owner)
            return await push(write)

        one.writer._journal.rebase, one.remote.push = slow, counted
        assert await one.writer.replay.finish_all() == {None: 1}
        assert senders == []
        await two.run_cycles(2)

    asyncio.run(scenario())
    assert texts(store) == ["a\nours\nb\nc\ntheirs\n"]
    assert two.cache.journal.all() == []


@pytest.mark.parametrize("folders", [True, False])
def test_a_new_title_alone_is_no_text_to_keep_where_it_is_the_place_of_the_note(
    clients, store, folders
):
    client = clients(traits=replace(LIKE_LOCAL, ids=Ids.PATHS if folders else Ids.RANDOM))

    async def scenario():
        note = await client.create("text\n")
        await unanswered(client, note, Content("text\n", title="New title"))
        store.remove(note.id)
        await client.writer.replay.finish_all()
        await client.sync()

    asyncio.run(scenario())
    assert len(store.contents()) == (0 if folders else 1)
    assert settled(client, store)


def test_a_note_that_was_hidden_since_gets_our_lines_and_stays_hidden(clients, store):
    """A merge of the tags alone would leave it the one that ours adds, and show it again."""
    client = clients(traits=LIKE_LOCAL, rules=Visibility(allowed_tags=("a", "b"), untagged=False))

    async def scenario():
        note = await client.create("one\n", "a")
        await unanswered(client, note, Content("one\ntwo\n", ("a", "b")))
        store.put(note.id, "zero\none\n")
        await client.writer.replay.finish_all()

    asyncio.run(scenario())
    assert [*store.contents().values()] == [Content("zero\none\ntwo\n")]
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_text_is_kept_as_a_copy_where_neither_index_nor_store_has_its_base(clients, store):
    client = clients(traits=LIKE_LOCAL)

    async def scenario():
        note = await client.create("one\n")
        await unanswered(client, note, Content("one\ntwo\n"))
        store.edit(note.id, lambda text: "zero\n" + text)
        with client.cache.transaction():
            client.cache.notes.clear()
        client.remote.calls.clear()
        await client.writer.replay.finish_all()
        return client.remote.calls

    assert asyncio.run(scenario()) == ["get", "push"]  # no revision of before is asked for
    assert texts(store) == [f"{MARK}one\ntwo\n", "zero\none\n"]
    assert settled(client, store)


@pytest.mark.parametrize("row", ROWS)
def test_an_edit_after_a_removal_that_had_no_answer_stays(clients, store, row):
    client = clients(traits=ROWS[row])

    async def scenario():
        note = await client.create("old\n")
        if ROWS[row].trash:
            note = await client.trash(note)
        await removal_without_answer(client, note)
        store.edit(note.id, lambda text: text + "rescued\n")
        return await client.writer.replay.finish_all()

    assert asyncio.run(scenario()) == {WriteOutcome.STORED: 1}
    assert texts(store) == ["old\nrescued\n"]
    assert settled(client, store)


async def removal_without_answer(client, note):
    client.faults.plan(Fault.TIMEOUT, on="delete")
    with pytest.raises(OutcomeUnknown):
        await client.writer.remove(note)


def test_an_edit_right_before_a_repeated_removal_stays(clients, store):
    client = clients(traits=LIKE_LOCAL)

    async def scenario():
        note = await client.trash(await client.create("old\n"))
        await removal_without_answer(client, note)
        client.faults.plan(Fault.RACE, on="delete")
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    assert texts(store) == ["old\nfrom elsewhere\n"]
    assert settled(client, store)


def test_a_note_whose_removal_the_store_refuses_is_shown_and_not_removed_again(clients, store):
    client = clients(traits=LIKE_LOCAL)

    async def scenario():
        note = await client.trash(await client.create("old\n"))
        await removal_without_answer(client, note)
        client.faults.plan(Fault.REJECTED, on="delete")
        await client.writer.replay.finish_all()
        await client.run_cycles()

    asyncio.run(scenario())
    assert texts(store) == ["old\n"]
    assert client.remote.calls.count("delete") == 2
    assert settled(client, store)


def test_of_two_creations_that_were_in_doubt_each_repeat_gets_its_own_note(clients, store):
    client = clients(traits=LIKE_EXAMPLE)

    async def scenario():
        for text in ("one\n", "two\n"):
            client.faults.plan(Fault.LOST_ANSWER, on="push")
            with pytest.raises(OutcomeUnknown):
                await client.create(text)
            client.time.now += 1
        await client.run_cycles(2)
        made = [await client.create(text) for text in ("two\n", "one\n")]
        return [note.text for note in made]

    assert asyncio.run(scenario()) == ["two\n", "one\n"]
    assert texts(store) == ["one\n", "two\n"]


def test_a_refused_date_is_not_corrected_in_an_entry_that_another_process_has_finished(
    clients, store, time
):
    first, second = clients(), clients()

    async def scenario():
        note = await first.create("one\n")
        await unanswered(first, note, Content("one\ntwo\n"))

        async def refused(_write):
            time.now += LEASE + 1
            assert await second.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
            raise DateRefused("in the future")

        first.remote.push = refused
        assert await first.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    assert texts(store) == ["one\ntwo\n"]
    assert settled(first, store)


def test_a_cache_that_another_process_keeps_ends_the_replay_and_the_entry_stays(client, store):
    """It concerns every entry, so none is backed off from."""
    other = second_connection(client.cache, key=KEY)
    client.cache.database._live().set_busy_timeout(0)

    async def scenario():
        note = await client.create("one\n")
        await unanswered(client, note, Content("one\ntwo\n"), Fault.LOST_ANSWER)
        after(client, "get", lambda: other.run("BEGIN IMMEDIATE"))
        with pytest.raises(CacheBusy):
            await client.writer.replay.finish_all()
        other.run("ROLLBACK")
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    other.close()
    assert settled(client, store)


def test_an_answer_that_is_older_than_what_another_process_stored_is_not_shown(clients, store):
    first, second = clients(traits=LIKE_EXAMPLE), clients(traits=LIKE_EXAMPLE)
    store.put("n1", "one\n")

    async def scenario():
        await first.sync()
        note = first.note("n1")
        store.edit("n1", lambda text: text + "two\n")

        def meanwhile():
            store.edit("n1", lambda text: text + "three\n")
            return second.sync()

        after(first, "get", meanwhile)
        await first.change(note, "one\ntwo\n")  # it says so, as far as that answer knows

    asyncio.run(scenario())
    assert first.contents() == store.contents() == {"n1": Content("one\ntwo\nthree\n")}


def test_an_answer_is_not_stored_over_what_the_process_that_took_the_entry_over_has_seen(
    clients, store, time
):
    first, second = clients(traits=LIKE_LOCAL), clients(traits=LIKE_LOCAL)

    async def scenario():
        note = await first.create("one\n")
        base = first.cache.notes.base(note.id)

        def meanwhile():
            time.now += LEASE + 1
            (write,) = second.cache.journal.all()
            assert second.writer._journal.claim(write)  # and works on it for a while
            newer = replace(base, etag="newer", content=Content("newer\n"))
            with second.cache.transaction():
                second.cache.notes.apply([newer])

        after(first, "push", meanwhile)
        await first.change(note, "one\ntwo\n")
        assert first.contents() == {note.id: Content("newer\n")}
        assert len(first.cache.journal.all()) == 1
        await second.run_cycles()

    asyncio.run(scenario())
    assert texts(store) == ["one\ntwo\n"]


@pytest.mark.parametrize("clear", [True, False])
def test_a_new_note_is_known_by_its_author_unless_its_store_cannot_tell_its_tags(
    clients, store, clear
):
    """It may have a hidden one."""
    client = clients(traits=LIKE_TRILIUM, rules=Visibility(hidden_tags=("inbox",)))
    store.rewrite = lambda fields: fields | {"text": fields["text"] + "\n"}
    log = AuditLog(client.cache.database, AuditKeys(), clock=lambda: 1, days=9)
    act = Act(log, lambda: AuditEntry(at=1, act="tool.save", client="agent", outcome=OPEN))
    push, get = client.remote.push, client.remote.get

    async def unclear_push(write):
        answer = await push(write)
        return replace(answer, revision=unclear(answer.revision), alone=False)

    async def unclear_get(note_id, *, etag=None):
        return unclear(await get(note_id, etag=etag))

    def unclear(revision):
        return replace(revision, tags_understood=clear)

    client.remote.push, client.remote.get = unclear_push, unclear_get

    async def scenario():
        with nullcontext() if clear else pytest.raises(OutcomeUnknown, match="not visible here"):
            await client.writer.save(note=None, content=Content("hello\n"), act=act)

    asyncio.run(scenario())
    made = client.cache.database.rows("SELECT number, replaced_by FROM note_versions")
    assert made == ([(CREATION, "agent")] if clear else [])
    assert len(client.contents()) == clear


@pytest.fixture(name="app")
def _app():
    """Memento's file, and a client that has loaded a note of it."""
    with quick_folder() as place:
        (place / "account").mkdir(mode=0o700)
        file = MementoFile(place / "dev.db")
        file.put("n1", "text\n", color="yellow", images='["a"]')
        client = Client(place / "account", None, remote=MementoStore(file.path))
        asyncio.run(client.sync())
        yield file, client
        client.close()
        asyncio.run(client.remote.close())


async def save_without_answer(client, content, *, arrives):
    push = client.remote.push
    log = AuditLog(client.cache.database, AuditKeys(), clock=lambda: 1, days=9)
    act = Act(log, lambda: AuditEntry(at=1, act="tool.save", client="agent", outcome=OPEN))

    async def lost(write):
        if arrives:
            await push(write)
        client.remote.push = push
        raise OSError("broken off")

    client.remote.push = lost
    with pytest.raises(OutcomeUnknown):
        await client.writer.save(note=client.note("n1"), content=content, act=act)
    (write,) = client.cache.journal.all()
    return write


@pytest.mark.parametrize("arrives", [True, False])
def test_an_unanswered_change_of_a_row_is_made_once_and_keeps_what_it_replaced(app, arrives):
    file, client = app
    ours = '["b"]'

    async def scenario():
        pictures = made_of({"images": ["b"]}, client.cache.notes.base("n1"))
        await save_without_answer(client, pictures, arrives=arrives)
        assert (file.row("n1")["images"] == ours) is arrives
        if not arrives:  # what the write replaces is another thing by now
            file.run('UPDATE "Note" SET "images" = \'["later"]\' WHERE "id" = \'n1\'')
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}

    number = client.note("n1").local_version
    asyncio.run(scenario())
    assert (file.row("n1")["images"], file.row("n1")["content"]) == (ours, "text\n")
    assert client.cache.journal.all() == []
    kept = json.loads(client.cache.versions.native("n1", number))
    assert kept["columns"] == {"images": '["a"]' if arrives else '["later"]'}


@pytest.mark.parametrize("theirs", [{"color": "red"}, {"content": "top\ntext\n"}], ids=str)
@pytest.mark.parametrize("line", ["", "see the picture\n"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_picture_that_never_arrived_comes_after_another_change(app, theirs, line, whole):
    file, client = app
    row = {"content": "text\n", "images": '["a"]'} | theirs

    async def scenario():
        note, base = client.note("n1"), client.cache.notes.base("n1")
        if whole:
            content = made_of({"images": ["a", "b"]}, base)
        else:
            native, _ = await client.remote.with_picture("n1", "image/png", b"\x89PNG\r\n\x1a\nb")
            content = replace(note.content, native=native)
        content = replace(content, text=note.text + line)
        await save_without_answer(client, content, arrives=False)
        file.put("n1", **row)
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        await client.run_cycles()

    asyncio.run(scenario())
    stored = file.row("n1")
    assert len(json.loads(stored["images"])) == 2
    assert stored["content"] == row["content"] + line
    assert stored["color"] == row.get("color", stored["color"])
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("line", ["", "see the picture\n"])
def test_a_picture_that_never_arrived_gives_way_to_pictures_of_the_app(app, line):
    file, client = app

    async def scenario():
        native, _ = await client.remote.with_picture("n1", "image/png", b"\x89PNG\r\n\x1a\nb")
        content = replace(client.note("n1").content, native=native, text="text\n" + line)
        await save_without_answer(client, content, arrives=False)
        file.put("n1", "top\ntext\n", images='["a","theirs"]')
        await client.writer.replay.finish_all()
        await client.run_cycles()

    asyncio.run(scenario())
    assert file.row("n1")["images"] == '["a","theirs"]'
    assert file.row("n1")["content"] == "top\ntext\n" + line
    assert client.cache.journal.all() == []


def test_an_unanswered_undo_gives_way_to_what_the_app_has_set_since(app):
    file, client = app
    history = History(client.cache, client.remote)

    async def scenario():
        note, base = client.note("n1"), client.cache.notes.base("n1")
        await client.writer.save(note=note, content=made_of({"images": ["b"]}, base))
        replaced = await history.read_replaced("n1", client=None)
        native = history.native_of("n1", replaced, last=True)
        await save_without_answer(client, replace(replaced.content, native=native), arrives=False)
        file.put("n1", "text\nmore\n", images='["c"]')
        assert await client.writer.replay.finish_all() == {WriteOutcome.STORED: 1}
        await client.run_cycles()

    asyncio.run(scenario())
    assert file.row("n1")["images"] == '["c"]'
    assert client.cache.journal.all() == []
    assert {kept.replaced_by for kept in client.cache.versions.of("n1")} == {""}, (
        "nothing was undone"
    )


def test_an_undo_is_refused_if_the_app_has_set_something_else_since(app):
    file, client = app
    history = History(client.cache, client.remote)

    async def scenario():
        note, base = client.note("n1"), client.cache.notes.base("n1")
        await client.writer.save(note=note, content=made_of({"images": ["b"]}, base))
        replaced = await history.read_replaced("n1", client=None)
        native = history.native_of("n1", replaced, last=True)
        file.put("n1", "text\n", images='["c"]')
        await client.run_cycles()
        content = replace(client.note("n1").content, native=native)
        with pytest.raises(VersionConflict, match="changed elsewhere"):
            await client.writer.save(note=client.note("n1"), content=content)

    asyncio.run(scenario())
    assert file.row("n1")["images"] == '["c"]'
    assert client.cache.journal.all() == []


def test_two_edits_that_together_would_hide_the_note_are_refused(clients, store):
    """Each of them leaves a tag that the policy allows; both together leave none."""
    client = clients(traits=LIKE_LOCAL, rules=Visibility(allowed_tags=("a", "b"), untagged=False))

    async def scenario():
        note = await client.create("one\n", "a", "b")
        store.put(note.id, "one\n", tags=["a"])
        with pytest.raises(VersionConflict, match="nothing was saved"):
            await client.writer.save(note=note, content=Content("one\n", ("b",)))

    asyncio.run(scenario())
    assert [*store.contents().values()] == [Content("one\n", ("a",))]
    assert client.cache.journal.all() == []


def test_a_creation_in_doubt_goes_on_to_the_next_name_that_nothing_has(clients, store):
    client = clients(traits=LIKE_VAULT)
    client.remote.new_id = lambda _content, *, seed, attempt: f"n{attempt + 1}"

    async def scenario():
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.create("mine\n")
        store.put("n1", "not mine\n")
        store.put("n2", "nor this\n")
        await client.run_cycles()

    asyncio.run(scenario())
    assert {one: content.text for one, content in store.contents().items()} == {
        "n1": "not mine\n",
        "n2": "nor this\n",
        "n3": "mine\n",
    }
    assert client.cache.journal.all() == []


def test_a_removal_that_the_store_refuses_is_answered_with_its_reason(clients, store):
    client = clients(traits=LIKE_LOCAL)

    async def scenario():
        note = await client.trash(await client.create("old\n"))
        client.faults.plan(Fault.REJECTED, on="delete")
        with pytest.raises(StoreRejected) as refusal:
            await client.writer.remove(note)
        assert refusal.value.message == "a fault on order; nothing was deleted"

    asyncio.run(scenario())
    assert texts(store) == ["old\n"]
    assert client.cache.journal.all() == []


def test_a_conflict_copy_of_a_note_that_its_id_hides_since_is_hidden_as_well(clients, store):
    client = clients(traits=LIKE_MEMENTO)

    async def scenario():
        note = await client.create("one\ntwo\n")
        await unanswered(client, note, Content("one\nTWO, I say\n"))
        client.close()
        rules = Visibility(hidden_ids=(note.id,))
        later = clients(traits=LIKE_MEMENTO, rules=rules, owner_ended=lambda _owner: True)
        store.put(note.id, "one\nTWO, they say\n")
        await later.run_cycles()
        await later.sync()
        return later

    later = asyncio.run(scenario())
    assert texts(store) == sorted([f"{MARK}one\nTWO, I say\n", "one\nTWO, they say\n"])
    assert later.contents() == {}
    assert later.cache.journal.all() == []


# A note that was removed at Simplenote, and made again under its id, while a write of it waits.


def with_simplenote(clients, scenario):
    async def whole():
        async with Simulator().serving() as sim:
            remote = open_store(sim)
            client = clients(remote=remote)
            sim.put("n1", content="first\n")
            await client.sync()
            await client.change(client.note("n1"), "first\nsecond\n")
            try:
                await scenario(sim, client)
            finally:
                await remote.close()

    asyncio.run(whole())


async def cut_off(sim, client, call, method):
    rule = sim.faults.cut_before(method=method, path="*/note/i/*", times=3)
    with pytest.raises(OutcomeUnknown):
        await call
    assert rule.fired == 3
    assert len(client.cache.journal.all()) == 1


@pytest.mark.parametrize("versions", [1, 2, 3], ids=["older", "same number", "newer"])
def test_a_change_whose_note_was_made_again_becomes_a_copy(clients, versions):
    async def scenario(sim, client):
        change = client.change(client.note("n1"), "first\nsecond\nours\n")
        await cut_off(sim, client, change, "POST")
        made_at = sim.note("n1")["creationDate"] + 60
        sim.delete("n1")
        for number in range(versions):
            sim.put("n1", content=f"theirs {number}\n", creationDate=made_at)
        await client.run_cycles(2)
        last = f"theirs {versions - 1}\n"
        assert sim.note("n1")["content"] == last
        kept = sorted(content.text for content in client.contents().values())
        assert kept == [f"{MARK}first\nsecond\nours\n", last]
        assert client.cache.journal.all() == []

    with_simplenote(clients, scenario)


def test_a_removal_whose_note_was_made_again_under_the_same_number_leaves_it(clients):
    async def scenario(sim, client):
        await client.trash(client.note("n1"))
        await cut_off(sim, client, client.writer.remove(client.note("n1")), "DELETE")
        sim.delete("n1")
        for _ in range(3):
            sim.put("n1", content="theirs\n", deleted=True)
        await client.run_cycles(2)
        assert sim.note("n1")["content"] == "theirs\n"
        assert client.contents()["n1"].text == "theirs\n"
        assert client.cache.journal.all() == []

    with_simplenote(clients, scenario)


def test_a_note_of_which_old_copies_are_answered_was_not_made_again(clients):
    async def scenario(sim, client):
        get, old = client.remote.get, await client.remote.get("n1", etag="1")

        async def lagging(note_id, *, etag=None):
            return await get(note_id, etag=etag) if etag else old

        change = client.change(client.note("n1"), "first\nsecond\nours\n")
        await cut_off(sim, client, change, "POST")
        client.remote.get = lagging
        await client.run_cycles(2)
        assert len(client.cache.journal.all()) == 1
        client.remote.get = get
        await client.run_cycles(2)
        assert sim.note("n1")["content"] == "first\nsecond\nours\n"
        assert len(client.contents()) == 1
        assert client.cache.journal.all() == []

    with_simplenote(clients, scenario)


@pytest.mark.parametrize("traits", [LIKE_TRILIUM, LIKE_MEMENTO], ids=["trilium", "memento"])
def test_what_a_write_has_replaced_is_kept_once_if_two_processes_finish_it(clients, store, traits):
    first, second = clients(traits=traits), clients(traits=traits)
    push, get = first.remote.push, second.remote.get
    meets, answered = asyncio.Event(), asyncio.Event()

    async def late(write):
        answer = await push(write)
        first.time.now += LEASE + 1
        first.replaying = asyncio.create_task(second.writer.replay.finish_all())
        await meets.wait()
        return answer

    async def reading(*given, **named):
        head = await get(*given, **named)
        meets.set()
        await answered.wait()
        return head

    async def scenario():
        note = await first.create("one\n")
        first.remote.push, second.remote.get = late, reading
        await first.change(note, "one\ntwo\n")
        answered.set()
        assert await first.replaying == {WriteOutcome.STORED: 1}

    asyncio.run(scenario())
    kept = "SELECT text FROM note_versions WHERE text IS NOT NULL"
    assert first.cache.database.rows(kept) == [("one\n",)]
    assert settled(first, store)
