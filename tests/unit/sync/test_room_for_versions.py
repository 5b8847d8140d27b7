"""What a write takes away has its room as a version when it begins, or the write does not begin."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.storage.version_table import VersionLimits
from mcp_notarium.stores.memento.note_codec import made_of
from mcp_notarium.stores.memento.store import MementoStore
from support.memento_file import MementoFile
from support.sync_rig import Client, quick_folder

LONG = "".join(f"line {number}\n" for number in range(200))


@pytest.fixture(name="app")
def _app():
    """Memento's file, and a client that has loaded a long note of it."""
    with quick_folder() as place:
        (place / "account").mkdir(mode=0o700)
        file = MementoFile(place / "dev.db")
        file.put("n1", LONG, images='["a long picture"]')
        client = Client(place / "account", None, remote=MementoStore(file.path))
        asyncio.run(client.sync())
        yield file, client
        client.close()
        asyncio.run(client.remote.close())


def remove(client):
    return client.writer.remove(client.note("n1"), keeps=True)


def rewrite(client):
    return client.writer.save(note=client.note("n1"), content=Content("short\n"), keeps=True)


def change_pictures(client):
    content = made_of({"images": []}, client.cache.notes.base("n1"))
    return client.writer.save(note=client.note("n1"), content=content, keeps=True)


def append(client):
    content = replace(client.note("n1").content, text=f"{LONG}more\n")
    return client.writer.save(note=client.note("n1"), content=content, keeps=True)


@pytest.mark.parametrize("change", [remove, rewrite, change_pictures])
def test_what_takes_something_away_begins_only_if_that_has_room(app, change):
    file, client = app
    before = file.row("n1")
    client.cache.versions.limits = VersionLimits(days=30, size=1000)
    with pytest.raises(InvalidRequest, match="taken the room"):
        asyncio.run(change(client))
    assert file.row("n1") == before
    assert client.cache.journal.all() == []
    client.cache.versions.limits = VersionLimits(days=30, size=100_000)
    asyncio.run(change(client))
    assert client.cache.versions.of("n1")
    assert file.run('SELECT * FROM "Note"') != [before]


def test_what_only_adds_needs_no_room(app):
    file, client = app
    client.cache.versions.limits = VersionLimits(days=30, size=1000)
    asyncio.run(append(client))
    assert file.row("n1")["content"] == f"{LONG}more\n"
