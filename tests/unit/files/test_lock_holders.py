"""Who holds a lock, read from a pretended /proc."""

import os

import pytest

from mcp_notarium.files.lock_holders import holders


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
    assert [str(one) for one in holders(lock, proc=proc)] == [
        "process 4711, started by claude",
        "process 4715",
    ]


def test_where_the_system_does_not_tell_nobody_is_named(lock, proc, tmp_path):
    assert holders(lock, proc=proc) == []
    assert holders(tmp_path / "nowhere") == []
