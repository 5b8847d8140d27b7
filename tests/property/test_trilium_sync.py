"""Two agents and a person in Trilium's own window edit the same notes: no line is lost.

Real HTTP to a simulated server, the real writer and scheduler. The person edits before any request that reads,
so never between the last comparison of a write and the write: such an edit is the one that may be lost.
"""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.errors import OutcomeUnknown, StoreUnavailable, VersionConflict
from mcp_notarium.markup.html_codec import to_markdown
from notarium_devtools.trilium import TriliumSimulator
from support.long import LONG, dice
from support.sync_rig import Client, quick_folder
from support.trilium_client import open_trilium

SAVES = 80 if LONG else 20
NOTES = ("Alpha1234", "Beta12345")
START = "<ul>" + "".join(f"<li>line {number}</li>" for number in range(6)) + "</ul>"


class Person:
    """Edits now and then, before requests that read."""

    def __init__(self, sim, rng):
        self.sim, self.rng, self.lines = sim, rng, set()

    def look(self, request):
        if request.method == "GET" and self.rng.random() < 0.1:
            note = self.sim.document.notes[self.rng.choice(NOTES)]
            line = f"person {len(self.lines)}"
            items = note.content.decode().split("</li>")
            place = self.rng.randint(1, len(items) - 1)
            items[place - 1] += f"</li><li>{line}"
            self.sim.write(note.id, note.title, "</li>".join(items))
            self.lines.add(line)


def with_line(text, line, rng):
    lines = text.split("\n")
    lines.insert(rng.randint(0, len(lines)), f"- {line}")
    return "\n".join(lines)


async def save(client, number, rng, promised):
    line = f"{client.owner} {number}"
    try:
        if number % 7 == 6:
            await client.create(f"- {line}")
        else:
            note = client.note(rng.choice(NOTES))
            await client.change(note, with_line(note.text, line, rng))
    except (VersionConflict, StoreUnavailable):
        await client.sync()
    except OutcomeUnknown:
        promised.add(line)
        client.remote_faults.clear()
    else:
        promised.add(line)


@pytest.mark.slow("two agents and a person take turns over real HTTP for some seconds")
def test_no_promised_line_and_no_line_of_a_person_is_lost():
    rng, promised = dice("trilium"), set()

    async def race(place):
        async with TriliumSimulator().serving() as sim:
            for note_id in NOTES:
                sim.write(note_id, note_id, START)
            person = Person(sim, dice("person"))
            clients = []
            for name in ("one", "two"):
                (place / name).mkdir(mode=0o700)
                clients.append(Client(place / name, None, remote=open_trilium(sim)))
            for client in clients:
                client.remote_faults = sim.faults
                await client.sync()
            sim.before_request = person.look
            for number in range(SAVES):
                if number % 5 == 4:
                    sim.faults.cut_after(method="PUT", path="*/content", times=3)
                await save(clients[number % 2], number, rng, promised)
                sim.faults.clear()
            sim.before_request = lambda _request: None
            for client in clients * 2:
                await client.run_cycles(2)
            texts = {
                note.id: to_markdown(note.content.decode())
                for note in sim.document.notes.values()
                if note.id not in ("root", "_hidden", "_options")
            }
            for client in clients:
                held = client.contents()
                assert {note_id: one.text for note_id, one in held.items()} == texts
                assert client.cache.journal.all() == []
                await client.remote.close()
                client.close()
            return person.lines, "\n".join(texts.values())

    with quick_folder() as place:
        lines, everything = asyncio.run(race(place))
    found = {line.removeprefix("- ") for line in everything.split("\n")}
    assert promised - found == set()
    assert lines - found == set()
    assert len(promised) > SAVES / 2
    assert lines


def test_an_edit_that_does_not_fit_theirs_becomes_a_copy():
    async def race(place):
        async with TriliumSimulator().serving() as sim:
            sim.write(NOTES[0], "Plan", "<ul><li>one</li><li>two</li></ul>")
            client = Client(place, None, remote=open_trilium(sim))
            await client.sync()
            theirs = "<ul><li>one</li><li>two <u>underlined</u></li></ul>"
            written = iter([1])

            def overwrite(request):
                """An editor that read the note before our write saves it after."""
                if request.method == "GET" and b"ours" in sim.document.notes[NOTES[0]].content:
                    for _ in written:
                        sim.write(NOTES[0], "Plan", theirs)

            sim.before_request = overwrite
            note = client.note(NOTES[0])
            saved = await client.writer.save(
                note=note, content=replace(note.content, text="- one, ours\n- two")
            )
            held = sim.document.notes[NOTES[0]].content.decode()
            copy = sim.document.notes[saved.copy_id]
            await client.remote.close()
            client.close()
            return held == theirs, copy.title, copy.content.decode()

    with quick_folder() as place:
        kept, title, content = asyncio.run(race(place))
    assert kept
    assert title == "(conflict copy) Plan"
    assert content == "<ul><li>one, ours</li><li>two</li></ul>"
