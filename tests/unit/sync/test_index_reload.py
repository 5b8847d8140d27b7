"""A new version of the store's codec: everything is loaded again, and nothing is lost by that."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.sync.cycle_states import State
from support.memory_client import Fault, Faults, MemoryClient
from support.sync_rig import LEASE


class SecondCodec(MemoryClient):
    """A client that reads every note differently, and can read no ``raw`` but its own."""

    def __init__(self, store):
        super().__init__(store, faults=Faults(), poll_seconds=0.01)
        self.codec_version = 2

    async def list_page(self, **how):
        page = await super().list_page(**how)
        return replace(page, entries=tuple(map(second_reading, page.entries)))

    async def get(self, note_id, **how):
        return second_reading(await super().get(note_id, **how))

    def compose(self, base, content, *, now):
        if base is not None:
            assert base.raw.startswith(b"2")
            base = replace(base, raw=base.raw[1:])
        return super().compose(base, content, now=now)

    async def push(self, write):
        answer = await super().push(write)
        return replace(answer, revision=second_reading(answer.revision))

    async def changes(self, cursor, *, wait, base_of):
        def own_base(note_id):
            base = base_of(note_id)
            assert base is None or base.raw.startswith(b"2")
            return base

        page = await super().changes(cursor, wait=wait, base_of=own_base)
        return replace(page, changes=tuple(map(second_reading, page.changes)))


def second_reading(one):
    if not isinstance(one, Revision):
        return one
    return replace(one, raw=b"2" + one.raw)


@pytest.fixture
def old(clients):
    return clients()


@pytest.fixture
def new(clients, store):
    remote = SecondCodec(store)
    return clients(remote=remote, faults=remote.faults)


def raws(client):
    return [client.cache.notes.base(note_id).raw for note_id in client.contents()]


def test_a_new_codec_version_loads_everything_again_once(old, new, store):
    for number in range(3):
        store.put(f"n{number}", "x\n")

    async def scenario():
        await old.sync()
        assert not any(raw.startswith(b"2") for raw in raws(old))
        assert await new.sync() is State.IDLE
        assert all(raw.startswith(b"2") for raw in raws(new))
        assert new.contents() == store.contents()
        new.remote.calls.clear()
        new.time.now += 301
        assert await new.sync() is State.IDLE
        assert set(new.remote.calls) == {"changes"}

    asyncio.run(scenario())


def test_the_first_load_asks_for_nothing_twice(client, store):
    store.put("n1", "x\n")
    assert asyncio.run(client.sync()) is State.IDLE
    assert client.remote.calls.count("list_page") == 1


@pytest.mark.parametrize("on", [None, "list_page"])
def test_without_a_connection_a_new_codec_version_reads_the_old_index(old, new, store, on):
    store.put("n1", "one\n")

    async def scenario():
        await old.sync()
        before = new.rows()
        new.faults.plan(Fault.UNAVAILABLE, on=on, times=100)
        for _ in range(3):
            assert await new.sync() is not State.IDLE
        assert new.rows() == before
        assert new.note("n1").text == "one\n"
        new.faults.clear()
        assert await new.sync() is State.IDLE
        assert raws(new)[0].startswith(b"2")

    asyncio.run(scenario())


async def unanswered_edit(old):
    """An edit without an answer; no other process may finish it for a while."""
    note = await old.create("one\ntwo\n")
    await old.sync()
    old.faults.plan(Fault.TIMEOUT, on="push")
    with pytest.raises(OutcomeUnknown):
        await old.change(note, "one\nmine\n")
    (left,) = old.cache.journal.all()
    old.cache.journal.renew(left.write_id, owner=old.owner, lease_until=old.time.now + LEASE)
    return note.id


def test_the_base_of_an_unfinished_write_is_read_again(old, new, store):
    async def scenario():
        note_id = await unanswered_edit(old)
        await new.sync()
        assert new.note(note_id).text == "one\ntwo\n"
        assert raws(new)[0].startswith(b"2")
        await new.run_cycles()
        assert store.contents() == new.contents() == {note_id: Content("one\nmine\n")}

    asyncio.run(scenario())


def test_a_base_that_the_store_no_longer_has_still_merges_an_unfinished_write(old, new, store):
    async def scenario():
        note_id = await unanswered_edit(old)
        store.edit(note_id, lambda text: "theirs\n" + text)
        store.forget_versions(note_id)
        await new.sync()
        assert new.cache.notes.base(note_id).content.text == "one\ntwo\n"
        store.edit(note_id, lambda text: "again\n" + text)
        store.forget_versions(note_id)
        assert await new.sync() is State.IDLE, "its codec is never given the old raw"
        assert new.cache.journal.count() == 1
        await new.run_cycles()
        merged = {note_id: Content("again\ntheirs\none\nmine\n")}
        assert store.contents() == new.contents() == merged
        assert raws(new)[0].startswith(b"2")
        assert new.cache.journal.all() == []

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", [Fault.VANISHED, Fault.REJECTED, Fault.NONSENSE])
def test_one_note_that_cannot_be_read_stops_no_reload(old, new, store, fault):
    store.put("other", "x\n")

    async def scenario():
        note_id = await unanswered_edit(old)
        new.faults.plan(fault, on="get")
        assert await new.sync() is State.IDLE
        assert new.cache.notes.base("other").raw.startswith(b"2")
        assert new.note(note_id).text == "one\ntwo\n"
        await new.run_cycles()
        assert store.text(note_id) == "one\nmine\n"
        assert new.contents() == store.contents()

    asyncio.run(scenario())
