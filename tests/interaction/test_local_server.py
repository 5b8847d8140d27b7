"""Test a real, confined server over the local notebook: a whole life, two servers, and ``kill -9``."""

import itertools
import json
import os
import random
import re
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.small_disk import SmallDisk
from support.whole import Server, run, store_environment, until

pytestmark = pytest.mark.slow("each test starts servers of its own")


@pytest.fixture(name="env")
def _env(tmp_path):
    return store_environment(tmp_path, "local", LOG_LEVEL="debug", NOTARIUM_DESTRUCTIVE="trust")


def act(server, action, note, **more):
    version = note.get("local_version") or note["new_local_version"]
    return server.tool("manage", action=action, id=note["id"], local_version=version, **more)


def test_a_note_is_made_changed_found_trashed_and_removed(env):
    with Server(env) as server:
        note = server.tool("save", text="Shopping\n- milk\n", tags=["home"])
        version = note["local_version"]
        note = server.tool(
            "save", id=note["id"], local_version=version, text="Shopping\n- eggs canary\n"
        )
        assert server.tool("list", query="eggs tag:home")["total_items"] == 1
        stale = server.error("save", id=note["id"], local_version=version, text="Shopping\n- x\n")
        assert stale["subcategory"] == "conflict"
        server.tool("manage", action="reset_cache", confirm=True)
        until(lambda: server.tool("list", query="eggs")["total_items"] == 1)
        again = server.tool("get", id=note["id"])
        assert again["local_version"] > note["local_version"]  # an emptied index numbers anew
        note = again
        stats = server.tool("manage", action="get_stats")["stats"]
        assert (stats["backend"], stats["pending_writes"]) == ("local", 0)
        trashed = act(server, "trash", note)
        assert server.tool("list")["total_items"] == 0
        note = act(server, "untrash", trashed)
        note = act(server, "trash", note)
        act(server, "delete_permanently", note, confirm=True)
        assert server.error("get", id=note["id"])["category"] == "NOT_FOUND"
        assert server.leave() == 0
        assert "canary" not in server.errors()


def test_the_next_server_has_the_notes_and_the_commands_say_what_it_is(env):
    with Server(env) as server:
        note = server.tool("save", text="kept\n")
        assert server.leave() == 0
    with Server(env) as server:
        assert server.tool("get", id=note["id"])["text"] == "kept\n"
        assert server.leave() == 0
    assert "the local notebook needs no login" in run(env, "login", "--code-stdin").stderr
    facts = json.loads(run(env, "status", "--json").stdout)
    assert (facts["backend"], facts["notes"]) == ("local", 1)
    assert run(env, "doctor").returncode == 0
    assert run(env, "reset-cache", "--yes").returncode == 0
    with Server(env) as server:
        server.loaded(1)
        assert server.leave() == 0
    assert run(env, "purge", stdin="no\n").returncode == 1
    env["LOCAL_NOTEBOOK"] = "another"
    assert json.loads(run(env, "status", "--json").stdout)["folder"] != facts["folder"]


def test_what_a_server_was_told_is_saved_survives_kill_9_beside_another_server(env):
    dice = random.Random(7)
    saved = []
    with Server(env) as other:
        other.tool("save", text="of the other\n")
        for round_ in range(4):
            with Server(env) as server:
                server.tool("list")
                killing = threading.Timer(
                    dice.uniform(0.05, 0.6), os.kill, (server.process.pid, signal.SIGKILL)
                )
                killing.start()
                with suppress(AssertionError, OSError):
                    saved.extend(
                        server.tool("save", text=f"note {round_} {number}\n")["id"]
                        for number in range(500)
                    )
                killing.join()
                server.process.wait(20)
        assert saved
        assert other.leave() == 0
    with Server(env) as server:
        for note_id in saved:
            assert server.tool("get", id=note_id)["id"] == note_id
        stats = server.tool("manage", action="get_stats")["stats"]
        assert len(saved) + 1 <= stats["db_total_notes"] <= len(saved) + 5
        assert stats["pending_writes"] == 0
        assert server.leave() == 0
    assert run(env, "audit", "verify").returncode == 0


def test_two_servers_see_each_other_at_once(env):
    with Server(env) as one, Server(env) as two:
        assert one.tool("list")["total_items"] == two.tool("list")["total_items"] == 0
        began = time.monotonic()
        note = one.tool("save", text="a\n")
        assert two.tool("list")["total_items"] == 1
        version = note["local_version"]
        two.tool("save", id=note["id"], local_version=version, text="A\nb\n")
        assert one.tool("get", id=note["id"])["text"] == "A\nb\n"
        stale = one.error("save", id=note["id"], local_version=version, text="0\n")
        assert stale["subcategory"] == "conflict"
        both = one.tool("save", id=note["id"], local_version=version, text="0\na\n")
        assert both["merged"]
        assert both["changed"] == [{"line": 1, "text": "0\nA\nb\n"}]
        assert time.monotonic() - began < 5
        assert (one.leave(), two.leave()) == (0, 0)


def text_of(answer):
    return answer["result"]["content"][0]["text"]


def test_the_native_tools_serve_the_same_notes_beside_ours(env):
    env |= {"NOTARIUM_TOOLS": "both", "NOTARIUM_NATIVE_NAMES": "snake"}
    with Server(env) as server:
        numbers = itertools.count(1000)

        def ask(method, **params):
            request = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
            return server.ask(request)

        def call(name, **arguments):
            return ask("tools/call", name=name, arguments=arguments)

        names = [tool["name"] for tool in ask("tools/list")["result"]["tools"]]
        assert names[:5] == ["list", "get", "save", "manage", "add_note"]
        assert len(ask("prompts/list")["result"]["prompts"]) == 3 + 5
        asked = ask("prompts/get", name="quick_note", arguments={"content": "Buy tea"})
        assert "`add_note`" in asked["result"]["messages"][0]["content"]["text"]

        added = text_of(call("add_note", title="Meeting Ideas", content="Discuss Q4 roadmap"))
        found = re.fullmatch(r"Added note 'Meeting Ideas' with ID ([0-9a-f]{8}) ✅", added)
        note = server.tool("get", id=found[1])
        assert (note["title"], note["text"]) == ("Meeting Ideas", "Discuss Q4 roadmap")
        titled = server.tool("save", id=note["id"], local_version=note["local_version"], title="Q4")
        assert titled["title"] == "Q4"
        hit = text_of(call("search_notes", query="ROADMAP"))
        assert f"1. [{note['id']}] Q4\n   Content: Discuss Q4 **roadmap**\n" in hit
        deleted = f"Deleted note 'Q4' (ID: {note['id']}) ✅"
        assert text_of(call("delete_note", id=note["id"])) == deleted
        gone = call("get_note", id=note["id"])["error"]
        assert (gone["code"], gone["message"]) == (
            -32602,
            f"Note with ID '{note['id']}' not found ❌",
        )
        assert gone["data"]["message"] == gone["message"]
        assert "No notes found." in text_of(call("list_notes"))
        assert server.leave() == 0
        assert "roadmap" not in server.errors()


def test_a_stop_after_changes_makes_a_copy_that_a_command_restores(env):
    env["LOCAL_COPIES"] = "2"
    for number in range(4):
        with Server(env) as server:
            if number < 3:
                kept = server.tool("save", text=f"note {number}\n")
            assert server.leave() == 0
            assert "cache.not_copied" not in server.errors()
    listed = json.loads(run(env, "restore", "--list", "--json").stdout)
    assert [name.split("-")[1] for name in listed["copies"]] == [
        "3.sqlite.encrypted",
        "2.sqlite.encrypted",
    ]
    assert "ok    copies" in run(env, "doctor").stdout
    copies = Path(listed["folder"])
    (copies / listed["copies"][0]).unlink()
    listed["copies"][1] = "20250101T000000Z-2.sqlite.encrypted"
    next(copies.iterdir()).rename(copies / listed["copies"][1])
    assert "warn  age of copies" in run(env, "doctor").stdout
    assert "restore --make" in str(json.loads(run(env, "status", "--json").stdout)["notices"])
    assert json.loads(run(env, "restore", "--make", "--json").stdout)["copies"][0].endswith(
        "-3.sqlite.encrypted"
    )
    assert run(env, "restore", stdin="no\n").returncode == 1
    done = run(env, "restore", listed["copies"][1], "--yes")
    assert done.returncode == 0, done.stderr
    with Server(env) as server:
        server.loaded(2)
        assert server.error("get", id=kept["id"])["category"] == "NOT_FOUND"
        saved = server.tool("save", text="after\n")
        assert saved["local_version"] > 1_700_000_000
        assert server.leave() == 0
    assert run(env, "audit", "verify").returncode == 0
    folder = Path(listed["folder"]).parent
    (database,) = folder.glob("notarium_cache.*.sqlite.encrypted")
    database.write_bytes(b"rubbish" * 4096)
    with Server(env) as server:
        error = server.error("list")
        assert error["details"]["verdict"] == "database_damaged"
        assert server.leave() != 0
    refused = run(env, "reset-cache", "--yes")
    assert refused.returncode == 13
    assert "mcp-notarium restore" in refused.stderr
    assert run(env, "restore", "--yes").returncode == 0
    with Server(env) as server:
        server.loaded(3)
        assert server.leave() == 0


def test_a_full_disk_refuses_a_save_and_keeps_what_was_saved(env, tmp_path):
    disk = SmallDisk(tmp_path / "disk", "8m")
    try:
        if not disk.mounted:
            pytest.skip("no small disk can be mounted here")
        env["NOTARIUM_DATA_DIR"] = str(disk.folder / "data")
        with Server(env) as server:
            kept = server.tool("save", text="kept\n")
            filler = disk.fill()
            refused = {server.error("save", text="x" * 20_000)["subcategory"] for _ in range(3)}
            assert refused <= {"not_recorded", "full"}
            assert server.tool("get", id=kept["id"])["text"] == "kept\n"
            server.leave()
            assert "x" * 40 not in server.errors()
        filler.unlink()
        with Server(env) as server:
            assert server.tool("list")["total_items"] == 1
            server.tool("save", text="again\n")
            assert server.leave() == 0
        assert len(json.loads(run(env, "restore", "--list", "--json").stdout)["copies"]) >= 1
    finally:
        disk.unmount()
