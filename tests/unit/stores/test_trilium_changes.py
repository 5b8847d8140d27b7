"""Test what a Trilium server is asked after a change: the notes of a later date, or all of them."""

from __future__ import annotations

import gzip
import json

import pytest

from contract.bench import nothing_known
from mcp_notarium.errors import CursorLost
from mcp_notarium.stores.contract import ChangePage, Entry
from mcp_notarium.stores.trilium.change_probe import LISTING_SECONDS, MOST_CHANGED
from notarium_devtools.trilium import TriliumSimulator
from support.sync_rig import Client
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
ID, OTHER, BELOW = "Ab12cd34Ef56", "Zz12cd34Ef56", "Be12cd34Ef56"


class Clock:
    """A server's clock that a test sets."""

    def __init__(self):
        self.now = 1_750_000_000.0

    def __call__(self):
        self.now += 0.01
        return self.now


@pytest.fixture(name="clock")
def _clock():
    return Clock()


@pytest.fixture(name="sim")
async def _sim(anyio_backend, clock):
    async with TriliumSimulator(clock=clock).serving() as sim:
        for note_id in (ID, OTHER, BELOW):
            sim.write(note_id, f"Note {note_id}", "<p>a</p>")
        clock.now += 60
        yield sim


@pytest.fixture(name="store")
async def _store(sim):
    store = open_trilium(sim)
    yield store
    await store.close()


async def listed(store):
    return (await store.list_page(since=None, mark=None, limit=100, with_content=False)).cursor


async def changed(store, cursor):
    return await store.changes(cursor, wait=False, base_of=nothing_known)


def edit(sim, text="<p>b</p>", note_id=ID):
    sim.write(note_id, f"Note {note_id}", text)


async def test_the_notes_of_a_later_date_are_named(sim, store):
    cursor = await listed(store)
    edit(sim)
    sim.write("Ne12cd34Ef56", "New", "<p>n</p>")
    page = await changed(store, cursor)
    assert {entry.id for entry in page.changes} == {ID, "Ne12cd34Ef56"}
    assert Entry(ID, (await store.get(ID)).etag) in page.changes
    assert await changed(store, page.cursor) == ChangePage((), page.cursor)


CHANGES = {
    "a label": lambda sim: sim.document.set_attribute("l1", OTHER, "label", "private", ""),
    "a label is gone": lambda sim: sim.document.attributes.pop("held") and edit(sim),
    "a deletion": lambda sim: sim.document.delete(OTHER),
    "another place": lambda sim: sim.document.place(OTHER, ID),
    "one place less": lambda sim: sim.document.unplace(sim.document.parents(BELOW)[0]),
    "protection": lambda sim: sim.protect(OTHER),
}


@pytest.mark.parametrize("beside_an_edit", [False, True])
@pytest.mark.parametrize("name", CHANGES)
async def test_what_moves_no_date_has_everything_listed(sim, store, name, beside_an_edit):
    sim.document.set_attribute("held", OTHER, "label", "held", "")
    cursor = await listed(store)
    CHANGES[name](sim)
    if beside_an_edit:
        edit(sim)
    with pytest.raises(CursorLost):
        await changed(store, cursor)


def move(sim):
    """Move a note below another, as by the mouse: one place goes, one comes."""
    document = sim.document
    (branch,) = document.parents(OTHER)
    document.branches.pop(branch.id)
    document.place(OTHER, BELOW)


async def test_a_move_alone_has_everything_listed(sim, store):
    cursor = await listed(store)
    move(sim)
    with pytest.raises(CursorLost):
        await changed(store, cursor)


async def test_a_move_beside_an_edit_shows_within_five_minutes(sim, store, clock):
    cursor = await listed(store)
    move(sim)
    edit(sim)
    page = await changed(store, cursor)
    assert [entry.id for entry in page.changes] == [ID]
    clock.now += LISTING_SECONDS / 2
    assert (await changed(store, page.cursor)).changes == ()
    clock.now += LISTING_SECONDS / 2
    with pytest.raises(CursorLost):
        await changed(store, page.cursor)
    again = await listed(store)
    clock.now += LISTING_SECONDS * 2
    assert await changed(store, again) == ChangePage((), again)  # nothing since the listing


async def test_a_clock_that_was_set_back_has_everything_listed(sim, store, clock):
    cursor = await listed(store)
    edit(sim)
    page = await changed(store, cursor)
    clock.now -= 7200
    with pytest.raises(CursorLost):
        await changed(store, page.cursor)


@pytest.mark.parametrize("body", [b'{"results": []}', b"{}", b"", b"<html>Sign in</html>"])
async def test_a_search_that_finds_nothing_or_fails_has_everything_listed(sim, store, body):
    cursor = await listed(store)
    edit(sim)
    sim.faults.status(200, path="*/notes", body=body)
    with pytest.raises(CursorLost):
        await changed(store, cursor)


async def test_a_search_that_finds_everything_has_everything_listed(sim, store):
    for number in range(MOST_CHANGED + 1):
        sim.write(f"Many{number:08d}", "x", "<p>x</p>")
    cursor = await listed(store)
    edit(sim)
    everything = sim.document.visible_notes()
    rows = [sim.document.note_object(note) for note in everything]
    sim.faults.status(200, path="*/notes", body=json.dumps({"results": rows}).encode())
    with pytest.raises(CursorLost):
        await changed(store, cursor)


@pytest.mark.parametrize("version", ["0.93.0", "0.63.6"])
async def test_a_server_without_totals_has_everything_listed(version):
    async with TriliumSimulator(version).serving() as sim:
        sim.write(ID, "Plan", "<p>a</p>")
        store = open_trilium(sim)
        cursor = await listed(store)
        assert await changed(store, cursor) == ChangePage((), cursor)
        sim.write(ID, "Plan", "<p>b</p>")
        with pytest.raises(CursorLost):
            await changed(store, cursor)
        await store.close()


async def test_a_refresh_with_one_foreign_change_has_few_bytes(sim, store, tmp_path):
    """However many notes there are: all answers of the refresh, compressed."""
    for number in range(400):
        sim.write(f"Many{number:08d}", f"Note {number}", f"<p>text {number}</p>")
    client = Client(tmp_path, None, remote=store)
    await client.sync()
    edit(sim, "<p>theirs</p>" * 50)
    sizes = []
    respond = sim.etapi.respond

    async def weighed(request):
        answer = await respond(request)
        sizes.append(len(gzip.compress(answer.body)) + 1000)  # with the headers of both
        return answer

    sim.etapi.respond = weighed
    await client.run_cycles(1)
    assert client.note(ID).text.startswith("theirs")
    assert len(sizes) <= 6
    assert sum(sizes) < 30_000
    client.close()


async def test_labels_and_deletions_reach_the_index_in_the_next_cycle(sim, store, tmp_path):
    client = Client(tmp_path, None, remote=store)
    await client.sync()
    edit(sim)
    sim.document.set_attribute("l1", OTHER, "label", "private", "")
    sim.document.delete(BELOW)
    await client.run_cycles(1)
    assert client.note(ID).text == "b"
    assert client.note(OTHER).tags == ("private",)
    assert BELOW not in client.contents()
    client.close()
