"""End the process at every step of a write to Memento's file: each write is there once or not at all, and finished later."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.library.history import History
from mcp_notarium.stores.memento import database_file
from mcp_notarium.stores.memento.store import MementoStore
from support.memento_file import MementoFile
from support.sync_rig import Client, Crash, quick_folder

IMAGES = '["data:,x"]'
MOST_STEPS = 12


class Stops:
    """Ends the process at one of the steps: those of the engine, and right before and after each commit there."""

    def __init__(self, at):
        self.left = at

    def step(self, _name=""):
        self.left -= 1
        if self.left == 0:
            raise Crash


async def create(client):
    await client.writer.save(note=None, content=Content("made\n", ("a b",), title="T"))


async def change(client):
    await client.change(client.note("n1"), "old\nnew\n")


async def strip(client):
    """Take away what no text shows."""
    note = client.note("n1")
    content = replace(note.content, native='{"columns":{"color":"red","images":null}}')
    await client.writer.save(note=note, content=content, exact=True)


async def take_back(client):
    note, history = client.note("n1"), History(client.cache, client.remote)
    old = await history.read_replaced("n1", client=None)
    native = history.native_of("n1", old, last=True)
    await client.writer.save(note=note, content=replace(old.content, native=native), exact=True)


async def remove(client):
    await client.writer.remove(client.note("n1"))


async def revive(client):
    kept = History(client.cache, client.remote).read_removed("n1")[0]
    await client.writer.revive("n1", kept.content)


def opened(folder, file, stops=None):
    options = {} if stops is None else {"on_step": stops.step}
    return Client(folder, None, remote=MementoStore(file.path), **options)


def end(client):
    asyncio.run(client.remote.close())
    client.close()


def crash(folder, file, action, at, monkeypatch):
    """Carry an action out up to a step; tell whether it came to that."""
    stops, commit = Stops(at), database_file._commit

    def commit_between_steps(connection):
        stops.step()
        commit(connection)
        stops.step()

    client = opened(folder, file)
    asyncio.run(client.sync())
    end(client)
    client = opened(folder, file, stops)
    with monkeypatch.context() as patch:
        patch.setattr(database_file, "_commit", commit_between_steps)
        try:
            asyncio.run(action(client))
        except Crash:
            return True
        finally:
            end(client)
    return False


@pytest.mark.slow("ends some ten processes, one after the other")
@pytest.mark.parametrize("action", [create, change, strip, take_back, remove, revive])
def test_a_write_that_ends_anywhere_is_whole_or_absent_and_finished_once(action, monkeypatch):
    for at in range(1, MOST_STEPS):
        with quick_folder() as folder:
            file = MementoFile(folder / "dev.db")
            file.put("n1", "old\n", images=IMAGES)
            if earlier := {revive: remove, take_back: strip}.get(action):
                client = opened(folder, file)
                asyncio.run(client.sync())
                asyncio.run(earlier(client))
                end(client)
            crashed = crash(folder, file, action, at, monkeypatch)
            assert file.run("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
            client = opened(folder, file)
            asyncio.run(client.run_cycles(3))
            assert client.cache.journal.all() == []
            rows = {row["id"]: row for row in file.run('SELECT * FROM "Note"')}
            assert {one: text.text for one, text in client.contents().items()} == {
                one: row["content"] for one, row in rows.items()
            }
            made = [row for row in rows.values() if row["content"] == "made\n"]
            if action is create:
                assert [(row["title"], row["labels"]) for row in made] == [("T", '["a b"]')]
            elif action is change:
                assert rows["n1"]["content"] == "old\nnew\n"
            elif action is strip:
                assert (rows["n1"]["images"], rows["n1"]["color"]) == (None, "red")
                asyncio.run(take_back(client))
                assert (file.row("n1")["images"], file.row("n1")["color"]) == (IMAGES, "default")
            elif action is take_back:
                assert (rows["n1"]["images"], rows["n1"]["color"]) == (IMAGES, "default")
            elif action is revive:
                assert rows["n1"]["images"] == IMAGES
            elif "n1" not in rows:
                assert client.cache.versions.removed("n1") != []
                asyncio.run(revive(client))
                assert file.row("n1")["images"] == IMAGES
            end(client)
            if not crashed:
                assert at > 3, "nothing was stopped"
                return
    raise AssertionError("there are more steps than that")
