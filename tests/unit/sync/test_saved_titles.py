"""A new title of a vault's note renames its file, exactly once, whatever other programs do meanwhile."""

import asyncio
import os
from contextlib import suppress
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, Tombstone
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import InvalidRequest, NotariumError, StoreRejected, StoreUnavailable
from mcp_notarium.markup.obsidian_links import rewrite_links
from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault import folder as vault_folder
from mcp_notarium.stores.vault.store import VaultStore
from support.between_calls import acting_before
from support.long import sample
from support.sync_rig import Client, Crash, quick_folder, raced

OLD = 1_600_000_000


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (OLD, OLD))


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch):
    monkeypatch.setattr(vault_folder, "SETTLED", 0.0)


@pytest.fixture(name="places")
def _places():
    """Account and vault."""
    with quick_folder() as place:
        (place / "account").mkdir(mode=0o700)
        vault = place / "vault"
        put(vault / "Work" / "Plan.md", "the plan\n")
        put(vault / "Other.md", "other\n")
        yield place / "account", vault


@pytest.fixture(name="open_client")
def _open_client(places):
    account, vault = places
    clients = []

    def make(**options):
        clients.append(Client(account, None, remote=VaultStore(vault), **options))
        return clients[-1]

    yield make
    for client in clients:
        close(client)


def close(client):
    client.close()
    asyncio.run(client.remote.close())


@pytest.fixture(name="client")
def _client(open_client):
    client = open_client()
    asyncio.run(client.sync())
    return client


def retitle(client, title, *, text=None, note_id="Work/Plan.md"):
    note = client.note(note_id)
    content = replace(note.content, title=title, text=note.text if text is None else text)
    return asyncio.run(client.writer.save(note=note, content=content))


def files(vault):
    paths = (path for path in vault.rglob("*") if path.is_file())
    return {str(path.relative_to(vault)): path.read_text() for path in paths}


@pytest.mark.parametrize(
    ("title", "path"),
    [
        ("Roadmap", "Work/Roadmap.md"),
        ("Home/Roadmap", "Home/Roadmap.md"),
        ("/Roadmap", "Roadmap.md"),
        ("Home/Plan", "Home/Plan.md"),
        ("plan", "Work/plan.md"),
        ("Roadmap: 2026.md", "Work/Roadmap 2026.md"),
    ],
)
@pytest.mark.parametrize("text", [None, "new\n"])
def test_a_title_renames_or_moves_the_file_and_everything_follows(
    client, places, title, path, text
):
    before = client.note("Work/Plan.md")
    saved = retitle(client, title, text=text)
    said = text or "the plan\n"
    assert files(places[1]) == {path: said, "Other.md": "other\n"}
    assert (saved.note.id, saved.note.text, saved.merged) == (path, said, False)
    assert saved.note.local_version > before.local_version
    assert client.note("Work/Plan.md").id == path
    assert not client.cache.journal.all()
    ((version),) = client.cache.versions.of(path)
    assert version.made == client.cache.notes.etag(path)
    asyncio.run(client.sync())
    assert client.note(path) == saved.note, "the next listing has nothing new"


def test_an_undone_move_brings_the_file_back(client, places):
    retitle(client, "Home/Roadmap")
    _, held = client.cache.versions.get(
        "Home/Roadmap.md", client.cache.versions.of("Home/Roadmap.md")[0].local_version
    )
    retitle(client, held.title, note_id="Home/Roadmap.md")
    assert set(files(places[1])) == {"Work/Plan.md", "Other.md"}
    assert client.note("Home/Roadmap.md").id == "Work/Plan.md"


@pytest.mark.parametrize("taken", ["Other.md", "other.MD", ".trash/Other.md"])
@pytest.mark.parametrize("known", [True, False])
def test_a_name_that_is_taken_is_refused_and_nothing_changes(open_client, places, taken, known):
    vault = places[1]
    (vault / "Other.md").unlink()
    client = open_client()
    if not known:
        asyncio.run(client.sync())
    put(vault / taken, "theirs\n")
    if known:
        asyncio.run(client.sync())
    before = files(vault)
    with pytest.raises(InvalidRequest) as refused:
        retitle(client, "/Other", text="changed\n")
    assert refused.value.subcategory == "name_taken"
    assert files(vault) == before
    assert not client.cache.journal.all()
    assert client.note("Work/Plan.md").text == "the plan\n"


def test_a_name_that_is_taken_right_before_the_rename_is_not_overwritten(client, places):
    raced(client, lambda: put(places[1] / "Work" / "New.md", "theirs\n"))
    with pytest.raises(InvalidRequest):
        retitle(client, "New", text="changed\n")
    assert files(places[1])["Work/New.md"] == "theirs\n"
    assert files(places[1])["Work/Plan.md"] == "the plan\n"


def test_a_name_that_a_rule_hides_is_refused_as_if_it_were_taken(open_client, places):
    client = open_client(rules=Visibility(hidden_paths=("Secret",)))
    asyncio.run(client.sync())
    with pytest.raises(InvalidRequest):
        retitle(client, "Secret/Plan")
    assert set(files(places[1])) == {"Work/Plan.md", "Other.md"}


def test_a_folder_in_other_letters_is_refused_where_the_system_takes_both_for_one(
    client, places, monkeypatch
):
    (places[1] / "Home").mkdir()
    before = files(places[1])
    for name in ("stat", "open", "mkdir"):
        real = getattr(os, name)

        def fold(path, *given, real=real, **named):
            folds = named.get("dir_fd") is not None and str(path).lower() == "home"
            return real("Home" if folds else path, *given, **named)

        monkeypatch.setattr(os, name, fold)
    with pytest.raises(StoreRejected, match="another spelling"):
        retitle(client, "home/Plan")
    with pytest.raises(StoreRejected, match="another spelling"):
        asyncio.run(client.writer.save(note=None, content=Content("new\n", title="home/New")))
    assert (files(places[1]), client.cache.journal.all()) == (before, [])
    retitle(client, "Home/Plan")
    assert "Home/Plan.md" in files(places[1])


def edit(path):
    """An editor saves: a new file in the place of the old one."""
    if path.exists():
        temporary = path.with_name(".editor.tmp")
        temporary.write_text(path.read_text() + "edited\n")
        temporary.rename(path)


def append(path):
    """Another program writes into the file."""
    if path.exists():
        with path.open("a") as file:
            file.write("edited\n")


@pytest.mark.parametrize("text", [None, "ours\nthe plan\n"])
@pytest.mark.parametrize("act", [edit, append])
def test_an_edit_between_any_two_system_calls_of_a_rename_is_not_lost(places, act, text):
    account, vault = places
    acted = 0
    for number in sample(f"renames {act.__name__} {text}", range(90), 5):
        for path in vault.rglob("*.md"):
            path.unlink()
        (account / "cache.sqlite.encrypted").unlink(missing_ok=True)
        for rest in account.iterdir():
            rest.unlink()
        put(vault / "Work" / "Plan.md", "the plan\n")
        client = Client(account, None, remote=VaultStore(vault))
        asyncio.run(client.sync())

        def come(vault=vault):
            for name in ("Plan", "New"):
                act(vault / "Work" / f"{name}.md")

        with acting_before(number, come) as counted, suppress(NotariumError):
            retitle(client, "New", text=text)
        asyncio.run(client.run_cycles(3))
        held = "".join(files(vault).values())
        assert "the plan\n" in held
        assert counted.acted == ("edited\n" in held)
        acted += counted.acted
        assert not client.cache.journal.all()
        assert {one: content.text for one, content in client.contents().items()} == files(vault)
        close(client)
    assert acted


@pytest.fixture(params=[True, False], ids=["identities", "no identities"])
def _named_by_paths_alone(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(file_writer, "identity_of", lambda _file, _found: None)


STEPS = ("recorded", "moved", "pushed", "committed")


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(
    "change",
    [(title, text) for title in ("New", "Home/New", "Home/Plan") for text in (None, "x\n")],
)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.usefixtures("_named_by_paths_alone")
def test_a_rename_that_ends_anywhere_is_finished_exactly_once(
    open_client, places, step, change, listed
):
    (title, text), vault = change, places[1]
    reached = []

    def stop(name):
        reached.append(name)
        if name == step:
            raise Crash

    client = open_client(on_step=stop)
    asyncio.run(client.sync())
    move_to = client.remote._writer._move_to
    client.remote._writer._move_to = lambda *given: (move_to(*given), stop("moved"))
    with pytest.raises(Crash):
        retitle(client, title, text=text)
    assert reached[-1] == step
    close(client)
    later = open_client(owner_ended=lambda _owner: True)
    if listed:  # the listing meets the note before the entry is finished
        later.writer.replay.finish_all, finish_all = (
            later.writer.replay.finish_not_found,
            later.writer.replay.finish_all,
        )
        asyncio.run(later.sync())
        later.writer.replay.finish_all = finish_all
    asyncio.run(later.run_cycles(3))
    path = f"{title}.md" if "/" in title else f"Work/{title}.md"
    assert files(vault) == {path: text or "the plan\n", "Other.md": "other\n"}
    assert not later.cache.journal.all()
    assert later.note("Work/Plan.md").id == path
    assert {one: content.text for one, content in later.contents().items()} == files(vault)


def end_once_recorded(open_client, change):
    """A process that ends as soon as its change is in the journal."""

    def stop(name):
        if name == "recorded":
            raise Crash

    client = open_client(on_step=stop)
    asyncio.run(client.sync())
    with pytest.raises(Crash):
        change(client)
    close(client)


def test_a_rename_in_doubt_whose_name_is_taken_meanwhile_keeps_the_text(open_client, places):
    end_once_recorded(open_client, lambda client: retitle(client, "New", text="changed\n"))
    put(places[1] / "Work" / "New.md", "theirs\n")
    later = open_client(owner_ended=lambda _owner: True)
    asyncio.run(later.run_cycles(3))
    assert files(places[1]) == {
        "Work/Plan.md": "changed\n",
        "Work/New.md": "theirs\n",
        "Other.md": "other\n",
    }
    assert not later.cache.journal.all()


@pytest.mark.parametrize("text", [None, "changed\n"])
def test_a_rename_in_doubt_of_a_file_that_is_removed_meanwhile_leaves_what_was_written(
    open_client, places, text
):
    end_once_recorded(open_client, lambda client: retitle(client, "New", text=text))
    (places[1] / "Work" / "Plan.md").unlink()
    later = open_client(owner_ended=lambda _owner: True)
    asyncio.run(later.run_cycles(3))
    kept = [content for path, content in files(places[1]).items() if path != "Other.md"]
    assert len(kept) == (0 if text is None else 1)
    assert all("changed\n" in content for content in kept)
    assert not later.cache.journal.all()


def test_a_rename_is_finished_although_the_index_was_emptied(open_client, places):
    def stop(name):
        if name == "pushed":
            raise Crash

    client = open_client(on_step=stop)
    asyncio.run(client.sync())
    with pytest.raises(Crash):
        retitle(client, "New", text="changed\n")
    close(client)
    later = open_client(owner_ended=lambda _owner: True)
    with later.cache.transaction():
        later.cache.notes.clear()
    finish_all = later.writer.replay.finish_all
    later.writer.replay.finish_all = later.writer.replay.finish_not_found
    asyncio.run(later.sync())  # the listing meets the note before the entry is finished
    later.writer.replay.finish_all = finish_all
    asyncio.run(later.run_cycles(3))
    assert files(places[1]) == {"Work/New.md": "changed\n", "Other.md": "other\n"}
    assert {one: content.text for one, content in later.contents().items()} == files(places[1])
    assert not later.cache.journal.all()


LINKING = {
    "Work/Plan.md": "see ![](./a.png) and [[Plan#x]]\n",
    "one.md": "---\nup: '[[Work/Plan]]'\n---\r\n`[[Plan]]` [[Plan|the plan]]\n",
    "two.md": "[p](Work/Plan.md)\n",
    "Other.md": "other, and [[two]]\n",
}
RELINKED = {
    "Home/New.md": "see ![](../Work/a.png) and [[New#x]]\n",
    "one.md": "---\nup: '[[Home/New]]'\n---\r\n`[[Plan]]` [[New|the plan]]\n",
    "two.md": "[p](Home/New.md)\n",
    "Other.md": "other, and [[two]]\n",
}


def read_bytes(vault):
    return {one: (vault / one).read_bytes().decode() for one in files(vault)}


def relink(client):
    note = client.note("Work/Plan.md")
    links = client.cache.notes.links.find_broken(note.id, "Home/New.md")
    text = rewrite_links(note.text, links.pop(note.id))
    content = replace(note.content, title="Home/New", text=text)
    return asyncio.run(client.writer.save(note=note, content=content, links=links))


@pytest.fixture(name="linking")
def _linking(places):
    for path, text in LINKING.items():
        put(places[1] / path, text)
        (places[1] / path).write_bytes(text.encode())
    return places[1]


@pytest.mark.parametrize("step", ["recorded", "pushed", "committed"])
@pytest.mark.parametrize("title", [None, "Home/Offer"])
def test_a_text_with_tags_is_ours_after_a_crash_too(open_client, step, title):
    def stop(name):
        if name == step:
            raise Crash

    client = open_client(on_step=stop)
    asyncio.run(client.sync())
    before = client.note("Work/Plan.md")
    content = replace(before.content, text="the plan #garden\n", title=title or before.title)
    with pytest.raises(Crash):
        asyncio.run(client.writer.save(note=before, content=content))
    again = open_client(owner_ended=lambda _owner: True)
    asyncio.run(again.run_cycles())
    note = again.note("Work/Plan.md")
    assert (note.id, note.tags) == (f"{title or 'Work/Plan'}.md", ("garden",))
    ((version),) = again.cache.versions.of(note.id)
    assert version.made == again.cache.notes.etag(note.id)


def test_an_edit_of_a_renamed_file_before_the_answer_is_stored_leaves_one_note_and_its_links(
    open_client, linking
):
    def stop(name):
        if name == "pushed":
            raise Crash

    client = open_client(on_step=stop)
    asyncio.run(client.sync())
    note = client.note("Work/Plan.md")
    links = client.cache.notes.links.find_broken(note.id, "Home/New.md")
    links.pop(note.id)
    content = replace(note.content, title="Home/New", text=f"{note.text}ours\n")
    with pytest.raises(Crash):
        asyncio.run(client.writer.save(note=note, content=content, links=links))
    path = linking / "Home" / "New.md"
    path.write_text(f"{path.read_text()}theirs\n")
    again = open_client(owner_ended=lambda _owner: True)
    asyncio.run(again.run_cycles())
    assert files(linking)["Home/New.md"] == f"{note.text}ours\ntheirs\n"
    assert not [one for one in files(linking) if "conflict" in one]
    assert again.note("Work/Plan.md").id == "Home/New.md"
    led = read_bytes(linking)
    assert {one: led[one] for one in ("one.md", "two.md")} == {
        one: RELINKED[one] for one in ("one.md", "two.md")
    }


def test_cards_that_wait_are_moved_by_one_process_at_a_time(open_client, places):
    canvas = places[1] / "board.canvas"
    canvas.write_text('{"nodes":[{"type":"file","file":"Work/Plan.md"}]}')
    met = []

    def stop(name):
        if name == "cards":
            raise Crash

    async def rename(client):
        note = client.note("Work/Plan.md")
        async with client.writer.cards.following(note.id, "Work/New.md", {"board.canvas": {}}):
            await client.writer.save(note=note, content=replace(note.content, title="New"))

    client, other = open_client(on_step=stop), open_client()
    asyncio.run(client.sync())
    with pytest.raises(Crash):
        asyncio.run(rename(client))
    assert not other.writer.cards.are_busy()

    def look(name):
        met.extend([name, other.writer.cards.are_busy()] if name == "cards" else [])

    asyncio.run(open_client(on_step=look).sync())
    assert met == ["cards", True]
    assert "Work/New.md" in canvas.read_text()
    assert not other.cache.sync_state.card_moves()


def save_cut_off_and_move(open_client, places, step, title):
    """A save that ends at this step, its file moved by another program, and the process that goes on."""

    def stop(name):
        if name == step:
            raise Crash

    client = open_client(on_step=stop)
    asyncio.run(client.sync())
    before = client.note("Work/Plan.md")
    content = replace(before.content, text="the new plan\n", title=title)
    with pytest.raises(Crash):
        asyncio.run(client.writer.save(note=before, content=content))
    (places[1] / "Work" / "Plan.md").rename(places[1] / "Mine.md")
    again = open_client(owner_ended=lambda _owner: True)
    asyncio.run(again.run_cycles())
    assert not again.cache.journal.all()
    return again


@pytest.mark.parametrize("step", ["recorded", "pushed"])
def test_where_somebody_moves_a_file_under_an_unfinished_save_is_theirs(open_client, places, step):
    again = save_cut_off_and_move(open_client, places, step, "Plan")
    assert files(places[1]) == {"Mine.md": "the new plan\n", "Other.md": "other\n"}
    assert again.note("Work/Plan.md").id == "Mine.md"
    ((version),) = again.cache.versions.of("Mine.md")
    assert version.made == again.cache.notes.etag("Mine.md")
    _, held = again.cache.versions.get("Mine.md", version.local_version)
    assert (held.text, held.title) == ("the plan\n", "Mine")


def test_a_copy_lies_in_the_folder_of_its_note_also_at_the_top(open_client, places):
    save_cut_off_and_move(open_client, places, "recorded", "Home/Offer")
    copy = {"(conflict copy) Offer.md": "the new plan\n"}
    assert files(places[1]) == {"Mine.md": "the plan\n", "Other.md": "other\n"} | copy


def test_a_name_that_is_taken_after_a_crash_leaves_no_version_of_a_note_that_stays_as_it_was(
    open_client, places
):
    def stop(_step):
        raise Crash

    client = open_client()
    asyncio.run(client.sync())
    note = client.note("Work/Plan.md")
    with pytest.raises(Crash):
        asyncio.run(
            open_client(on_step=stop).writer.save(
                note=note, content=replace(note.content, title="Home/Offer")
            )
        )
    put(places[1] / "Home" / "Offer.md", "another note\n")
    again = open_client(owner_ended=lambda _owner: True)
    asyncio.run(again.run_cycles())
    assert again.cache.journal.all() == []
    assert again.note("Work/Plan.md") == note
    assert again.cache.versions.of("Work/Plan.md") == []


def test_links_are_rewritten_with_a_history_of_their_own(open_client, linking):
    client = open_client()
    asyncio.run(client.sync())
    saved = relink(client)
    assert read_bytes(linking) == RELINKED
    assert (set(saved.relinked), saved.waiting) == ({"one.md", "two.md"}, ())
    for path in saved.relinked:
        (version,) = client.cache.versions.of(path)
        assert version.made == client.cache.notes.etag(path)
        assert client.cache.versions.get(path, version.local_version)[1].text == LINKING[path]


@pytest.mark.parametrize("last", range(1, 10))
def test_a_process_that_ends_anywhere_leaves_all_links_or_none_to_be_finished(
    open_client, linking, last
):
    steps = []

    def stop(name):
        steps.append(name)
        if len(steps) == last:
            raise Crash

    client = open_client(on_step=stop)
    asyncio.run(client.sync())
    with pytest.raises(Crash):
        relink(client)
    close(client)
    later = open_client(owner_ended=lambda _owner: True)
    asyncio.run(later.run_cycles(2))
    assert read_bytes(linking) == RELINKED
    assert not later.cache.journal.all()


def test_a_link_in_a_note_that_another_process_has_just_lost_from_the_index_needs_no_room(
    open_client, linking
):
    client, other = open_client(), open_client()
    asyncio.run(client.sync())
    record = client.writer._journal.record

    def late(*given, **named):
        with other.cache.transaction():
            other.cache.notes.apply([Tombstone("two.md")])
        return record(*given, **named)

    client.writer._journal.record = late
    note = client.note("Work/Plan.md")
    links = client.cache.notes.links.find_broken(note.id, "Home/New.md")
    text = rewrite_links(note.text, links.pop(note.id))
    content = replace(note.content, title="Home/New", text=text)
    saved = asyncio.run(client.writer.save(note=note, content=content, links=links, keeps=True))
    assert saved.waiting == ("two.md",)
    asyncio.run(client.run_cycles(3))
    assert not client.cache.journal.all()
    assert {*read_bytes(linking)} == {*RELINKED}
    assert client.contents().keys() == RELINKED.keys()


def test_links_stay_if_the_name_is_taken(open_client, linking):
    client = open_client()
    asyncio.run(client.sync())
    before = read_bytes(linking)
    raced(client, lambda: put(linking / "Home" / "New.md", "theirs\n"))
    with pytest.raises(InvalidRequest):
        relink(client)
    assert read_bytes(linking) == before | {"Home/New.md": "theirs\n"}
    assert not client.cache.journal.all()


def test_a_renaming_in_doubt_whose_name_is_taken_leaves_the_links(open_client, linking):
    end_once_recorded(open_client, relink)
    put(linking / "Home" / "New.md", "theirs\n")
    later = open_client(owner_ended=lambda _owner: True)
    asyncio.run(later.run_cycles(2))
    held = read_bytes(linking)
    assert {one: held[one] for one in ("one.md", "two.md")} == {
        one: LINKING[one] for one in ("one.md", "two.md")
    }
    assert held["Work/Plan.md"] == RELINKED["Home/New.md"]
    assert not later.cache.journal.all()


@pytest.mark.parametrize("at_first", [True, False])
def test_links_that_are_refused_for_good_stay_and_are_no_rejected_write(
    open_client, linking, at_first
):
    client = open_client()
    asyncio.run(client.sync())
    push, errors = client.remote.push, [] if at_first else [StoreUnavailable("not now")]

    async def refusing(write):
        if write.note_id == "two.md":
            raise errors.pop() if errors else StoreRejected("too large")
        return await push(write)

    client.remote.push = refusing
    saved = relink(client)
    assert saved.waiting == (() if at_first else ("two.md",))
    assert "two.md" not in saved.relinked
    asyncio.run(client.run_cycles(2))
    assert not client.cache.journal.all()
    assert read_bytes(linking) == RELINKED | {"two.md": LINKING["two.md"]}


@pytest.mark.parametrize(
    "lines", [("two.md", "more\n[p](Work/Plan.md)\n"), ("two.md", "wholly other\n")]
)
def test_an_edit_of_a_linking_note_meanwhile_is_merged_and_never_lost(open_client, linking, lines):
    path, text = lines
    client = open_client()
    asyncio.run(client.sync())
    raced(client, lambda: (linking / path).write_text(text))
    saved = relink(client)
    assert saved.waiting == (path,)
    asyncio.run(client.run_cycles(2))
    held = read_bytes(linking)
    assert held == RELINKED | {path: text.replace("Work/Plan", "Home/New")}
    assert not client.cache.journal.all()


def test_no_note_that_waits_for_a_renaming_is_saved_before_it(open_client, linking):
    end_once_recorded(open_client, relink)
    later = open_client(owner_ended=lambda _owner: True)
    with pytest.raises(StoreUnavailable):
        asyncio.run(later.change(later.note("two.md"), "mine\n"))
    assert read_bytes(linking) == LINKING
