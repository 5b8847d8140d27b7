"""A save in the local notebook is one transaction: note, index, version and audit record, or nothing."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.audit.chain import OPEN, AuditEntry
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    CacheError,
    CacheFull,
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    VersionConflict,
)
from mcp_notarium.storage.audit_log import Act, AuditLog
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.stores.contract import run_at_once
from mcp_notarium.stores.local.store import LocalStore
from support.local_notebook import OtherProcess
from support.sync_rig import Crash, open_cache

TABLES = ("notebook", "notebook_notes", "notebook_removed", "notes", "note_versions", "audit")


@pytest.fixture
def client(clients):
    return clients(remote=LocalStore)


def act(client):
    entry = AuditEntry(at=1.0, client="someone 1.0", act="tool.save", outcome=OPEN)
    log = AuditLog(client.cache.database, audit_keys(None), clock=lambda: 1.0, days=1)
    return Act(log, lambda: entry)


def rows(client):
    return [client.cache.database.rows(f"SELECT * FROM {table}") for table in TABLES]


def commits(client, run):
    """How many transactions a statement of ``run`` belongs to, and whether each was flushed."""
    database, begun = client.cache.database, []
    transaction = database.transaction

    def counted(*, durable=False):
        begun.append(durable)
        return transaction(durable=durable)

    database.transaction = counted
    try:
        asyncio.run(run)
    finally:
        del database.transaction
    return begun


def test_each_write_is_one_flushed_transaction_and_makes_no_journal_entry(client):
    save, remove = client.writer.save, client.writer.remove
    new = Content("one", ("t",))
    assert commits(client, save(note=None, content=new, act=act(client))) == [True]
    (note_id,) = client.contents()
    changed = Content("two", trash=True)
    call = save(note=client.note(note_id), content=changed, act=act(client))
    assert commits(client, call) == [True]
    assert client.cache.database.rows("SELECT number, replaced_by, text FROM note_versions") == [
        (0, "someone 1.0", None),
        (1, "someone 1.0", "one"),
    ]
    assert client.contents() == OtherProcess(client.cache).contents() == {note_id: changed}
    assert commits(client, remove(client.note(note_id), act=act(client))) == [True]
    left = {table: rows(client)[at] for at, table in enumerate(TABLES)}
    assert [len(left[t]) for t in ("notebook_notes", "notes", "note_versions")] == [0, 0, 0]
    assert len(left["audit"]) == 3
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("step", ["recorded", "pushed"])
def test_a_crash_before_the_commit_leaves_nothing(clients, step):
    steps = []

    def crash(at):
        if at == step and steps:
            raise Crash

    client = clients(remote=LocalStore, on_step=crash)
    note = asyncio.run(client.create("one"))
    before = rows(client)
    steps.append(step)
    for call in (
        client.writer.save(note=None, content=Content("new"), act=act(client)),
        client.writer.save(note=note, content=Content("two"), act=act(client)),
    ):
        with pytest.raises(Crash):
            asyncio.run(call)
        assert rows(client) == before


def test_a_full_disk_says_that_nothing_was_done_and_nothing_was(client, monkeypatch):
    note = asyncio.run(client.create("one"))
    before = rows(client)

    def full(*_given):
        raise CacheFull("the disk is full")

    monkeypatch.setattr(client.remote, "_next_change", full)
    for call in (
        client.writer.save(note=note, content=Content("two"), act=act(client)),
        client.writer.save(note=None, content=Content("new")),
    ):
        with pytest.raises(CacheError):  # and not an unknown outcome
            asyncio.run(call)
    assert rows(client) == before
    assert client.cache.journal.all() == []


def test_an_edit_of_another_process_that_the_index_has_not_is_merged_or_refused(client):
    note = asyncio.run(client.create("one\ntwo\nthree\n"))
    other = OtherProcess(open_cache(client.folder))
    other.put(note.id, "one\ntwo\nthree\nfour\n")
    saved = asyncio.run(client.change(note, "zero\none\ntwo\nthree\n"))
    assert saved.merged
    assert saved.note.text == "zero\none\ntwo\nthree\nfour\n"
    other.put(note.id, "theirs\n")
    with pytest.raises(VersionConflict):
        asyncio.run(client.change(saved.note, "ours\n"))
    assert client.note(note.id).text == "theirs\n"
    other.remove(note.id)
    with pytest.raises(NoteNotFound):
        asyncio.run(client.change(client.note(note.id), "ours\n"))
    assert client.contents() == {}
    other.cache.close()


def test_a_note_is_removed_from_the_trash_only_and_as_it_was_seen(client):
    note = asyncio.run(client.create("one"))
    with pytest.raises(InvalidRequest, match="in the trash"):
        asyncio.run(client.writer.remove(note))
    trashed = asyncio.run(client.trash(note))
    with pytest.raises(VersionConflict):
        asyncio.run(client.writer.remove(note))
    other = OtherProcess(open_cache(client.folder))
    other.put(note.id, "edited", trash=True)
    with pytest.raises(VersionConflict):
        asyncio.run(client.writer.remove(trashed))
    asyncio.run(client.writer.remove(client.note(note.id)))
    assert other.contents() == client.contents() == {}
    other.cache.close()


def test_the_index_is_made_again_from_the_notebook(client):
    note = asyncio.run(client.create("one", "t"))
    gone = asyncio.run(client.trash(asyncio.run(client.create("two"))))
    asyncio.run(client.sync())
    held = client.rows()
    asyncio.run(client.scheduler.reset())
    assert client.contents() == {}
    asyncio.run(client.sync())
    assert {note.id, gone.id} == client.contents().keys()
    for before in (note, gone):
        again = client.note(before.id)
        # No number means another text after the index was emptied.
        assert again.local_version > before.local_version
        assert replace(again, local_version=before.local_version) == before
    rows = (
        [(*row[:3], *row[4:]) for row in them if row[0] == "notes"]
        for them in (client.rows(), held)
    )
    assert next(rows) == next(rows)


def test_a_hidden_note_is_in_no_table_of_the_index_and_comes_back_with_the_rules(client):
    note = asyncio.run(client.create("secret words", "private"))
    rules = Visibility(hidden_tags=("private",))
    apply_rules(Cache(client.cache.database, rules))
    assert client.cache.database.rows("SELECT * FROM notes") == []
    assert OtherProcess(client.cache).contents().keys() == {note.id}
    apply_rules(client.cache)
    asyncio.run(client.sync())
    assert client.note(note.id).text == "secret words"


def test_a_call_that_waits_is_no_transaction():
    async def waits():
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="must not wait"):
        run_at_once(waits())


def test_an_error_of_the_store_passes():
    async def fails():
        raise NotariumError("no")

    with pytest.raises(NotariumError):
        run_at_once(fails())


def test_a_new_note_never_takes_the_id_of_another_hidden_ones_included(clients):
    rules = Visibility(hidden_tags=("private",))
    client = clients(remote=LocalStore, rules=rules)
    OtherProcess(client.cache).put("deadbeef", "secret", tags=("private",))
    taken = iter(("deadbeef", "deadbeef", "0badcafe"))
    client.remote.new_id = lambda *_content, **_seed: next(taken)
    made = asyncio.run(client.writer.save(note=None, content=Content("mine", title="Mine"))).note
    assert (made.id, made.content) == ("0badcafe", Content("mine", title="Mine"))
    assert OtherProcess(client.cache).contents()["deadbeef"].text == "secret"


def test_of_many_new_notes_one_whose_id_is_taken_is_refused_as_a_single_one_is(client):
    OtherProcess(client.cache).put("deadbeef", "theirs")
    new = [("deadbeef", Content("ours")), ("0badcafe", Content("new"))]
    refused, made = client.writer.create_all(new)
    with pytest.raises(VersionConflict) as caught:
        asyncio.run(client.writer.revive(*new[0]))
    assert made is None
    assert refused.to_dict() == caught.value.to_dict()
    assert refused.message.endswith("nothing was saved")
    texts = {one: note.text for one, note in OtherProcess(client.cache).contents().items()}
    assert texts == {"deadbeef": "theirs", "0badcafe": "new"}


def test_ids_have_eight_hex_digits_and_another_one_for_each_attempt():
    store = LocalStore(None)
    ids = [store.new_id(Content("x"), seed="s", attempt=attempt) for attempt in range(20)]
    assert len(set(ids)) == 20
    assert all(len(one) == 8 and int(one, 16) >= 0 for one in ids)
    assert ids[3] == store.new_id(Content("y"), seed="s", attempt=3)
