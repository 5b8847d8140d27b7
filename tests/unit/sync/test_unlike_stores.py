"""Stores unlike Simplenote: the last writer wins, ids are names or the store's own, no trash, no tags."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    InvalidRequest,
    NoteNotFound,
    OutcomeUnknown,
    StoreProtocolError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import Changes, Retry, Traits, WriteGuard, is_supported
from support.memory_client import (
    LIKE_EVENTS,
    LIKE_EXAMPLE,
    LIKE_MEMENTO,
    LIKE_TRILIUM,
    LIKE_VAULT,
    NAMES_PAGE,
    ROWS,
    Fault,
    MemoryClient,
)
from support.sync_rig import raced

BASE = "Title\none\ntwo\nthree\n"
LAST_WRITERS = [LIKE_TRILIUM, LIKE_VAULT, LIKE_EXAMPLE, LIKE_EVENTS]
overwriting = pytest.mark.parametrize(
    "traits", LAST_WRITERS, ids=["trilium", "vault", "example", "events"]
)


def append(line):
    return lambda text: f"{text}{line}\n"


def rewrite_two(text):
    return text.replace("two", "TWO, they say")


def texts(store):
    return sorted(content.text for content in store.contents().values())


async def open_note(client, store):
    store.put("n1", BASE, now=5.0)
    await client.sync()
    return client.note("n1")


def save_with(client, store, fault, edit, text):
    async def scenario():
        note = await open_note(client, store)
        client.faults.plan(fault, on="push", edit=edit)
        return await client.change(note, text)

    saved = asyncio.run(scenario())
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []
    assert client.note(saved.note.id) == saved.note
    return saved


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_row_the_engine_is_tested_with_is_supported_and_no_other(row):
    assert is_supported(row)
    assert not is_supported(replace(row, changes=Changes.DELTA))


def test_a_store_that_keeps_the_last_write_and_knows_write_ids_is_no_supported_row():
    guess = Traits(Changes.FEED, WriteGuard.LAST_WRITER, Retry.IDEMPOTENT)
    assert not is_supported(guess)


@overwriting
@pytest.mark.parametrize("fault", [Fault.RACE, Fault.OVERWRITE])
def test_a_racing_edit_of_other_lines_is_merged_whichever_comes_last(clients, store, traits, fault):
    client = clients(traits=traits)
    saved = save_with(client, store, fault, append("theirs"), "Title\nzero\none\ntwo\nthree\n")
    assert texts(store) == ["Title\nzero\none\ntwo\nthree\ntheirs\n"]
    assert saved.merged
    assert saved.copy_id is None


@overwriting
@pytest.mark.parametrize("fault", [Fault.RACE, Fault.OVERWRITE])
def test_a_racing_edit_of_the_same_lines_stays_and_ours_becomes_a_copy(
    clients, store, traits, fault
):
    client = clients(traits=traits)
    mine = "Title\none\nTWO, I say\nthree\n"
    saved = save_with(client, store, fault, rewrite_two, mine)
    assert store.text("n1") == rewrite_two(BASE)
    assert texts(store) == sorted([rewrite_two(BASE), MARK + mine])
    assert store.text(saved.copy_id) == MARK + mine


@overwriting
def test_two_racing_edits_and_ours_are_all_kept(clients, store, traits):
    client = clients(traits=traits)
    push = client.remote.push

    async def overwritten(write):
        answer = await push(write)
        if write.base_etag is not None and answer.displaced is not None:
            store.edit(answer.revision.id, lambda _: "Title\none\nthe second\nthree\n")
        return answer

    client.remote.push = overwritten
    mine = "Title\none\nTWO, I say\nthree\n"
    save_with(client, store, Fault.RACE, rewrite_two, mine)
    everything = "".join(texts(store))
    assert all(line in everything for line in ("the second", "TWO, they say", "TWO, I say"))
    assert len(store.ids()) == 3


def test_the_one_loss_is_an_edit_between_comparison_and_push_that_the_store_cannot_return(
    clients, store
):
    client = clients(remote=MemoryClient(store, traits=LIKE_TRILIUM, returns_displaced=False))
    client.faults = client.remote.faults
    mine = "Title\none\nTWO, I say\nthree\n"
    save_with(client, store, Fault.RACE, rewrite_two, mine)
    assert texts(store) == [mine]


@overwriting
def test_an_edit_before_the_comparison_is_never_overwritten(clients, store, traits):
    client = clients(remote=MemoryClient(store, traits=traits, returns_displaced=False))
    record = client.writer._journal.record

    def edited_meanwhile(*arguments, **options):
        store.edit("n1", append("theirs"))
        client.writer._journal.record = record
        return record(*arguments, **options)

    async def scenario():
        note = await open_note(client, store)
        client.writer._journal.record = edited_meanwhile
        return await client.change(note, "Title\nzero\none\ntwo\nthree\n")

    saved = asyncio.run(scenario())
    assert store.text("n1") == saved.note.text == "Title\nzero\none\ntwo\nthree\ntheirs\n"


def test_an_edit_that_a_later_page_of_the_feed_names_is_merged(clients, store):
    client = clients(traits=LIKE_EVENTS)

    async def scenario():
        note = await open_note(client, store)
        for number in range(3 * NAMES_PAGE):
            store.put(f"other{number}", "x\n")
        store.edit("n1", append("theirs"))
        return await client.change(note, "Title\nzero\none\ntwo\nthree\n")

    saved = asyncio.run(scenario())
    assert store.text("n1") == saved.note.text == "Title\nzero\none\ntwo\nthree\ntheirs\n"


def test_a_change_that_the_feed_has_not_named_is_not_believed(clients, store):
    client = clients(traits=LIKE_EVENTS)

    async def scenario():
        note = await open_note(client, store)
        store.put("other", "x\n")
        get = client.remote.get

        async def of_another_note(note_id, *, etag=None):
            return replace(await get("other", etag=etag), id=note_id)

        client.remote.get = of_another_note
        with pytest.raises(StoreProtocolError):
            await client.change(note, "Title\nzero\none\ntwo\nthree\n")

    asyncio.run(scenario())
    assert store.text("n1") == BASE


@overwriting
def test_a_store_that_does_not_answer_the_comparison_gets_nothing_and_the_entry_goes(
    clients, store, traits
):
    client = clients(traits=traits)

    async def scenario():
        note = await open_note(client, store)
        get, asked = client.remote.get, []

        async def second_fails(note_id, *, etag=None):
            asked.append(note_id)
            if len(asked) == 2:
                client.faults.plan(Fault.TIMEOUT, on="get")
            return await get(note_id, etag=etag)

        client.remote.get = second_fails
        with pytest.raises(StoreUnavailable):
            await client.change(note, "Title\n")

    asyncio.run(scenario())
    assert texts(store) == [BASE]
    assert client.cache.journal.all() == []


@overwriting
def test_a_note_that_is_removed_during_a_save_is_not_written_again(clients, store, traits):
    client = clients(traits=traits)
    record = client.writer._journal.record

    def removed_meanwhile(*arguments, **options):
        store.remove("n1")
        return record(*arguments, **options)

    async def scenario():
        note = await open_note(client, store)
        client.writer._journal.record = removed_meanwhile
        with pytest.raises(NoteNotFound):
            await client.change(note, "Title\n")
        await client.sync()  # a name may come back as another one: a listing tells

    asyncio.run(scenario())
    assert store.ids() == set()
    assert client.contents() == {}


def test_a_change_that_is_removed_right_before_its_deletion_is_refused(clients, store):
    client = clients(traits=LIKE_TRILIUM)
    record = client.writer._journal.record

    def edited_meanwhile(*arguments, **options):
        store.edit("n1", append("theirs"))
        return record(*arguments, **options)

    async def scenario():
        note = await open_note(client, store)
        client.writer._journal.record = edited_meanwhile
        with pytest.raises(VersionConflict, match="changed elsewhere"):
            await client.writer.remove(note)

    asyncio.run(scenario())
    assert texts(store) == [f"{BASE}theirs\n"]


# Ids.


def test_a_name_that_is_taken_gets_another_one_and_both_notes_stay(clients, store):
    client = clients(traits=LIKE_VAULT)
    store.put("Plan.md", "Plan\nof somebody else\n")
    store.put("Plan 2.md", "Plan\nof a third\n")
    note = asyncio.run(client.create("Plan\nmine\n"))
    assert note.id == "Plan 3.md"
    assert len(store.ids()) == 3
    assert client.contents() == {"Plan 3.md": Content("Plan\nmine\n")}
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("gone", [False, True], ids=["there", "removed since"])
def test_a_name_that_the_index_has_is_not_given_to_another_note(clients, store, gone):
    client = clients(traits=LIKE_VAULT)
    store.put("Plan.md", "Plan\nof somebody else\n")

    async def scenario():
        await client.sync()
        if gone:
            store.remove("Plan.md")
        note = await client.create("Plan\nmine\n")
        assert (note.id, note.text) == ("Plan 2.md", "Plan\nmine\n")
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def test_a_new_note_for_which_every_name_is_taken_is_refused(clients, store):
    client = clients(traits=LIKE_VAULT)
    client.remote.new_id = lambda *_content, **_seed: "n1"
    store.put("n1", "not ours\n")

    async def scenario():
        await client.sync()
        with pytest.raises(StoreRejected) as refusal:
            await client.create("mine\n")
        assert refusal.value.message == "every name for the new note is taken; nothing was saved"

    asyncio.run(scenario())
    assert texts(store) == ["not ours\n"]
    assert client.cache.journal.all() == []


def test_an_unanswered_creation_is_not_mistaken_for_somebody_elses_note_of_that_name(
    clients, store
):
    client = clients(traits=LIKE_VAULT)

    async def scenario():
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.create("Plan\nmine\n")
        store.put("Plan.md", "Plan\nof somebody else\n")
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert texts(store) == ["Plan\nmine\n", "Plan\nof somebody else\n"]
    assert client.contents() == store.contents()


def test_an_id_that_exists_is_never_written_over(clients, store):
    client = clients(traits=LIKE_TRILIUM)
    client.remote.new_id = lambda *_content, **_seed: "n1"
    store.put("n1", "not ours\n")
    with pytest.raises(VersionConflict):
        asyncio.run(client.create("mine\n"))
    assert texts(store) == ["not ours\n"]


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.TIMEOUT])
@pytest.mark.parametrize("by", ["the same call again", "a cycle"])
def test_an_unanswered_creation_makes_one_note_where_writes_are_looked_for(
    clients, store, fault, by
):
    client = clients(traits=LIKE_EXAMPLE)

    async def scenario():
        client.faults.plan(fault, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.create("hello\n")
        if by == "a cycle":
            await client.run_cycles(2)
        else:
            assert (await client.create("hello\n")).text == "hello\n"

    asyncio.run(scenario())
    assert client.contents() == store.contents()
    assert texts(store) == ["hello\n"]
    assert client.cache.journal.all() == []


@pytest.mark.parametrize(
    ("row", "edited"),
    [
        *((row, False) for row in ROWS.values()),
        # An edited note of a name may be somebody else's: ours is made beside it.
        *((row, True) for row in ROWS.values() if not row.ids.named),
    ],
)
def test_a_repeated_creation_says_merged_only_if_somebody_else_has_written(
    clients, store, row, edited
):
    client = clients(traits=row)

    async def scenario():
        client.faults.plan(Fault.LOST_ANSWER, on="push")
        if not edited and row.dates:
            store.rewrite = lambda fields: fields | {"text": fields["text"].replace("  ", "")}
        with pytest.raises(OutcomeUnknown):
            await client.create("hello  \n")
        if edited:
            (note_id,) = store.ids()
            store.edit(note_id, append("theirs"))
        return await client.writer.save(note=None, content=Content("hello  \n"))

    saved = asyncio.run(scenario())
    assert saved.merged is edited
    assert saved.differs == ("line 1" if not edited and row.dates else "")
    assert client.contents() == store.contents() == {saved.note.id: saved.note.content}


# What a store does not have.


def test_a_store_without_a_trash_says_how_a_note_is_removed_and_removes_it(clients, store):
    client = clients(traits=LIKE_MEMENTO)

    async def scenario():
        note = await client.create("hello\n")
        with pytest.raises(InvalidRequest) as refusal:
            await client.trash(note)
        assert "delete_permanently" in refusal.value.resolution_hint
        await client.writer.remove(note)

    asyncio.run(scenario())
    assert store.ids() == set()


def test_a_store_without_tags_refuses_them_and_keeps_those_that_came(clients, store):
    client = clients(traits=replace(LIKE_MEMENTO, tags=False))

    async def scenario():
        store.put("n1", "one\n", tags=("theirs",))
        await client.sync()
        with pytest.raises(InvalidRequest, match="no tags"):
            await client.create("hello\n", "tag")
        return await client.change(client.note("n1"), "two\n")

    assert asyncio.run(scenario()).note.content == Content("two\n", ("theirs",))


@pytest.mark.parametrize("arrived", [True, False])
def test_the_id_of_a_creation_in_doubt_finds_the_note_and_a_repeat_makes_no_other(
    clients, store, arrived
):
    client = clients(traits=LIKE_EXAMPLE)

    async def scenario():
        await client.sync()
        client.faults.plan(Fault.LOST_ANSWER if arrived else Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown) as caught:
            await client.create("hello\n")
        await client.run_cycles(2)
        found = client.cache.notes.get(caught.value.details["id"])
        return found, await client.create("hello\n"), await client.create("hello\n")

    found, repeated, another = asyncio.run(scenario())
    assert found == repeated != another
    assert texts(store) == ["hello\n", "hello\n"]


def test_an_unanswered_note_of_a_name_is_not_made_twice_if_it_got_a_tag(clients, store):
    client = clients(traits=LIKE_VAULT)

    async def scenario():
        client.faults.plan(Fault.LOST_ANSWER, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.create("hello\n")
        (note_id,) = store.ids()
        store.put(note_id, "hello\n", tags=("theirs",))
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert client.contents() == store.contents() == {"hello.md": Content("hello\n", ("theirs",))}
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("text", ["hello\n", "hello\nsomebody else's\n"])
def test_a_name_that_is_taken_while_a_creation_is_repeated_is_looked_at(clients, store, text):
    client = clients(traits=LIKE_VAULT)

    async def scenario():
        await client.sync()
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.create("hello\n")
        raced(client, lambda: store.put("hello.md", text))  # its owner was slow, and is there now
        await client.run_cycles(4)

    asyncio.run(scenario())
    assert texts(store) == sorted({"hello\n", text})
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def test_an_edit_that_comes_over_a_repair_is_not_called_the_stores_own(clients, store):
    client = clients(traits=LIKE_TRILIUM)

    async def scenario():
        note = await open_note(client, store)
        client.faults.plan(Fault.RACE, on="push", edit=append("theirs"))
        client.faults.plan(Fault.OVERWRITE, on="push", edit=append("later"))
        return await client.change(note, BASE.replace("one", "ONE"))

    saved = asyncio.run(scenario())
    assert (saved.merged, saved.differs) == (True, "")
    assert saved.note.text == store.text("n1") == BASE.replace("one", "ONE") + "later\n"
    assert store.text(saved.copy_id).endswith(BASE.replace("one", "ONE") + "theirs\n")


@pytest.mark.parametrize("theirs", ["- a\n- b\n", "- a\n- b\n\n"])
def test_a_change_of_blanks_alone_that_another_device_overwrites_is_kept(clients, store, theirs):
    client = clients(traits=LIKE_EXAMPLE)

    async def scenario():
        store.put("n1", "- a\n- b\n")
        await client.sync()
        client.faults.plan(Fault.OVERWRITE, on="push", edit=lambda _: theirs)
        return await client.change(client.note("n1"), "- a\n  - b\n")

    asyncio.run(scenario())
    assert any("\n  - b\n" in text for text in texts(store))


def test_a_creation_that_was_in_doubt_is_made_anew_once_its_note_has_changed(clients, store):
    client = clients(traits=LIKE_EXAMPLE)

    async def scenario():
        await client.sync()
        client.faults.plan(Fault.LOST_ANSWER, on="push")
        with pytest.raises(OutcomeUnknown) as caught:
            await client.create("hello\n")
        await client.run_cycles(2)
        await client.change(client.note(caught.value.details["id"]), "hello you\n")
        await client.create("hello\n")

    asyncio.run(scenario())
    assert texts(store) == ["hello\n", "hello you\n"]


@pytest.mark.parametrize("in_doubt", [False, True])
def test_a_new_note_that_its_store_puts_out_of_sight_is_stored_and_not_to_be_saved_again(
    clients, store, in_doubt
):
    client = clients(traits=LIKE_EXAMPLE, rules=Visibility(hidden_tags=("inbox",)))
    store.rewrite = lambda fields: fields | {"tags": ["inbox"]}

    async def scenario():
        if in_doubt:
            client.faults.plan(Fault.LOST_ANSWER, on="push")
            with pytest.raises(OutcomeUnknown):
                await client.create("hello\n")
            await client.run_cycles(2)
        with pytest.raises(OutcomeUnknown) as caught:
            await client.create("hello\n")
        return caught.value

    error = asyncio.run(scenario())
    assert error.message.startswith("the note was stored, and is not visible here now")
    assert "Do not save it again" in error.resolution_hint
    assert texts(store) == ["hello\n"]
    assert client.contents() == {}


def test_a_change_after_which_the_store_hides_the_note_is_not_said_to_be_unsaved(clients, store):
    client = clients(traits=LIKE_EXAMPLE, rules=Visibility(hidden_tags=("inbox",)))

    async def scenario():
        note = await open_note(client, store)
        store.rewrite = lambda fields: fields | {"tags": ["inbox"]}
        with pytest.raises(OutcomeUnknown) as caught:
            await client.change(note, "two\n")
        return caught.value

    error = asyncio.run(scenario())
    assert "your change may be stored" in error.message
    assert texts(store) == ["two\n"]
