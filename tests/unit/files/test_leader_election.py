"""The lock that says which process leads."""

import subprocess
import sys

import pytest

from mcp_notarium.files.locks import Leader


def test_only_one_leads_at_a_time(tmp_path):
    first, second = Leader(tmp_path / "sync.lock"), Leader(tmp_path / "sync.lock")
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    first.release()
    assert not first.acquire()
    second.release()


def test_the_lock_file_is_private(tmp_path):
    leader = Leader(tmp_path / "sync.lock")
    leader.acquire()
    assert (tmp_path / "sync.lock").stat().st_mode & 0o077 == 0
    leader.release()


def test_without_a_lock_nobody_leads(tmp_path):
    assert not Leader(tmp_path).acquire()


def test_a_killed_leader_leaves_no_trace(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from mcp_notarium.files.locks import Leader\n"
        "leader = Leader(pathlib.Path(sys.argv[1]))\n"
        "print(leader.acquire(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "sync.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "True\n"
        leader = Leader(tmp_path / "sync.lock")
        assert not leader.acquire()
        other.kill()
        other.wait()
        assert leader.acquire()
        leader.release()


@pytest.mark.parametrize("times", [0, 1, 2])
def test_releasing_is_harmless_however_often(tmp_path, times):
    leader = Leader(tmp_path / "sync.lock")
    for _ in range(times):
        leader.release()
    assert leader.acquire()
    leader.release()
