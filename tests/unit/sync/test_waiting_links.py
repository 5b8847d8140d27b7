"""Links and cards that wait for a later cycle lead to their note where it is by then, over real files of a vault."""

import asyncio
import errno
import json
from dataclasses import replace

import pytest

from mcp_notarium.errors import CacheFull, OutcomeUnknown, StoreUnavailable
from mcp_notarium.files.locks import Leader
from mcp_notarium.library import Library
from mcp_notarium.storage.sync_progress import SWEEP_PERIOD
from mcp_notarium.stores.vault import canvases
from mcp_notarium.stores.vault import folder as vault_folder
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.sync.link_writes import MOST_TRIES
from mcp_notarium.tools.link_changes import LinkChanges
from support.sync_rig import Client, Crash, quick_folder, raced


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch):
    monkeypatch.setattr(vault_folder, "SETTLED", 0.0)


@pytest.fixture(name="places")
def _places():
    """Account and vault: a note, and one that links to it."""
    with quick_folder() as place:
        for name in ("account", "vault"):
            (place / name).mkdir(mode=0o700)
        (place / "vault" / "Plan.md").write_text("the plan\n")
        (place / "vault" / "hub.md").write_text("[[Plan]]\n")
        yield place / "account", place / "vault"


@pytest.fixture(name="open_client")
def _open_client(places):
    account, vault = places
    clients = []

    def make(*, syncs=True, **options):
        clients.append(Client(account, None, remote=VaultStore(vault), **options))
        if syncs:
            asyncio.run(clients[-1].sync())
        return clients[-1]

    yield make
    for client in clients:
        client.close()
        asyncio.run(client.remote.close())


def text_of(places):
    return (places[1] / "hub.md").read_text()


async def rename(client, old, title, *, links=True):
    note = client.note(old)
    found = client.cache.notes.links.find_broken(old, f"{title}.md") if links else {}
    content = replace(note.content, title=title)
    return await client.writer.save(note=note, content=content, links=found)


def leave_waiting(client, places):
    """Rename the note while somebody writes the one that links to it, which waits then."""
    raced(client, lambda: (places[1] / "hub.md").write_text("more\n[[Plan]]\n"))
    saved = asyncio.run(rename(client, "Plan.md", "New"))
    assert saved.waiting == ("hub.md",)
    assert text_of(places) == "more\n[[Plan]]\n"


@pytest.mark.parametrize("arrives", [True, False])
def test_a_client_has_replaced_a_line_only_if_its_link_was_written_into_it(
    open_client, places, monkeypatch, arrives
):
    client, hub = open_client(), places[1] / "hub.md"
    add, push = client.cache.journal.add, client.remote.push

    def add_as_agent(write, **how):
        add(replace(write, client="agent 1"), **how)

    async def push_without_answer(write):
        answer = await push(write) if arrives or write.note_id != "hub.md" else None
        if write.note_id == "hub.md":
            raise OutcomeUnknown("no answer")
        return answer

    monkeypatch.setattr(client.cache.journal, "add", add_as_agent)
    monkeypatch.setattr(client.remote, "push", push_without_answer)
    assert asyncio.run(rename(client, "Plan.md", "New")).waiting == ("hub.md",)
    monkeypatch.undo()
    if not arrives:
        hub.write_text("another line\n")
    asyncio.run(client.run_cycles(3))
    assert text_of(places) == ("[[New]]\n" if arrives else "another line\n")
    assert client.cache.journal.all() == []
    kept = [version.replaced_by for version in client.cache.versions.of("hub.md")]
    assert kept == (["agent 1"] if arrives else [])


def test_a_cycle_leaves_links_to_the_save_that_is_writing_them(open_client, places, monkeypatch):
    (places[1] / "other.md").write_text("[[Plan]]\n")
    client, pushed = open_client(), []
    push = client.remote.push

    async def push_beside_cycle(write):
        pushed.append(write.note_id)
        answer = await push(write)
        if len(pushed) == 2:
            await client.sync()
        return answer

    monkeypatch.setattr(client.remote, "push", push_beside_cycle)
    saved = asyncio.run(rename(client, "Plan.md", "New"))
    assert sorted(saved.relinked) == sorted(pushed[1:]) == ["hub.md", "other.md"]
    assert saved.waiting == ()
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("title", ["Newest", "Plan", "Work/New"])
def test_a_link_leads_to_its_note_that_was_renamed_once_more(open_client, places, title):
    client = open_client()
    leave_waiting(client, places)
    asyncio.run(rename(client, "New.md", title, links=False))
    asyncio.run(client.run_cycles(2))
    assert text_of(places) == f"more\n[[{title.rpartition('/')[2]}]]\n"
    assert client.contents()["hub.md"].text == text_of(places)
    assert client.cache.journal.all() == []


def test_a_link_that_had_arrived_leads_to_its_note_as_well(open_client, places):
    client = open_client()
    leave_waiting(client, places)
    (places[1] / "hub.md").write_text(
        "more\n[[New]]\n"
    )  # the write arrived, and its answer did not
    asyncio.run(rename(client, "New.md", "Newest", links=False))
    asyncio.run(client.run_cycles(2))
    assert text_of(places) == "more\n[[Newest]]\n"
    assert client.cache.journal.all() == []


def test_what_waits_is_finished_before_the_next_renaming_looks_for_links(open_client, places):
    client = open_client()
    leave_waiting(client, places)
    asyncio.run(client.writer.finish_links())
    assert text_of(places) == "more\n[[New]]\n"
    saved = asyncio.run(rename(client, "New.md", "Newest"))
    assert saved.relinked == ("hub.md",)
    assert text_of(places) == "more\n[[Newest]]\n"


@pytest.mark.parametrize("cut", ["recorded", "pushed"])
def test_a_renaming_of_a_process_that_ended_is_finished_first_as_well(open_client, places, cut):
    open_client()

    def stop(step):
        if step == cut:
            raise Crash

    with pytest.raises(Crash):
        asyncio.run(rename(open_client(on_step=stop, syncs=False), "Plan.md", "New"))
    later = open_client(syncs=False, owner_ended=lambda _owner: True)
    asyncio.run(later.writer.finish_links())
    assert later.cache.journal.all() == []
    assert text_of(places) == "[[New]]\n"
    assert later.note("New.md").text == "the plan\n"


def test_a_link_waits_while_any_renaming_is_on_its_way(open_client, places):
    client = open_client()
    leave_waiting(client, places)

    def stop(_step):
        raise Crash

    with pytest.raises(Crash):
        asyncio.run(rename(open_client(on_step=stop, syncs=False), "New.md", "Newest", links=False))
    with pytest.raises(StoreUnavailable):
        asyncio.run(client.change(client.note("hub.md"), "mine\n"))
    later = open_client(owner_ended=lambda _owner: True)
    asyncio.run(later.run_cycles(2))
    assert text_of(places) == "more\n[[Newest]]\n"
    assert later.cache.journal.all() == []


def test_a_link_follows_a_renaming_that_comes_while_it_is_written(open_client, places):
    first, second = open_client(), open_client()
    leave_waiting(first, places)
    push = first.remote.push

    async def overtaken(write):
        first.remote.push = push
        answer = await push(write)
        await rename(second, "New.md", "Newest", links=False)
        return answer

    first.remote.push = overtaken
    asyncio.run(first.sync())
    assert text_of(places) == "more\n[[New]]\n"
    assert not first.writer._journal._ends_flushed  # another process may finish what follows
    asyncio.run(first.run_cycles(2))
    assert text_of(places) == "more\n[[Newest]]\n"
    assert first.cache.journal.all() == []


def test_a_listing_of_before_does_not_take_a_renaming_back(open_client, places):
    client, started = open_client(), open_client(syncs=False)
    started.time.now += SWEEP_PERIOD  # or it may find that no file has changed, and list nothing
    list_page = started.remote.list_page

    async def late(**how):
        page = await list_page(**how)
        started.remote.list_page = list_page
        await rename(client, "Plan.md", "New")
        return page

    started.remote.list_page = late
    asyncio.run(started.sync())
    note = client.note("New.md")
    assert note.id == "New.md"
    asyncio.run(started.run_cycles(2))
    assert client.note("New.md") == note


@pytest.mark.parametrize("by", ["another program", "a write without an answer"])
def test_the_version_that_a_note_gets_with_another_path_is_flushed_with_it(open_client, places, by):
    """It may be shown at once: after a loss of power it must not be another text's."""
    open_client()

    def stop(step):
        if step == "pushed":
            raise Crash

    if by == "another program":
        (places[1] / "Plan.md").rename(places[1] / "New.md")
    else:
        with pytest.raises(Crash):
            asyncio.run(rename(open_client(on_step=stop, syncs=False), "Plan.md", "New"))
    started = open_client(syncs=False, owner_ended=lambda _owner: True)
    begun, transaction, renamed = [], started.cache.transaction, started.cache.notes.rename

    def begins(*, durable=False):
        begun.append(durable)
        return transaction(durable=durable)

    def seen(old, new):
        renamed(old, new)
        assert (new, begun[-1]) == ("New.md", True)
        begun.append("renamed")

    started.cache.transaction, started.cache.notes.rename = begins, seen
    asyncio.run(started.sync())
    assert "renamed" in begun


# Cards.


BOARD = "board.canvas"


def put_cards(places):
    nodes = [{"type": "file", "file": "Plan.md"}, {"type": "text", "text": "[[Plan]]"}]
    (places[1] / BOARD).write_text(json.dumps({"nodes": nodes}))


def cards(places):
    node, text = json.loads((places[1] / BOARD).read_text())["nodes"]
    return node["file"], text["text"]


async def rename_with_cards(client, old, title, *, links=False):
    board = {BOARD: {("Plan", False): title}}
    async with client.writer.cards.following(old, f"{title}.md", board) as moved:
        await rename(client, old, title, links=links)
    return moved


@pytest.mark.parametrize("title", ["Newest", "Plan"])
@pytest.mark.parametrize("last", ["cards", "cards moved"])
def test_a_card_shows_its_note_that_was_renamed_once_more(open_client, places, title, last):
    put_cards(places)

    def stop(step):
        if step == last:
            raise Crash

    open_client()
    with pytest.raises(Crash):
        asyncio.run(rename_with_cards(open_client(on_step=stop, syncs=False), "Plan.md", "New"))
    name = "Plan" if last == "cards" else "New"
    assert cards(places) == (f"{name}.md", f"[[{name}]]")
    asyncio.run(rename(open_client(syncs=False), "New.md", title, links=False))
    later = open_client(owner_ended=lambda _owner: True)
    assert cards(places) == (f"{title}.md", f"[[{title}]]")
    assert later.cache.sync_state.card_moves() == []


@pytest.mark.parametrize("links", [True, False])
def test_a_renaming_and_each_link_are_on_the_disk_before_the_next_is_written(
    open_client, places, links
):
    """Others read the note long before the call ends: after a loss of power its version must not be another text's."""
    put_cards(places)
    (places[1] / "more.md").write_text("[[Plan]]\n")
    unflushed, steps = [], []

    def on_step(step):
        if step in ("recorded", "cards"):
            assert unflushed == [], step
            steps.append(step)

    client = open_client(on_step=on_step)
    transaction, flush = client.cache.transaction, client.cache.flush

    def begins(*, durable=False):
        unflushed.append(1)
        if durable:
            unflushed.clear()
        return transaction(durable=durable)

    async def flushed():
        unflushed.clear()
        await flush()

    client.cache.transaction, client.cache.flush = begins, flushed
    asyncio.run(rename_with_cards(client, "Plan.md", "New", links=links))
    assert steps == ["recorded"] * (3 if links else 1) + ["cards"]


@pytest.mark.parametrize("often", [1, 1000])
def test_a_card_that_the_disk_refuses_to_move_is_moved_by_a_later_cycle(
    open_client, places, monkeypatch, often
):
    """Where the disk never takes it, it is tried a number of times."""
    put_cards(places)
    client, refused, replacing = open_client(), [], canvases.replacing

    def refusing(*given, **named):
        if len(refused) < often:
            refused.append(given)
            raise OSError(errno.ENOSPC, "no room")
        return replacing(*given, **named)

    monkeypatch.setattr(canvases, "replacing", refusing)

    moved = asyncio.run(rename_with_cards(client, "Plan.md", "New"))
    assert (moved.canvases, moved.waiting) == (set(), {BOARD})
    assert cards(places) == ("Plan.md", "[[Plan]]")
    asyncio.run(client.run_cycles(1 if often == 1 else 2 * MOST_TRIES))
    assert cards(places) == (("New.md", "[[New]]") if often == 1 else ("Plan.md", "[[Plan]]"))
    assert client.cache.sync_state.card_moves() == []
    assert len(refused) == min(often, MOST_TRIES + 1)


def test_cards_that_wait_are_moved_by_another_server_once_the_disk_lets_go_of_them(
    open_client, places, monkeypatch
):
    """The one that renamed the note lives, does not lead, and could not record that it has left them."""
    put_cards(places)
    leader, other = open_client(), open_client(syncs=False)
    record = other.cache.sync_state.add_card_move

    def refusing(key, value):
        if json.loads(value)["owner"] == "":
            raise CacheFull("no room")
        record(key, value)

    def no_room(*_given, **_named):
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as full:
        full.setattr(canvases, "replacing", no_room)
        full.setattr(other.cache.sync_state, "add_card_move", refusing)
        asyncio.run(rename_with_cards(other, "Plan.md", "New"))
    asyncio.run(leader.sync())
    assert cards(places) == ("Plan.md", "[[Plan]]")

    async def follow():
        running = asyncio.create_task(other.scheduler.run())
        await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.wait({running})
        assert not other.scheduler.leads
        await leader.sync()

    leading = Leader(places[0] / "sync.lock")
    assert leading.acquire()
    asyncio.run(follow())
    leading.release()
    assert cards(places) == ("New.md", "[[New]]")
    assert leader.cache.sync_state.card_moves() == []


def test_a_server_that_waits_to_lead_keeps_the_cards_that_it_is_moving(open_client, places):
    """Another one would take a card that is about to be put back for one that is done."""
    put_cards(places)
    client = open_client()
    released = []

    def on_step(step):
        if step == "cards":
            client.writer.cards.release()
            released.extend(json.loads(said) for _, said in client.cache.sync_state.card_moves())

    client.writer.cards._on_step = on_step
    asyncio.run(rename_with_cards(client, "Plan.md", "New"))
    assert [move["owner"] for move in released] == [client.owner]
    assert cards(places) == ("New.md", "[[New]]")


@pytest.mark.parametrize("finished", ["while the next is looked up", "later"])
def test_a_renaming_takes_the_cards_that_wait_for_an_earlier_one(
    open_client, places, monkeypatch, finished
):
    """Another server may move them before this renaming is recorded, and knows nothing of it."""
    put_cards(places)
    first, second = open_client(), open_client(syncs=False)

    def refusing(*_given, **_named):
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as full:
        full.setattr(canvases, "replacing", refusing)
        asyncio.run(rename_with_cards(first, "Plan.md", "New"))
        library = Library(second.cache, second.remote, second.writer, second.scheduler)
        note = second.note("New.md")
        content = replace(note.content, title="Newest")
        found = asyncio.run(library.paths.find_card_links(note, content))
        counts = asyncio.run(library.paths.find_cards(note, content))
    assert (counts, {one: count for one, (count, _) in found.items()}) == ({BOARD: 1}, {BOARD: 1})
    if finished != "later":
        asyncio.run(first.sync())
        assert cards(places) == ("New.md", "[[New]]")
    changes = LinkChanges(cards=counts, card_links={one: said for one, (_, said) in found.items()})
    saved = asyncio.run(
        library.save(note=note, content=content, act=None, canvases=changes.canvases)
    )
    assert (saved.canvases, saved.canvases_waiting) == ((BOARD,), ())
    assert cards(places) == ("Newest.md", "[[Newest]]")
    asyncio.run(first.run_cycles(2))
    assert cards(places) == ("Newest.md", "[[Newest]]")
    assert first.cache.sync_state.card_moves() == []
