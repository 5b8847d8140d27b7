"""Saving: the store first, then the cache; merged or refused, never over somebody else's change."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    NoteNotFound,
    OutcomeUnknown,
    StoreProtocolError,
    VersionConflict,
)
from mcp_notarium.stores.contract import Acknowledgement, PushStatus, WriteGuard
from support.memory_client import LIKE_EXAMPLE, LIKE_SIMPERIUM, Fault

STRICT = replace(LIKE_SIMPERIUM, write_guard=WriteGuard.CAS)


def test_a_new_note_is_in_the_store_and_in_the_cache_when_save_returns(client, store):
    note = asyncio.run(client.create("hello\n", "a", "b"))
    assert store.contents() == {note.id: Content("hello\n", ("a", "b"))}
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []
    assert len(note.id) == 32


def test_an_intent_is_on_record_before_anything_is_sent(clients, store):
    seen = []
    client = clients(on_step=lambda step: seen.append((step, len(client.cache.journal.all()))))
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
        client.remote.calls.clear()
        return await client.change(note, "same")

    saved = asyncio.run(scenario())
    assert client.remote.calls == ["get"]
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
    assert client.cache.journal.all() == []


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
    assert client.cache.journal.all() == []


def test_a_note_of_a_change_of_many_is_left_where_others_have_changed_the_same_lines(client, store):
    async def scenario():
        note = await client.create("one\n")
        store.edit(note.id, lambda _: "two\n")
        with pytest.raises(VersionConflict):
            await client.writer.save(note=note, content=Content("three\n"), change_id="of many")
        return note

    note = asyncio.run(scenario())
    assert store.text(note.id) == client.note(note.id).text == "two\n"
    assert client.cache.journal.all() == []


def test_a_line_that_the_store_mixed_up_is_kept_in_a_conflict_copy(client, store):
    async def scenario():
        note = await client.create("hello world\n", "a")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "hello brave world\n")
        return await client.change(note, "hello\n")

    saved = asyncio.run(scenario())
    assert saved.note.text == "hello brave world\n", "theirs stays as it was"
    assert store.contents()[saved.copy_id] == Content(f"{MARK}hello\n", ("a",))
    assert client.contents() == store.contents()


def test_a_creation_that_the_store_knows_and_does_not_have_is_not_saved(client):
    async def contradicts(write):
        raise NoteNotFound("no such note", details={"id": write.note_id})

    client.remote.push = contradicts
    with pytest.raises(StoreProtocolError):
        asyncio.run(client.create("new\n"))
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_our_line_is_kept_if_the_revision_before_is_unknown(client, store):
    async def scenario():
        note = await client.create("hello world\n", "a")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "hello brave world\n")
        get = client.remote.get

        async def only_the_newest(note_id, *, etag=None):
            if etag is not None:
                raise NoteNotFound("pruned", details={"id": note_id})
            return await get(note_id)

        client.remote.get = only_the_newest
        return await client.change(note, "hello\n")

    saved = asyncio.run(scenario())
    assert saved.note.text == "hello brave\n"
    assert store.contents()[saved.copy_id] == Content(f"{MARK}hello\n", ("a",))
    assert client.contents() == store.contents()


def test_an_unchanged_line_that_the_store_spoiled_is_repaired(client, store):
    async def scenario():
        note = await client.create("one\ntwo\nthree\n")
        push = client.remote.push

        async def merges_badly(write):
            client.remote.push = push
            store.put(note.id, "zero\none\ntwo\nthree\n")
            before = (await client.remote.get(note.id)).etag
            store.put(note.id, "zero\none\nthretwo\n4\n")
            revision = await client.remote.get(note.id)
            return Acknowledgement(revision, PushStatus.STORED, before)

        client.remote.push = merges_badly
        return await client.change(note, "one\ntwo\nthree\n4\n")

    saved = asyncio.run(scenario())
    assert saved.note.text == store.text(saved.note.id) == "zero\none\ntwo\nthree\n4\n"
    assert (saved.merged, saved.copy_id) == (True, None)
    assert client.cache.journal.all() == []


def test_a_text_that_the_store_drops_for_a_repair_is_kept_in_a_copy(client, store):
    async def scenario():
        note = await client.create("hello world\n")
        push = client.remote.push

        async def drops_theirs(write):
            if not write.repair:
                return await push(write)
            client.remote.push = push
            store.put(note.id, "hello\nlate\n", tags=("late",))
            before = (await client.remote.get(note.id)).etag
            store.put(note.id, write.content.text)
            revision = await client.remote.get(note.id)
            return Acknowledgement(revision, PushStatus.STORED, before)

        async def after_theirs(write):
            client.remote.push = drops_theirs
            store.put(note.id, "hello brave world\n")
            return await push(write)

        client.remote.push = after_theirs
        return await client.change(note, "hello\n")

    saved = asyncio.run(scenario())
    ours, theirs = Content(f"{MARK}hello\n"), Content(f"{MARK}hello\nlate\n", ("late",))
    kept = store.contents()
    assert kept.pop(saved.note.id).text == saved.note.text == "hello brave world\n"
    assert kept.pop(saved.copy_id) == ours
    assert [*kept.values()] == [theirs]
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def test_tags_of_others_that_ours_replaced_are_put_back(client, store):
    async def scenario():
        note = await client.create("x\n", "old")
        push = client.remote.push

        async def after_theirs(write):
            client.remote.push = push
            store.put(note.id, "x\n", tags=("old", "theirs"))
            return await push(write)

        client.remote.push = after_theirs
        return await client.writer.save(note=note, content=Content("x\n", ("old", "mine")))

    saved = asyncio.run(scenario())
    assert saved.merged
    assert set(saved.note.tags) == {"old", "theirs", "mine"}
    assert client.contents() == store.contents()
    assert not client.writer._attempt._commit._tag_changes, (
        "nothing is kept of a repair that is done"
    )


@pytest.mark.parametrize("traits", [LIKE_SIMPERIUM, LIKE_EXAMPLE], ids=["merges", "overwrites"])
def test_a_note_that_is_hidden_right_before_the_push_stays_hidden(clients, store, traits):
    """A merge of the tags alone would leave it the one that ours adds, and show it again."""
    rules = Visibility(allowed_tags=("a", "b"), untagged=False)
    client = clients(traits=traits, rules=rules)

    async def scenario():
        note = await client.create("one\n", "a")
        push = client.remote.push

        async def after_theirs(write):
            client.remote.push = push
            store.put(note.id, "zero\none\n")
            return await push(write)

        client.remote.push = after_theirs
        with pytest.raises(OutcomeUnknown, match="hides it now"):
            await client.writer.save(note=note, content=Content("one\ntwo\n", ("a", "b")))

    asyncio.run(scenario())
    assert [*store.contents().values()] == [Content("zero\none\ntwo\n")]
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def tags_after_races(client, store, mine, *others):
    """Return the tags after one save, whose pushes come over those of others: the store keeps the last list of tags."""
    later, push = list(others), client.remote.push

    async def raced_push(write):
        if later:
            store.put(write.note_id, "x\n", tags=later.pop(0))
        return await push(write)

    async def scenario():
        note = await client.create("x\n", "old", "t")
        client.remote.push = raced_push
        await client.writer.save(note=note, content=Content("x\n", mine))
        return note

    note = asyncio.run(scenario())
    assert not later
    assert client.cache.journal.all() == []
    return set(store.contents()[note.id].tags)


@pytest.mark.parametrize(
    ("mine", "others", "left"),
    [
        (("old", "t", "mine"), [("old", "t", "a"), ("old", "t", "b")], {"t"}),
        (("old", "mine"), [("old", "t", "a"), ("old", "t", "b")], set()),
        (("old", "t", "mine"), [("old", "a"), ("old", "b")], set()),
        (("old", "t", "mine"), [("old", "t", "a"), ("old", "t", "mine", "b")], {"t"}),
    ],
    ids=["added", "removed", "removed elsewhere", "seen"],
)
def test_a_tag_of_a_save_is_there_whatever_others_make_of_its_repair(
    client, store, mine, others, left
):
    tags = tags_after_races(client, store, mine, *others)
    assert tags == left | {"old", "mine", "a", "b"}


def test_a_note_that_is_hidden_while_tags_are_put_back_stays_hidden(clients, store):
    client = clients(rules=Visibility(hidden_tags=("private",)))
    with pytest.raises(OutcomeUnknown, match="hides it now"):
        tags_after_races(client, store, ("old", "t", "mine"), ("old", "t", "a"), ("old", "private"))
    assert [{*one.tags} for one in store.contents().values()] == [{"old", "mine", "a", "private"}]
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_tags_that_the_store_dropped_in_a_merge_are_put_back(client, store):
    async def scenario():
        note = await client.create("x\n", "old")
        push = client.remote.push

        async def drops_our_tags(write):
            client.remote.push = push
            answer = await push(write)
            store.put(note.id, "x\n", tags=("old", "theirs"))
            revision = await client.remote.get(note.id)
            return replace(answer, revision=revision, before=None, alone=False)

        client.remote.push = drops_our_tags
        content = Content("x\n", ("old", "mine"))
        return await client.writer.save(note=note, content=content)

    saved = asyncio.run(scenario())
    assert set(store.contents()[saved.note.id].tags) == {"old", "theirs", "mine"}
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def test_a_store_that_refuses_stale_bases_is_asked_again_with_the_merge(clients, store):
    client = clients(traits=STRICT)

    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.RACE, on="push", times=2)
        return await client.change(note, "zero\none\n")

    saved = asyncio.run(scenario())
    assert saved.note.text == "zero\none\nfrom elsewhere\nfrom elsewhere\n"
    assert saved.merged is True


def test_a_note_that_changes_all_the_time_is_refused_and_leaves_no_entry(clients, store):
    client = clients(traits=STRICT)

    async def scenario():
        note = await client.create("one\n")
        client.faults.plan(Fault.RACE, on="push", times=99)
        with pytest.raises(VersionConflict):
            await client.change(note, "zero\none\n")

    asyncio.run(scenario())
    assert client.cache.journal.all() == []


def test_a_note_removed_elsewhere_is_not_found_and_leaves_the_cache(client, store):
    async def scenario():
        note = await client.create("one\n")
        store.remove(note.id)
        with pytest.raises(NoteNotFound) as caught:
            await client.change(note, "two\n")
        return note, caught.value

    note, error = asyncio.run(scenario())
    assert "removed elsewhere" in error.message
    assert "as a new note" in error.resolution_hint
    assert client.cache.notes.get(note.id) is None
    assert client.cache.journal.all() == []


def test_a_lone_surrogate_is_stored_the_same_way_on_both_sides(client, store):
    note = asyncio.run(client.create("a\ud800b", "t\udfff"))
    assert store.contents()[note.id] == Content("a\ufffdb", ("t\ufffd",))
    assert client.contents() == store.contents()


def test_an_older_answer_to_the_first_look_is_not_taken_for_a_revert(client, store):
    async def scenario():
        note = await client.create("one\n")
        store.edit(note.id, lambda text: text + "two\n")
        await client.sync()
        current = client.note(note.id)
        client.faults.plan(Fault.STALE, on="get")
        return await client.change(current, "zero\none\ntwo\n")

    assert asyncio.run(scenario()).note.text == "zero\none\ntwo\n"


def test_a_store_that_takes_our_change_for_no_change_is_reported_and_not_asked_again(client, store):
    async def scenario():
        note = await client.create("one\n")
        fields = store.fields(note.id)
        store.rewrite = lambda _posted: fields
        client.remote.calls.clear()
        return await client.change(note, "one  \n")

    saved = asyncio.run(scenario())
    assert (saved.note.text, saved.differs, saved.merged) == ("one\n", "line 1", False)
    assert client.remote.calls.count("push") == 1
    assert client.cache.journal.all() == []


def test_of_an_answer_that_alone_is_rewritten_nothing_stays(client, store):
    push = client.remote.push

    async def echoes_differently(write):
        answer = await push(write)
        revision = replace(answer.revision, content=Content("something else\n"))
        return replace(answer, revision=revision)

    client.remote.push = echoes_differently
    note = asyncio.run(client.create("one\n"))
    assert note.text == "one\n"
    assert client.contents() == store.contents() == {note.id: Content("one\n")}
    assert client.cache.sync_state.differences().count == 0


def test_the_same_edit_made_elsewhere_at_the_same_time_is_not_doubled(client, store):
    async def scenario():
        note = await client.create("hello\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "hello world\n")
        return await client.change(note, "hello world\n")

    saved = asyncio.run(scenario())
    versions = store.kept(saved.note.id).versions
    once, twice = "hello world\n", "hello world world\n"
    assert [versions[number]["text"] for number in (2, 3, 4)] == [once, twice, once]
    assert saved.note.text == once
    assert (saved.copy_id, saved.differs) == (None, "")
    assert client.contents() == store.contents()


def test_a_change_made_over_ours_before_the_answer_stays_and_ours_is_in_the_history(client, store):
    def elsewhere(fields):
        return fields | {"text": "a\ntheirs\n", "modified": 5.0}

    async def scenario():
        note = await client.create("a\nb\n")
        store.afterwards = elsewhere
        return await client.change(note, "a\nours\n")

    saved = asyncio.run(scenario())
    assert store.text(saved.note.id) == saved.note.text == "a\ntheirs\n"
    assert (saved.copy_id, saved.differs) == (None, "line 2")
    assert store.kept(saved.note.id).versions[2]["text"] == "a\nours\n"
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def test_what_a_store_makes_of_a_repair_is_reported_and_not_copied(client, store):
    async def scenario():
        note = await client.create("a\nb\n")
        push = client.remote.push

        async def after_theirs(write):
            client.remote.push = push
            store.put(note.id, "a\nb\ntheirs\n")
            store.rewrite = lambda fields: fields | {"text": fields["text"].replace("ours", "OURS")}
            return await push(write)

        client.remote.push = after_theirs
        return await client.change(note, "ours\na\nb\n")

    saved = asyncio.run(scenario())
    assert saved.note.text == store.text(saved.note.id) == "OURS\na\nb\ntheirs\n"
    assert (saved.copy_id, saved.differs) == (None, "line 1")
    assert client.contents() == store.contents()
