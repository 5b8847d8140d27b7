"""One list shows what is kept here and what the store keeps; undo gives the former text, or refuses."""

import asyncio
import random
from contextlib import nullcontext
from dataclasses import replace

import pytest

from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.audit.chain import OPEN, AuditEntry
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    VersionConflict,
)
from mcp_notarium.library.history import LIMIT, History
from mcp_notarium.storage.audit_log import Act, AuditLog
from mcp_notarium.stores.contract import Versions
from support.memory_client import LIKE_LOCAL, LIKE_SIMPERIUM, LIKE_TRILIUM, Fault
from support.sync_rig import Crash

LISTING = replace(LIKE_LOCAL, versions=Versions.LISTED)
EVERY_KIND = pytest.mark.parametrize(
    "traits",
    [LIKE_LOCAL, LISTING, LIKE_SIMPERIUM, LIKE_TRILIUM],
    ids=["here", "both", "there", "last"],
)
PRIVATE = Visibility(hidden_tags=("private",))


def history(client):
    return History(client.cache, client.remote)


def walk(client, note):
    async def collect():
        return [one async for one in history(client).walk(note.id)]

    return asyncio.run(collect())


def texts(client, note):
    return [one.content.text for one in walk(client, note)]


def save(client, note, text, *, by="agent 1", exact=False, **parts):
    log = AuditLog(client.cache.database, audit_keys(None), clock=lambda: 1.0, days=9)
    act = Act(log, lambda: AuditEntry(at=1.0, act="tool.save", client=by, outcome=OPEN))
    old = note.content if note else Content("")
    content = replace(old, text=text, **parts)
    client.time.now += 1
    saving = client.writer.save(note=note, content=content, act=act, exact=exact)
    return asyncio.run(saving).note


def saved(client, *several, **more):
    note = None
    for text in several:
        note = save(client, note, text, **more)
    return note


def undo(client, note, *, by="agent 1"):
    version = asyncio.run(history(client).read_replaced(note.id, client=by))
    return save(client, client.note(note.id), version.content.text, by=by, exact=True,
                tags=version.content.tags, trash=version.content.trash)  # fmt: skip


@EVERY_KIND
def test_what_saves_here_have_replaced_is_listed_with_its_maker_and_can_be_read(clients, traits):
    client = clients(traits=traits)
    note = save(client, None, "one", by="agent 1")
    note = save(client, note, "two", by="agent 2")
    note = save(client, note, "three", by="agent 3")
    found = walk(client, note)
    assert [(one.content.text, one.made_by) for one in found] == [
        ("three", "agent 3"),
        ("two", "agent 2"),
        ("one", "agent 1"),
    ]
    for one in found:
        assert asyncio.run(history(client).read(note.id, one.name)) == one


@EVERY_KIND
def test_what_was_made_elsewhere_is_listed_where_the_store_keeps_it(clients, store, traits):
    client = clients(traits=traits)
    asyncio.run(client.sync())
    note = saved(client, "one", "two")
    store.put(note.id, "elsewhere", now=client.time.now + 1)
    asyncio.run(client.sync())
    client.time.now += 2
    note = save(client, client.note(note.id), "four")
    store.put(note.id, "elsewhere again", now=client.time.now + 1)
    asyncio.run(client.sync())
    # Where the store keeps nothing, what was written here is kept though others have replaced it.
    assert texts(client, note) == ["elsewhere again", "four", "elsewhere", "two", "one"]


def test_a_version_that_is_kept_here_and_there_is_listed_once(clients):
    client = clients(traits=LISTING)
    note = saved(client, "one", "two", "three")
    assert [one.name for one in walk(client, note)] == [str(note.local_version), "2", "1"]


def test_a_version_is_found_by_its_local_version_too(clients, store):
    client = clients()
    store.put("n", "zero")
    for _ in range(3):
        store.put("n", "more")
    store.kept("n").versions = {4: store.kept("n").versions[4]}
    asyncio.run(client.sync())
    with client.cache.transaction():
        client.cache.notes.raise_version_floor(least=40)
        client.cache.notes.clear()
    asyncio.run(client.scheduler.reset())
    asyncio.run(client.sync())
    before = client.note("n")
    assert before.local_version > 40
    note = save(client, before, "changed")
    found = asyncio.run(history(client).read(note.id, str(before.local_version)))
    assert (found.content.text, found.name) == ("more", "r4")


def test_a_long_history_is_read_page_by_page(client, store):
    note = saved(client, *map(str, range(2 * LIMIT + 3)))
    assert texts(client, note) == [str(number) for number in range(2 * LIMIT + 2, -1, -1)]
    assert client.remote.calls.count("list_versions") == 3


@pytest.mark.parametrize("versions", [Versions.BY_ETAG, Versions.LISTED])
def test_nothing_before_a_version_that_the_rules_hide_is_listed_or_read(clients, store, versions):
    traits = replace(LIKE_SIMPERIUM, versions=versions)
    client = clients(traits=traits, rules=PRIVATE)
    for text, tags in (("secret", ()), ("secret", ("private",)), ("harmless", ()), ("new", ())):
        store.put("n", text, tags=tags)
    asyncio.run(client.sync())
    note = client.note("n")
    assert texts(client, note) == (["new", "harmless"] if versions is Versions.BY_ETAG else ["new"])
    for name in ("r1", "r2", "old-1", "old-2", "old-3"):
        with pytest.raises(NoteNotFound):
            asyncio.run(history(client).read("n", name))


@EVERY_KIND
def test_the_history_of_a_hidden_note_is_that_of_no_note(clients, store, traits):
    client = clients(traits=replace(traits, trash=False), rules=PRIVATE)
    note = saved(client, "one", "two")
    name = walk(client, note)[1].name
    store.put(note.id, "two", tags=("private",))
    asyncio.run(client.sync())
    client.remote.calls.clear()
    assert walk(client, note) == []
    for asked in (name, "1"):
        with pytest.raises(NoteNotFound) as error:
            asyncio.run(history(client).read(note.id, asked))
        with pytest.raises(NoteNotFound) as unknown:
            asyncio.run(history(client).read("n" * len(note.id), asked))
        assert error.value.message == unknown.value.message
    with pytest.raises(InvalidRequest):
        asyncio.run(history(client).read_replaced(note.id, client=None))
    assert client.remote.calls == [], "the store is not asked"


def test_a_note_that_goes_while_the_store_is_asked_shows_nothing(client, store):
    note = saved(client, "one", "two")
    get = client.remote.get

    async def slow(note_id, *, etag=None):
        revision = await get(note_id, etag=etag)
        with client.cache.transaction():
            client.cache.notes.clear()
        return revision

    client.remote.get = slow
    with pytest.raises(NoteNotFound):
        asyncio.run(history(client).read(note.id, "r1"))


@EVERY_KIND
def test_undo_gives_the_former_text_and_once_more_the_later_one(clients, traits):
    client = clients(traits=traits)
    note = saved(client, "one", "two")
    assert undo(client, note).text == "one"
    assert undo(client, note).text == "two"


def test_undo_gives_tags_and_trash_back_too(clients):
    client = clients(traits=LIKE_LOCAL)
    note = saved(client, "one")
    note = save(client, note, "one", tags=("a",), trash=True)
    assert undo(client, note).content == Content("one")


@EVERY_KIND
def test_undo_refuses_when_anything_came_after_and_says_what(clients, store, traits):
    client = clients(traits=traits)
    note = saved(client, "one", "two")
    save(client, note, "by another program", by="agent 2")
    with pytest.raises(VersionConflict):
        undo(client, note)
    store.put(note.id, "elsewhere", now=client.time.now + 1)
    asyncio.run(client.sync())
    for by in ("agent 1", "agent 2"):
        with pytest.raises(VersionConflict):
            undo(client, note, by=by)
    came = asyncio.run(history(client).since(note.id, client="agent 1", most=9))
    assert came[0].content.text == "elsewhere"
    seen = [] if traits.versions is Versions.NONE else ["by another program"]
    assert [one.content.text for one in came[1:]] == seen
    assert client.note(note.id).text == "elsewhere"


def test_undo_refuses_when_something_came_that_is_not_known_here(clients, store):
    client = clients(traits=LIKE_LOCAL)
    note = saved(client, "one\nb\n", "two\nb\n")
    store.edit(note.id, lambda text: text + "elsewhere\n")
    with pytest.raises(VersionConflict):
        undo(client, note)
    assert client.note(note.id).text == store.text(note.id) == "two\nb\nelsewhere\n"


def test_undo_refuses_what_the_store_has_mixed_with_another_edit(client, store):
    note = saved(client, "a\nb\nc\nd\n")
    client.faults.plan(Fault.RACE, on="push", edit=lambda text: text + "theirs\n")
    note = save(client, note, "A\nb\nc\nd\n")
    assert "theirs" in store.text(note.id)
    with pytest.raises(VersionConflict):
        undo(client, note)


def test_what_somebody_wrote_over_ours_before_the_answer_is_not_ours(client, store):
    note = saved(client, "one")
    store.afterwards = lambda fields: fields | {"text": "theirs\n", "modified": 5.0}
    note = save(client, note, "two")
    store.afterwards = None
    assert note.text == store.text(note.id) == "theirs\n"
    assert walk(client, note)[0].made_by == ""
    with pytest.raises(VersionConflict):
        undo(client, note)


@pytest.mark.parametrize("ours", [False, True])
def test_the_same_edit_of_somebody_else_is_not_ours_though_our_answer_is_lost(client, store, ours):
    note = saved(client, "one")
    client.faults.plan(Fault.LOST_ANSWER if ours else Fault.TIMEOUT, on="push")
    with pytest.raises(OutcomeUnknown):
        save(client, note, "two")
    if not ours:
        store.edit(note.id, lambda _: "two")
    asyncio.run(client.sync())
    assert store.text(note.id) == client.note(note.id).text == "two"
    assert client.cache.journal.all() == []
    with nullcontext() if ours else pytest.raises(VersionConflict):
        assert undo(client, note).text == "one"


def test_undo_knows_a_write_that_the_store_itself_has_changed(client, store):
    store.rewrite = lambda fields: fields | {"text": fields["text"].strip()}
    note = saved(client, "one", "two  ")
    assert note.text == "two"
    assert undo(client, note).text == "one"


def test_a_new_note_or_one_of_others_has_nothing_to_undo(client, store):
    note = saved(client, "one")
    store.put("theirs", "text")
    asyncio.run(client.sync())
    for note_id in (note.id, "theirs", "unknown"):
        with pytest.raises(InvalidRequest, match="no change to this note to undo"):
            asyncio.run(history(client).read_replaced(note_id, client="agent 1"))


@pytest.mark.parametrize("step", ["recorded", "pushed", "committed"])
@pytest.mark.parametrize("traits", [LIKE_LOCAL, LIKE_SIMPERIUM], ids=["here", "there"])
def test_a_crash_in_an_undo_leaves_the_former_text_in_the_end(clients, traits, step):
    note = saved(clients(traits=traits), "one", "two")

    def stop(name):
        if name == step:
            raise Crash

    with pytest.raises(Crash):
        undo(clients(traits=traits, on_step=stop), note)
    again = clients(traits=traits, owner_ended=lambda _owner: True)
    asyncio.run(again.run_cycles())
    assert again.note(note.id).text == "one"
    assert undo(again, note).text == "two", "it is a save like any other"


@EVERY_KIND
@pytest.mark.parametrize("seed", range(6))
def test_any_writes_and_then_undo_give_the_former_text_or_refuse(clients, store, traits, seed):
    """Whatever was written, by whom and where: undo brings back what the last save replaced, or nothing."""
    dice = random.Random(f"{seed} {traits.versions}")
    client = clients(traits=traits)
    note = saved(client, "0\nx\ny\n")
    former = after = None
    for number in range(1, 12):
        text = f"{number}\nx\ny\n"
        match dice.choice(["mine", "mine", "another", "elsewhere", "unseen", "lost", "undo"]):
            case "mine":
                former, note = store.text(note.id), save(client, client.note(note.id), text)
                after = note.text
            case "another":
                save(client, client.note(note.id), text, by="agent 2")
            case "elsewhere":
                store.put(note.id, text, now=client.time.now + 1)
                asyncio.run(client.sync())
            case "unseen":
                store.edit(note.id, lambda old: old + "unseen\n")
            case "lost":
                client.faults.plan(Fault.LOST_ANSWER, on="push")
                held = store.text(note.id)
                try:
                    note = save(client, client.note(note.id), text)
                except NotariumError:
                    asyncio.run(client.run_cycles())
                client.faults.clear()
                former = after = None if store.text(note.id) != text else held
                after = text if former is not None else None
            case "undo":
                before = store.text(note.id)
                try:
                    undone = undo(client, note).text
                except (VersionConflict, InvalidRequest):
                    assert store.text(note.id) == before
                    asyncio.run(client.sync())
                    continue
                assert before == after, "nothing had come after the last save"
                assert undone == store.text(note.id) == former
                former, after = after, former
