"""Removing for good: from the trash only, only what the caller saw, and gone is gone."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.errors import InvalidRequest, OutcomeUnknown, StoreUnavailable, VersionConflict
from support.memory_client import LIKE_SIMPERIUM, Fault

UNGUARDED = replace(LIKE_SIMPERIUM, trash=False)


def test_a_trashed_note_is_removed_from_store_and_cache(client, store):
    async def scenario():
        note = await client.trash(await client.create("old\n"))
        await client.writer.remove(note)

    asyncio.run(scenario())
    assert store.ids() == set()
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_a_note_outside_the_trash_is_refused_with_the_way_to_do_it(client, store):
    async def scenario():
        note = await client.create("kept\n")
        with pytest.raises(InvalidRequest) as caught:
            await client.writer.remove(note)
        return caught.value

    error = asyncio.run(scenario())
    assert "trash first" in error.resolution_hint
    assert len(store.ids()) == 1
    assert "delete" not in client.remote.calls


def test_a_store_without_a_trash_lets_any_note_be_removed(clients, store):
    client = clients(traits=UNGUARDED)

    async def scenario():
        await client.writer.remove(await client.create("gone\n"))

    asyncio.run(scenario())
    assert store.ids() == set()


def test_a_note_changed_elsewhere_is_not_removed_and_the_cache_shows_the_change(client, store):
    async def scenario():
        note = await client.trash(await client.create("old\n"))
        store.edit(note.id, lambda text: text + "rescued\n")
        with pytest.raises(VersionConflict) as caught:
            await client.writer.remove(note)
        return note, caught.value

    note, error = asyncio.run(scenario())
    assert error.message.endswith("nothing was deleted")
    assert "again with `get`" in error.resolution_hint
    assert "save" not in error.resolution_hint
    assert store.text(note.id) == "old\nrescued\n"
    assert client.note(note.id).text == "old\nrescued\n"
    assert client.cache.journal.all() == []


def test_a_note_that_the_caller_saw_in_an_older_state_is_not_removed(client, store):
    async def scenario():
        note = await client.trash(await client.create("old\n"))
        store.edit(note.id, lambda text: text + "rescued\n")
        await client.sync()
        client.remote.calls.clear()
        with pytest.raises(VersionConflict):
            await client.writer.remove(note)

    asyncio.run(scenario())
    assert client.remote.calls == []


def test_a_note_already_gone_there_or_here_is_success(client, store):
    async def scenario():
        note = await client.trash(await client.create("old\n"))
        store.remove(note.id)
        await client.writer.remove(note)
        await client.writer.remove(note)

    asyncio.run(scenario())
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_a_refused_removal_leaves_everything_as_it_was(client, store):
    async def scenario():
        note = await client.trash(await client.create("old\n"))
        client.faults.plan(Fault.UNAVAILABLE, on="delete")
        with pytest.raises(StoreUnavailable):
            await client.writer.remove(note)
        return note

    note = asyncio.run(scenario())
    assert store.ids() == {note.id}
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER])
def test_an_unanswered_removal_is_finished_later(client, store, fault):
    async def scenario():
        note = await client.trash(await client.create("old\n"))
        client.faults.plan(fault, on="delete")
        with pytest.raises(OutcomeUnknown):
            await client.writer.remove(note)
        assert client.contents() != {}
        await client.sync()

    asyncio.run(scenario())
    assert store.ids() == set()
    assert client.contents() == {}
    assert client.cache.journal.all() == []


def test_an_unanswered_removal_gives_way_to_an_edit_made_meanwhile(client, store):
    async def scenario():
        note = await client.trash(await client.create("old\n"))
        client.faults.plan(Fault.TIMEOUT, on="delete")
        with pytest.raises(OutcomeUnknown):
            await client.writer.remove(note)
        store.edit(note.id, lambda text: text + "rescued\n")
        await client.sync()
        return note

    note = asyncio.run(scenario())
    assert client.note(note.id).text == store.text(note.id) == "old\nrescued\n"
    assert client.cache.journal.all() == []
