"""Test the program with a store that is nothing like Simplenote: one line in the registry is all it gets."""

import json
import os
from functools import partial
from pathlib import Path

import pytest

from support import other_store, whole
from support.terminal import Terminal
from support.whole import RAW_KEY, Server, store_environment

COMMAND = other_store.command("folder", "support.other_kind")


@pytest.fixture(name="env")
def _env(tmp_path):
    place = tmp_path / "notes"
    place.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "NOTARIUM_DATA_DIR": str(tmp_path / "cache"),
        "NOTARIUM_KEYCHAIN": "off",
        "NOTARIUM_STORE": "folder",
        "OTHER_FOLDER": str(place),
        "DB_ENCRYPTION_KEY": RAW_KEY,
    }


run = partial(whole.run, command=COMMAND)


def test_a_server_serves_it(env):
    with Server(env, command=COMMAND) as server:
        saved = server.tool("save", text="in a folder\n")
        assert "in a folder" in str(server.tool("get", id=saved["id"]))
        assert server.tool("manage", action="get_stats")["stats"]["backend"] == "folder"
        assert server.leave() == 0
    facts = json.loads(run(env, "status", "--json").stdout)
    assert (facts["backend"], facts["notes"]) == ("folder", 1)
    assert facts["folder"] == str(next(Path(env["NOTARIUM_DATA_DIR"]).iterdir()))


@pytest.mark.parametrize("command", [("login",), ("login", "--code-stdin"), ("logout",)])
def test_a_login_is_not_needed_and_says_so(env, command):
    done = run(env, *command)
    assert done.returncode == 1
    assert "Folder needs no login" in done.stderr
    assert not Path(env["NOTARIUM_DATA_DIR"]).exists()


def test_only_its_own_settings_are_shown_and_asked_for(env):
    shown = run(env, "--print-config-vars", "--json")
    names = {row["name"] for row in json.loads(shown.stdout)}
    assert {"NOTARIUM_STORE", "OTHER_FOLDER", "OTHER_PORT"} < names
    assert not any(name.startswith("SIMPLENOTE") for name in names)
    del env["OTHER_FOLDER"]
    done = run(env, "serve")
    assert done.returncode == 1
    assert "OTHER_FOLDER is not set" in done.stderr
    assert "SIMPLENOTE" not in done.stderr


def test_an_account_without_a_name_is_purged_by_its_address_not_by_nothing(tmp_path):
    env = store_environment(tmp_path, "trilium", TRILIUM_URL="http://127.0.0.1:9")
    assert "http://127.0.0.1:9 (trilium)" in whole.run(env, "status").stdout
    with Terminal(env, "purge") as screen:
        screen.shows("(http://127.0.0.1:9) to go on: ")
        screen.type("\n")
        assert screen.ends() == 1
