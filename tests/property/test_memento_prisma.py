"""The app's own database client writes Memento's file while agents do: the real Prisma, in a process of its own."""

import asyncio
import json
import time
from contextlib import contextmanager

import pytest

from mcp_notarium.domain.note import Content, flags
from mcp_notarium.errors import OutcomeUnknown, StoreUnavailable, VersionConflict
from mcp_notarium.library.history import History
from mcp_notarium.stores.memento import database_file
from mcp_notarium.stores.memento.store import MementoStore
from support.long import LONG, dice
from support.memento_file import MementoFile
from support.prisma_app import PrismaApp, require_prisma
from support.sync_rig import Client

SAVES = 60 if LONG else 20
EDITS = 300 if LONG else 60
BUSY_SECONDS = 20 if LONG else 6
HOLD, GAP = 60, 6
"""Milliseconds: the app keeps the lock, and leaves it. SQLite's own pauses, which grow to 100, seldom meet the gap."""
NOTES = ("alpha", "beta")
START = "".join(f"line {number}\n" for number in range(8))
BESIDE = {
    "labels": '["a"]', "color": "red", "images": '["data:image/png;base64,AAAA"]', "order": 7, "size": "large",
    "reminder": "2026-12-24T18:00:00.123Z", "reminderRecurrence": "weekly", "reminderLocation": "Köln",
}  # fmt: skip
"""What a note has beside its words."""

pytestmark = pytest.mark.slow("a process of node writes beside us")


@contextmanager
def both(folder, dates):
    """The app with a file, and a client of ours."""
    require_prisma()
    file = MementoFile(folder / "dev.db")
    app = PrismaApp(file.path, dates=dates)
    app.ask("all")
    for note_id in NOTES:
        app.ask("put", id=note_id, data={"content": START, **BESIDE})
    client = Client(folder, None, remote=MementoStore(file.path))
    try:
        asyncio.run(client.sync())
        yield file, app, client
    finally:
        asyncio.run(client.remote.close())
        client.close()
        app.close()


def beside_the_words(file):
    """What no save of a text may touch."""
    rows = file.run('SELECT * FROM "Note" ORDER BY "id"')
    worded = ("content", "updatedAt", "embedding")
    return [{name: one for name, one in row.items() if name not in worded} for row in rows]


@pytest.mark.parametrize("dates", ["integer", "text"])
def test_prisma_reads_what_we_write_as_its_own(tmp_path, dates):
    with both(tmp_path, dates) as (file, app, client):
        note = client.note("alpha")
        saved = asyncio.run(client.change(note, "new\n")).note
        content = Content("é\n", ("two words",), title="T", properties=flags("archived"))
        made = asyncio.run(client.writer.save(note=None, content=content)).note
        row = app.ask("row", id=made.id)
        assert (row["title"], row["content"], row["labels"]) == ("T", "é\n", '["two words"]')
        assert (row["isArchived"], row["isPinned"], row["userId"]) == (True, False, None)
        assert app.ask("row", id="alpha")["content"] == saved.text
        assert app.ask("row", id="alpha")["color"] == "red"
        forms = {row["form"] for row in file.run('SELECT typeof("updatedAt") AS form FROM "Note"')}
        assert forms == {"integer" if dates == "integer" else "text"}
        stored = {len(str(row["updatedAt"])) for row in file.run('SELECT "updatedAt" FROM "Note"')}
        assert len(stored) == 1
        app.ask("put", id="alpha", data={"content": "by the app", "isPinned": True})
        asyncio.run(client.sync())
        held = client.note("alpha").content
        assert (held.text, held.tags, held.trash) == ("by the app", ("a",), False)
        assert {"pinned", "color"} <= {*held.properties} - {"archived"}
        before = app.ask("row", id="beta")
        asyncio.run(client.writer.remove(client.note("beta")))
        assert app.ask("row", id="beta") is None
        (kept,) = History(client.cache, client.remote).read_removed("beta")
        asyncio.run(client.writer.revive("beta", kept.content))
        assert app.ask("row", id="beta") | {"updatedAt": ""} == before | {"updatedAt": ""}
        asyncio.run(client.writer.remove(client.note(made.id)))
        assert app.ask("row", id=made.id) is None
        assert len(app.ask("all")) == len(NOTES)


def test_neither_side_loses_a_line_or_waits_in_vain(tmp_path):
    rng, promised = dice("prisma"), set()

    async def agent(client):
        for number in range(SAVES):
            note = client.note(rng.choice(NOTES))
            lines = note.text.split("\n")
            lines.insert(rng.randrange(len(lines)), f"agent {number}")
            try:
                await client.change(note, "\n".join(lines))
            except (VersionConflict, StoreUnavailable):
                await client.sync()
            except OutcomeUnknown:
                promised.add(f"agent {number}")
            else:
                promised.add(f"agent {number}")
            if number % 4 == 0:
                await client.sync()

    async def race(app, client):
        racing = asyncio.to_thread(app.ask, "race", ids=NOTES, edits=EDITS)
        lines, _ = await asyncio.gather(racing, agent(client))
        await client.run_cycles(3)
        return set(lines)

    with both(tmp_path, "integer") as (file, app, client):
        before = beside_the_words(file)
        of_the_app = asyncio.run(race(app, client))
        assert beside_the_words(file) == before
        assert client.cache.journal.all() == []
        rows = app.ask("all")
        held = {one: content.text for one, content in client.contents().items()}
    lines = {line for row in rows for line in row["content"].split("\n")}
    assert of_the_app - lines == set()
    assert promised - lines == set()
    assert {row["id"]: row["content"] for row in rows} == held
    assert len(of_the_app) == EDITS
    assert len(promised) > SAVES / 2
    assert all(
        json.loads(row["labels"] or "[]") in ([], ["a"]) for row in file.run('SELECT * FROM "Note"')
    )


def test_a_save_beside_a_busy_app_gets_the_lock_as_soon_as_the_app_leaves_it(tmp_path, monkeypatch):
    waits, saved = [], []
    wait = database_file._wait

    def timed(act, seconds):
        began = time.time() * 1000
        try:
            return wait(act, seconds)
        finally:
            waits.append((began, time.time() * 1000))

    async def run(app, client):
        asked = {"id": "alpha", "seconds": BUSY_SECONDS, "hold": HOLD, "gap": GAP}
        busy = asyncio.create_task(asyncio.to_thread(app.ask, "hold", **asked))
        while not busy.done():
            await client.change(client.note("beta"), f"by us {len(saved)}\n")
            saved.append(client.note("beta").text)
            await asyncio.sleep(0.01)
        return await busy

    with both(tmp_path, "integer") as (_file, app, client):
        monkeypatch.setattr(database_file, "_wait", timed)
        pieces = asyncio.run(run(app, client))
    # How often the app has taken the lock again before a wait of ours that had begun while it held it was over.
    passed_over = [
        sum(began < again < ended for again, _ in pieces)
        for began, ended in waits
        if any(took <= began < left and ended > left for took, left in pieces)
    ]
    assert len(passed_over) > 5
    # With SQLite's pauses it is two to nine times a wait. A few are for a machine on which nobody gets a turn in time.
    assert sum(passed_over) <= len(passed_over) / 2, sorted(passed_over)
