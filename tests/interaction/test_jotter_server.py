"""Test a real, confined server over the worked example of ``docs/new-store.md``: one line makes it a store."""

import json
from functools import partial

import pytest

from notarium_devtools.jotter.simulator import JotterSimulator
from support import whole
from support.jotter_client import COMMAND
from support.services import running
from support.terminal import Terminal
from support.whole import Server, store_environment, until

pytestmark = pytest.mark.slow("each test starts a server of its own")
NOTES = 150


@pytest.fixture(name="sim")
def _sim():
    sim = JotterSimulator()
    sim.write_notebook("work", "Work")
    sim.write_notebook("plans", "Plans", "work")
    for number in range(NOTES - 1):
        sim.write(f"note{number}", title=f"Note {number}", body=f"text {number}\n")
    sim.write("milk", title="Milk", body="- [ ] two litres\n", is_todo=1, parent_id="plans")
    with running(sim):
        yield sim


@pytest.fixture(name="env")
def _env(tmp_path, sim):
    return store_environment(
        tmp_path, "jotter", JOTTER_URL=sim.url, JOTTER_TOKEN=sim.token, NOTARIUM_DESTRUCTIVE="trust"
    )


run = partial(whole.run, command=COMMAND)


def test_notes_are_found_changed_created_trashed_and_deleted(env, sim):
    with Server(env, command=COMMAND) as server:
        server.loaded(NOTES)
        (found,) = server.tool("list", query="litres")["content"]
        note = server.tool("get", id=found["uuid"])
        assert (note["title"], note["text"]) == ("Milk", "- [ ] two litres\n")
        assert (note["in_app"], note["properties"]) == (
            {"notebook": "Work/Plans"},
            {"todo": "open"},
        )
        saved = server.tool("save", id="milk", find="[ ]", replace="[x]")
        assert (sim.notes["milk"]["body"], sim.notes["milk"]["is_todo"]) == (
            "- [x] two litres\n",
            1,
        )
        made = server.tool("save", title="Bread", text="rye\n")
        assert sim.notes[made["id"]]["title"] == "Bread"
        refused = server.error("save", text="x\n", tags=["t"])
        assert refused["subcategory"] == "no_tags"
        version = saved["local_version"]
        server.tool("manage", action="trash", id="milk", local_version=version)
        assert sim.notes["milk"]["deleted_time"] > 0
        version = server.tool("get", id="milk")["local_version"]
        server.tool(
            "manage", action="delete_permanently", id="milk", local_version=version, confirm=True
        )
        assert "milk" not in sim.notes
        assert server.leave() == 0


def test_a_field_is_offered_found_set_and_taken_away(env, sim):
    with Server(env, command=COMMAND) as server:
        server.loaded(NOTES)
        offered = server.ask({"jsonrpc": "2.0", "id": 99, "method": "tools/list"})["result"][
            "tools"
        ]
        taken = {one["name"]: one["inputSchema"]["properties"] for one in offered}
        assert "properties" in taken["save"]
        assert "properties" in taken["manage"]
        actions = taken["manage"]["action"]["enum"]
        assert ("list_folders" in actions, "move_folder" in actions) == (True, False)
        assert ("folder" in taken["manage"], "new_folder" in taken["manage"]) == (True, False)
        found = server.tool("list", query="todo:open")
        assert [one["uuid"] for one in found["content"]] == ["milk"]
        refused = server.error("save", id="milk", properties={"todo": "soon"})
        assert "none, open, done" in refused["resolution_hint"]
        server.tool("save", id="milk", properties={"todo": "done"})
        assert sim.notes["milk"]["todo_completed"] > 0
        saved = server.tool("save", id="milk", properties={"todo": "none"})
        assert sim.notes["milk"]["is_todo"] == 0
        assert "note" not in saved
        assert "properties" not in server.tool("get", id="milk")
        assert server.leave() == 0


def test_what_another_device_wrote_meanwhile_is_merged(env, sim):
    with Server(env, command=COMMAND) as server:
        server.loaded(NOTES)
        note = server.tool("get", id="note7")
        sim.write("note7", body="theirs\ntext 7\n")
        version = note["local_version"]
        server.tool("save", id="note7", local_version=version, text="text 7\nours\n")
        assert sim.notes["note7"]["body"] == "theirs\ntext 7\nours\n"
        assert server.leave() == 0


def test_what_another_device_writes_is_seen_within_seconds(env, sim):
    with Server(env, command=COMMAND) as server:
        server.loaded(NOTES)
        sim.write("note7", body="from a telephone\n")
        sim.remove("note8")
        until(lambda: server.tool("list", query="telephone")["total_items"] == 1)
        until(lambda: server.tool("list", limit=1)["total_items"] == NOTES - 1)
        assert server.leave() == 0


def test_a_token_that_is_refused_asks_for_a_login_and_notes_stay_readable(env, sim):
    with Server(env, command=COMMAND) as server:
        server.loaded(NOTES)
        sim.token = "another"
        error = server.error("save", id="note7", append="x")
        assert error["subcategory"] == "login_required"
        assert server.tool("list", query="litres")["total_items"] == 1
        assert server.leave() == 0


def test_the_settings_are_named_and_the_address_is_needed(env):
    shown = json.loads(run(env, "--print-config-vars", "--json").stdout)
    assert {"JOTTER_URL", "JOTTER_TOKEN"} <= {row["name"] for row in shown}
    assert env["JOTTER_TOKEN"] not in json.dumps(shown)
    del env["JOTTER_URL"]
    assert "JOTTER_URL is not set" in run(env, "serve").stderr


def test_a_token_that_was_typed_at_a_terminal_is_used_by_servers(env, sim):
    token = env.pop("JOTTER_TOKEN")
    with Terminal(env, "login", program=COMMAND) as terminal:
        terminal.shows("Token of the Jotter server: ")
        terminal.type(f"{token}\n")
        assert terminal.ends() == 0, terminal.screen
    with Server(env, command=COMMAND) as server:
        server.loaded(NOTES)
        assert server.leave() == 0
