"""Test a real, confined server on Memento's file, which the app has open at the same time."""

import json
import shutil
import stat
import time
from pathlib import Path

import pytest

from support.long import LONG
from support.memento_file import MementoFile
from support.small_disk import SmallDisk
from support.talker import call
from support.whole import Server, store_environment, until

pytestmark = pytest.mark.slow("each test starts a server of its own")


@pytest.fixture(name="app")
def _app(tmp_path):
    folder = tmp_path / "prisma"
    folder.mkdir()
    app = MementoFile(folder / "dev.db", page_size=8192)
    items = [
        {"id": "1", "text": "milk", "checked": False},
        {"id": "2", "text": "eggs", "checked": True},
    ]
    app.run("INSERT INTO \"User\" VALUES ('u1', 'Ann', 'ann@example.org', 1700000000000)")
    app.put(
        "n1", "Plan A\n", title="Plan", labels='["big plans","work"]', color="teal", userId="u1"
    )
    app.put("n2", "", type="checklist", checkItems=json.dumps(items), images='["data:,x"]')
    return app


@pytest.fixture(name="env")
def _env(tmp_path, app):
    return store_environment(
        tmp_path, "memento", MEMENTO_DATABASE=str(app.path), NOTARIUM_DESTRUCTIVE="trust"
    )


def test_notes_are_read_changed_created_and_deleted(env, app):
    app.path.chmod(0o664)
    with Server(env) as server:
        server.loaded(2)
        note = server.tool("get", id="n1")
        assert (note["title"], note["text"], note["tags"]) == (
            "Plan",
            "Plan A\n",
            ["big plans", "work"],
        )
        assert note["properties"] == {"color": "teal"}
        server.tool("save", id="n1", local_version=note["local_version"], text="Plan B\n")
        items = server.tool("get", id="n2")
        assert items["in_app"] == {"images": True}
        assert items["text"] == "- [ ] milk\n- [x] eggs"
        server.tool("save", id="n2", find="- [ ] milk", replace="- [x] milk\n- [ ] tea")
        made = server.tool(
            "save", title="New", text="x\n", tags=["two words"], properties={"archived": True}
        )
        version = server.tool("get", id="n1")["local_version"]
        refused = server.error("manage", action="trash", id="n1", local_version=version)
        assert refused["subcategory"] == "no_trash"
        assert "archived" in refused["resolution_hint"]
        server.tool(
            "manage", action="delete_permanently", id="n1", local_version=version, confirm=True
        )
        assert server.leave() == 0
    row = app.row("n2")
    assert json.loads(row["checkItems"])[0] == {"id": "1", "text": "milk", "checked": True}
    assert [item["text"] for item in json.loads(row["checkItems"])] == ["milk", "tea", "eggs"]
    assert row["images"] == '["data:,x"]'
    row = app.row(made["id"])
    assert (row["userId"], row["isArchived"], row["labels"]) == ("u1", 1, '["two words"]')
    assert len(app.run('SELECT * FROM "Note"')) == 2
    assert stat.S_IMODE(app.path.stat().st_mode) == 0o664
    assert app.run("PRAGMA journal_mode") == [{"journal_mode": "delete"}]
    assert app.run("PRAGMA page_size") == [{"page_size": 8192}]


def test_what_the_app_writes_is_merged_and_seen(env, app):
    with Server(env) as server:
        server.loaded(2)
        note = server.tool("get", id="n1")
        app.put("n1", "by the app\nPlan A\n", color="red")
        text = note["text"] + "by an agent\n"
        server.tool("save", id="n1", local_version=note["local_version"], text=text)
        assert app.row("n1")["content"] == "by the app\nPlan A\nby an agent\n"
        assert app.row("n1")["color"] == "red"
        app.put("n2", "", reminder=1798135200123)
        due = {"reminder": "2026-12-24T18:00:00.123Z", "isReminderDone": False}
        until(lambda: server.tool("get", id="n2").get("properties") == due)
        assert server.tool("get", id="n2")["in_app"] == {"images": True}
        app.put("n3", "from the app")
        until(lambda: server.tool("list", query='"from the app"')["total_items"] == 1)
        assert server.leave() == 0


LOCKED = 60.0 if LONG else 0.1
"""Seconds for which the app keeps its file locked, at least; a save waits five of them."""
MANY = 15


class Misfortunes:
    """What happens to the file, one after the other, while a server runs. After each it goes on by itself."""

    def __init__(self, app, server, disk):
        self.app, self.server, self.disk = app, server, disk

    def save(self, text, *, fails=False):
        version = self.server.tool("get", id="n1")["local_version"]
        by = self.server.error if fails else self.server.tool
        return by("save", id="n1", local_version=version, text=text)

    def refuses(self, text, reason):
        message = self.save(text, fails=True)["message"]
        assert reason in message
        assert "nothing was saved" in message

    def shows(self, note_id, text):
        until(lambda: self.server.tool("get", id=note_id)["text"] == text)

    def follows(self, instead=None):
        """A change of the app shows here without a write; ``instead``: a file that takes the place of the app's."""
        mark = f"by the app {time.monotonic()}\n"
        if instead is None:
            self.app.put("n0", mark)
        else:
            MementoFile(instead).put("n0", mark)
            instead.replace(self.app.path)
        self.shows("n0", mark)

    def copy(self):
        return Path(shutil.copy(self.app.path, self.app.path.with_name("copy.db")))

    def locked(self):
        began = time.monotonic()
        with self.app.opened() as db:
            db.execute("BEGIN EXCLUSIVE")
            while time.monotonic() - began < LOCKED:
                self.refuses("lost\n", "locked by another program")
        self.save("after the lock\n")
        self.follows()

    def gone(self):
        away = self.app.path.rename(self.app.path.with_name("away.db"))
        self.refuses("lost\n", "cannot be used")
        self.shows("n1", "after the lock\n")
        away.rename(self.app.path)
        self.save("it is back\n")
        self.follows()

    def replaced_by_a_newer_version(self):
        newer = MementoFile(self.copy())
        newer.run('ALTER TABLE "Note" ADD COLUMN "mood" TEXT')
        newer.run('ALTER TABLE "Note" DROP COLUMN "embedding"')
        self.follows(newer.path)
        self.save("in a newer file\n")

    def replaced_by_an_older_copy(self):
        copy = self.copy()
        self.save("after the copy\n")
        made = self.server.tool("save", text="made after the copy\n", title="New", tags=["x y"])
        copy.replace(self.app.path)
        self.shows("n1", "in a newer file\n")
        lost = self.manage("history", id="n1")["history"][1]["version"]
        assert self.server.tool("get", id="n1", version=lost)["text"] == "after the copy\n"
        until(lambda: "new_local_version" in self.manage("history", id=made["id"]))
        until(lambda: self.server.tool("list", query="made")["total_items"] == 0)
        kept = self.manage("history", id=made["id"])
        (row,) = kept["history"]
        assert "before another program removed it" in row["changed"]
        self.manage("restore_version", id=made["id"], version=row["version"], confirm=True)
        again = self.server.tool("get", id=made["id"])
        assert [again[part] for part in ("title", "text", "tags")] == [
            *("New", "made after the copy\n", ["x y"])
        ]
        self.manage(
            "delete_permanently", id=again["id"], local_version=again["local_version"], confirm=True
        )
        self.follows()

    def manage(self, action, **arguments):
        return self.server.tool("manage", action=action, **arguments)

    def on_a_full_disk(self):
        if (
            self.disk.mounted
        ):  # as only a superuser can; the tests of the store say that they skip it
            filler = self.disk.fill()
            self.refuses("x" * 100_000, "is full")
            filler.unlink()
        self.save("there is room\n")

    def emptied_and_put_back(self):
        copy = self.copy()
        self.app.run('DELETE FROM "Note"')
        until(
            lambda: (
                self.server.tool("manage", action="get_stats")["stats"]["sync_state"] == "halted"
            )
        )
        self.shows("n2", "text 2\n")
        self.follows(copy)
        assert self.server.tool("list", limit=1)["total_items"] == MANY


def test_what_happens_to_the_file_is_said_and_is_over_when_the_file_is_back(tmp_path):
    disk = SmallDisk(tmp_path / "disk", "3m")
    try:
        app = MementoFile(disk.folder / "dev.db")
        for number in range(MANY):
            app.put(f"n{number}", f"text {number}\n", images='["data:,x"]')
        env = store_environment(
            tmp_path, "memento", MEMENTO_DATABASE=str(app.path), NOTARIUM_DESTRUCTIVE="trust"
        )
        with Server(env) as server:
            server.loaded(MANY)
            file = Misfortunes(app, server, disk)
            file.locked()
            file.gone()
            file.replaced_by_a_newer_version()
            file.replaced_by_an_older_copy()
            file.on_a_full_disk()
            file.emptied_and_put_back()
            assert server.leave() == 0
        assert app.run("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        texts = {row["id"]: row["content"] for row in app.run('SELECT * FROM "Note"')}
        assert texts.pop("n1") == "there is room\n"
        assert texts.pop("n0").startswith("by the app")
        assert texts == {f"n{number}": f"text {number}\n" for number in range(2, MANY)}
        assert {row["images"] for row in app.run('SELECT "images" FROM "Note"')} == {'["data:,x"]'}
    finally:
        disk.unmount()


def test_the_native_tools_of_a_confined_server(env, app):
    with Server(env | {"NOTARIUM_TOOLS": "native"}) as server:

        def gives(tool, **arguments):
            return json.loads(server.result(tool, **arguments)["content"][0]["text"])

        made = gives(
            "create_note", title="Meeting Notes", content="Discussed Q1 roadmap...", color="blue"
        )
        assert gives("search_notes", query="ROADMAP")[0]["id"] == made["id"]
        assert {row["id"] for row in gives("get_notes")} == {"n1", "n2", made["id"]}
        assert gives("get_labels") == ["big plans", "work"]
        assert gives("toggle_archive", id=made["id"])["isArchived"]
        assert gives("delete_note", id=made["id"]) == {"success": True, "message": "Note deleted"}
        assert server.leave() == 0
    assert len(app.run('SELECT * FROM "Note"')) == 2


def test_without_versions_nobody_takes_anything_away_unasked(tmp_path, app):
    env = store_environment(
        tmp_path,
        "memento",
        MEMENTO_DATABASE=str(app.path),
        NOTARIUM_VERSION_DAYS="0",
        NOTARIUM_DESTRUCTIVE="trust",
    )
    before = app.run('SELECT * FROM "Note"')
    with Server(env) as server:
        server.loaded(2)
        version = server.tool("get", id="n1")["local_version"]
        given = {"id": "n1", "local_version": version, "text": "Plan B\n"}
        refused = server.error("save", **given)
        assert "NOTARIUM_VERSION_DAYS is 0" in refused["details"]["asks"]
        assert app.run('SELECT * FROM "Note"') == before
        server.tool("save", **given, confirm=True)
        assert app.row("n1")["content"] == "Plan B\n"
        server.tool("save", id="n1", append="more")
        assert server.leave() == 0


def test_pictures_that_no_version_has_room_for_stay_unless_the_user_agrees(tmp_path, app):
    app.put("n2", "", images=json.dumps(["data:," + "x" * 2_000_000]))
    env = store_environment(
        tmp_path, "memento", MEMENTO_DATABASE=str(app.path), NOTARIUM_VERSION_MB="1",
        NOTARIUM_TOOLS="native",
    )  # fmt: skip
    before = app.run('SELECT * FROM "Note"')
    with Server(env) as server:
        until(lambda: "n2" in json.dumps(server.ask(call(0, "get_notes"))))
        for tool, more in (("update_note", {"images": None}), ("delete_note", {})):
            answer = server.ask(call(1, tool, id="n2", **more))
            assert "NOTARIUM_VERSION_MB" in answer["error"]["message"]
            assert app.run('SELECT * FROM "Note"') == before
        assert server.leave() == 0
