"""A store that names its notes may rename them: the note stays one, under either name."""

import asyncio

import pytest

from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.library.history import History
from mcp_notarium.stores.contract import Entry
from mcp_notarium.sync.cycle_states import State
from mcp_notarium.sync.pull_decisions import find_renamed
from support.memory_client import LIKE_VAULT, Fault
from support.sync_rig import open_cache, raced


@pytest.fixture
def vault(clients, store):
    """A client that has loaded two notes."""
    store.put("a.md", "Plan\nof a\n")
    store.put("b.md", "Plan\nof b\n")
    client = clients(traits=LIKE_VAULT)
    asyncio.run(client.sync())
    return client


def test_a_renamed_note_answers_to_both_names_under_a_version_that_neither_had(vault, store):
    before = vault.note("a.md")
    store.rename("a.md", "c.md")
    assert asyncio.run(vault.sync()) is State.IDLE
    assert set(vault.contents()) == {"b.md", "c.md"}
    for name in ("a.md", "c.md"):
        found = vault.note(name)
        assert found.id == "c.md"
        assert found.local_version > before.local_version
    assert vault.remote.calls.count("get") == 0, "nothing had to be fetched"


def test_a_note_that_was_renamed_and_edited_is_one_note_with_the_new_text(vault, store):
    before = vault.note("a.md")
    store.rename("a.md", "c.md")
    store.edit("c.md", lambda text: text + "more\n")
    asyncio.run(vault.sync())
    found = vault.note("a.md")
    assert (found.id, found.text) == ("c.md", "Plan\nof a\nmore\n")
    assert found.local_version > before.local_version


def test_a_note_is_saved_by_the_name_that_the_agent_knew(vault, store):
    store.rename("a.md", "c.md")
    asyncio.run(vault.sync())
    saved = asyncio.run(vault.change(vault.note("a.md"), "Plan\nchanged\n"))
    assert saved.note.id == "c.md"
    assert store.text("c.md") == "Plan\nchanged\n"


def test_what_was_read_before_the_renaming_is_known_as_the_base_of_a_late_save(vault, store):
    before = vault.note("a.md")
    store.rename("a.md", "c.md")
    asyncio.run(vault.sync())
    history = History(vault.cache, vault.remote)
    found = asyncio.run(history.content_at(vault.note("a.md").id, before.local_version))
    assert found == before.content
    store.put("a.md", "Another note of the old name\n")
    asyncio.run(vault.sync())
    assert asyncio.run(history.content_at("a.md", before.local_version)) is None


@pytest.mark.parametrize("gone", [True, False])
def test_no_name_ever_has_a_version_twice_for_two_texts(vault, store, gone):
    seen = {}

    def look():
        for note_id in store.ids():
            note = vault.note(note_id)
            assert seen.setdefault((note_id, note.local_version), note.text) == note.text

    asyncio.run(vault.sync())
    look()
    if gone:
        store.remove("b.md")
        asyncio.run(vault.sync())
        store.rename("a.md", "b.md")
    else:
        store.rename("a.md", "c.md")
        asyncio.run(vault.sync())
        store.put("a.md", "another\n")
    asyncio.run(vault.sync())
    look()


@pytest.mark.parametrize("known", [True, False])
def test_a_note_that_was_renamed_is_never_said_to_be_deleted(vault, store, known):
    note = vault.note("a.md")
    store.rename("a.md", "c.md")
    if known:
        asyncio.run(vault.sync())
    with pytest.raises(NotariumError):
        asyncio.run(vault.writer.remove(note))
    assert store.ids() == {"b.md", "c.md"}


@pytest.mark.parametrize("late", [False, True], ids=["before the call", "right before the push"])
def test_before_the_rename_is_known_nothing_is_written_and_nothing_of_the_note_is_forgotten(
    vault, store, late
):
    kept = asyncio.run(vault.change(vault.note("a.md"), "Plan\nchanged\n")).note
    if late:

        def rename():
            store.rename("a.md", "c.md")
            raise NoteNotFound("no such file")

        raced(vault, rename)
    else:
        store.rename("a.md", "c.md")
    with pytest.raises(NoteNotFound) as refusal:
        asyncio.run(vault.change(kept, "Plan\nchanged again\n"))
    assert "renamed" in refusal.value.resolution_hint
    assert store.ids() == {"b.md", "c.md"}
    asyncio.run(vault.sync())
    assert vault.contents() == store.contents()
    assert vault.note("a.md").id == "c.md"
    (version,) = vault.cache.versions.of("c.md")
    _, content = vault.cache.versions.get("c.md", version.local_version)
    assert content.text == "Plan\nof a\n"


async def unanswered(vault, name, text, fault=Fault.TIMEOUT):
    """A change of the note (None: a new one) whose answer never came."""
    vault.faults.plan(fault, on="push")
    note = None if name is None else vault.note(name)
    with pytest.raises(OutcomeUnknown):
        await vault.writer.save(note=note, content=Content(text))


def settled(vault, store):
    return vault.contents() == store.contents() and not vault.cache.journal.all()


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER])
@pytest.mark.parametrize("edited", [False, True])
def test_an_unfinished_write_follows_its_note(vault, store, fault, edited):
    async def scenario():
        await unanswered(vault, "a.md", "Plan\nchanged\n", fault)
        store.rename("a.md", "c.md")
        if edited:
            store.edit("c.md", lambda text: f"theirs\n{text}")
        await vault.sync()

    asyncio.run(scenario())
    assert store.ids() == {"b.md", "c.md"}
    assert store.text("c.md") == "theirs\n" * edited + "Plan\nchanged\n"
    assert settled(vault, store)


def test_a_write_whose_note_is_renamed_again_behind_the_listing_waits_for_the_next_one(
    vault, store
):
    async def scenario():
        await unanswered(vault, "a.md", "Plan\nchanged\n")
        store.rename("a.md", "c.md")
        list_page = vault.remote.list_page

        async def renamed_meanwhile(**asked):
            page = await list_page(**asked)
            if "c.md" in store.ids():
                store.rename("c.md", "d.md")
            return page

        vault.remote.list_page = renamed_meanwhile
        await vault.sync()
        assert [write.note_id for write in vault.cache.journal.all()] == ["c.md"]
        await vault.sync()

    asyncio.run(scenario())
    assert store.ids() == {"b.md", "d.md"}
    assert store.text("d.md") == "Plan\nchanged\n"
    assert settled(vault, store)


@pytest.mark.parametrize("taken", [False, True])
def test_an_unanswered_creation_that_was_renamed_is_not_made_again(vault, store, taken):
    async def scenario():
        await unanswered(vault, None, "New\nmine\n", Fault.LOST_ANSWER)
        store.rename("New.md", "c.md")
        if taken:
            store.put("New.md", "New\nof somebody else\n")
        await vault.run_cycles(2)

    asyncio.run(scenario())
    assert [text for text in store.contents().values() if "mine" in text.text] == [
        Content("New\nmine\n")
    ]
    assert settled(vault, store)


def test_an_unanswered_creation_is_made_although_an_older_note_says_the_same(vault, store):
    asyncio.run(unanswered(vault, None, "Plan\nof a\n"))
    asyncio.run(vault.sync())
    assert store.ids() == {"a.md", "b.md", "Plan.md"}
    assert settled(vault, store)


def test_an_unanswered_creation_that_is_sent_again_before_a_listing_is_in_doubt_and_made_once(
    vault, store
):
    async def scenario():
        await unanswered(vault, None, "New\nmine\n", Fault.LOST_ANSWER)
        store.rename("New.md", "c.md")
        with pytest.raises(OutcomeUnknown):
            await vault.create("New\nmine\n")
        await vault.sync()

    asyncio.run(scenario())
    assert store.ids() == {"a.md", "b.md", "c.md"}
    assert settled(vault, store)


def test_a_note_with_an_unfinished_write_that_is_not_found_is_not_written_before_a_listing(
    vault, store
):
    async def scenario():
        await unanswered(vault, "a.md", "Plan\nchanged\n")
        store.rename("a.md", "c.md")
        with pytest.raises(StoreUnavailable, match="still unanswered; nothing was saved"):
            await vault.change(vault.note("a.md"), "Plan\nchanged twice\n")
        await vault.sync()
        await vault.change(vault.note("a.md"), "Plan\nchanged twice\n")

    asyncio.run(scenario())
    assert store.ids() == {"b.md", "c.md"}
    assert store.text("c.md") == "Plan\nchanged twice\n"
    assert settled(vault, store)


def test_the_text_for_a_removed_note_becomes_a_copy_once_a_listing_was_read(vault, store):
    async def scenario():
        await unanswered(vault, "a.md", "Plan\nchanged\n")
        store.remove("a.md")
        vault.faults.plan(Fault.UNAVAILABLE, on="list_page")
        await vault.sync()
        assert store.ids() == {"b.md"}
        vault.time.now += 10
        await vault.run_cycles(2)

    asyncio.run(scenario())
    assert sorted(text.text for text in store.contents().values()) == [
        f"{MARK}Plan\nchanged\n",
        "Plan\nof b\n",
    ]
    assert settled(vault, store)


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.LOST_ANSWER])
def test_an_unanswered_removal_of_a_note_that_was_renamed_leaves_it(vault, store, fault):
    async def scenario():
        vault.faults.plan(fault, on="delete")
        with pytest.raises(OutcomeUnknown):
            await vault.writer.remove(vault.note("a.md"))
        if fault is Fault.TIMEOUT:
            store.rename("a.md", "c.md")
        await vault.run_cycles(2)

    asyncio.run(scenario())
    assert store.ids() == {"b.md"} | ({"c.md"} if fault is Fault.TIMEOUT else set())
    assert settled(vault, store)


def test_names_follow_a_note_over_several_renames_and_a_new_note_takes_an_old_name(vault, store):
    for old, new in (("a.md", "c.md"), ("c.md", "d.md")):
        store.rename(old, new)
        asyncio.run(vault.sync())
    assert vault.note("a.md").id == vault.note("c.md").id == "d.md"
    store.put("a.md", "another\n")
    asyncio.run(vault.sync())
    assert vault.note("a.md").text == "another\n"
    assert vault.note("c.md").id == "d.md"


def test_a_folder_of_renamed_notes_is_no_mass_loss(clients, store):
    for number in range(40):
        store.put(f"old/{number}.md", f"note {number}\n")
    client = clients(traits=LIKE_VAULT)
    asyncio.run(client.sync())
    for number in range(40):
        store.rename(f"old/{number}.md", f"new/{number}.md")
    assert asyncio.run(client.sync()) is State.IDLE
    assert client.contents() == store.contents()
    assert client.note("old/7.md").id == "new/7.md"


def test_a_rule_on_an_id_follows_the_note_it_named(clients, store):
    store.put("secret.md", "hidden\n")
    store.put("open.md", "seen\n")
    client = clients(traits=LIKE_VAULT, rules=Visibility(hidden_ids=("secret.md",)))
    asyncio.run(client.sync())
    assert set(client.contents()) == {"open.md"}
    store.rename("secret.md", "renamed.md")
    client.remote.calls.clear()
    asyncio.run(client.sync())
    assert "get" not in client.remote.calls, "the hidden note is known under its new name"
    store.edit("renamed.md", lambda text: text + "still hidden\n")
    for _ in range(2):
        asyncio.run(client.sync())
        assert set(client.contents()) == {"open.md"}
        assert client.cache.notes.get("renamed.md") is None
        assert client.cache.notes.get("secret.md") is None
    store.put("secret.md", "another one under the name of the rule\n")
    asyncio.run(client.sync())
    assert set(client.contents()) == {"open.md"}


def test_a_rule_follows_every_note_that_ever_had_its_name(clients, store):
    store.put("secret.md", "the first\n")
    client = clients(traits=LIKE_VAULT, rules=Visibility(hidden_ids=("secret.md",)))
    asyncio.run(client.sync())
    for number in range(3):
        store.rename("secret.md", f"open {number}.md")
        asyncio.run(client.sync())
        store.put("secret.md", f"the next, {number}\n")
        asyncio.run(client.sync())
    for number in range(3):
        store.edit(f"open {number}.md", lambda text: text + "edited\n")
    asyncio.run(client.sync())
    assert client.contents() == {}


def test_a_file_that_was_written_anew_with_the_same_text_is_followed_too(clients, store):
    store.put("secret.md", "hidden\n")
    store.put("plain.md", "seen\n")
    client = clients(traits=LIKE_VAULT, rules=Visibility(hidden_ids=("secret.md",)))
    asyncio.run(client.sync())
    for name in ("secret.md", "plain.md"):
        store.write_anew(name)
    asyncio.run(client.sync())
    store.rename("secret.md", "b.md")
    store.rename("plain.md", "c.md")
    asyncio.run(client.sync())
    assert set(client.contents()) == {"c.md"}
    assert client.note("plain.md").id == "c.md"


def test_the_last_notes_of_a_small_store_may_go(vault, store):
    store.remove("a.md")
    store.remove("b.md")
    assert asyncio.run(vault.sync()) is State.IDLE
    assert vault.contents() == {}


def test_old_names_survive_a_restart(vault, store):
    store.rename("a.md", "c.md")
    asyncio.run(vault.sync())
    vault.close()
    cache = open_cache(vault.folder)
    assert cache.notes.get("a.md").content == Content("Plan\nof a\n")
    cache.close()


def entry(note_id, identity):
    return Entry(note_id, "r1", identity=identity)


@pytest.mark.parametrize(
    ("known", "listed", "renamed"),
    [
        ({"a": "1"}, [("b", "1")], {"a": "b"}),
        ({"a": "1"}, [("b", "2")], {}),
        ({"a": "1"}, [("b", None)], {}),
        ({"a": "1"}, [("a", "1"), ("b", "1")], {}),
        ({"a": "1", "b": "1"}, [("c", "1")], {}),
        ({"a": "1"}, [("b", "1"), ("c", "1")], {}),
        ({"a": "1", "b": "2"}, [("b", "1"), ("a", "2")], {}),
    ],
)
def test_a_rename_needs_one_note_that_went_and_one_that_came(known, listed, renamed):
    etags = dict.fromkeys(known, "r1")
    assert find_renamed(etags, known, [entry(*one) for one in listed]) == renamed


ALIKE = "\n".join(f"line {number}" for number in range(9)) + "\n"


@pytest.fixture
def alike(clients, store):
    """A client that has loaded two notes that differ in one line."""
    for name in ("a", "b"):
        store.put(f"{name}.md", f"{ALIKE}of {name}\n")
    client = clients(traits=LIKE_VAULT)
    asyncio.run(client.sync())
    return client


def edited(text):
    return text.replace("line 1\n", "line 1, edited\n")


@pytest.mark.parametrize("gone", [False, True])
def test_an_edit_is_not_merged_into_another_note_that_has_the_name_by_now(alike, store, gone):
    note = alike.note("a.md")
    if gone:
        store.move_over("b.md", "a.md")
    else:
        store.exchange("a.md", "b.md")
    with pytest.raises(VersionConflict):
        asyncio.run(alike.change(note, edited(note.text)))
    assert store.text("a.md") == f"{ALIKE}of b\n"
    again = alike.note("a.md")
    assert asyncio.run(alike.change(again, edited(again.text))).note.text == edited(again.text)


@pytest.mark.parametrize("swept", [False, True])
def test_nor_is_an_edit_that_was_never_answered(alike, store, swept):
    note = alike.note("a.md")
    alike.faults.plan(Fault.TIMEOUT, on="push")
    with pytest.raises(OutcomeUnknown):
        asyncio.run(alike.change(note, edited(note.text)))
    store.exchange("a.md", "b.md")
    if swept:  # the replay comes before the listing
        alike.faults.plan(Fault.NONSENSE, on="get")
    alike.time.now += 1000
    asyncio.run(alike.run_cycles(4))
    assert store.text("a.md") == f"{ALIKE}of b\n"
    assert store.text("b.md") == f"{ALIKE}of a\n"
    (copy,) = store.ids() - {"a.md", "b.md"}
    assert edited(note.text) in store.text(copy)
    assert alike.contents() == store.contents()


def test_nor_into_one_that_says_the_same(clients, store):
    """What is written goes by the file, not by the text."""
    client = clients(traits=LIKE_VAULT)
    for name in ("a.md", "b.md"):
        store.put(name, "same\n")
    asyncio.run(client.sync())
    store.exchange("a.md", "b.md")
    with pytest.raises(VersionConflict):
        asyncio.run(client.change(client.note("a.md"), "same\nours\n"))
    assert store.text("a.md") == store.text("b.md") == "same\n"


def test_a_change_in_doubt_has_not_arrived_in_another_note_that_says_it(clients, store):
    client = clients(traits=LIKE_VAULT)
    store.put("a.md", "one\n")
    store.put("b.md", "one\nours\n")
    asyncio.run(client.sync())
    client.faults.plan(Fault.TIMEOUT, on="push")
    with pytest.raises(OutcomeUnknown):
        asyncio.run(client.change(client.note("a.md"), "one\nours\n"))
    store.exchange("a.md", "b.md")
    asyncio.run(client.run_cycles(3))
    assert sum("ours" in content.text for content in store.contents().values()) == 2
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def test_an_edit_is_merged_into_a_note_that_was_written_anew(alike, store):
    note = alike.note("a.md")
    store.edit("a.md", lambda text: text + "more\n")
    store.write_anew("a.md")
    saved = asyncio.run(alike.change(note, edited(note.text)))
    assert saved.note.text == edited(note.text) + "more\n"


def test_another_note_that_takes_the_name_right_before_the_push_is_put_back(alike, store):
    note = alike.note("a.md")
    raced(alike, lambda: store.exchange("a.md", "b.md"))
    saved = asyncio.run(alike.change(note, edited(note.text)))
    assert store.text("a.md") == f"{ALIKE}of b\n"
    assert edited(note.text) in store.text(saved.copy_id)
    asyncio.run(alike.run_cycles(2))
    assert alike.contents() == store.contents()


def test_another_note_that_takes_the_name_right_after_the_push_stays_as_it_is(alike, store):
    note = alike.note("a.md")
    raced(alike, lambda: None, after=lambda: store.exchange("a.md", "b.md"))
    saved = asyncio.run(alike.change(note, edited(note.text)))
    assert (saved.note.text, saved.merged) == (edited(note.text), False)
    asyncio.run(alike.run_cycles(2))
    assert store.text("a.md") == f"{ALIKE}of b\n"
    assert store.text("b.md") == edited(note.text)
    assert settled(alike, store)


def test_what_is_to_be_put_back_becomes_a_copy_if_it_meets_another_edit(alike, store):
    note, push = alike.note("a.md"), alike.remote.push

    async def another_edit(_write):
        alike.remote.push = push
        store.edit("a.md", lambda text: text.replace("line 2\n", "line 2, once more\n"))
        raise StoreUnavailable("no network")

    def take_its_name():
        store.exchange("a.md", "b.md")

    raced(alike, take_its_name, after=lambda: setattr(alike.remote, "push", another_edit))
    with pytest.raises(OutcomeUnknown):  # its copy waits as well
        asyncio.run(alike.change(note, edited(note.text)))
    alike.time.now += 1000
    asyncio.run(alike.run_cycles(4))
    texts = [content.text for content in store.contents().values()]
    assert [text for text in texts if text.endswith("of b\n") and "edited" not in text]
    assert [text for text in texts if edited(note.text) in text]
    assert settled(alike, store)


def test_a_note_that_is_renamed_right_after_the_push_is_saved_and_remembered(vault, store):
    note = vault.note("a.md")
    raced(vault, lambda: None, after=lambda: store.rename("a.md", "c.md"))
    saved = asyncio.run(vault.change(note, "Plan\nchanged\n"))
    assert saved.note.text == "Plan\nchanged\n"
    asyncio.run(vault.sync())
    assert vault.contents() == store.contents()
    assert vault.note("a.md").id == "c.md"
    assert vault.cache.versions.of("c.md")
