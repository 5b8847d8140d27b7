"""Sync the worked example of ``docs/new-store.md``: a feed that names notes, and a service where the last writer wins."""

from contextlib import asynccontextmanager

import pytest

from mcp_notarium.errors import OutcomeUnknown
from notarium_devtools.jotter.simulator import INBOX, JotterSimulator
from support.jotter_client import open_jotter
from support.sync_rig import Client, quick_folder

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(notes=0):
    """A simulator with so many notes, and a client."""
    with quick_folder() as folder:
        async with JotterSimulator().serving() as sim:
            for number in range(notes):
                sim.write(f"n{number}", title=f"Note {number}", body=f"text {number}\n")
            client = Client(folder, None, remote=open_jotter(sim))
            yield sim, client
            await client.remote.close()
            client.close()


def same(sim, client):
    """Whether the index holds what the service holds."""
    held = {note_id: content.text for note_id, content in client.contents().items()}
    return held == {note_id: note["body"] for note_id, note in sim.notes.items()}


async def test_a_note_that_is_removed_while_all_are_listed_hides_no_other():
    async with opened(250) as (sim, client):
        sim.faults.call(lambda: sim.remove("n249"), path="/notes", query={"page": "2"})
        await client.run_cycles(3)
        assert len(sim.notes) == 249
        assert same(sim, client)


async def test_many_events_are_read_in_pages():
    async with opened(120) as (sim, client):
        await client.sync()
        for number in range(110):
            sim.write(f"n{number}", body="changed\n")
        for number in range(250):
            sim.write_notebook(f"new{number}", "New")
        sim.remove("n110")
        sim.write("n111", body="last\n")
        await client.sync()
        assert same(sim, client)


async def test_an_edit_that_a_later_page_of_events_names_is_merged():
    async with opened(150) as (sim, client):
        await client.sync()
        for number in range(1, 150):
            sim.write(f"n{number}", body="changed\n")
        sim.write("n0", body="theirs\ntext 0\n")
        saved = await client.change(client.note("n0"), "text 0\nours\n")
        assert sim.notes["n0"]["body"] == saved.note.text == "theirs\ntext 0\nours\n"


async def test_a_notebook_with_another_name_is_shown_with_each_of_its_notes():
    async with opened(3) as (sim, client):
        await client.sync()
        sim.write_notebook(INBOX, "Post")
        await client.run_cycles(2)
        shown = [client.remote.traits.beside(client.cache.notes.base(one)) for one in sim.notes]
        assert shown == [{"notebook": "Post"}] * 3


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_write_without_an_answer_is_found_and_not_sent_again(method):
    async with opened(1) as (sim, client):
        await client.sync()
        sim.faults.cut_after(method=method, times=1)
        sim.faults.cut_before(method=method, nth=2, times=9)
        note = client.note("n0")
        write = (
            client.create("mine\n") if method == "POST" else client.change(note, "text 0\nmine\n")
        )
        with pytest.raises(OutcomeUnknown):
            await write
        sim.faults.clear()
        sent = len([one for one in sim.requests if one.method == method])
        await client.run_cycles(2)
        assert len([one for one in sim.requests if one.method == method]) == sent
        assert [note["body"] for note in sim.notes.values()].count("mine\n") == (method == "POST")
        assert same(sim, client)
        assert client.cache.journal.all() == []


async def test_an_id_that_is_taken_after_a_lost_answer_is_not_taken_by_another_note():
    async with opened() as (sim, client):
        await client.sync()
        sim.faults.cut_after(method="POST", times=1)
        with pytest.raises(OutcomeUnknown):
            await client.create("mine\n")
        await client.run_cycles(2)
        assert [note["body"] for note in sim.notes.values()] == ["mine\n"]
        assert same(sim, client)


async def test_a_busy_and_a_failing_service_are_asked_again():
    async with opened(1) as (sim, client):
        sim.faults.status(429, retry_after="0", path="/notes")
        sim.faults.bad_gateway(path="/events")
        await client.sync()
        sim.faults.status(503, method="PUT")
        await client.change(client.note("n0"), "text 0\nmine\n")
        assert sim.notes["n0"]["body"] == "text 0\nmine\n"


async def test_nothing_is_read_after_a_write():
    """A failure of such a read would say that nothing was stored."""
    async with opened(1) as (sim, client):
        await client.sync()
        before = len(sim.requests)
        await client.change(client.note("n0"), "text 0\nmine\n")
        assert [one.method for one in sim.requests[before:]] == ["GET", "GET", "PUT"]
