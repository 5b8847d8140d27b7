import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files import account_folder, locks
from mcp_notarium.files.locks import ServerLock, find_holders, key_lock
from support import needs
from support.account import account, folder_of


@pytest.fixture
def mine(tmp_path):
    made = folder_of(account(tmp_path))
    account_folder.create_folder(made)
    return made


def test_a_second_holder_of_the_key_lock_is_refused_as_busy(mine):
    with key_lock(mine), pytest.raises(LockedError) as refused, key_lock(mine, timeout=0.05):
        pass
    assert refused.value.verdict is Verdict.BUSY


@needs.POSIX
def test_the_key_lock_is_free_again_after_use_and_private(mine):
    with key_lock(mine):
        assert stat.S_IMODE(mine.keys_lock.stat().st_mode) == 0o600
    with key_lock(mine, timeout=0.05):
        pass


def test_who_waited_for_a_lock_that_was_removed_meanwhile_locks_its_successor(mine):
    removed = ServerLock(mine).exclude()
    waiting = ServerLock(mine)
    mine.server_lock.unlink()
    removed.release()
    waiting.share()
    with pytest.raises(LockedError):
        ServerLock(mine)._take(exclusive=True, timeout=0.05)
    waiting.release()


def test_a_lock_whose_file_is_removed_while_it_is_taken_is_taken_anew(mine, monkeypatch):
    real, removed = locks.SYSTEM.lock, []

    def remove_once(descriptor, *, exclusive):
        real(descriptor, exclusive=exclusive)
        if not removed:
            removed.append(mine.keys_lock.unlink())

    monkeypatch.setattr(locks.SYSTEM, "lock", remove_once)
    with key_lock(mine), pytest.raises(LockedError), key_lock(mine, timeout=0):
        pass


def test_a_killed_holder_frees_both_locks(mine):
    code = (
        "import sys, pathlib\n"
        "from mcp_notarium.files.account_folder import AccountFolder\n"
        "from mcp_notarium.files.locks import ServerLock, key_lock\n"
        "folder = AccountFolder(pathlib.Path(sys.argv[1]))\n"
        "with key_lock(folder):\n"
        "    held = ServerLock(folder).exclude()\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(mine.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LockedError), key_lock(mine, timeout=0.05):
            pass
        with pytest.raises(LockedError):
            ServerLock(mine).share(timeout=0.05)
        process.kill()
    with key_lock(mine, timeout=5):
        ServerLock(mine).exclude(timeout=5).release()


def test_many_may_hold_the_lock_and_none_is_alone_then(mine):
    one, two, alone = (ServerLock(mine) for _ in range(3))
    one.share(timeout=0)
    two.share(timeout=0)
    with pytest.raises(LockedError) as refused:
        alone.exclude(timeout=0.05)
    assert refused.value.verdict is Verdict.BUSY
    one.release()
    two.release()
    alone.exclude(timeout=0).release()
    alone.release()


def test_an_exclusive_lock_can_become_shared_again(mine):
    one, other = ServerLock(mine), ServerLock(mine)
    one.exclude(timeout=0)
    with pytest.raises(LockedError):
        other.share(timeout=0)
    one.share(timeout=0)
    other.share(timeout=0)
    one.release()
    other.release()


def test_waiting_ends_when_the_place_becomes_free(mine):
    holder, waiter = ServerLock(mine).exclude(timeout=0), ServerLock(mine)
    timer = threading.Timer(0.1, holder.release)
    timer.start()
    waiter.share(timeout=10)
    waiter.release()
    timer.join()


@pytest.mark.skipif(sys.platform == "win32", reason="holds nothing there")
def test_a_refused_lock_keeps_no_file_open(mine):
    alone = ServerLock(mine).exclude()
    try:
        before = len(list(Path("/dev/fd").iterdir()))
        with pytest.raises(LockedError):
            ServerLock(mine).share(timeout=0)
        assert len(list(Path("/dev/fd").iterdir())) == before
    finally:
        alone.release()


@pytest.fixture(name="lock")
def _lock(tmp_path):
    lock = tmp_path / "server.lock"
    lock.touch()
    return lock


@pytest.fixture(name="proc")
def _proc(tmp_path):
    proc = tmp_path / "proc"
    proc.mkdir()
    return proc


def place_of(lock):
    found = lock.stat()
    return f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"


def process(proc, pid, parent, name):
    for one in (pid, parent):
        (proc / str(one)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (odd ) name) S {parent} 1 1 0")
    (proc / str(parent) / "comm").write_text(f"{name}\n")


def test_those_who_hold_it_are_named_with_the_program_that_started_them(lock, proc):
    process(proc, 4711, 4000, "claude")
    here = place_of(lock)
    (proc / "locks").write_text(
        f"1: FLOCK  ADVISORY  READ 4711 {here} 0 EOF\n"
        f"1: -> FLOCK  ADVISORY  WRITE 4712 {here} 0 EOF\n"
        "2: FLOCK  ADVISORY  READ 4713 00:00:1 0 EOF\n"
        f"3: POSIX  ADVISORY  READ 4714 {here} 0 EOF\n"
        f"4: FLOCK  ADVISORY  READ {os.getpid()} {here} 0 EOF\n"
        f"5: FLOCK  ADVISORY  READ 4715 {here} 0 EOF\n"
    )
    assert [str(one) for one in find_holders(lock, proc=proc)] == [
        "process 4711, started by claude",
        "process 4715",
    ]


def test_without_a_report_of_the_system_no_process_is_named(lock, proc, tmp_path):
    assert find_holders(lock, proc=proc) == []
    assert find_holders(tmp_path / "nowhere") == []
