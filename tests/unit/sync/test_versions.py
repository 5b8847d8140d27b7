"""A save keeps what it replaces, once, and nobody reads the versions of a note that is not there."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.audit.chain import OPEN, AuditEntry
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import NoteNotFound, OutcomeUnknown
from mcp_notarium.library import Library
from mcp_notarium.storage.audit_log import Act, AuditLog
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.sync_progress import SWEEP_PERIOD
from support.memory_client import LIKE_LOCAL, LIKE_SIMPERIUM, Fault
from support.sync_rig import Crash

LOCAL = replace(LIKE_LOCAL, trash=False)


def library(client):
    return Library(client.cache, client.remote, client.writer, client.scheduler)


def versions(client, note):
    """What saves have replaced, newest first, if the note is visible."""
    rows = client.cache.versions.of(note.id) if client.cache.notes.get(note.id) else []
    return [one.local_version for one in rows]


def read(client, note, number):
    return asyncio.run(library(client).history.read(note.id, str(number))).content


def walked(client, note):
    """The whole history, newest first, the present state too."""

    async def walk():
        return [one async for one in library(client).history.walk(note.id)]

    return asyncio.run(walk())


def texts(client, note):
    return [one.content.text for one in walked(client, note)]


@pytest.fixture
def local(clients):
    return clients(traits=LOCAL)


def saved(client, *texts):
    note = asyncio.run(client.create(texts[0], "x"))
    for text in texts[1:]:
        note = asyncio.run(client.change(note, text)).note
    return note


def test_every_text_that_a_save_replaced_can_be_read_and_saved_again(local):
    note = saved(local, "one", "two", "three")
    numbers = versions(local, note)
    assert numbers == [note.local_version - 1, note.local_version - 2]
    assert read(local, note, numbers[1]) == Content("one", ("x",))
    assert read(local, note, numbers[0]) == Content("two", ("x",))
    back = asyncio.run(local.writer.save(note=note, content=read(local, note, numbers[1]))).note
    assert back.text == "one"
    assert len(versions(local, back)) == 3


def test_a_save_that_changes_nothing_and_an_edit_elsewhere_leave_no_version(local, store):
    note = saved(local, "one")
    asyncio.run(local.change(note, "one"))
    store.edit(note.id, lambda text: text + "\nelsewhere")
    asyncio.run(local.sync())
    assert versions(local, note) == []


def test_a_version_says_when_and_for_whom_it_was_replaced(local):
    note = saved(local, "one")
    log = AuditLog(local.cache.database, audit_keys(None), clock=lambda: 1, days=9)
    act = Act(log, lambda: AuditEntry(at=1, act="tool.save", client="agent\n2", outcome=OPEN))
    asyncio.run(local.writer.save(note=note, content=Content("two"), act=act))
    (version,) = local.cache.versions.of(note.id)
    assert (version.replaced_at, version.replaced_by) == (local.time.now, "agent?2")


@pytest.mark.parametrize("step", ["recorded", "pushed", "committed"])
def test_a_crash_at_any_step_leaves_one_version_in_the_end(clients, store, step):
    note = saved(clients(traits=LOCAL), "one")

    def stop(name):
        if name == step:
            raise Crash

    with pytest.raises(Crash):
        asyncio.run(clients(traits=LOCAL, on_step=stop).change(note, "two"))
    again = clients(traits=LOCAL, owner_ended=lambda _owner: True)
    assert len(versions(again, note)) == (step == "committed")
    asyncio.run(again.run_cycles())
    assert again.contents()[note.id].text == "two"
    assert versions(again, note) == [note.local_version]


def test_a_write_without_an_answer_keeps_what_it_replaced_when_it_is_finished(local):
    note = saved(local, "one")
    local.faults.plan(Fault.LOST_ANSWER, on="push")
    with pytest.raises(OutcomeUnknown):
        asyncio.run(local.change(note, "two"))
    assert versions(local, note) == []
    asyncio.run(local.run_cycles())
    assert versions(local, note) == [note.local_version]


def test_what_somebody_else_replaced_while_our_text_became_a_copy_is_no_version(local, store):
    store.put("n", "one")
    asyncio.run(local.sync())
    note = local.note("n")
    local.faults.plan(Fault.TIMEOUT, on="push")
    with pytest.raises(OutcomeUnknown):
        asyncio.run(local.change(note, "mine"))
    store.edit(note.id, lambda _text: "theirs")
    asyncio.run(local.run_cycles())
    assert len(local.contents()) == 2
    assert versions(local, note) == []


def test_where_the_store_keeps_versions_what_was_only_added_to_is_fetched_from_it(client, store):
    note = saved(client, "one", "one\ntwo")
    (number,) = versions(client, note)
    assert client.cache.database.rows("SELECT text FROM note_versions") == [(None,)]
    assert read(client, note, number) == Content("one", ("x",))
    store.forget_versions(note.id)
    with pytest.raises(NoteNotFound):
        read(client, note, number)


def test_what_a_save_took_away_is_kept_here_also_where_the_store_keeps_versions(client, store):
    note = saved(client, "one", "two")
    (number,) = versions(client, note)
    assert client.cache.database.rows("SELECT text FROM note_versions") == [("one",)]
    assert texts(client, note) == ["two", "one"], "each once"
    store.forget_versions(note.id)
    assert read(client, note, number) == Content("one", ("x",))
    assert texts(client, note) == ["two", "one"]


def test_a_number_that_is_not_kept_is_an_error(local):
    note = saved(local, "one", "two")
    for number in (0, -1, note.local_version + 1, 10**30):
        with pytest.raises(NoteNotFound, match="no version of that name"):
            read(local, note, number)


@pytest.mark.parametrize("traits", [LOCAL, LIKE_SIMPERIUM], ids=["kept here", "kept there"])
def test_a_note_that_becomes_hidden_has_no_versions_ever_after(clients, store, traits):
    client = clients(traits=traits, rules=Visibility(hidden_tags=("private",)))
    note = saved(client, "one", "two")
    (number,) = versions(client, note)
    store.put(note.id, "two", tags=("private",))
    asyncio.run(client.sync())
    store.put(note.id, "two")
    asyncio.run(client.sync())
    assert client.note(note.id).text == "two", "it is visible again"
    assert versions(client, note) == []
    assert texts(client, note) == ["two"]
    with pytest.raises(NoteNotFound):
        read(client, note, number)


def test_a_fetched_version_that_the_rules_hide_is_not_shown(clients, store):
    client = clients(rules=Visibility(hidden_tags=("private",)))
    note = saved(client, "one", "two")
    (number,) = versions(client, note)
    store.kept(note.id).versions[1]["tags"] = ["private"]
    with pytest.raises(NoteNotFound):
        read(client, note, number)


def test_a_deleted_note_leaves_no_version(local):
    note = saved(local, "one", "two")
    asyncio.run(local.writer.remove(note))
    assert local.cache.database.number("SELECT count(*) FROM note_versions") == 0
    assert versions(local, note) == []


def test_versions_survive_an_emptied_index_and_answer_when_the_note_is_there_again(local):
    note = saved(local, "one", "two")
    before = versions(local, note)
    asyncio.run(local.scheduler.reset())
    assert versions(local, note) == []
    asyncio.run(local.sync())
    assert versions(local, note) == before
    assert read(local, note, before[0]).text == "one"


def test_versions_of_a_note_that_went_while_the_index_was_empty_go_with_the_next_sweep(
    local, store
):
    gone, there = saved(local, "one", "two"), saved(local, "eins", "zwei")
    asyncio.run(local.scheduler.reset())
    store.remove(gone.id)
    asyncio.run(local.sync())
    local.time.now += SWEEP_PERIOD + 1
    asyncio.run(local.sync())
    assert local.cache.versions.of(gone.id) == []
    assert len(versions(local, there)) == 1


def test_versions_of_a_note_that_cannot_be_read_now_stay(local, store):
    note = saved(local, "one", "two")
    asyncio.run(local.scheduler.reset())
    local.faults.plan(Fault.WITHOUT_CONTENT, on="list_page", times=9)
    local.faults.plan(Fault.NONSENSE, on="get", times=9)
    asyncio.run(local.sync())
    local.time.now += SWEEP_PERIOD + 1
    asyncio.run(local.sync())
    assert local.cache.notes.get(note.id) is None
    assert local.cache.sync_state.get("sync.swept_at"), "it was swept"
    assert len(local.cache.versions.of(note.id)) == 1


def test_versions_expire_while_servers_run_and_nobody_saves(local):
    note = saved(local, "one", "two")
    local.time.now += 91 * 86_400
    asyncio.run(local.sync())
    assert versions(local, note) == []


def test_rules_that_hide_a_note_take_its_versions_with_it(local):
    note = saved(local, "one", "two")
    apply_rules(Cache(local.cache.database, Visibility(hidden_ids=(note.id,))))
    assert local.cache.database.number("SELECT count(*) FROM note_versions") == 0
