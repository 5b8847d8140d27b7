"""Test a real, confined server on Memento's file, which the app has open at the same time."""

import json
import stat

import pytest

from support.memento_file import MementoFile
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
    return store_environment(tmp_path, "memento", MEMENTO_DATABASE=str(app.path))


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
        server.tool("save", id="n1", local_version=note["local_version"], text="Plan B\n")
        items = server.tool("get", id="n2")
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
        app.put("n3", "from the app")
        until(lambda: server.tool("list", query='"from the app"')["total_items"] == 1)
        assert server.leave() == 0


def test_a_file_that_is_locked_or_gone_is_said_and_used_again_later(env, app):
    with Server(env) as server:
        server.loaded(2)
        with app.opened() as db:
            db.execute("BEGIN EXCLUSIVE")
            error = server.error("save", text="x\n")
            assert "locked by another program" in error["message"]
            assert "nothing was saved" in error["message"]
            assert server.tool("get", id="n1")["title"] == "Plan"
        server.tool("save", text="after the lock\n")
        away = app.path.rename(app.path.with_name("away.db"))
        assert "cannot be reached" in server.error("save", text="x\n")["message"]
        away.rename(app.path)
        server.tool("save", text="it is back\n")
        assert server.leave() == 0
    texts = {row["content"] for row in app.run('SELECT "content" FROM "Note"')}
    assert {"after the lock\n", "it is back\n"} < texts
    assert "x\n" not in texts


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
