"""Test the store of Memento's file against what happens to a file that another program owns."""

import asyncio
import itertools
import os
import shutil
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.domain.note import Content, Revision, flags
from mcp_notarium.errors import (
    CursorLost,
    IdTaken,
    NoteNotFound,
    OutcomeUnknown,
    StorePlaceUnusable,
    StoreProtocolError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import PushStatus
from mcp_notarium.stores.memento import database_file, note_table
from mcp_notarium.stores.memento.store import MementoStore
from support.journal_entries import make_write
from support.memento_file import NOTE, MementoFile
from support.native_index import OpenIndex
from support.small_disk import SmallDisk


@pytest.fixture(name="app")
def _app(tmp_path):
    return MementoFile(tmp_path / "dev.db")


@pytest.fixture(name="opens")
def _opens():
    """Opens stores, and closes them in the end."""
    opened = []

    def opens(path, **options):
        opened.append(MementoStore(path, **options))
        return opened[-1]

    yield opens
    for store in opened:
        asyncio.run(store.close())


@pytest.fixture(name="store")
def _store(app, opens):
    return opens(app.path)


def push(store, note_id, content, base=None):
    return asyncio.run(
        store.push(make_write(store, note_id, content, base, now=1_700_000_000.123))
    ).revision


def edit(store, note_id, text):
    base = asyncio.run(store.get(note_id))
    return push(store, note_id, Content(text, base.content.tags, title=base.content.title), base)


def listing(store, **options):
    page = store.list_page(since=None, mark=None, limit=99, with_content=True, **options)
    return asyncio.run(page)


def test_dates_have_the_form_of_the_file(app, store):
    for number in range(3):
        app.put(f"n{number}", "x", updatedAt="2026-11-20T21:09:52.649+00:00")
    app.put("odd", "x", updatedAt=5)
    edit(store, "odd", "y")
    assert app.row("odd")["updatedAt"] == "2023-11-14T22:13:20.123+00:00"
    push(store, "new", Content("x"))
    assert app.row("new")["createdAt"] == app.row("new")["updatedAt"] == app.row("odd")["updatedAt"]


def test_the_last_changed_note_is_listed_first_whatever_the_form_of_its_date(app, store):
    app.put("old", "x", updatedAt=5000)
    app.put("newest", "x", updatedAt="2026-11-20T21:09:52.649+00:00")
    app.put("middle", "x", updatedAt="2001-01-01 00:00:00")
    app.put("junk", "x", updatedAt="junk")
    assert [one.id for one in listing(store).entries] == ["newest", "middle", "old", "junk"]


def test_an_embedding_goes_when_the_words_change_and_stays_when_a_flag_does(app, store):
    app.put("n1", "x", embedding="[1]")
    base = asyncio.run(store.get("n1"))
    push(store, "n1", Content("x", properties=flags("pinned")), base)
    assert (app.row("n1")["embedding"], app.row("n1")["isPinned"]) == ("[1]", 1)
    edit(store, "n1", "y")
    assert app.row("n1")["embedding"] is None


def test_what_is_not_shown_here_can_change_while_a_note_is_edited(app, store):
    app.put("n1", "x")
    base = asyncio.run(store.get("n1"))
    app.put("n1", "x", size="large", order=5)
    push(store, "n1", Content("y"), base)
    assert (app.row("n1")["size"], app.row("n1")["order"]) == ("large", 5)


def test_colour_reminder_and_images_are_told_and_a_change_of_them_is_seen(app, store):
    seen = []
    for more in (
        {},
        {"color": "default", "images": "[]", "reminderLocation": ""},
        {"color": "teal"},
        {"images": '["data:,x"]'},
        {"reminder": 1798135200123, "reminderRecurrence": "weekly"},
        {"isReminderDone": 1, "reminderLocation": "K" * 1000},
    ):
        app.put("n1", "x", **more)
        found = asyncio.run(store.get("n1"))
        shown = dict(found.content.properties) | store.traits.beside(found)
        seen.append((found.etag, shown))
    assert [beside for _, beside in seen[:4]] == [
        *({}, {}, {"color": "teal"}, {"color": "teal", "images": True})
    ]
    due = {"reminder": "2026-12-24T18:00:00.123Z", "reminderRecurrence": "weekly"}
    assert seen[4][1] == seen[3][1] | due | {"isReminderDone": False}
    assert seen[5][1] == seen[4][1] | {"isReminderDone": True, "reminderLocation": "K" * 200}
    assert len({etag for etag, _ in seen}) == len(seen)
    push(store, "n1", replace(found.content, text="y"), found)
    after = asyncio.run(store.get("n1"))
    assert dict(after.content.properties) | store.traits.beside(after) == seen[5][1]
    assert app.row("n1")["reminderLocation"] == "K" * 1000


def add_users(app, *users):
    for user in users:
        app.run("INSERT INTO \"User\" VALUES (?, '', ?, 1)", (user, user))


@pytest.mark.parametrize("users", [[], ["u1"]])
def test_a_new_note_belongs_to_the_only_user(app, store, users):
    add_users(app, *users)
    push(store, "n1", Content("x"))
    assert app.row("n1")["userId"] == (users[0] if users else None)
    whose = users[0] if users else "nobody"
    assert asyncio.run(store.describe()) == f"Memento's file (1 note; new ones belong to {whose})"


def test_a_file_of_several_users_is_refused_until_one_is_named(app, store, opens):
    add_users(app, "u1")
    made = push(store, "n1", Content("x"))
    add_users(app, "u2")
    app.put("n2", "of u2", userId="u2")
    for call in (
        lambda: asyncio.run(store.get("n2")),
        lambda: asyncio.run(store.native(OpenIndex()).read(["n2"])),
        lambda: asyncio.run(store.full_copy("n2")),
        lambda: push(store, "n1", Content("y"), made),
        lambda: asyncio.run(store.delete("n1", etag=made.etag, write_id="0d")),
    ):
        with pytest.raises(StoreUnavailable, match=r"is not set: “u1”, “u2”$") as caught:
            call()
        assert "set MEMENTO_USER_ID" in caught.value.resolution_hint
    for call in (
        lambda: listing(store),
        lambda: asyncio.run(store.describe()),
        lambda: asyncio.run(store.native(OpenIndex()).find("", archived=True, arranged=True)),
    ):
        with pytest.raises(StoreUnavailable, match=r": “u1” \(notes: 1\), “u2” \(notes: 1\)$"):
            call()
    assert app.row("n1")["content"] == "x"
    with pytest.raises(StoreUnavailable, match="names none of them"):
        listing(opens(app.path, user_id="U1"))
    assert [one.id for one in listing(opens(app.path, user_id="u1")).entries] == ["n1"]


def test_with_a_user_only_the_notes_of_this_user_and_of_nobody_are_there(app, opens):
    for user in ("u1", "u2"):
        add_users(app, user)
        app.put(f"of-{user}", "x", userId=user)
    app.put("of-nobody", "x")
    store = opens(app.path, user_id="u1")
    assert {one.id for one in listing(store).entries} == {"of-u1", "of-nobody"}
    with pytest.raises(NoteNotFound):
        asyncio.run(store.get("of-u2"))
    foreign = asyncio.run(opens(app.path, user_id="u2").get("of-u2"))
    with pytest.raises(NoteNotFound):
        push(store, "of-u2", Content("y"), foreign)
    asyncio.run(store.delete("of-u2", etag=foreign.etag, write_id="0d"))
    assert app.row("of-u2")["content"] == "x"
    push(store, "n1", Content("x"))
    assert app.row("n1")["userId"] == "u1"


def test_a_user_who_does_not_exist_is_refused(app, opens):
    with pytest.raises(StorePlaceUnusable, match="no user yet"):
        push(opens(app.path, user_id="nobody"), "n1", Content("x"))
    assert app.run('SELECT * FROM "Note"') == []


def test_an_older_file_has_fewer_columns(tmp_path, opens):
    columns = [
        line for line in NOTE.splitlines() if "isMarkdown" not in line and "embedding" not in line
    ]
    app = MementoFile(tmp_path / "dev.db", note="\n".join(columns))
    store = opens(app.path)
    made = push(store, "n1", Content("x", properties=flags("pinned")))
    with pytest.raises(StoreRejected, match="isMarkdown"):
        push(store, "n1", Content("x", properties=flags("markdown")), made)
    assert edit(store, "n1", "y").content == Content("y")


def test_the_oldest_file_takes_a_note_and_takes_it_again_after_a_delete(tmp_path, opens):
    note = (
        'CREATE TABLE "Note" ("id" TEXT PRIMARY KEY, "content" TEXT NOT NULL, "createdAt" DATETIME NOT NULL, '
        '"updatedAt" DATETIME NOT NULL, "loud" TEXT GENERATED ALWAYS AS (upper("content")))'
    )
    app = MementoFile(tmp_path / "dev.db", note=note)
    store = opens(app.path)
    made = push(store, "n1", Content("x"))
    before = app.row("n1")
    kept = asyncio.run(store.full_copy("n1")).decode()
    asyncio.run(store.delete("n1", etag=made.etag, write_id="0b"))
    push(store, "n1", Content("x", native=kept))
    assert app.row("n1") | {"updatedAt": 0} == before | {"updatedAt": 0}


def test_a_note_that_the_app_has_made_again_is_not_taken_for_ours(app, store):
    made = push(store, "n1", Content("x"))
    kept = asyncio.run(store.full_copy("n1")).decode()
    asyncio.run(store.delete("n1", etag=made.etag, write_id="0b"))
    app.put("n1", "by the app")
    with pytest.raises(IdTaken):
        push(store, "n1", Content("x", native=kept))
    assert app.row("n1")["content"] == "by the app"


def test_a_newer_migration_while_the_file_is_open_is_survived(app, store):
    made = push(store, "n1", Content("x"))
    cursor = listing(store).cursor
    app.run('ALTER TABLE "Note" ADD COLUMN "mood" TEXT')
    app.run('ALTER TABLE "Note" ADD COLUMN "sharedWith" TEXT DEFAULT \'[]\'')
    app.run('ALTER TABLE "Note" DROP COLUMN "embedding"')
    with pytest.raises(CursorLost):
        asyncio.run(store.changes(cursor, wait=False, base_of=lambda _: None))
    push(store, "n1", Content("y"), made)
    push(store, "n2", Content("z"))
    assert [app.row(one)["content"] for one in ("n1", "n2")] == ["y", "z"]


def test_a_column_that_must_be_set_and_is_not_known_refuses_new_notes(tmp_path, opens):
    note = NOTE.replace('"title" TEXT,', '"title" TEXT, "room" TEXT NOT NULL,')
    app = MementoFile(tmp_path / "dev.db", note=note)
    with pytest.raises(StoreRejected, match="a rule of its own"):
        push(opens(app.path), "n1", Content("x"))


def test_another_table_is_not_taken_for_notes(tmp_path, opens):
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(StoreUnavailable, match="without notes"):
        listing(opens(tmp_path / "other.db"))
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(StoreUnavailable, match="no SQLite database"):
        listing(opens(tmp_path / "text.db"))
    app = MementoFile(tmp_path / "old.db", note='CREATE TABLE "Note" ("id" TEXT, "content" TEXT)')
    with pytest.raises(StoreUnavailable, match="createdAt, updatedAt"):
        listing(opens(app.path))


def test_rows_that_are_no_notes_are_counted_and_not_touched(app, store):
    app.put("n1", "x")
    app.put("", "x")
    app.put("latin", "x")
    app.run('UPDATE "Note" SET "content" = CAST(x\'ff\' AS TEXT) WHERE "id" = \'latin\'')
    page = listing(store)
    assert [one.id for one in page.entries] == ["n1"]
    assert page.left_out == 2
    with pytest.raises(StoreProtocolError):
        asyncio.run(store.get("latin"))


def test_a_link_or_a_file_of_somebody_else_is_never_opened(app, tmp_path, monkeypatch, opens):
    app.put("n1", "x")
    (tmp_path / "link.db").symlink_to(app.path)
    with pytest.raises(StoreUnavailable, match="a link"):
        listing(opens(tmp_path / "link.db"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StoreUnavailable, match="another user"):
        listing(opens(app.path))


def test_a_file_that_is_gone_is_not_made_anew(app, store):
    push(store, "n1", Content("x"))
    app.path.rename(app.path.with_name("away.db"))
    for call in (
        lambda: listing(store),
        lambda: push(store, "n2", Content("y")),
        lambda: asyncio.run(store.get("n1")),
        lambda: asyncio.run(store.changes("", wait=False, base_of=lambda _: None)),
    ):
        with pytest.raises(StoreUnavailable, match="cannot be used"):
            call()
    assert not app.path.exists()


def test_no_file_is_made_where_one_goes_at_this_moment(app, store, monkeypatch):
    connect = sqlite3.connect

    def lose_and_connect(*arguments, **options):
        app.path.unlink()
        return connect(*arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", lose_and_connect)
    with pytest.raises(StoreUnavailable):
        asyncio.run(store.get("n1"))
    assert not app.path.exists()


def test_a_copy_that_was_put_back_is_listed_and_written(app, store, tmp_path):
    push(store, "n1", Content("old"))
    copy = shutil.copy(app.path, tmp_path / "copy.db")
    edit(store, "n1", "new")
    cursor = listing(store).cursor
    Path(copy).replace(app.path)
    with pytest.raises(CursorLost):
        asyncio.run(store.changes(cursor, wait=False, base_of=lambda _: None))
    (held,) = listing(store).entries
    assert isinstance(held, Revision)
    assert held.content == Content("old")
    edit(store, "n1", "newer")
    assert app.row("n1")["content"] == "newer"


def test_a_file_that_is_replaced_during_a_write_leaves_it_in_doubt(
    app, store, tmp_path, monkeypatch
):
    made = push(store, "n1", Content("old"))
    copy = shutil.copy(app.path, tmp_path / "copy.db")
    commit = database_file._commit

    def commit_and_replace(connection):
        commit(connection)
        Path(copy).replace(app.path)

    monkeypatch.setattr(database_file, "_commit", commit_and_replace)
    with pytest.raises(OutcomeUnknown, match="replaced"):
        push(store, "n1", Content("lost"), made)
    assert app.row("n1")["content"] == "old"


def test_a_file_that_is_replaced_before_the_commit_keeps_what_it_has(
    app, store, tmp_path, monkeypatch
):
    made = push(store, "n1", Content("old"))
    copy = shutil.copy(app.path, tmp_path / "copy.db")
    spoil = lambda: Path(copy).replace(app.path)  # noqa: E731
    monkeypatch.setattr("mcp_notarium.stores.memento.store.check_not_withdrawn", spoil)
    with pytest.raises(StoreUnavailable, match="replaced"):
        push(store, "n1", Content("lost"), made)
    assert app.row("n1")["content"] == "old"


def test_a_lock_of_the_app_is_waited_for_and_then_named(app, store, monkeypatch):
    monkeypatch.setattr(database_file, "WRITE_SECONDS", 0.1)
    monkeypatch.setattr(database_file, "READ_SECONDS", 0.1)
    made = push(store, "n1", Content("old"))
    with app.opened() as db:
        db.execute("BEGIN EXCLUSIVE")
        for call in (lambda: push(store, "n1", Content("new"), made), lambda: listing(store)):
            with pytest.raises(StoreUnavailable, match="locked by another program"):
                call()
    with app.opened() as db:  # somebody reads on: the commit cannot take place
        db.execute("BEGIN").execute('SELECT * FROM "Note"').fetchall()
        with pytest.raises(StoreUnavailable, match="locked by another program"):
            push(store, "n1", Content("new"), made)
    assert app.row("n1")["content"] == "old"
    push(store, "n1", Content("new"), made)


def test_the_app_can_write_between_any_two_portions_of_a_long_read(app, store, monkeypatch):
    monkeypatch.setattr(note_table, "PORTION", 10)
    for number in range(25):
        app.put(f"n{number:02}", "x", updatedAt=number)
    reading, turn = database_file.DatabaseFile.reading, itertools.count()

    def reading_after_a_write(file):
        with app.opened(seconds=0) as db:  # fails at once if a read goes on
            db.execute('UPDATE "Note" SET "order" = ? WHERE "id" = \'n24\'', (next(turn),))
        return reading(file)

    monkeypatch.setattr(database_file.DatabaseFile, "reading", reading_after_a_write)
    found = asyncio.run(store.native(OpenIndex()).find("x", archived=True, arranged=False))
    assert [one.id for one in found] == [f"n{number:02}" for number in reversed(range(25))]
    assert next(turn) == 1 + 3
    assert [one.id for one in listing(store).entries] == [one.id for one in found]
    assert next(turn) == 2 * (1 + 3) + 2


def test_a_read_of_the_app_is_waited_for(app, store):
    made = push(store, "n1", Content("old"))
    reading, going_on = threading.Event(), threading.Event()

    def read():
        with app.opened() as db:
            db.execute("BEGIN").execute('SELECT * FROM "Note"').fetchall()
            reading.set()
            going_on.wait(0.2)

    thread = threading.Thread(target=read)
    thread.start()
    reading.wait()
    push(store, "n1", Content("new"), made)
    thread.join()
    assert app.row("n1")["content"] == "new"


@pytest.mark.parametrize("text_dates", [False, True])
def test_a_write_does_the_same_work_however_many_notes_there_are(app, store, text_dates):
    def steps():
        """What SQLite does of an edit, in tens of its instructions; the lock is held for that."""
        taken = []
        base = asyncio.run(store.get("n0"))
        connection = store._file._keep().connection
        connection.set_progress_handler(lambda: taken.append(1), 10)
        push(store, "n0", Content(f"{base.content.text}x"), base)
        connection.set_progress_handler(None, 10)
        return len(taken)

    def fill(numbers):
        at = "2026-11-20T21:09:52.649+00:00" if text_dates else 1_700_000_000_000
        with app.opened() as db:
            db.execute("BEGIN")
            for number in numbers:
                db.execute(
                    'INSERT INTO "Note" ("id", "content", "updatedAt") VALUES (?, \'x\', ?)',
                    (f"n{number}", at),
                )
            db.execute("COMMIT")

    fill(range(30))
    steps()
    few = steps()
    fill(range(30, 1000))
    assert 0 < steps() < few * 1.3


@pytest.mark.parametrize("left", [0, 24_000], ids=["for_nothing", "until_the_commit"])
def test_a_full_disk_keeps_what_was_there_and_writes_go_on_later(tmp_path, opens, left):
    disk = SmallDisk(tmp_path / "disk", "1m")
    if not disk.mounted:
        pytest.skip("no disk can be mounted here")
    try:
        app = MementoFile(disk.folder / "dev.db")
        store = opens(app.path)
        made = push(store, "n1", Content("old"))
        filler = disk.fill()
        os.truncate(filler, filler.stat().st_size - left)
        with pytest.raises(StoreUnavailable, match="full"):
            push(store, "n1", Content("x" * 100_000), made)
        assert app.row("n1")["content"] == "old"
        with filler.open("r+b") as file:  # now only the commit finds no room
            file.truncate(filler.stat().st_size - 6 * 4096)
        with pytest.raises(StoreUnavailable, match="full"):
            push(store, "n1", Content("x" * 60_000), made)
        assert app.row("n1")["content"] == "old"
        filler.unlink()
        push(store, "n1", Content("new"), made)
        assert app.row("n1")["content"] == "new"
        asyncio.run(store.close())
    finally:
        disk.unmount()


def test_a_damaged_file_is_named(app, store):
    for number in range(50):
        app.put(f"n{number}", "x" * 5000)
    with app.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 65536)
    with pytest.raises(StoreUnavailable, match="damaged"):
        listing(store)


def test_settings_of_the_file_stay_also_in_wal_mode(app, store):
    app.run("PRAGMA journal_mode = WAL")
    before = app.run("PRAGMA user_version") + app.run('SELECT * FROM "_prisma_migrations"')
    push(store, "n1", Content("x"))
    edit(store, "n1", "y")
    assert app.row("n1")["content"] == "y"
    assert app.run("PRAGMA journal_mode") == [{"journal_mode": "wal"}]
    assert app.run("PRAGMA user_version") + app.run('SELECT * FROM "_prisma_migrations"') == before


def test_a_reading_connection_cannot_write(app):
    file = database_file.DatabaseFile(app.path)
    with pytest.raises(StoreUnavailable), file.reading() as (connection, _):
        connection.execute('DELETE FROM "Note"')


def test_ids_have_the_form_of_the_app(store):
    made = {store.new_id(Content("x"), seed=str(number), attempt=0) for number in range(100)}
    assert len(made) == 100
    assert all(len(one) == 25 and one[0] == "c" and one.isalnum() and one.islower() for one in made)


def without(*columns):
    """The table of notes of another version of the app."""
    return "\n".join(
        row
        for row in NOTE.splitlines()
        if not row.strip().startswith(tuple(f'"{one}"' for one in columns))
    )


def test_a_file_without_type_and_colour_takes_new_notes(tmp_path, opens):
    app = MementoFile(tmp_path / "old.db", note=without("type", "color"))
    store = opens(app.path)
    push(store, "n1", Content("x", native='{"columns":{"color":"default","content":"x"}}'))
    assert app.row("n1")["content"] == "x"
    with pytest.raises(StoreRejected, match="no color") as caught:
        push(store, "n2", Content("x", native='{"columns":{"color":"red","content":"x"}}'))
    assert "Leave that out" in caught.value.resolution_hint


def test_a_removed_note_comes_back_into_a_file_with_other_columns(tmp_path, opens):
    app = MementoFile(tmp_path / "dev.db", note=without("type"))
    app.run(
        'ALTER TABLE "Note" ADD COLUMN "gen" TEXT GENERATED ALWAYS AS (upper("content")) VIRTUAL'
    )
    app.put("n1", "x", images='["y"]', size="large")
    store = opens(app.path)
    base = asyncio.run(store.get("n1"))
    kept = asyncio.run(store.full_copy("n1")).decode()
    asyncio.run(store.delete("n1", etag=base.etag, write_id="0b"))
    app.run('ALTER TABLE "Note" DROP COLUMN "size"')
    push(store, "n1", Content("x", native=kept))
    row = app.row("n1")
    assert (row["content"], row["images"], row["gen"]) == ("x", '["y"]', "X")


def test_another_note_of_the_same_id_is_never_taken_for_ours(app, store):
    push(store, "n1", Content("ours"))
    repeated = asyncio.run(store.push(make_write(store, "n1", Content("ours"))))
    assert repeated.status is PushStatus.REPEATED
    app.put("n1", "of the app")
    with pytest.raises(IdTaken):
        push(store, "n1", Content("ours"))
    assert app.row("n1")["content"] == "of the app"


def test_half_characters_stay_and_hinder_no_edit(app, store):
    milk = r'{"id":"1","text":"milk \ud83d","checked":false}'
    app.put("n1", "", type="checklist", checkItems=rf'[{milk},{{"text":"eggs","u":"\udE00"}}]')
    base = asyncio.run(store.get("n1"))
    assert base.content == base.content.cleaned()
    edit(store, "n1", base.content.text.replace("[ ] eggs", "[x] eggs"))
    items = rf'[{milk},{{"text":"eggs","u":"\ude00","checked":true}}]'
    assert app.row("n1")["checkItems"] == items
    app.put("n2", "x", labels=r'["a \ud83d"]')
    labelled = asyncio.run(store.get("n2")).content
    assert labelled == labelled.cleaned()


@pytest.mark.parametrize("value", ['"\\ud83d"', "9999999999999999999999"])
def test_a_value_that_sqlite_does_not_take_is_refused(app, store, value):
    with pytest.raises(StoreRejected):
        push(store, "n1", Content("x", native=f'{{"columns":{{"size":{value}}}}}'))
    with pytest.raises(KeyError):
        app.row("n1")


def test_a_change_replaces_what_was_kept_and_nothing_else(app, store):
    app.put("n1", "x", images='["a"]', embedding="[1]")
    base = asyncio.run(store.get("n1"))
    content = replace(base.content, native='{"columns":{"images":"[\\"b\\"]"}}')
    write = make_write(store, "n1", content, base, now=1_700_000_000.0)
    kept = asyncio.run(store.find_replaced("n1", write.body))
    assert kept.names == ("pictures",)
    app.put("n1", "x", images='["c"]')
    before = app.row("n1")
    with pytest.raises(VersionConflict):
        asyncio.run(store.push(replace(write, replaced=kept.native)))
    assert app.row("n1") == before
    now = asyncio.run(store.find_replaced("n1", write.body))
    asyncio.run(store.push(replace(write, replaced=now.native)))
    assert app.row("n1")["images"] == '["b"]'
    assert asyncio.run(store.find_replaced("n1", write.body)).native == b""
    old = replace(base.content, native=now.native.decode())
    back = make_write(store, "n1", old, asyncio.run(store.get("n1")), now=1_700_000_001.0)
    app.put("n1", "x", images='["d"]')
    with pytest.raises(VersionConflict):
        asyncio.run(store.find_replaced("n1", back.body))


def test_a_note_with_other_pictures_than_those_that_are_kept_is_not_deleted(app, store):
    app.put("n1", "x", images='["a"]')
    base = asyncio.run(store.get("n1"))
    asyncio.run(store.full_copy("n1"))
    app.run('UPDATE "Note" SET "images" = \'["b"]\', "updatedAt" = "updatedAt" + 1')
    with pytest.raises(VersionConflict):
        asyncio.run(store.delete("n1", etag=base.etag, write_id="0b"))
    assert app.row("n1")["images"] == '["b"]'
    asyncio.run(store.full_copy("n1"))
    asyncio.run(store.delete("n1", etag=base.etag, write_id="0c"))
    with pytest.raises(KeyError):
        app.row("n1")


def test_a_save_of_tags_title_and_flags_sends_no_text_whatever_was_read(app, store):
    app.put("n1", "the text")
    base = asyncio.run(store.get("n1"))
    wrong = replace(base, content=replace(base.content, text="not the text"))
    wanted = replace(wrong.content, tags=("one",), title="Title", properties=flags("pinned"))
    push(store, "n1", wanted, wrong)
    row = app.row("n1")
    assert (row["content"], row["title"], row["isPinned"]) == ("the text", "Title", 1)
