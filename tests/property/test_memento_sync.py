"""Two servers and Memento's app write one file at once: no line is lost, and nobody waits too long.

Real files, the real writer and scheduler. The app waits five seconds for a lock, as Prisma does, and checks
nothing before it writes: it changes one line of what it has just read, inside a transaction.
"""

import asyncio
import json
import random
import threading
import time
from dataclasses import dataclass, field

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import OutcomeUnknown, StoreUnavailable, VersionConflict
from mcp_notarium.stores.memento.store import MementoStore
from support.long import LONG, dice
from support.memento_file import MementoFile
from support.sync_rig import Client, quick_folder

SAVES = 120 if LONG else 30
EDITS = 600 if LONG else 150
NOTES = ("alpha", "beta", "list")
START = "".join(f"line {number}\n" for number in range(8))


def with_line(text, line, rng):
    """The text with one line more, anywhere."""
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randint(0, len(lines)), f"{line}\n")
    return "".join(lines)


@dataclass
class App:
    """The other program. Its checklist has items with fields that only it knows."""

    rng: random.Random
    file: MementoFile
    lines: set = field(default_factory=set)

    def run(self):
        for number in range(EDITS):
            note_id, line = self.rng.choice(NOTES), f"app {number}"
            with self.file.opened() as db:
                db.execute("BEGIN IMMEDIATE")  # raises if somebody keeps the file for five seconds
                self.edit(db, note_id, line)
                db.execute("COMMIT")
            self.lines.add(line)
            self.look()
            time.sleep(self.rng.random() * 0.01)

    def edit(self, db, note_id, line):
        row = db.execute('SELECT * FROM "Note" WHERE "id" = ?', (note_id,)).fetchone()
        column, value = "content", with_line(row["content"], line, self.rng)
        if note_id == "list":
            items = json.loads(row["checkItems"])
            mine = {"id": line, "text": line, "checked": self.rng.random() < 0.5, "by": "app"}
            items.insert(self.rng.randint(0, len(items)), mine)
            column, value = "checkItems", json.dumps(items)
        db.execute(
            f'UPDATE "Note" SET "{column}" = ?, "order" = "order" + 1, "updatedAt" = ? WHERE "id" = ?',
            (value, int(time.time() * 1000), note_id),
        )

    def look(self):
        """What ``findMany`` needs of every row."""
        for row in self.file.run('SELECT * FROM "Note"'):
            assert isinstance(row["updatedAt"], int)
            assert isinstance(row["createdAt"], int)
            assert row["isPinned"] in (0, 1)
            for column in ("checkItems", "labels"):
                assert isinstance(json.loads(row[column] or "[]"), list)


async def agent(client, name, rng, promised, refusals):
    """Save line after line; ``promised`` has those that a save has confirmed, or will finish later."""
    for number in range(SAVES):
        line = f"{name} {number}"
        try:
            if number % 6 == 5:
                await client.create(f"{line}\n")
            else:
                note = client.note(rng.choice(NOTES))
                text = with_line(note.text, line, rng)
                if note.id == "list":
                    text = with_line(f"{note.text}\n", f"- [ ] {line}", rng).removesuffix("\n")
                content = Content(text, note.tags, title=note.title)
                await client.writer.save(note=note, content=content)
        except (VersionConflict, StoreUnavailable) as refusal:
            refusals.append(refusal.message)
            await client.sync()
        except OutcomeUnknown:
            promised.add(line)
        else:
            promised.add(line)
        if number % 5 == 0:
            await client.sync()


@pytest.mark.slow("two agents and an app race for some seconds over a real file")
def test_no_line_is_lost_and_the_app_reads_every_row():
    promised, refusals = set(), []
    with quick_folder() as place:
        file = MementoFile(place / "dev.db")
        app = App(dice("app"), file)
        file.put("alpha", START)
        file.put("beta", START)
        file.put("list", "", type="checklist", checkItems='[{"id":"1","text":"x","by":"app"}]')
        for name in ("one", "two"):
            (place / name).mkdir(mode=0o700)
        clients = [
            Client(place / name, None, remote=MementoStore(file.path)) for name in ("one", "two")
        ]
        failed = []

        def run_app():
            try:
                app.run()
            except BaseException as error:
                failed.append(error)
                raise

        async def race():
            for client in clients:
                await client.sync()
            thread = threading.Thread(target=run_app)
            thread.start()
            try:
                agents = [
                    agent(client, f"agent{number}", dice(f"agent {number}"), promised, refusals)
                    for number, client in enumerate(clients)
                ]
                await asyncio.gather(*agents)
            finally:
                await asyncio.to_thread(thread.join)
            for client in clients * 3:
                await client.run_cycles(2)

        asyncio.run(race())
        rows = {row["id"]: row for row in file.run('SELECT * FROM "Note"')}
        held = [client.contents() for client in clients]
        unfinished = [write for client in clients for write in client.cache.journal.all()]
        for client in clients:
            asyncio.run(client.remote.close())
            client.close()
    assert failed == []
    items = json.loads(rows["list"]["checkItems"])
    lines = {line for row in rows.values() for line in row["content"].splitlines()}
    lines = {line.removeprefix("- [ ] ") for line in lines} | {item["text"] for item in items}
    assert promised - lines == set()
    assert app.lines - lines == set()
    assert {item["id"] for item in items if item.get("by") == "app"} >= app.lines & {
        item["text"] for item in items
    }
    assert len({item["id"] for item in items}) == len(items)
    assert unfinished == []
    assert [len(one) for one in held] == [len(rows), len(rows)]
    assert held[0] == held[1]
    assert sum(row["order"] for row in rows.values()) == EDITS
    assert all("nothing was saved" in message for message in refusals)
    assert len(promised) > SAVES
