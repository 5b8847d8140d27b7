"""A person lists versions, compares them, restores one and undoes a change: beside a server, and without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support.memento_file import MementoFile
from support.whole import Server, environment, run, store_environment


def output(env: dict[str, str], *arguments: str) -> str:
    done = run(env, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow("six processes, one after another")
def test_beside_a_server_a_change_is_seen_compared_undone_and_recorded(tmp_path: Path) -> None:
    simulator = Simulator()
    with simulator.running():
        env = environment(simulator, tmp_path)
        with Server(env) as server:
            note = server.tool("save", text="one\nb\n")
            note = server.tool(
                "save", id=note["id"], local_version=note["local_version"], text="two\x1b[31m\nb\n"
            )
            rows = json.loads(output(env, "history", note["id"], "--json"))["history"]
            assert [row["changed"][:11] for row in rows] == ["+1 -1 lines", "the first t"]
            listed = output(env | {"TZ": "Pacific/Kiritimati"}, "history", note["id"]).splitlines()
            assert [int(one[21:23]) for one in listed[::2]] == [
                (int(row["at"][11:13]) + 14) % 24 for row in rows
            ]
            shown = output(env, "diff", note["id"])
            assert "-one\n+two\\u001b[31m\n b" in shown
            assert "\x1b" not in shown
            said = output(env, "undo", note["id"])
            assert said == "undone. Changed: +1 -1 lines.\n"
            assert server.tool("get", id=note["id"])["text"] == "one\nb\n"
            again = server.tool("manage", action="history", id=note["id"])["history"]
            assert "command line" in again[0]["by"]
            assert server.leave() == 0
        version = rows[0]["version"]
        simulator.put(note["id"], content="elsewhere")
        refused = run(env, "undo", note["id"])
        assert refused.returncode == 1
        assert "after it: 4" in refused.stderr
        assert simulator.note(note["id"])["content"] == "elsewhere"
        assert "restored" in output(env, "restore-version", note["id"], version)
    assert simulator.note(note["id"])["content"] == "two\x1b[31m\nb\n"
    acts = output(env, "audit", "tail")
    for act in ("cli.history", "cli.diff", "cli.undo", "cli.restore-version"):
        assert f"{act} " in acts


@pytest.mark.slow("five processes, one after another")
def test_without_a_network_a_local_note_is_restored_and_a_policy_that_forbids_it_obeyed(
    tmp_path: Path,
) -> None:
    env = environment(Simulator(), tmp_path, NOTARIUM_STORE="local")  # which does not run
    with Server(env) as server:
        note = server.tool("save", text="one")
        note = server.tool("save", id=note["id"], local_version=note["local_version"], text="two")
        assert server.leave() == 0
    done = run(env | {"NOTARIUM_READ_ONLY": "1"}, "undo", note["id"])
    assert done.returncode == 1
    assert "can only be read" in done.stderr
    assert "restored" in output(env, "restore-version", "two", "1")
    assert "+one" in output(env, "diff", "one")
    named = run(env, "history", "one")
    assert named.stderr == f"one  {note['id']}\n"
    assert named.stdout.count("talker 1") == 2  # also who made it
    assert "undone" in output(env, "undo", "one")
    unknown = run(env, "history", "nobody")
    assert unknown.returncode == 1
    assert "no note has this id or these words" in unknown.stderr


@pytest.mark.slow("five processes, one after another")
def test_a_person_is_told_of_notes_and_commands_and_not_of_tools(tmp_path: Path) -> None:
    env = environment(Simulator(), tmp_path, NOTARIUM_STORE="local")
    with Server(env) as server:
        notes = [server.tool("save", text=f"bread {number}") for number in (1, 2)]
        assert server.leave() == 0
    several = run(env, "undo", "bread")
    assert several.returncode == 1
    assert "2 notes have these words" in several.stderr
    assert all(note["id"] in several.stderr for note in notes)
    nothing = run(env, "undo", "bread", "1")
    assert "`mcp-notarium history NOTE`" in nothing.stderr
    assert "Action" not in nothing.stderr
    missing = run(env, "diff", "bread 1", "9")
    assert "`mcp-notarium history NOTE`" in missing.stderr


@pytest.mark.slow("four processes, one after another")
def test_a_note_that_was_deleted_for_good_in_mementos_file_is_brought_back(tmp_path: Path) -> None:
    app = MementoFile(tmp_path / "dev.db")
    env = store_environment(
        tmp_path, "memento", MEMENTO_DATABASE=str(app.path), NOTARIUM_DESTRUCTIVE="trust"
    )
    with Server(env) as server:
        note = server.tool("save", text="dear\n", title="Kept")
        server.tool(
            "manage",
            action="delete_permanently",
            id=note["id"],
            local_version=note["local_version"],
            confirm=True,
        )
        assert server.leave() == 0
    assert app.run('SELECT * FROM "Note"') == []
    (row,) = json.loads(output(env, "history", note["id"], "--json"))["history"]
    assert "restored" in output(env, "restore-version", note["id"], row["version"])
    (again,) = app.run('SELECT "id", "content" FROM "Note"')
    assert (again["id"], again["content"]) == (note["id"], "dear\n")
