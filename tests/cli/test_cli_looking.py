"""Test that read-only commands change no byte and no time of a file in the account folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcp_notarium.account.inspection import mark_damage
from mcp_notarium.errors import Verdict
from mcp_notarium.files.account_folder import AccountFolder
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.long import sample
from support.needs import lacking, programs
from support.whole import SERVE, Server, account_folder, environment, run

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL, mounts"),
    pytest.mark.timeout(180),
]
NOTES = 5
LOOKING = {
    "status": ("status", "--json"),
    "status --deep": ("status", "--deep"),
    "doctor": ("doctor", "--offline"),
    "doctor, asking the service": ("doctor", "--json"),
    "doctor --deep": ("doctor", "--deep", "--offline"),
    "audit verify": ("audit", "verify"),
    "audit tail": ("audit", "tail"),
    "policy show": ("policy", "show"),
    "policy check": ("policy", "check"),
    "policy explain": ("policy", "explain", "0" * 32, "get"),
    "keys list": ("keys", "list"),
    "--print-config-vars": ("--print-config-vars",),
}
CONNECTING = ("status", "doctor")
"""They make a file of the database for a moment, which changes the folder's time."""
KILLED, STOPPED, BESIDE = "after a kill", "after a clean stop", "beside a server"


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    made = Simulator()
    made.load([note | {"deleted": False} for note in prose(NOTES, seed=2)])
    with made.running():
        yield made


def seen(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """The folder and every file: its bytes, the time of its last change, its mode."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else b"",
            path.stat().st_mtime_ns,
            path.stat().st_mode,
        )
        for path in [folder, *sorted(folder.rglob("*"))]
    }


@contextmanager
def left(how: str, env: dict[str, str], folder: Path) -> Iterator[None]:
    """An account after a clean stop or a kill, or beside a server that does nothing meanwhile."""
    with Server(env) as server:
        server.loaded(NOTES)
        server.tool("save", text="one more\n")
        if how == BESIDE:
            server.process.send_signal(signal.SIGSTOP)
            try:
                yield
            finally:
                server.process.send_signal(signal.SIGCONT)
            assert server.tool("list", limit=1)["total_items"] == NOTES + 1
            assert server.leave() == 0
            return
        if how == KILLED:
            server.process.kill()
            server.process.wait()
        else:
            assert server.leave() == 0
    logs = [path.stat().st_size for path in folder.glob("*-wal")]
    assert any(logs) is (how == KILLED)
    yield


def look(env: dict[str, str], name: str) -> str:
    done = run(env, *LOOKING[name])
    expected = 1 if name == "policy explain" else 0  # it knows no note of this id
    assert done.returncode == expected, (name, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("how", [STOPPED, KILLED, BESIDE])
def test_looking_changes_no_byte_and_no_time(tmp_path, simulator, how):
    env, folder = environment(simulator, tmp_path), account_folder(simulator, tmp_path)
    with left(how, env, folder):
        for name in LOOKING:
            before = seen(folder)
            said = look(env, name)
            after = seen(folder)
            changed = [path for path in after if after[path] != before.get(path)]
            if name.startswith(CONNECTING):
                changed = [path for path in changed if path != "."]
            if how == BESIDE and "deep" in name:
                # What SQLite keeps in memory of who reads; its file is that memory.
                changed = [path for path in changed if not path.endswith("-shm")]
            assert (changed, [*after]) == ([], [*before]), name
            if name == "status":
                assert json.loads(said)["notes"] == NOTES + 1  # the log is read, too
            if name == "audit verify":
                assert "The audit chain is whole." in said


def test_a_log_without_its_index_is_read_and_stays(tmp_path, simulator):
    """As in a copy of the folder: the index is no part of what is stored."""
    env, folder = environment(simulator, tmp_path), account_folder(simulator, tmp_path)
    with left(KILLED, env, folder):
        for index in folder.glob("*-shm"):
            index.unlink()
        before = seen(folder)
        assert json.loads(look(env, "status"))["notes"] == NOTES + 1
        after = {path: it for path, it in seen(folder).items() if not path.endswith("-shm")}
        del after["."], before["."]  # it has the index now
        assert after == before


def test_what_a_start_would_bring_in_order_stays_as_it_is(tmp_path, simulator):
    env, folder = environment(simulator, tmp_path), account_folder(simulator, tmp_path)
    with left(STOPPED, env, folder):
        kept = AccountFolder(folder)
        kept.key_copy.unlink()
        kept.audit_anchor.unlink()
        mark_damage(kept)
        assert kept.damage_marker.exists()
        for name, command in LOOKING.items():
            before = seen(folder)
            run(env, *command)
            after = seen(folder)
            if name.startswith(CONNECTING):
                del before["."], after["."]
            assert after == before, name


def test_a_policy_that_hides_more_is_told_and_removes_nothing(tmp_path, simulator):
    env, folder = environment(simulator, tmp_path), account_folder(simulator, tmp_path)
    with left(STOPPED, env, folder):
        policy = folder.parent / "policy.toml"
        policy.write_text('[notes]\nhidden_tags = ["private"]\n')
        policy.chmod(0o600)
        before = seen(folder)
        notices = json.loads(look(env, "status"))["notices"]
        assert any("other rules of what agents may see" in notice for notice in notices)
        assert seen(folder) == before


def on_read_only_disk(env: dict[str, str], data: Path, *arguments: str):
    """The command where the data folder is mounted read-only, in a name space of its own."""
    mounted = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    return subprocess.run(
        [
            *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
            mounted,
            str(data),
            *SERVE,
            *arguments,
        ],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def mounts(tmp_path):
    programs("unshare", "mount")
    data = tmp_path / "probe"
    data.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["unshare", "--mount", "true"], capture_output=True, check=False
        ).returncode
    ):
        lacking("only root may mount")


@pytest.mark.parametrize("how", sample("ends before looking", [STOPPED, KILLED], 1))
@pytest.mark.usefixtures("mounts")
@pytest.mark.slow("nine commands in a mount of their own")
def test_on_a_disk_that_can_only_be_read_the_record_is_shown_and_verified(tmp_path, simulator, how):
    env, folder = environment(simulator, tmp_path), account_folder(simulator, tmp_path)
    with left(how, env, folder):
        before = seen(folder)
        commands = ("audit verify", "audit tail", "status", "doctor", "keys list", "policy show")
        for name in commands if how == STOPPED else sample("looking", commands, 2):
            done = on_read_only_disk(env, folder.parent, *LOOKING[name])
            no_server = name in {"status", "doctor"}  # they say what a start would meet
            assert done.returncode == (20 if no_server else 0), (name, done.stdout, done.stderr)
            assert ("can only be read" in done.stdout) is no_server
            if name == "audit verify":
                assert "The audit chain is whole." in done.stdout
            if name == "audit tail":
                assert "tool.save" in done.stdout
        assert seen(folder) == before
        other = env | {"DB_ENCRYPTION_KEY": "raw:" + "77" * 32}
        done = on_read_only_disk(other, folder.parent, "audit", "verify")
        assert done.returncode == Verdict.WRONG_KEY, done.stderr
        touched = on_read_only_disk(env, folder.parent, "keys", "remove", "1")
        assert touched.returncode != 0  # it is really read-only
        assert seen(folder) == before


@pytest.mark.usefixtures("mounts")
def test_a_log_whose_index_cannot_be_made_is_refused_with_the_way_out(tmp_path, simulator):
    env, folder = environment(simulator, tmp_path), account_folder(simulator, tmp_path)
    with left(KILLED, env, folder):
        for index in folder.glob("*-shm"):
            index.unlink()
        done = on_read_only_disk(env, folder.parent, "audit", "verify")
        assert done.returncode == 20
        assert "Copy the data folder" in done.stderr
