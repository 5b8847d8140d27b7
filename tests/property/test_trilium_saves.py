"""A save disturbed at each of its requests: it breaks off there, or a person edits the note there.

Real HTTP to a simulated server, the real writer and scheduler. One client and one note live through all of it.
"""

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NotariumError
from mcp_notarium.markup.html_codec import to_markdown
from notarium_devtools.trilium import TriliumSimulator
from support.sync_rig import Client, Crash, account_of, quick_folder
from support.trilium_client import open_trilium

pytestmark = pytest.mark.slow("a save is disturbed at each of some twenty requests over real HTTP")
NOTE = "Alpha1234"
MOST_REQUESTS = 30
FOR_EVER = 1000


@asynccontextmanager
async def notebook():
    with quick_folder() as place:
        async with TriliumSimulator().serving() as sim:
            sim.write(NOTE, "Plan", "<p>start</p>")
            async with account_of(place, open_trilium(sim)) as client:
                yield sim, client


def stored(sim, note_id=NOTE):
    note = sim.document.notes[note_id]
    labels = sorted(one.name for one in sim.document.owned(note_id))
    return note.title, to_markdown(note.content.decode()), labels


async def attempt(write):
    """Tell whether the write was answered with success."""
    try:
        await write
    except NotariumError:
        return False
    return True


def clear(sim, client):
    sim.faults.clear()
    client.time.now += 100  # no lease is left


@pytest.mark.parametrize("way", ["cut_before", "cut_after"])
def test_a_save_that_breaks_off_anywhere_is_stored_whole_or_not_at_all(way):
    async def run():
        async with notebook() as (sim, client):
            outcomes = set()
            for nth in range(1, MOST_REQUESTS):
                note = client.note(NOTE)
                content = Content(f"_text_ {nth}", (f"a{nth}", f"b{nth}"), title=f"Title {nth}")
                before = stored(sim)
                rule = getattr(sim.faults, way)(nth=nth, times=FOR_EVER)
                done = await attempt(client.writer.save(note=note, content=content))
                met = rule.fired
                clear(sim, client)
                await client.run_cycles(2)
                shown = replace(content, text=f"*text* {nth}")  # as it reads once it is stored
                wanted = (shown.title, shown.text, list(shown.tags))
                assert stored(sim) in ([wanted] if done else [before, wanted])
                assert client.contents() == {NOTE: shown if stored(sim) == wanted else note.content}
                assert client.cache.journal.all() == []
                outcomes.add((done, stored(sim) == wanted))
                if not met:
                    return outcomes
            raise AssertionError("a save has more requests than are disturbed here")

    assert asyncio.run(run()) == {(False, False), (False, True), (True, True)}


@pytest.mark.parametrize("way", ["cut_before", "cut_after"])
def test_a_creation_that_breaks_off_anywhere_gets_its_tags_or_is_not_made(way):
    async def run():
        async with notebook() as (sim, client):
            outcomes = set()
            for nth in range(1, MOST_REQUESTS):
                content = Content(f"text {nth}", ("a", "b"), title=f"Title {nth}")
                rule = getattr(sim.faults, way)(nth=nth, times=FOR_EVER)
                done = await attempt(client.writer.save(note=None, content=content))
                met = rule.fired
                clear(sim, client)
                await client.run_cycles(2)
                made = [one.id for one in sim.document.notes.values() if one.title == content.title]
                assert len(made) == 1 if done else len(made) <= 1
                for note_id in made:
                    assert stored(sim, note_id) == (f"Title {nth}", f"text {nth}", ["a", "b"])
                    assert client.note(note_id).content == content
                assert client.cache.journal.all() == []
                outcomes.add((done, bool(made)))
                if not met:
                    return outcomes
            raise AssertionError("a creation has more requests than are disturbed here")

    assert asyncio.run(run()) == {(False, False), (False, True), (True, True)}


def html(lines):
    return "".join(f"<p>{line}</p>" for line in lines)


@pytest.mark.parametrize("same_line", [False, True])
def test_an_edit_at_any_point_of_a_save_is_kept(same_line):
    """All but the one that comes between the last comparison and the write."""

    async def run():
        async with notebook() as (sim, client):
            for nth in range(1, MOST_REQUESTS):
                sim.write(NOTE, "Plan", html(("one", "two", "three", "four", "five")))
                await client.sync()
                note = client.note(NOTE)
                text = note.text.replace("two", f"ours {nth}")
                second = f"theirs {nth}" if same_line else "two"
                changed = html(("one", second, "three", "four", f"also theirs {nth}"))
                sim.reset_log()
                rule = sim.faults.call(partial(sim.write, NOTE, "Plan", changed), nth=nth)
                content = replace(note.content, text=text)
                done = await attempt(client.writer.save(note=note, content=content))
                requests = [(one.method, one.path.rpartition("/")[2]) for one in sim.requests]
                clear(sim, client)
                await client.run_cycles(2)
                texts = "\n".join(
                    one.content.decode() for one in sim.document.notes.values() if one.is_text
                )
                assert not done or f"ours {nth}" in texts
                if not rule.fired:
                    return
                if requests[nth - 1] != ("PUT", "content"):
                    assert f"also theirs {nth}" in texts
                    assert not same_line or f">theirs {nth}<" in texts
            raise AssertionError("a save has more requests than are disturbed here")

    asyncio.run(run())


def end_at(client, nth, *, after):
    """Let the process end at one of its requests to the server: before it is sent, or after its answer."""
    session, count = client.remote._session, itertools.count(1)
    send = session.send

    async def send_or_end(request):
        ends = next(count) == nth
        if ends and not after:
            raise Crash
        reply = await send(request)
        if ends:
            raise Crash
        return reply

    session.send = send_or_end


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("new", [False, True])
def test_a_process_that_ends_anywhere_in_a_save_leaves_it_whole_or_not_done(new, after):
    async def run():
        with quick_folder() as place:
            async with TriliumSimulator().serving() as sim:
                sim.write(NOTE, "Plan", "<p>start</p>")
                for nth in range(1, MOST_REQUESTS):
                    client = Client(place, None, remote=open_trilium(sim))
                    await client.sync()
                    note = None if new else client.note(NOTE)
                    content = Content(f"text {nth}", (f"a{nth}",), title=f"Title {nth}")
                    before = None if new else stored(sim)
                    end_at(client, nth, after=after)
                    ended = False
                    try:
                        await client.writer.save(note=note, content=content)
                    except Crash:
                        ended = True
                    await client.remote.close()
                    client.close()
                    client = Client(
                        place, None, remote=open_trilium(sim), owner_ended=lambda _owner: True
                    )
                    await client.run_cycles(2)
                    wanted = (content.title, content.text, list(content.tags))
                    made = [one.id for one in sim.document.notes.values() if one.title == wanted[0]]
                    assert [stored(sim, one) for one in made] in ([wanted], [])
                    assert made or (ended and (new or stored(sim) == before))
                    assert client.cache.journal.all() == []
                    await client.remote.close()
                    client.close()
                    if not ended:
                        return
        raise AssertionError("a save has more requests than are disturbed here")

    asyncio.run(run())
