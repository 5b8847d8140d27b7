"""Test ``keys``, ``keychain`` and the output of ``rotate-key`` with real processes."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from mcp_notarium.crypto import user_key
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support import cheap_stretching
from support.terminal import Terminal
from support.whole import Server, account_folder, environment, run, until

WORDS = "nine hungry lamps by the river"
GROUPS = re.compile(r"(?:[0-9A-Z]{4}-){8}[0-9A-Z]{4}")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX is played")


@pytest.fixture(name="simulator", scope="module")
def _simulator():
    simulator = Simulator()
    simulator.load(prose(5, seed=6))
    with simulator.running():
        yield simulator


@pytest.fixture(name="filled", scope="module")
def _filled(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an account that a server has made; tests work on copies."""
    place = tmp_path_factory.mktemp("filled")
    with Server(environment(simulator, place)) as server:
        server.tool("list")
        assert server.leave() == 0
    return place


@pytest.fixture(name="env")
def _env(simulator: Simulator, filled: Path, tmp_path: Path) -> dict[str, str]:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return environment(simulator, tmp_path, **cheap_stretching.MARKED)


def listed(env: dict[str, str]) -> list[dict[str, object]]:
    done = run(env, "keys", "list", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["slots"]


def test_a_key_is_added_used_and_removed(env: dict[str, str]) -> None:
    done = run(env, "keys", "add", "--generate", "--label", "spare")
    assert done.returncode == 0, done.stderr
    spare = done.stdout.strip()
    assert spare not in done.stderr
    with Server(env | {"DB_ENCRYPTION_KEY": spare}) as server:
        assert server.tool("list")["content"]
        assert server.leave() == 0
    assert [(one["slot"], one["type"], one["label"]) for one in listed(env)] == [
        (1, "raw", ""),
        (2, "raw", "spare"),
    ]
    assert run(env, "keys", "remove", "2").returncode == 0
    assert [one["slot"] for one in listed(env)] == [1]
    assert run(env | {"DB_ENCRYPTION_KEY": spare}, "status").returncode == 11


def test_the_last_key_cannot_be_taken_away(env: dict[str, str]) -> None:
    done = run(env, "keys", "remove", "1")
    assert done.returncode == 1
    assert "keys list" in done.stderr
    assert run(env, "status").returncode == 0


@pytest.mark.attack(47)
def test_a_recovery_key_is_shown_once_typed_back_tried_and_is_the_way_back(
    env: dict[str, str], tmp_path: Path
) -> None:
    with Terminal(env, "keys", "recovery", "create") as screen:
        shown = screen.finds(GROUPS.pattern)[0]
        number = int(screen.finds(r"Type group (\d) of 9")[1])
        screen.type("WRNG\n")
        screen.shows("not the group shown")
        screen.type(shown.split("-")[number - 1].lower() + "\n")
        assert screen.ends() == 0, screen.screen
    assert [one["type"] for one in listed(env)] == ["raw", "recovery"]

    with Terminal(env, "keys", "recovery", "test") as screen:
        screen.shows("Recovery key: ")
        screen.type(shown + "\n")
        assert screen.ends() == 0
    assert "slot 2" in screen.screen
    assert shown not in screen.screen

    (tmp_path / "words").write_text(WORDS)
    lost = {name: value for name, value in env.items() if name != "DB_ENCRYPTION_KEY"}
    assert run(lost, "status").returncode == 10
    add = ("keys", "--ask-key", "add", "--new-key-file", str(tmp_path / "words"))
    with Terminal(lost, *add) as screen:
        screen.shows("Key: ")
        screen.type(shown + "\n")
        assert screen.ends() == 0, screen.screen
    assert run(lost | {"DB_ENCRYPTION_KEY": WORDS}, "status").returncode == 0
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert shown.encode() not in written
    assert shown.replace("-", "").encode() not in written


@pytest.mark.parametrize("slip", [True, False])
def test_a_recovery_key_that_does_not_open_is_distinguished_from_one_with_a_typo(
    env: dict[str, str], slip: bool
) -> None:
    typed = user_key.generate_recovery_key().reveal_text()
    if slip:
        typed = ("1" if typed[0] == "0" else "0") + typed[1:]
    with Terminal(env, "keys", "recovery", "test") as screen:
        screen.shows("Recovery key: ")
        screen.type(typed + "\n")
        assert screen.ends() == 1
    assert ("type it again" if slip else "opens no slot") in screen.screen
    assert "generate-key" not in screen.screen


def test_a_configured_key_that_cannot_be_one_does_not_hide_the_slots(env: dict[str, str]) -> None:
    env = env | {"DB_ENCRYPTION_KEY": "raw:too short"}
    assert [one["opened_by_this_key"] for one in listed(env)] == [False]
    done = run(env, "keys", "add", "--generate")
    assert done.returncode == 10
    assert "Give the key this cache was made with" in done.stderr


def test_a_recovery_key_that_is_not_typed_back_is_not_made(env: dict[str, str]) -> None:
    with Terminal(env, "keys", "recovery", "create") as screen:
        for _ in range(3):
            screen.finds(r"Type group \d of 9: $")
            screen.screen = ""
            screen.type("WRNG\n")
        assert screen.ends() == 1
    assert [one["type"] for one in listed(env)] == ["raw"]


def test_a_recovery_key_is_shown_on_a_terminal_only(env: dict[str, str]) -> None:
    done = run(env, "keys", "recovery", "create")
    assert done.returncode == 1
    assert not GROUPS.search(done.stdout + done.stderr)
    assert [one["type"] for one in listed(env)] == ["raw"]


def test_a_copy_of_the_key_file_brings_a_lost_one_back(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    assert run(env, "backup", str(copy)).returncode == 0
    assert run(env, "backup", str(copy)).returncode == 1
    folder = account_folder(simulator, tmp_path)
    for name in ("notarium_keys.json", "notarium_keys.json.bak"):
        (folder / name).unlink()
    assert run(env, "status").returncode == 12
    done = run(env, "restore", "--key-file", str(copy), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"sequence": 1, "quarantine": None}
    assert run(env, "status").returncode == 0


def test_an_old_key_file_is_refused_and_the_copy_beside_it_is_put_back(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    (tmp_path / "words").write_text(WORDS)
    folder = account_folder(simulator, tmp_path)
    shutil.copy(folder / "notarium_keys.json", old)
    assert run(env, "rotate-key", "--new-key-file", str(tmp_path / "words")).returncode == 0
    key_file, copy = folder / "notarium_keys.json", folder / "notarium_keys.json.bak"
    newest = copy.read_bytes()
    key_file.write_bytes(old.read_bytes())
    for key in (env["DB_ENCRYPTION_KEY"], WORDS):
        now = env | {"DB_ENCRYPTION_KEY": key}
        for words in ("keys add", "keys remove 1", "repair", "rotate-key", "status", "doctor"):
            generated = ["--generate"] if words in {"keys add", "rotate-key"} else []
            done = run(now, *words.split(), *generated)
            assert done.returncode == 19, (words, done.stderr)
            assert copy.read_bytes() == newest
            assert key_file.read_bytes() == old.read_bytes()
        assert "mcp-notarium restore --key-file`" in done.stdout
    done = run(env | {"DB_ENCRYPTION_KEY": WORDS}, "restore", "--key-file")
    assert done.returncode == 0, done.stderr
    assert run(env | {"DB_ENCRYPTION_KEY": WORDS}, "status").returncode == 0
    assert run(env, "status").returncode == 11
    assert run(env, "restore", "--key-file", str(old)).returncode == 19


def test_rotate_key_names_what_still_opens_and_where_the_old_key_lies(
    env: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / ".cursor" / "mcp.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"env": {"DB_ENCRYPTION_KEY": env["DB_ENCRYPTION_KEY"]}}))
    before = config.read_bytes()
    assert run(env, "keys", "add", "--generate").returncode == 0
    done = run(env, "rotate-key", "--generate")
    assert done.returncode == 0
    assert "slot 2 (raw) still opens the cache" in done.stderr
    assert f"still stands in {config} (Cursor)" in done.stderr
    assert "came from DB_ENCRYPTION_KEY" in done.stderr
    assert env["DB_ENCRYPTION_KEY"] not in done.stderr + done.stdout
    assert config.read_bytes() == before


def test_the_keychain_that_is_switched_off_is_not_used(env: dict[str, str]) -> None:
    done = run(env, "keychain", "enable")
    assert done.returncode == 1
    assert "NOTARIUM_KEYCHAIN" in done.stderr


def test_a_table_for_people_names_what_is_missing(env: dict[str, str]) -> None:
    done = run(env, "keys", "list")
    assert "<- this key" in done.stdout
    assert "no recovery key" in done.stdout
    assert run(env, "keys", "remove", "7").returncode == 1
    assert run(env, "keys", "frob").returncode == 2
    assert run(env, "keys").stdout == done.stdout


def doctor(env: dict[str, str]) -> dict[str, dict[str, str]]:
    done = run(env, "doctor", "--json", "--offline")
    assert done.returncode == 0, done.stdout
    return {one["name"]: one for one in json.loads(done.stdout)["findings"]}


def test_doctor_tells_of_the_keys_and_of_who_has_the_cache_open(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    found = doctor(env)
    assert found["keys"]["state"] == "ok"
    assert found["keys"]["seen"] == "a random key; last changed 0 days ago"
    assert "recovery create" in found["keys"]["hint"]
    assert found["databases"]["state"] == "ok"
    assert run(env, "keys", "add", "--generate").returncode == 0
    assert "a random key, a random key" in run(env, "status").stdout
    unknown_file = (
        account_folder(simulator, tmp_path) / f"notarium_cache.{'0' * 16}.sqlite.encrypted"
    )
    unknown_file.write_bytes(b"x")
    unknown_file.chmod(0o600)
    with Server(env) as server:
        server.tool("list")
        found = doctor(env)
        assert server.leave() == 0
    assert found["databases"]["state"] == "warn"
    assert unknown_file.name in found["databases"]["seen"]
    if sys.platform == "linux":
        assert f"process {server.process.pid}" in found["open by"]["seen"]


def test_reencrypt_names_the_server_in_its_way_and_the_keys_that_do_not_follow(
    env: dict[str, str],
) -> None:
    with Server(env) as server:
        server.tool("list")
        done = run(env, "rotate-key", "--reencrypt")
        assert done.returncode == 18
        assert sys.platform != "linux" or f"process {server.process.pid}" in done.stderr
        total = server.tool("list")["total_items"]
        assert server.leave() == 0
    spare = run(env, "keys", "add", "--generate").stdout.strip()
    done = run(env, "rotate-key", "--reencrypt")
    assert done.returncode == 1
    assert "slot 2 (raw)" in done.stderr
    done = run(env, "rotate-key", "--reencrypt", "--drop-other-keys", "--generate")
    assert done.returncode == 0, done.stderr
    new = done.stdout.strip()
    for old in (env["DB_ENCRYPTION_KEY"], spare):
        assert run(env | {"DB_ENCRYPTION_KEY": old}, "status").returncode == 11
    with Server(env | {"DB_ENCRYPTION_KEY": new}) as server:
        assert server.tool("list")["total_items"] == total
        assert server.leave() == 0


@pytest.mark.parametrize("store", ["local", "simplenote"])
def test_a_plain_cache_becomes_an_encrypted_one_by_the_commands_that_the_hint_names(
    simulator: Simulator, tmp_path: Path, store: str
) -> None:
    env = environment(simulator, tmp_path, NOTARIUM_STORE=store)
    plain, out = env | {"DB_ENCRYPTION": "off"}, str(tmp_path / "out")
    with Server(plain) as server:
        server.tool("save", text="plain words that only this test has")
        assert server.leave() == 0
    told = run(env, "status")
    assert told.returncode == 22
    way = " ".join(told.stdout.split())
    assert "`mcp-notarium purge`" in way
    if store == "local":
        assert way.index("export PATH") < way.index("purge`") < way.index("import PATH")
        assert run(plain, "export", out).returncode == 0
    assert run(env, "purge", "--yes").returncode == 0
    if store == "local":
        done = run(env, "import", out, "--yes")
        assert done.returncode == 0, done.stderr
    with Server(env) as server:
        until(lambda: server.tool("list", query="plain words that")["total_items"] == 1)
        assert server.leave() == 0
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"plain words that" in path.read_bytes()]


def test_purge_asks_for_the_accounts_name_and_leaves_nothing(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    assert run(env, "purge").returncode == 1
    with Terminal(env, "purge") as screen:
        screen.shows("to go on: ")
        screen.type("no\n")
        assert screen.ends() == 1
    assert run(env, "status").returncode == 0
    with Terminal(env, "purge") as screen:
        screen.shows("to go on: ")
        screen.type(simulator.username + "\n")
        assert screen.ends() == 0, screen.screen
    assert not account_folder(simulator, tmp_path).exists()
    assert "not made yet" in run(env, "status").stdout


def test_purge_names_what_may_be_left_in_a_keychain_that_it_could_not_ask(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    assert run(env, "status").returncode == 0
    keychains = {"keyring.backends.null.Keyring": 23, "keyring.backends.fail.Keyring": 0}
    for backend, code in keychains.items():
        here = {"NOTARIUM_KEYCHAIN": "on", "PYTHON_KEYRING_BACKEND": backend}
        done = run(env | here, "purge", "--yes")
        assert done.returncode == code, done.stderr
        assert "`database-key` and `login-token` of `mcp-notarium` (both end in `:" in done.stderr
        assert "again where the keychain can be asked" in done.stderr
        assert not account_folder(simulator, tmp_path).exists()
    assert run(env, "purge", "--yes").returncode == 0


def test_logout_after_a_purge_makes_nothing(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    assert run(env, "purge", "--yes").returncode == 0
    for key in (env["DB_ENCRYPTION_KEY"], ""):
        done = run(env | {"DB_ENCRYPTION_KEY": key}, "logout")
        assert done.returncode == 0, done.stderr
        assert "There is no cache here" in done.stderr
    assert not account_folder(simulator, tmp_path).exists()


@pytest.mark.attack(11)
def test_a_damaged_cache_is_repaired_and_filled_up_by_the_next_sync(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    active = sum(not note["deleted"] for note in simulator.notes().values())
    with Server(env) as server:
        server.loaded(active)
        assert server.leave() == 0
    sound = run(env, "repair")
    assert sound.returncode == 0
    assert "nothing to repair" in sound.stderr
    path = next(account_folder(simulator, tmp_path).glob("*.sqlite.encrypted"))
    body = bytearray(path.read_bytes())
    body[-2000] ^= 1
    path.write_bytes(body)
    assert run(env, "status").returncode == 13
    done = run(env, "repair")
    assert done.returncode == 0, done.stderr
    assert "unfinished writes were restored" in done.stderr
    status = run(env, "status", "--json")
    assert status.returncode == 0
    assert json.loads(status.stdout)["complete"] is False
    explained = run(env, "policy", "explain", "nowhere", "get").stdout
    assert "Not all notes have been loaded yet." in explained
    with Server(env) as server:
        server.loaded(active)
        until(lambda: json.loads(run(env, "status", "--json").stdout)["complete"])
        assert server.leave() == 0
    kept = list((account_folder(simulator, tmp_path) / "quarantine").rglob("*.encrypted"))
    assert [one.read_bytes() for one in kept] == [bytes(body)]


def test_doctor_finds_a_damaged_page_and_names_the_way_out(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    path = next(account_folder(simulator, tmp_path).glob("*.sqlite.encrypted"))
    body = bytearray(path.read_bytes())
    pages = len(body) // 4096
    unseen = next(page for page in range(4, pages) if page != pages // 2)
    body[(unseen - 1) * 4096 + 2000] ^= 1
    path.write_bytes(body)
    done = run(env, "doctor", "--offline", "--json")
    assert done.returncode == 13
    wrong = [one for one in json.loads(done.stdout)["findings"] if one["state"] == "bad"]
    assert [one["name"] for one in wrong] == ["cache"]
    assert run(env, "status").returncode == 13
    assert "mcp-notarium repair" in wrong[0]["hint"]
    assert run(env, "repair").returncode == 0
    assert run(env, "doctor", "--offline").returncode == 0
