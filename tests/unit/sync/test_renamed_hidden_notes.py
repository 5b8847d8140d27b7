"""What a rule hides stays hidden, whatever is renamed, whenever."""

import asyncio
import re
from functools import partial

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import CacheFull, NoteNotFound, OutcomeUnknown
from mcp_notarium.storage import table_copy
from mcp_notarium.storage.cache import Cache
from mcp_notarium.sync.listing_pages import reload_index
from support.cache_room import make
from support.memory_client import LIKE_VAULT, Fault
from support.sync_rig import raced

SECRET = Visibility(hidden_ids=("secret.md",))
PRIVATE = Visibility(hidden_tags=("private",))


@pytest.fixture
def vault(clients, store):
    """A client under a rule on one of two notes, loaded."""
    store.put("secret.md", "the code is 1234\n")
    store.put("open.md", "the code is known\n")
    client = clients(traits=LIKE_VAULT, rules=SECRET)
    asyncio.run(client.sync())
    assert set(client.contents()) == {"open.md"}
    return client


def looks(client, cycles=2):
    """Sync and give what can be seen, by every name."""
    seen = set()
    for _ in range(cycles):
        asyncio.run(client.sync())
        seen |= client.contents().keys()
    for note_id in ("secret.md", "open.md", "a.md", "b.md"):
        note = client.cache.notes.get(note_id)
        assert note is None or "1234" not in note.text
    return seen


def reset(client):
    asyncio.run(reload_index(client.cache, client.remote))


def other_codec(client):
    client.remote.codec_version += 1


LOSSES = {"reset": reset, "codec": other_codec, "nothing": lambda _client: None}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_a_note_renamed_while_nobody_looked_stays_hidden_though_the_index_is_emptied(
    vault, store, lose
):
    store.rename("secret.md", "a.md")
    lose(vault)
    assert looks(vault) == {"open.md"}
    store.write_anew("a.md")
    assert looks(vault) == {"open.md"}
    lose(vault)
    store.rename("a.md", "b.md")
    assert looks(vault) == {"open.md"}


def test_the_state_that_a_repair_saves_keeps_it_hidden(vault, store, tmp_path):
    (tmp_path / "new").mkdir(mode=0o700)
    saved = make(tmp_path / "new")
    damaged = vault.cache.database
    table_copy.salvage(damaged.open_another, saved.database, without=frozenset())
    store.rename("secret.md", "a.md")
    (revision,) = [asyncio.run(vault.remote.get("a.md"))]
    ruled = Cache(saved.database, SECRET)
    with ruled.transaction():
        ruled.notes.apply([revision])
    assert ruled.notes.etags() == {}
    saved.close()


def test_another_rule_beside_it_changes_nothing_and_its_end_shows_the_note(vault, store, clients):
    store.rename("secret.md", "a.md")
    vault.close()
    wider = Visibility(hidden_ids=("other.md", "secret.md"))
    client = clients(traits=LIKE_VAULT, rules=wider)
    assert looks(client) == {"open.md"}
    client.close()
    client = clients(traits=LIKE_VAULT, rules=PRIVATE)
    assert client.cache.database.rows("SELECT * FROM hidden_names") == []
    asyncio.run(client.sync())
    assert set(client.contents()) == {"open.md", "a.md"}


def test_a_rule_finds_a_note_by_a_name_that_it_had_before_the_rule(clients, store):
    store.put("secret.md", "1234\n")
    client = clients(traits=LIKE_VAULT)
    asyncio.run(client.sync())
    store.rename("secret.md", "a.md")
    asyncio.run(client.sync())
    assert client.note("secret.md").id == "a.md"
    client.close()
    client = clients(traits=LIKE_VAULT, rules=SECRET)
    reset(client)
    assert looks(client) == set()


@pytest.mark.parametrize("twice", [False, True])
def test_exchanged_with_a_visible_note_it_stays_hidden(vault, store, twice):
    for _ in range(1 + twice):
        store.exchange("secret.md", "open.md")
        asyncio.run(vault.sync())
        assert vault.contents() == {}
    assert looks(vault) == set()


def test_moved_over_a_visible_note_of_the_same_text_it_stays_hidden(vault, store):
    store.put("open.md", store.text("secret.md"))
    asyncio.run(vault.sync())
    assert set(vault.contents()) == {"open.md"}
    store.move_over("secret.md", "open.md")
    assert looks(vault) == set()


def test_moved_over_a_visible_note_and_written_anew_before_it_is_fetched_it_stays_hidden(
    vault, store
):
    store.move_over("secret.md", "open.md")
    vault.faults.plan(Fault.UNAVAILABLE, on="get")  # between the listing and the note
    asyncio.run(vault.sync())
    store.write_anew("open.md")
    assert looks(vault) == set()


def test_a_note_hidden_by_its_tag_that_changes_places_with_a_visible_one_stays_hidden(
    clients, store
):
    store.put("a.md", "1234\n", tags=["private"])
    store.put("b.md", "seen\n")
    client = clients(traits=LIKE_VAULT, rules=PRIVATE)
    asyncio.run(client.sync())
    store.exchange("a.md", "b.md")
    client.remote.calls.clear()
    assert looks(client) == {"a.md"}
    assert client.note("b.md").id == "a.md", "a rename, as if there were no other note"
    assert "get" not in client.remote.calls
    store.move_over("b.md", "a.md")
    assert looks(client) == set()


def test_a_visible_note_moved_over_a_hidden_one_is_renamed(clients, store):
    store.put("a.md", "1234\n", tags=["private"])
    store.put("b.md", "seen\n")
    client = clients(traits=LIKE_VAULT, rules=PRIVATE)
    asyncio.run(client.sync())
    store.move_over("b.md", "a.md")
    client.remote.calls.clear()
    assert looks(client) == {"a.md"}
    assert client.note("b.md").text == "seen\n"
    assert "get" not in client.remote.calls


@pytest.mark.parametrize("taken", ["", "Plan.md", "by a rule"])
def test_the_id_of_a_new_note_does_not_tell_whether_a_hidden_note_has_its_name(
    clients, store, taken
):
    if taken:
        store.put("Plan.md", "1234\n", tags=["private"])
    hidden_ids = ("Plan.md",) if taken == "by a rule" else ()
    rules = Visibility(hidden_tags=("private",), hidden_ids=hidden_ids)
    client = clients(traits=LIKE_VAULT, rules=rules)
    made = []
    for _ in range(2):
        client.remote.calls.clear()
        made.append(asyncio.run(client.create("Plan\nmine\n")).id)
        assert re.fullmatch(r"Plan [0-9a-f]{8}10\.md", made[-1])
        assert client.remote.calls == ["get", "push", "get"], "the first name is free"
    assert len({*made}) == 2


def test_a_conflict_copy_tells_as_little(clients, store):
    store.put("a.md", "Plan\n")
    store.put("-conflict-copy--Ours.md", "1234\n", tags=["private"])
    client = clients(traits=LIKE_VAULT, rules=PRIVATE)
    asyncio.run(client.sync())
    client.faults.plan(Fault.OVERWRITE, on="push", edit=lambda _text: "Theirs\n")
    saved = asyncio.run(client.change(client.note("a.md"), "Ours\n"))
    assert re.search(r" [0-9a-f]{8}10\.md$", saved.copy_id)


def test_an_allowance_goes_by_the_id_of_today_alone(clients, store):
    store.put("plan.md", "seen\n")
    client = clients(traits=LIKE_VAULT, rules=Visibility(allowed_ids=("plan.md",)))
    asyncio.run(client.sync())
    assert set(client.contents()) == {"plan.md"}
    store.rename("plan.md", "a.md")
    assert looks(client) == set()
    store.remove("a.md")
    store.put("a.md", "1234, another note\n")
    assert looks(client) == set()
    store.rename("a.md", "b.md")
    store.put("plan.md", "seen again\n")
    assert looks(client) == {"plan.md"}


@pytest.mark.parametrize("reloading", [False, True])
def test_a_hidden_note_that_takes_the_name_right_before_the_push_stays_hidden(
    vault, store, reloading
):
    note = vault.note("open.md")
    if reloading:
        vault.cache.database.run("DELETE FROM hidden_notes")
    move, write_anew = partial(store.move_over, "secret.md"), partial(store.write_anew, "open.md")
    raced(vault, lambda: move("open.md"), after=write_anew)  # a push makes another file
    with pytest.raises(OutcomeUnknown):
        asyncio.run(vault.change(note, note.text + "more\n"))
    assert store.contents() == {"open.md": Content("the code is 1234\n")}
    assert looks(vault) == set()
    store.rename("open.md", "a.md")
    assert looks(vault) == set()


def test_a_disk_that_is_full_right_after_such_a_push_leaves_the_write_in_doubt(
    vault, store, monkeypatch
):
    def full(**_how):
        raise CacheFull("no space")

    note = vault.note("open.md")
    raced(
        vault,
        partial(store.move_over, "secret.md", "open.md"),
        after=lambda: monkeypatch.setattr(vault.cache, "transaction", full),
    )
    with pytest.raises(OutcomeUnknown, match="is stored"):
        asyncio.run(vault.change(note, note.text + "more\n"))
    monkeypatch.undo()
    assert looks(vault) == set()  # the name of a hidden note hides its copies, too
    texts = sorted(content.text for content in store.contents().values())
    assert texts == [f"(conflict copy) {note.text}more\n", "the code is 1234\n"]
    assert vault.cache.journal.all() == []


def test_a_hidden_note_that_takes_the_name_of_an_unfinished_write_stays_hidden(vault, store):
    note = vault.note("open.md")
    vault.faults.plan(Fault.TIMEOUT, on="push")
    with pytest.raises(OutcomeUnknown):
        asyncio.run(vault.change(note, note.text + "more\n"))
    store.exchange("secret.md", "open.md")
    vault.time.now += 1000
    (copy,) = looks(vault, cycles=4)
    assert "more" in vault.note(copy).text
    assert store.text("open.md") == "the code is 1234\n"


def outcomes(clients, store, act):
    """Give what ``act`` says of a note that was removed a moment before, and of one that was hidden."""
    said = []
    for name, gone in (
        ("removed", lambda: store.remove("a.md")),
        ("hidden", lambda: store.put("a.md", "1234\n", tags=["private"])),
    ):
        for note_id in store.ids():
            store.remove(note_id)
        store.put("a.md", "seen\n")
        client = clients(name, traits=LIKE_VAULT, rules=PRIVATE)
        asyncio.run(client.sync())
        note = client.note("a.md")
        gone()
        said.append(act(client, note))
    return said


def test_a_note_that_was_hidden_is_deleted_in_the_words_of_one_that_is_gone(clients, store):
    def delete(client, note):
        with pytest.raises(NoteNotFound) as refused:
            asyncio.run(client.writer.remove(note))
        return refused.value.to_dict(), client.contents().keys()

    removed, hidden = outcomes(clients, store, delete)
    assert removed == hidden


def test_a_note_that_was_hidden_is_saved_in_the_words_of_one_that_is_gone(clients, store):
    def save(client, note):
        with pytest.raises(NoteNotFound) as refused:
            asyncio.run(client.change(note, "changed\n"))
        return refused.value.to_dict(), client.contents().keys()

    removed, hidden = outcomes(clients, store, save)
    assert removed == hidden


def test_a_new_note_has_the_version_that_it_has_when_another_one_is_removed(clients, store):
    def add(client, note):
        store.put("new.md", "new\n")
        asyncio.run(client.sync())
        assert client.contents().keys() == {"new.md"}
        return client.note("new.md").local_version

    removed, hidden = outcomes(clients, store, add)
    assert removed == hidden


def test_a_note_that_its_new_name_hides_goes_like_a_removed_one(clients, store):
    seen = []
    for name, hides in (("removed", False), ("renamed", True)):
        store.put("plan.md", "seen\n")
        client = clients(name, traits=LIKE_VAULT, rules=Visibility(allowed_ids=("plan.md", "b.md")))
        asyncio.run(client.sync())
        if hides:
            store.rename("plan.md", "a.md")
        else:
            store.remove("plan.md")
        asyncio.run(client.sync())
        store.put("b.md", "new\n")
        assert looks(client) == {"b.md"}
        seen.append(client.note("b.md").local_version)
        store.remove("b.md")
    assert seen[0] == seen[1]


def test_a_rule_on_a_folder_goes_by_where_a_note_lies_now(clients, store):
    store.put("Private/secret.md", "the code is 1234\n")
    store.put("Work/open.md", "known\n")
    rules = Visibility(hidden_paths=("private",))
    client = clients(traits=LIKE_VAULT, rules=rules)
    asyncio.run(client.sync())
    assert set(client.contents()) == {"Work/open.md"}
    store.rename("Work/open.md", "Private/open.md")
    asyncio.run(client.sync())
    assert client.contents() == {}
    assert client.cache.notes.get("Work/open.md") is None
    store.rename("Private/secret.md", "Work/secret.md")
    store.rename("Private/open.md", "Work/open.md")
    asyncio.run(client.sync())
    assert set(client.contents()) == {"Work/secret.md", "Work/open.md"}
    assert client.cache.notes.get("Private/secret.md") is None


def test_an_old_place_is_no_name_of_a_note_once_a_rule_closes_it(clients, store):
    store.put("Private/a.md", "a\n")
    store.put("Other/b.md", "b\n")
    client = clients(traits=LIKE_VAULT)
    asyncio.run(client.sync())
    store.rename("Private/a.md", "Work/a.md")
    store.rename("Other/b.md", "Work/b.md")
    asyncio.run(client.sync())
    assert client.note("Private/a.md").id == "Work/a.md"
    client.close()
    client = clients(traits=LIKE_VAULT, rules=Visibility(hidden_paths=("Private",)))
    assert client.note("Work/a.md").id == "Work/a.md"
    assert client.cache.notes.get("Private/a.md") is None
    assert client.note("Other/b.md").id == "Work/b.md"
    client.close()
    client = clients(traits=LIKE_VAULT, rules=Visibility(allowed_paths=("Work",)))
    assert client.cache.notes.get("Other/b.md") is None
