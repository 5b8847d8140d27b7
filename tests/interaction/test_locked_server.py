"""Test a cache that may not be opened: every tool says why and what to do, and no file changes."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_notarium.crypto import key_file_codec, key_slots
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import ServerLock
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.talker import call
from support.whole import RAW_KEY, Server, account_folder, environment, folder_name, run, until

TOOLS = {
    "list": {},
    "get": {"id": "x"},
    "save": {"text": "x"},
    "manage": {"action": "get_stats"},
}


@pytest.fixture(name="simulator", scope="module")
def _simulator():
    simulator = Simulator()
    simulator.load(prose(20, seed=3))
    with simulator.running():
        yield simulator


@pytest.fixture(name="filled", scope="module")
def _filled(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a complete cache; tests work on copies."""
    folder = tmp_path_factory.mktemp("filled")
    with Server(environment(simulator, folder)) as server:
        active = sum(not note["deleted"] for note in simulator.notes().values())
        server.loaded(active)
        assert server.leave() == 0
    return folder


def _encrypted(folder: Path) -> Path:
    return next(folder.glob("*.sqlite.encrypted"))


def _flip_first_page(folder: Path) -> None:
    path = _encrypted(folder)
    body = bytearray(path.read_bytes())
    body[2000] ^= 1
    path.write_bytes(body)


def _truncate_mid_page(folder: Path) -> None:
    path = _encrypted(folder)
    path.write_bytes(path.read_bytes()[:-1000])


def _truncate_on_page_edge(folder: Path) -> None:
    path = _encrypted(folder)
    path.write_bytes(path.read_bytes()[: -4 * 4096])


def _empty_database(folder: Path) -> None:
    _encrypted(folder).write_bytes(b"")


def _garbage_database(folder: Path) -> None:
    path = _encrypted(folder)
    path.write_bytes(hashlib.sha512(b"x").digest() * 2000)


def _remove_database(folder: Path) -> None:
    _encrypted(folder).unlink()


def _plain_in_its_place(folder: Path) -> None:
    path = _encrypted(folder)
    path.unlink()
    plain = sqlite3.connect(path)
    plain.execute("CREATE TABLE notes(text)")
    plain.commit()
    plain.close()
    path.chmod(0o600)


def _half_key_files(folder: Path) -> None:
    for name in ("notarium_keys.json", "notarium_keys.json.bak"):
        path = folder / name
        path.write_bytes(path.read_bytes()[:200])


def _no_key_files(folder: Path) -> None:
    for name in ("notarium_keys.json", "notarium_keys.json.bak"):
        (folder / name).unlink()


def _newer_schema(folder: Path) -> None:
    keyfile = key_file_codec.parse((folder / "notarium_keys.json").read_bytes())
    data_key = key_slots.unlock(keyfile, Secret(RAW_KEY))
    opened = database_opener.connect(
        _encrypted(folder), data_key.database_key(keyfile.database_salt)
    )
    with opened.schema_change():
        opened.run("PRAGMA user_version = 99")
    opened.checkpoint()
    opened.close()


def _readable_by_all(folder: Path) -> None:
    folder.chmod(0o777)


def _link_for_database(folder: Path) -> None:
    path = _encrypted(folder)
    elsewhere = folder.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


DAMAGE = {
    "a flipped bit on the first page": (_flip_first_page, "database_damaged", 13),
    "an emptied file": (_empty_database, "database_missing", 14),
    "garbage": (_garbage_database, "database_damaged", 13),
    "no database": (_remove_database, "database_missing", 14),
    "a plain file where an encrypted one is due": (_plain_in_its_place, "mode_mismatch", 22),
    "half-written key files": (_half_key_files, "key_file_damaged", 12),
    "no key files": (_no_key_files, "key_file_damaged", 12),
    "a newer schema": (_newer_schema, "schema_newer", 16),
}


@pytest.mark.parametrize(("damage", "verdict", "code"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_locks_every_tool_and_changes_no_file(  # noqa: PLR0917 - one row of the table
    simulator: Simulator,
    filled: Path,
    tmp_path: Path,
    damage: Callable[[Path], None],
    verdict: str,
    code: int,
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    folder = account_folder(simulator, tmp_path)
    damage(folder)
    before = _bytes(folder)
    env = environment(simulator, tmp_path)
    with Server(env) as server:
        for tool, arguments in TOOLS.items():
            error = server.error(tool, **arguments)
            assert error["details"]["verdict"] == verdict, error
            assert "mcp-notarium" in error["resolution_hint"] or "pip" in error["resolution_hint"]
        assert server.leave() == 1
        assert '"level": "critical"' in server.errors()
    status = run(env, "status", "--json")
    assert status.returncode == code
    assert json.loads(status.stdout)["verdict"] == verdict
    assert _bytes(folder) == before


@pytest.mark.attack(12)
@pytest.mark.parametrize("damage", [_truncate_mid_page, _truncate_on_page_edge])
def test_a_shortened_database_is_repaired_if_its_state_can_be_read(
    simulator: Simulator, filled: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    folder = account_folder(simulator, tmp_path)
    damage(folder)
    before = _encrypted(folder).read_bytes()
    active = sum(not note["deleted"] for note in simulator.notes().values())
    with Server(environment(simulator, tmp_path)) as server:
        server.loaded(active)
        assert server.leave() == 0
    (kept,) = (folder / "quarantine").rglob("*.encrypted")
    assert kept.read_bytes() == before


def test_a_wrong_key_is_proven_and_touches_nothing(
    simulator: Simulator, filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    before = _bytes(account_folder(simulator, tmp_path))
    env = environment(simulator, tmp_path, DB_ENCRYPTION_KEY="some other key altogether")
    with Server(env) as server:
        assert server.error("list")["details"]["verdict"] == "wrong_key"
        assert server.leave() == 1
    assert run(env, "status").returncode == 11
    assert run(env, "doctor", "--offline").returncode == 11
    assert _bytes(account_folder(simulator, tmp_path)) == before


def test_no_key_says_how_to_make_one(simulator: Simulator, tmp_path: Path) -> None:
    with Server(environment(simulator, tmp_path, DB_ENCRYPTION_KEY=None)) as server:
        error = server.error("list")
        assert error["details"]["verdict"] == "key_missing"
        assert "generate-key" in error["resolution_hint"]
        assert server.leave() == 1
    assert not list(tmp_path.rglob("*.sqlite*"))


def test_another_owners_cache_in_the_folder_is_refused(
    simulator: Simulator, filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    theirs = account_folder(simulator, tmp_path)
    env = environment(simulator, tmp_path, SIMPLENOTE_USERNAME="someone.else@example.com")
    ours = theirs.with_name(folder_name(env))
    theirs.rename(ours)
    before = _bytes(ours)
    with Server(env) as server:
        assert server.error("list")["details"]["verdict"] == "other_owner"
        assert server.leave() == 1
    assert _bytes(ours) == before


def test_a_damaged_key_file_with_a_good_copy_is_no_obstacle(
    simulator: Simulator, filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    folder = account_folder(simulator, tmp_path)
    (folder / "notarium_keys.json").write_bytes(b'{"half')
    with Server(environment(simulator, tmp_path)) as server:
        assert server.tool("list")["total_items"] > 0
        notices = server.tool("manage", action="get_stats")["stats"]["notices"]
        assert any("notarium_keys.json" in notice or "key file" in notice for notice in notices)
        assert server.leave() == 0


def test_rebuild_sets_the_damaged_files_aside_and_loads_again(
    simulator: Simulator, filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    folder = account_folder(simulator, tmp_path)
    _flip_first_page(folder)
    damaged = _encrypted(folder).read_bytes()
    env = environment(simulator, tmp_path, DB_ON_UNREADABLE="rebuild")
    active = sum(not note["deleted"] for note in simulator.notes().values())
    with Server(env) as server:
        server.loaded(active)
        assert server.leave() == 0
    kept = list((folder / "quarantine").rglob("*.sqlite.encrypted"))
    assert [path.read_bytes() for path in kept] == [damaged]


def test_a_killed_server_leaves_a_cache_that_may_be_rebuilt(
    simulator: Simulator, filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    env = environment(simulator, tmp_path, DB_ON_UNREADABLE="rebuild")
    with Server(env) as server:
        made = server.tool("save", text="saved before the kill")
        server.process.kill()
        server.process.wait()
    folder = account_folder(simulator, tmp_path)
    for log in folder.glob("*-wal"):
        log.unlink()
    _flip_first_page(folder)
    before = _bytes(folder)
    doctor = run(env, "doctor", "--offline")
    assert doctor.returncode == 13
    assert _bytes(folder) == before
    with Server(env) as server:
        server.tool("list")
        until(lambda: not server.result("get", id=made["id"]).get("isError"))
        assert server.leave() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there the folder has no such lock")
def test_while_another_process_has_the_cache_to_itself_only_the_notes_wait(
    simulator: Simulator, filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    folder = AccountFolder(account_folder(simulator, tmp_path))
    other = ServerLock(folder).exclude()
    with Server(environment(simulator, tmp_path)) as server:
        server.send(call(1, "list"), {"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert server.receive()["id"] == 2
        refused = server.receive()
        assert refused["id"] == 1
        assert json.loads(refused["result"]["content"][0]["text"])["details"]["verdict"] == "busy"
        other.release()
        assert server.tool("list")["content"]
        assert server.leave() == 0


@pytest.mark.parametrize(
    ("change", "say"),
    [
        ({"SIMPLENOTE_USERNAME": None, "LOG_LEVEL": "loud"}, "SIMPLENOTE_USERNAME"),
        ({"SYNC_INTERVAL_SECONDS": "soon"}, "SYNC_INTERVAL_SECONDS"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL"),
        ({"NOTARIUM_STORE": "paper"}, "one of: simplenote"),
        ({"DB_ENCRYPTION": "off"}, "DB_ENCRYPTION"),
        (
            {"DB_ENCRYPTION_KEY": None, "DB_ENCRYPTION_KEY_FILE": "/nowhere/key"},
            "DB_ENCRYPTION_KEY",
        ),
        ({"SIMPERIUM_API_URL": "http://192.0.2.7/1"}, "SIMPERIUM_API_URL"),
        ({"NOTARIUM_TOOLS": "native"}, "Simplenote has none"),
        ({"NOTARIUM_DATA_DIR": __file__}, "NOTARIUM_DATA_DIR"),
        ({"NOTARIUM_DATA_DIR": f"{__file__}/below"}, "NOTARIUM_DATA_DIR"),
        ({"NOTARIUM_DATA_DIR": "/tmp/" + "x" * 300}, "NOTARIUM_DATA_DIR"),
    ],
)
def test_a_configuration_that_cannot_work_exits_before_the_handshake(
    simulator: Simulator, filled: Path, change: dict[str, str | None], say: str
) -> None:
    done = run(environment(simulator, filled, **change), stdin='{"jsonrpc":"2.0"}\n')
    assert done.returncode == 1
    assert done.stdout == ""
    assert '"level": "critical"' in done.stderr
    assert "Traceback" not in done.stderr
    assert say in done.stderr


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"NOTARIUM_TOOLS": "both"}, 1),
        ({"NOTARIUM_STORE": "paper"}, 1),
        ({"NOTARIUM_DATA_DIR": __file__}, 20),
        ({"NOTARIUM_DATA_DIR": "/proc/foo"}, 20),
    ],
)
def test_commands_refuse_what_the_server_refuses_and_name_no_useless_command(
    simulator: Simulator, filled: Path, change: dict[str, str | None], code: int
) -> None:
    env = environment(simulator, filled, **change)
    for command in ("status", "doctor"):
        done = run(env, command)
        assert done.returncode == code
        assert "mcp-notarium doctor" not in done.stdout + done.stderr


@pytest.mark.attack(26)
@pytest.mark.parametrize("damage", [_readable_by_all, _link_for_database])
def test_an_unsafe_folder_is_refused(
    simulator: Simulator, filled: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    damage(account_folder(simulator, tmp_path))
    env = environment(simulator, tmp_path)
    assert run(env, "status").returncode == 20
    done = run(env)
    assert done.returncode == 1


def _bytes(folder: Path) -> dict[str, bytes]:
    """Every file that counts; locks come and go."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock" and not path.is_symlink()
    }
