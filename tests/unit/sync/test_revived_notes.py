"""Test notes that were removed from here and are made again, over a real file of Memento's app."""

import asyncio

import pytest

from mcp_notarium.errors import OutcomeUnknown, VersionConflict
from mcp_notarium.library.history import History
from mcp_notarium.stores.memento import database_file
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.sync.listing_pages import reload_index
from support.memento_file import MementoFile
from support.sync_rig import Client

IMAGES = '["data:,x"]'


@pytest.fixture(name="app")
def _app(tmp_path):
    app = MementoFile(tmp_path / "dev.db")
    app.put("n1", "x", title="T", images=IMAGES, labels='["a b"]', embedding="[1]")
    return app


@pytest.fixture(name="client")
def _client(tmp_path, app):
    client = Client(tmp_path, None, remote=MementoStore(app.path))
    asyncio.run(client.sync())
    yield client
    asyncio.run(client.remote.close())
    client.close()


def remove(client):
    asyncio.run(client.writer.remove(client.note("n1")))


def revive(client):
    kept = History(client.cache, client.remote).read_removed("n1")[0]
    return asyncio.run(client.writer.revive("n1", kept.content))


def test_a_note_comes_back_as_it_was(client, app):
    before = app.row("n1")
    remove(client)
    assert client.contents() == {}
    saved = revive(client)
    assert app.row("n1") | {"updatedAt": 0} == before | {"updatedAt": 0}
    assert (saved.note.id, saved.note.text, saved.note.tags) == ("n1", "x", ("a b",))
    assert History(client.cache, client.remote).read_removed("n1") == []
    assert client.cache.journal.all() == []


def test_a_note_that_the_app_has_made_again_stays_as_it_is(client, app, monkeypatch):
    remove(client)
    app.put("n1", "by the app")
    push, pushed = client.remote.push, []
    monkeypatch.setattr(client.remote, "push", lambda write: pushed.append(write) or push(write))
    with pytest.raises(VersionConflict):
        revive(client)
    assert len(pushed) == 1, "its caller decides, and no other id is tried"
    assert [row["content"] for row in app.run('SELECT "content" FROM "Note"')] == ["by the app"]
    assert History(client.cache, client.remote).read_removed("n1") != []


@pytest.mark.parametrize("arrived", [False, True])
def test_both_stay_if_the_app_writes_the_note_while_its_return_is_in_doubt(
    client, app, monkeypatch, arrived
):
    def fail(connection):
        if arrived:
            connection.execute("COMMIT")
        raise OutcomeUnknown("the disk did not answer")

    remove(client)
    monkeypatch.setattr(database_file, "_commit", fail)
    with pytest.raises(OutcomeUnknown):
        revive(client)
    monkeypatch.undo()
    app.put("n1", "x\n\nby the app" if arrived else "by the app", title="T")
    asyncio.run(client.run_cycles(2))
    texts = sorted(row["content"] for row in app.run('SELECT "content" FROM "Note"'))
    assert texts == (["x\n\nby the app"] if arrived else ["by the app", "x"])
    assert client.cache.journal.all() == []


def test_a_removal_without_an_answer_is_finished_and_can_be_undone(client, app, monkeypatch):
    def commit_and_fail(connection):
        connection.execute("COMMIT")
        raise OutcomeUnknown("the disk did not answer")

    monkeypatch.setattr(database_file, "_commit", commit_and_fail)
    with pytest.raises(OutcomeUnknown):
        remove(client)
    (entry,) = client.cache.journal.all()
    assert IMAGES.encode()[2:-2] in entry.body, (
        "what comes back is on the disk before the note goes"
    )
    monkeypatch.undo()
    asyncio.run(client.run_cycles(2))
    assert client.cache.journal.all() == []
    revive(client)
    assert app.row("n1")["images"] == IMAGES


def test_a_removal_in_doubt_leaves_what_the_app_has_changed_since(client, app, monkeypatch):
    def fail(_connection):
        raise OutcomeUnknown("the disk did not answer")

    monkeypatch.setattr(database_file, "_commit", fail)
    with pytest.raises(OutcomeUnknown):
        remove(client)
    monkeypatch.undo()
    app.put("n1", "changed by the app")
    asyncio.run(client.run_cycles(2))
    assert client.cache.journal.all() == []
    assert client.contents()["n1"].text == "changed by the app"
    assert client.cache.versions.removed("n1") == []


def test_a_removal_that_the_app_forestalls_with_a_change_is_refused(client, app):
    note = client.note("n1")
    app.put("n1", "changed by the app")
    with pytest.raises(VersionConflict):
        asyncio.run(client.writer.remove(note))
    assert app.row("n1")["content"] == "changed by the app"
    assert client.cache.versions.removed("n1") == []


def test_what_is_kept_outlives_a_new_index(client):
    remove(client)
    asyncio.run(reload_index(client.cache, client.remote))
    asyncio.run(client.run_cycles(2))
    assert client.cache.versions.removed("n1") != []
    revive(client)


def test_a_note_that_the_app_removes_leaves_nothing(client, app):
    app.put("n2", "y")
    app.remove("n1")
    asyncio.run(client.run_cycles(3))
    assert set(client.contents()) == {"n2"}
    assert client.cache.versions.removed("n1") == []


def test_of_a_revived_note_that_goes_again_elsewhere_the_text_is_left(client, app):
    remove(client)
    revive(client)
    app.remove("n1")
    asyncio.run(client.run_cycles(3))
    assert client.contents() == {}
    (kept,) = client.cache.versions.removed("n1")
    assert (kept.content.text, kept.content.native) == ("x", "")


def test_rows_of_other_tables_go_and_come_back_with_the_note(client, app):
    app.run('CREATE TABLE "Label" ("id" TEXT PRIMARY KEY)')
    app.run(  # as Prisma makes the table of an implicit relation
        'CREATE TABLE "_LabelToNote" ("A" TEXT NOT NULL REFERENCES "Label" ("id") ON DELETE CASCADE, '
        '"B" TEXT NOT NULL REFERENCES "Note" ("id") ON DELETE CASCADE)'
    )
    app.run('CREATE TABLE "Draft" ("id" TEXT, "noteId" TEXT REFERENCES "Note" ON DELETE SET NULL)')
    for label in ("a", "b"):
        app.run('INSERT INTO "Label" VALUES (?)', (label,))
        app.run("INSERT INTO \"_LabelToNote\" VALUES (?, 'n1')", (label,))
    app.run("INSERT INTO \"Draft\" VALUES ('d', 'n1')")
    remove(client)
    assert app.run('SELECT * FROM "_LabelToNote"') == []
    app.run('DELETE FROM "Label" WHERE "id" = \'b\'')
    revive(client)
    assert app.run('SELECT * FROM "_LabelToNote"') == [{"A": "a", "B": "n1"}]
    assert app.run('SELECT * FROM "Draft"') == [{"id": "d", "noteId": None}]
    assert app.row("n1")["images"] == IMAGES
