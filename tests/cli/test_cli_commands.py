"""Test the commands with real processes: login, logout, status, doctor, rotate-key, reset-cache."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mcp_notarium import config
from mcp_notarium.account import opener
from mcp_notarium.domain.note import Content
from mcp_notarium.storage.journal_table import JournalTable
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.journal_entries import make_unfinished
from support.whole import DEADLINE, Server, account_folder, environment, run, start, until

NOTES = 15


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator()
    simulator.load(prose(NOTES, seed=5))
    with simulator.running():
        yield simulator


def _active(simulator: Simulator) -> int:
    return sum(not note["deleted"] for note in simulator.notes().values())


def _fill(simulator: Simulator, env: dict[str, str]) -> None:
    with Server(env) as server:
        server.loaded(_active(simulator))
        assert server.leave() == 0


def _log_in(simulator: Simulator, env: dict[str, str], *, code: str | None = None):
    process = start(env, "login", "--code-stdin")
    until(lambda: bool(simulator.sent_codes) or process.poll() is not None)
    typed = code or simulator.sent_codes[-1].code.lower()
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(f"{typed}\n".encode())
    with process.stdout, process.stderr:
        output = process.stdout.read() + process.stderr.read()
    return process.wait(DEADLINE), output.decode()


def test_login_by_code_lets_a_server_without_password_sync(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
    with Server(env) as server:
        assert server.error("list")["subcategory"] == "login_required"
        assert server.error("save", text="x")["subcategory"] == "login_required"
        assert server.leave() == 0
    code, output = _log_in(simulator, env)
    assert code == 0, output
    assert simulator.token not in output
    _fill(simulator, env)
    files = (tmp_path / "cache").rglob("*")
    assert not any(simulator.token.encode() in f.read_bytes() for f in files if f.is_file())


def test_a_wrong_code_is_refused_and_says_what_to_do(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
    code, output = _log_in(simulator, env, code="AAAAAA")
    assert code == 1
    assert "newest e-mail" in output


def test_without_a_terminal_no_code_is_sent(simulator: Simulator, tmp_path: Path) -> None:
    done = run(environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None), "login")
    assert done.returncode == 1
    assert "no terminal" in done.stderr
    assert not simulator.sent_codes


@pytest.mark.parametrize("typed", ["", "\n"])
def test_without_a_code_on_standard_input_the_way_out_is_named(
    simulator: Simulator, tmp_path: Path, typed: str
) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
    done = run(env, "login", "--code-stdin", stdin=typed)
    assert done.returncode == 1
    assert "no code was given" in done.stderr
    assert "keep standard input open" in done.stderr
    assert not simulator.sent_codes, "a code was used up for nothing"


def test_a_code_that_is_typed_too_early_is_read_and_refused(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
    process = start(env, "login", "--code-stdin")
    with process.stdin, process.stdout, process.stderr:
        process.stdin.write(b"AAAAAA\n")  # and it stays open
        assert process.wait(DEADLINE) == 1
        assert b"newest e-mail" in process.stderr.read()
    assert len(simulator.sent_codes) == 1


def test_what_cannot_be_a_code_is_refused_with_advice(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
    code, output = _log_in(simulator, env, code="ÄÖÜ-12")
    assert code == 1
    assert "letters and digits" in output
    assert "newest e-mail" in output


def test_without_a_keychain_no_message_says_to_unlock_it(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path, PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring")
    done = run(env, "generate-key", "--keychain")
    assert done.returncode == 23
    assert "this machine has none" in done.stderr
    assert "Unlock" not in done.stderr
    assert "DB_ENCRYPTION_KEY_FILE" in done.stderr


def test_logout_forgets_the_login_and_keeps_the_notes(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
    assert _log_in(simulator, env)[0] == 0
    _fill(simulator, env)
    assert run(env, "logout").returncode == 0
    with Server(env) as server:
        assert server.tool("list")["total_items"] == _active(simulator)
        assert server.error("save", text="x")["subcategory"] == "login_required"
        server.leave()


def test_a_login_has_no_safe_place_in_a_plain_cache(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None, DB_ENCRYPTION="off")
    done = run(env, "login", "--code-stdin")
    assert done.returncode == 1
    assert "no safe place" in done.stderr
    assert not simulator.sent_codes


def test_status_and_doctor_of_a_healthy_cache(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path)
    fresh = run(env, "status", "--json")
    assert fresh.returncode == 0
    assert json.loads(fresh.stdout)["cache"] == "not made yet"
    assert not (tmp_path / "cache").exists()
    _fill(simulator, env)
    status = json.loads(run(env, "status", "--json").stdout)
    assert status["notes"] == _active(simulator)
    assert status["complete"] is True
    assert status["pending_writes"] == 0
    assert status["keys"] == "a random key"
    assert status["key_from"] == "DB_ENCRYPTION_KEY"
    assert datetime.fromisoformat(status["key_changed_at"]) <= datetime.now(UTC)
    done = run(env, "doctor", "--json", "--deep")
    findings = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0
    states = {name: one["state"] for name, one in findings.items() if name != "sandbox"}
    assert states == dict.fromkeys(states, "ok")
    assert "SQLCipher 4." in findings["libraries"]["seen"]
    assert "OpenSSL 3." in findings["libraries"]["seen"]
    assert "authentic" in findings["pages"]["seen"]


def test_status_and_doctor_say_why_a_write_was_refused_for_good(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _fill(simulator, env)
    with closing(opener.open_cache(config.load(env, cwd=tmp_path).config)) as opened:
        journal = JournalTable(opened.database)
        for name in ("n1", "n2", "n3"):
            journal.add(make_unfinished(Content("words of a note"), name, write_id=name))
        journal.reject("n1", "the note is too large")
        journal.reject("n2", "the note is too large")
    shown = run(env, "status").stdout
    assert "1 write, 2 refused" in shown
    assert "the note is too large" in shown
    status = json.loads(run(env, "status", "--json").stdout)
    assert status["rejected_because"] == ["the note is too large"]
    found = json.loads(run(env, "doctor", "--json", "--offline").stdout)["findings"]
    unfinished, refused = (one for one in found if one["name"] == "writes")
    assert (unfinished["state"], unfinished["seen"]) == ("warn", "1 unfinished")
    assert refused["state"] == "warn"
    assert refused["seen"] == "2 refused for good: the note is too large"
    assert "words of a note" not in shown + json.dumps([status, found])


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such modes")
def test_doctor_names_a_file_that_others_can_read(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path)
    _fill(simulator, env)
    kept = account_folder(simulator, tmp_path) / "a copy.json"
    kept.touch(mode=0o644)
    done = run(env, "doctor", "--json", "--offline")
    findings = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert findings["permissions"]["state"] == "warn"
    command = findings["permissions"]["hint"].removeprefix("Run ")
    subprocess.run(command, shell=True, check=True)
    assert kept.stat().st_mode & 0o777 == 0o600
    done = run(env, "doctor", "--json", "--offline")
    findings = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert findings["permissions"]["state"] == "ok"


@pytest.mark.parametrize(
    ("backend", "state", "said"),
    [("null", "warn", "not a keychain that protects anything"), ("fail", "ok", "none here")],
)
def test_doctor_says_which_keychain_there_is(
    simulator: Simulator, tmp_path: Path, backend: str, state: str, said: str
) -> None:
    env = environment(
        simulator,
        tmp_path,
        NOTARIUM_KEYCHAIN="on",
        PYTHON_KEYRING_BACKEND=f"keyring.backends.{backend}.Keyring",
    )
    found = json.loads(run(env, "doctor", "--json", "--offline").stdout)["findings"]
    (seen,) = (one for one in found if one["name"] == "keychain")
    assert seen["state"] == state
    assert said in seen["seen"]


def test_status_works_beside_a_running_server(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path)
    with Server(env) as server:
        server.loaded(_active(simulator))
        assert run(env, "status").returncode == 0
        done = run(env, "doctor")
        assert done.returncode == 0
        assert "a server is using this cache" in done.stdout
        assert server.leave() == 0


def test_rotate_key_changes_the_key_under_a_running_server(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    new = "a much better passphrase than before 42"
    with Server(env) as server:
        server.loaded(_active(simulator))
        done = run(env, "rotate-key", "--new-key-stdin", stdin=new + "\n")
        assert done.returncode == 0, done.stderr
        assert new not in done.stdout + done.stderr
        made = server.tool("save", text="written after the rotation")
        assert server.leave() == 0
    assert run(env, "status").returncode == 11
    with Server(env | {"DB_ENCRYPTION_KEY": new}) as server:
        assert server.tool("get", id=made["id"])["text"] == "written after the rotation"
        server.leave()


def test_rotate_key_refuses_a_weak_passphrase_and_changes_nothing(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _fill(simulator, env)
    before = (account_folder(simulator, tmp_path) / "notarium_keys.json").read_bytes()
    done = run(env, "rotate-key", "--new-key-stdin", stdin="short\n")
    assert done.returncode == 1
    assert "15" in done.stderr
    assert (account_folder(simulator, tmp_path) / "notarium_keys.json").read_bytes() == before


def test_generated_keys_are_new_each_time_and_open_a_cache(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    keys = {run(env, "generate-key").stdout.strip() for _ in range(2)}
    assert len(keys) == 2
    key_file = tmp_path / "key"
    key_file.write_text(keys.pop() + "\n")
    key_file.chmod(0o600)
    _fill(
        simulator,
        environment(
            simulator, tmp_path, DB_ENCRYPTION_KEY=None, DB_ENCRYPTION_KEY_FILE=str(key_file)
        ),
    )


def test_reset_cache_asks_and_then_loads_everything_again(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _fill(simulator, env)
    refused = run(env, "reset-cache")
    assert refused.returncode == 1
    assert "Nothing was changed" in refused.stderr
    done = run(env, "reset-cache", "--yes")
    assert done.returncode == 0, done.stderr
    assert json.loads(run(env, "status", "--json").stdout)["notes"] == _active(simulator)


def test_reset_cache_sets_a_cache_aside_that_no_key_opens(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _fill(simulator, env)
    other = env | {"DB_ENCRYPTION_KEY": "raw:" + "77" * 32}
    done = run(other, "reset-cache", "--yes")
    assert done.returncode == 0, done.stderr
    assert "does not open with it.\n" in done.stderr
    assert "a recovery key on paper too, do not" in done.stderr
    assert list((account_folder(simulator, tmp_path) / "quarantine").rglob("*.encrypted"))
    assert json.loads(run(other, "status", "--json").stdout)["notes"] == _active(simulator)


@pytest.mark.parametrize("damaged", [True, False])
def test_reset_cache_without_a_key_sets_nothing_aside(
    simulator: Simulator, tmp_path: Path, damaged: bool
) -> None:
    env = environment(simulator, tmp_path)
    _fill(simulator, env)
    folder = account_folder(simulator, tmp_path)
    database = next(folder.glob("*.sqlite.encrypted"))
    if damaged:
        database.write_bytes(bytes(database.stat().st_size))
    before = sorted(path.name for path in folder.iterdir())
    done = run(environment(simulator, tmp_path, DB_ENCRYPTION_KEY=None), "reset-cache", "--yes")
    assert done.returncode == 10
    assert "there is no key for a new cache; nothing was changed" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before


def test_the_name_of_the_account_is_refused_as_a_new_passphrase(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _fill(simulator, env)
    done = run(env, "rotate-key", "--new-key-stdin", stdin=f"{simulator.username}\n")
    assert done.returncode == 1
    assert "the account's name" in done.stderr


def test_a_plain_cache_is_an_explicit_choice_and_said_at_each_start(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path, DB_ENCRYPTION="off", DB_ENCRYPTION_KEY=None)
    for _ in range(2):
        with Server(env) as server:
            server.loaded(_active(simulator))
            assert server.tool("manage", action="get_stats")["stats"]["db_encryption"] == "off"
            assert server.leave() == 0
            assert "NOT encrypted" in server.errors()
    assert (account_folder(simulator, tmp_path) / "notarium_cache.sqlite").exists()
