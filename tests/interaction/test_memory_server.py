"""Test a real, confined server whose notes are in its memory alone: no key, no folder, no file."""

import os

import pytest

from mcp_notarium.sandbox import landlock
from support.whole import Server, run

pytestmark = pytest.mark.slow("each test starts servers of its own")


@pytest.fixture(name="env")
def _env(tmp_path):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "NOTARIUM_DATA_DIR": str(tmp_path / "data"),
        "NOTARIUM_SANDBOX": "require" if landlock.version() else "off",
        "NOTARIUM_STORE": "memory",
        "NOTARIUM_TOOLS": "both",
        "LOG_LEVEL": "debug",
    }


def text_of(server, name, **arguments):
    result = server.result(name, **arguments)
    assert not result.get("isError"), result
    return result["content"][0]["text"]


def test_notes_live_as_long_as_the_server_and_no_file_is_made(env, tmp_path):
    with Server(env) as server:
        added = text_of(server, "AddNote", title="Meeting Ideas", content="Discuss the canary")
        note_id = added.removesuffix(" ✅").rpartition(" ")[2]
        assert added == f"Added note 'Meeting Ideas' with ID {note_id} ✅"
        assert len(note_id) == 8
        note = server.tool("get", id=note_id)
        saved = server.tool(
            "save", id=note_id, local_version=note["local_version"], text="Discuss it\n"
        )
        assert saved["title"] == "Meeting Ideas"
        assert server.tool("list", query="meeting")["total_items"] == 1
        stats = server.tool("manage", action="get_stats")["stats"]
        assert (stats["backend"], stats["db_encryption"]) == ("memory", "off")
        assert (stats["db_total_notes"], stats["db_file_size_mb"]) == (1, 0.0)
        refused = server.error("manage", action="reset_cache", confirm=True)
        assert "in the memory of this server" in refused["message"]
        text_of(server, "DeleteNote", id=note_id)
        trashed = server.tool("list", trash_status=1)["content"][0]
        server.tool("manage", action="untrash", id=note_id, local_version=trashed["local_version"])
        assert "All Notes (1 total)" in text_of(server, "ListNotes")
        assert list(tmp_path.rglob("*")) == []
        assert server.leave() == 0
        assert "canary" not in server.errors()
    with Server(env) as server:
        assert text_of(server, "ListNotes") == "No notes found. Create your first note! 📝"
        assert server.leave() == 0
    assert list(tmp_path.rglob("*")) == []


def test_commands_say_that_nothing_is_stored(env, tmp_path):
    for command in (["status"], ["purge"], ["audit", "verify"], ["keys", "list"]):
        done = run(env, *command)
        assert done.returncode == 1, command
        assert "there is nothing on the disk" in done.stderr, command
    done = run(env, "doctor")
    assert (done.returncode, "the notebook in memory" in done.stdout) == (0, True)
    assert list(tmp_path.rglob("*")) == []
