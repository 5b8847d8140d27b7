"""What a save has written stays restorable after another program replaces or removes it, in stores without versions."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.audit.chain import OPEN, AuditEntry
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NoteNotFound, OutcomeUnknown, VersionConflict
from mcp_notarium.library.history import History
from mcp_notarium.storage.audit_log import Act, AuditLog
from mcp_notarium.storage.version_table import VersionLimits
from mcp_notarium.stores.contract import Changes, Retry, Traits, Versions, WriteGuard
from support.memory_client import Fault

WITHOUT_VERSIONS = Traits(Changes.SNAPSHOT, WriteGuard.CAS, Retry.ASK, titles=True)


def texts(client, note_id):
    kept = client.cache.versions
    return [kept.get(note_id, row.local_version)[1].text for row in kept.of(note_id)]


@pytest.fixture
def agent(clients, store):
    store.put("n", "theirs\n", title="T")
    client = clients(traits=WITHOUT_VERSIONS)
    asyncio.run(client.sync())
    return client


def save(client, note_id, text, title="T", *, by=""):
    content = replace(client.note(note_id).content, text=text, title=title)
    log = AuditLog(client.cache.database, audit_keys(None), clock=lambda: 1.0, days=9)
    act = Act(log, lambda: AuditEntry(at=1.0, act="tool.save", client=by, outcome=OPEN))
    saving = client.writer.save(note=client.note(note_id), content=content, act=act)
    return asyncio.run(saving).note


@pytest.mark.parametrize("seen_by", ["sync", "the next save"])
def test_a_text_of_ours_that_another_program_replaces_is_a_version(agent, store, seen_by):
    save(agent, "n", "ours\n")
    note = save(agent, "n", "ours, again\n")
    store.put("n", "from an old buffer\n", title="T")
    if seen_by == "sync":
        asyncio.run(agent.sync())
    else:
        with pytest.raises(VersionConflict):
            save(agent, "n", "ours, once more\n")
    assert texts(agent, "n") == ["ours, again\n", "ours\n", "theirs\n"]
    assert agent.cache.versions.of("n")[0].local_version == note.local_version
    store.put("n", "theirs, later\n", title="T")
    asyncio.run(agent.sync())
    assert len(texts(agent, "n")) == 3, "what others write is not kept"


def test_a_new_note_of_ours_is_kept_too_and_its_title(agent, store):
    made = asyncio.run(agent.create("made here\n"))
    store.put(made.id, "made here\n", title="theirs")
    asyncio.run(agent.sync())
    assert texts(agent, made.id) == ["made here\n"]


def test_a_change_of_anything_else_leaves_the_text_ours(agent, store):
    save(agent, "n", "ours\n")
    store.put("n", "ours\n", title="T", tags=("x",))
    asyncio.run(agent.sync())
    assert texts(agent, "n") == ["theirs\n"]
    store.put("n", "theirs again\n", title="T")
    asyncio.run(agent.sync())
    assert texts(agent, "n") == ["ours\n", "theirs\n"]


def test_undo_does_not_take_such_a_version_for_what_a_save_has_replaced(agent, store):
    save(agent, "n", "ours\n")
    store.put("n", "from an old buffer\n", title="T")
    asyncio.run(agent.sync())
    history = History(agent.cache, agent.remote)
    for client in (None, ""):
        with pytest.raises(VersionConflict, match="nothing was undone"):
            asyncio.run(history.read_replaced("n", client=client))


@pytest.mark.parametrize("kind", ["made", "changed"])
def test_a_note_of_ours_that_an_older_copy_lacks_can_be_made_again(agent, store, kind):
    note = asyncio.run(agent.create("ours\n")) if kind == "made" else save(agent, "n", "ours\n")
    store.remove(note.id)
    asyncio.run(agent.sync())
    assert agent.cache.notes.get(note.id) is None
    (kept,) = History(agent.cache, agent.remote).read_removed(note.id)
    assert kept.content.wording == note.content.wording
    made = asyncio.run(agent.writer.revive(note.id, kept.content)).note
    assert (made.id, made.content) == (note.id, note.content)
    assert store.contents()[note.id] == note.content


@pytest.mark.parametrize("waiting", ["a tag", "nothing"])
def test_a_note_of_ours_that_goes_while_a_write_of_it_waits_can_be_made_again(
    agent, store, waiting
):
    async def scenario():
        note = (await agent.change(agent.note("n"), "ours\n")).note
        if waiting == "a tag":
            agent.faults.plan(Fault.TIMEOUT, on="push")
            tagged = replace(note.content, tags=("x",))
            with pytest.raises(OutcomeUnknown):
                await agent.writer.save(note=note, content=tagged)
        store.remove("n")
        for _ in range(2):  # two saves that had begun
            with pytest.raises(NoteNotFound):
                await agent.change(note, "ours, again\n")
        await agent.run_cycles(2)

    asyncio.run(scenario())
    (kept,) = History(agent.cache, agent.remote).read_removed("n")
    assert kept.content.text == "ours\n"


def test_a_note_of_others_or_in_the_trash_that_is_removed_leaves_nothing(clients, store):
    store.put("n", "theirs\n", title="T")
    client = clients(traits=replace(WITHOUT_VERSIONS, trash=True))
    asyncio.run(client.sync())
    trashed = asyncio.run(client.create("ours\n"))
    content = replace(trashed.content, trash=True)
    asyncio.run(client.writer.save(note=trashed, content=content))
    for note_id in ("n", trashed.id):
        store.remove(note_id)
    asyncio.run(client.sync())
    history = History(client.cache, client.remote)
    assert [history.read_removed(one) for one in ("n", trashed.id)] == [[], []]


@pytest.mark.parametrize("act", ["change", "tag", "remove"])
@pytest.mark.parametrize("ends", ["replaced", "removed"])
def test_what_others_wrote_beside_a_write_in_doubt_is_not_kept(clients, store, act, ends):
    client = clients(traits=WITHOUT_VERSIONS)

    async def scenario():
        store.put("n", "base\n")
        await client.sync()
        fault = Fault.LOST_ANSWER if act == "tag" else Fault.TIMEOUT
        client.faults.plan(fault, on="delete" if act == "remove" else "push")
        note, writer = client.note("n"), client.writer
        begun = {
            "change": lambda: client.change(note, "ours\n"),
            "tag": lambda: writer.save(note=note, content=replace(note.content, tags=("ours",))),
            "remove": lambda: writer.remove(note),
        }[act]()
        with pytest.raises(OutcomeUnknown):
            await begun
        store.edit("n", lambda _text: "their secret\n", now=5.0)
        await client.run_cycles(2)
        if ends == "replaced":
            store.put("n", "taken away\n")
        else:
            store.remove("n")
        await client.run_cycles(2)

    asyncio.run(scenario())
    kept = client.cache.database.rows("SELECT text FROM note_versions WHERE text IS NOT NULL")
    assert "their secret\n" not in [row[0] for row in kept]
    assert History(client.cache, client.remote).read_removed("n") == []


@pytest.mark.parametrize("versions", [Versions.LISTED, Versions.BY_ETAG])
def test_a_store_that_need_not_keep_each_revision_leaves_ours_to_us_with_its_author(
    clients, store, versions
):
    store.put("n", "theirs\n", title="T")
    client = clients(traits=replace(WITHOUT_VERSIONS, versions=versions))
    asyncio.run(client.sync())
    save(client, "n", "ours\n", by="agent 1")
    store.put("n", "theirs again\n", title="T")
    asyncio.run(client.sync())
    kept = [row.local_version for row in client.cache.versions.of("n")]
    assert len(kept) == (2 if versions is Versions.LISTED else 1)

    async def walk():
        return [one async for one in History(client.cache, client.remote).walk("n")]

    made = [(one.content.text, one.made_by) for one in asyncio.run(walk())]
    assert made == [("theirs again\n", ""), ("ours\n", "agent 1"), ("theirs\n", "")]
    store.remove("n")
    asyncio.run(client.sync())
    assert History(client.cache, client.remote).read_removed("n") == []


def test_no_version_is_kept_if_none_is_wanted(agent, store):
    agent.cache.versions.limits = VersionLimits(days=0)
    save(agent, "n", "ours\n")
    store.put("n", "theirs again\n", title="T")
    asyncio.run(agent.sync())
    assert texts(agent, "n") == []
    assert agent.contents() == {"n": Content("theirs again\n", title="T")}
