"""A person takes one encrypted file to another machine, and any key of the account opens it there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import stat
import zipfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.trilium import TriliumSimulator
from support.preloaded import ENTRY
from support.services import running
from support.terminal import Terminal
from support.whole import Server, environment, run

OTHER_KEY = "raw:" + "6b" * 32


@pytest.mark.slow("a dozen processes, one after another")
@pytest.mark.parametrize("store", ["local", "simplenote"])
def test_a_backup_is_one_private_file_that_brings_everything_back_elsewhere(
    tmp_path: Path, store: str
) -> None:
    simulator = Simulator()
    with simulator.running():
        env = environment(simulator, tmp_path, NOTARIUM_STORE=store)
        path = tmp_path / "notes.backup"
        with Server(env) as server:
            note = server.tool("save", text="one")
            server.tool(
                "save", id=note["id"], local_version=note["local_version"], text="secret two"
            )
            made = run(env, "backup", str(path), "--json")  # beside the server
            assert server.leave() == 0
        assert made.returncode == 0, made.stderr
        assert "no recovery key does" in made.stderr
        facts = {"path": str(path), "bytes": path.stat().st_size, "recovery_key": False}
        assert json.loads(made.stdout) == facts
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"secret" not in path.read_bytes()
        assert [one.name for one in tmp_path.glob(".notes*")] == []
        assert run(env, "backup", str(path)).returncode != 0
        mistaken = run(env, "import", str(path))
        assert mistaken.returncode == 1
        assert "`mcp-notarium restore --backup FILE` brings it back" in mistaken.stderr

        elsewhere = env | {"NOTARIUM_DATA_DIR": str(tmp_path / "elsewhere")}
        wrong = run(
            elsewhere | {"DB_ENCRYPTION_KEY": OTHER_KEY}, "restore", "--backup", str(path), "--yes"
        )
        assert wrong.returncode != 0
        assert not list((tmp_path / "elsewhere").rglob("notarium_keys.json"))
        done = run(elsewhere, "restore", "--backup", str(path), "--yes", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["restored"] == str(path)
        with Server(elsewhere) as server:
            server.loaded(1)
            assert server.tool("get", id=note["id"])["text"] == "secret two"
            rows = server.tool("manage", action="history", id=note["id"])["history"]
            assert len(rows) == 2
            assert server.leave() == 0
        assert run(elsewhere, "audit", "verify").returncode == 0
        again = run(elsewhere, "restore", "--backup", str(path), "--yes")  # over a live account
        assert again.returncode == 0, again.stderr


@pytest.mark.slow("eight processes, one after another")
def test_a_file_that_is_damaged_or_of_another_account_changes_nothing(tmp_path: Path) -> None:
    env = environment(Simulator(), tmp_path, NOTARIUM_STORE="local")
    path = tmp_path / "notes.backup"
    with Server(env) as server:
        server.tool("save", text="x" * 20_000)
        assert server.leave() == 0
    assert run(env, "backup", str(path)).returncode == 0
    elsewhere = env | {"NOTARIUM_DATA_DIR": str(tmp_path / "elsewhere")}
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        database = max(file.infolist(), key=lambda one: one.file_size)
    at = database.header_offset + 20_000
    for damaged in (b"x", whole[:-5000], whole[:at] + bytes(64) + whole[at + 64 :]):
        path.write_bytes(damaged)
        done = run(elsewhere, "restore", "--backup", str(path), "--yes")
        assert done.returncode not in (0, None)
        assert "unexpected" not in done.stderr
        assert not list((tmp_path / "elsewhere").rglob("notarium_keys.json"))
        assert not list((tmp_path / "elsewhere").rglob("*.encrypted"))
    path.write_bytes(whole)
    done = run(elsewhere | {"LOCAL_NOTEBOOK": "b"}, "restore", "--backup", str(path), "--yes")
    assert "another account" in done.stderr
    assert not list((tmp_path / "elsewhere").rglob("notarium_keys.json"))
    assert not list((tmp_path / "elsewhere").rglob("*.encrypted"))
    with Server(elsewhere | {"DB_ENCRYPTION_KEY": OTHER_KEY}) as server:
        server.tool("save", text="mine")
        assert server.leave() == 0
    done = run(elsewhere, "restore", "--backup", str(path), "--yes")
    assert "other keys than the backup" in done.stderr
    steps = re.findall(r"`mcp-notarium (\w+)", done.stderr)
    assert steps == ["export", "purge", "setup", "import"]
    assert not list((tmp_path / "elsewhere").rglob("quarantine"))


@pytest.mark.slow("nine processes, one after another")
def test_with_every_other_key_lost_the_recovery_key_opens_the_backup(tmp_path: Path) -> None:
    env = environment(Simulator(), tmp_path, NOTARIUM_STORE="local")
    with Server(env) as server:
        note = server.tool("save", text="kept")
        assert server.leave() == 0
    shown = paper_key(env)
    path = tmp_path / "notes.backup"
    made = run(env, "backup", str(path))
    assert "WARNING" not in made.stderr
    assert f"restore --backup {path} --ask-key" in made.stderr
    lost = env | {"NOTARIUM_DATA_DIR": str(tmp_path / "elsewhere")}
    del lost["DB_ENCRYPTION_KEY"]
    refused = run(lost, "restore", "--backup", str(path), "--yes")
    assert refused.returncode == 10
    assert "--ask-key" in refused.stderr
    with Terminal(lost, "restore", "--backup", str(path), "--yes", "--ask-key") as screen:
        screen.shows("Key: ")
        screen.type(shown + "\n")
        assert screen.ends() == 0, screen.screen
    (tmp_path / "new").write_text(OTHER_KEY)
    with Terminal(
        lost, "keys", "--ask-key", "add", "--new-key-file", str(tmp_path / "new")
    ) as screen:
        screen.shows("Key: ")
        screen.type(shown + "\n")
        assert screen.ends() == 0, screen.screen
    with Server(lost | {"DB_ENCRYPTION_KEY": OTHER_KEY}) as server:
        assert server.tool("get", id=note["id"])["text"] == "kept"
        assert server.leave() == 0


@pytest.mark.slow("two machines are set up, a dozen processes one after another")
@pytest.mark.parametrize("store", ["local", "trilium"])
def test_a_new_machine_is_set_up_and_gets_everything_by_the_two_lines_that_backup_prints(
    tmp_path: Path, store: str
) -> None:
    service = TriliumSimulator()
    token = tmp_path / "token"
    token.write_text(service.token)
    remote = store == "trilium"
    with running(service) if remote else nullcontext():
        options = f"--set TRILIUM_URL={service.url}" if remote else ""
        secret = f"--secret-file TRILIUM_TOKEN={token}" if remote else ""
        old, new = machine(tmp_path / "a"), machine(tmp_path / "b")
        first = shlex.split(f"setup --yes --store {store} {options} {secret} --client none")
        made = run(old, *first)
        assert made.returncode == 0, made.stderr
        with serving(old, store) as server:
            note = server.tool("save", text="one\n")
            again = server.tool(
                "save", id=note["id"], local_version=note["local_version"], text="two\n"
            )
            assert server.leave() == 0
        key = paper_key(old)
        path = tmp_path / "notes.backup"
        said = run(old, "backup", str(path)).stderr
        shutil.rmtree(tmp_path / "a")

        (setup,) = re.findall(r"mcp-notarium (setup .*)", said)
        (restore,) = re.findall(r"mcp-notarium (restore .*)", said)
        done = run(new, *shlex.split(f"{setup} {secret} --yes --client none"))
        assert done.returncode == 0, done.stderr
        with Terminal(new, *shlex.split(restore)) as terminal:
            terminal.shows("Restore the backup")
            terminal.type("y\n")
            terminal.shows("Key: ")
            terminal.type(f"{key}\n")
            assert terminal.ends() == 0, terminal.screen
        with serving(new, store) as server:
            server.loaded(1)
            found = server.tool("get", id=note["id"])
            assert found["text"].strip() == "two"
            assert found["local_version"] >= again["local_version"]
            assert len(server.tool("manage", action="history", id=note["id"])["history"]) == 2
            assert server.leave() == 0
        acts = run(new, "audit", "tail", "-n", "100", "--json").stdout.splitlines()
        assert [json.loads(one)["act"] for one in acts].count("tool.save") == 4
        assert run(new, "audit", "verify").returncode == 0


def machine(home: Path) -> dict[str, str]:
    home.mkdir()
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "NOTARIUM_KEYCHAIN": "off"}


def serving(env: dict[str, str], account: str) -> Server:
    return Server(env, command=[*ENTRY, "--account", account])


def paper_key(env: dict[str, str]) -> str:
    with Terminal(env, "keys", "recovery", "create") as screen:
        shown = screen.finds(r"(?:[0-9A-Z]{4}-){8}[0-9A-Z]{4}")[0]
        number = int(screen.finds(r"Type group (\d) of 9")[1])
        screen.type(shown.split("-")[number - 1] + "\n")
        assert screen.ends() == 0, screen.screen
    return shown
