"""Test a real, confined server over the worked example of ``docs/new-store.md``: one line makes it a store."""

import json
import stat
import subprocess
import sys

import pytest

from support.whole import Server, store_environment, until

PROGRAM = """
import sys
from mcp_notarium.stores import registry
registry._MODULES["text_folder"] = "notarium_devtools.text_folder.kind"
from mcp_notarium.__main__ import main
sys.exit(main())
"""
pytestmark = pytest.mark.slow("each test starts a server of its own")
COMMAND = [sys.executable, "-c", PROGRAM]


@pytest.fixture(name="notes")
def _notes(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "Shopping.txt").write_bytes(b"\xef\xbb\xbfShopping\r\n- milk\r\n")
    (notes / "latin.txt").write_bytes(b"caf\xe9\n")
    return notes


@pytest.fixture(name="env")
def _env(tmp_path, notes):
    return store_environment(tmp_path, "text_folder", TEXT_FOLDER_PATH=str(notes))


def test_notes_are_listed_read_changed_created_and_deleted(env, notes):
    with Server(env, command=COMMAND) as server:
        server.loaded(1)
        note = server.tool("get", id="Shopping")
        assert note["text"] == "\ufeffShopping\r\n- milk\r\n"
        text = note["text"] + "- eggs\r\n"
        (notes / "Shopping.txt").chmod(0o664)
        saved = server.tool("save", id="Shopping", local_version=note["local_version"], text=text)
        assert (notes / "Shopping.txt").read_bytes() == text.encode()
        assert stat.S_IMODE((notes / "Shopping.txt").stat().st_mode) == 0o664
        assert server.tool("save", text="Shopping\nanother\n")["id"] == "Shopping 2"
        assert server.error("save", text="x\n", tags=["t"])["subcategory"] == "no_tags"
        version = saved["local_version"]
        refused = server.error("manage", action="trash", id="Shopping", local_version=version)
        assert refused["subcategory"] == "no_trash"
        server.tool(
            "manage",
            action="delete_permanently",
            id="Shopping",
            local_version=version,
            confirm=True,
        )
        assert server.tool("manage", action="get_stats")["stats"]["sync_left_out"] == 1
        assert server.leave() == 0
    assert sorted(path.name for path in notes.iterdir()) == ["Shopping 2.txt", "latin.txt"]


def test_what_another_program_wrote_meanwhile_is_merged(env, notes):
    with Server(env, command=COMMAND) as server:
        server.loaded(1)
        note = server.tool("get", id="Shopping")
        (notes / "Shopping.txt").write_bytes(b"\xef\xbb\xbfShopping\r\n- bread\r\n- milk\r\n")
        text = note["text"] + "- eggs\r\n"
        server.tool("save", id="Shopping", local_version=note["local_version"], text=text)
        assert server.leave() == 0
    assert (notes / "Shopping.txt").read_text() == "\ufeffShopping\n- bread\n- milk\n- eggs\n"


def test_what_another_program_writes_is_seen_within_seconds(env, notes):
    with Server(env, command=COMMAND) as server:
        server.loaded(1)
        (notes / "New.txt").write_bytes(b"New\nfrom an editor\n")
        until(lambda: server.tool("list", query="editor")["total_items"] == 1)
        assert server.leave() == 0


def test_the_folder_is_named_in_the_settings_and_needed(env, notes):
    def run(*arguments):
        return subprocess.run(
            [*COMMAND, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False
        )

    shown = json.loads(run("--print-config-vars", "--json").stdout)
    assert "TEXT_FOLDER_PATH" in {row["name"] for row in shown}
    notes.rename(notes.with_name("elsewhere"))
    with Server(env, command=COMMAND) as server:
        until(lambda: server.tool("manage", action="get_stats")["stats"]["db_sync_error_count"] > 0)
        error = server.error("save", text="x\n")
        assert error["subcategory"] == "unavailable"
        assert "the folder of the notes cannot be used" in error["message"]
        assert server.leave() == 0
    del env["TEXT_FOLDER_PATH"]
    assert "TEXT_FOLDER_PATH is not set" in run("serve").stderr
