"""Telling which process is busy with a write, and whether it still lives."""

import os
import socket
import subprocess
import sys

from mcp_notarium.files.locks import make_owner_name, process_ended


def test_this_process_is_not_gone_and_each_name_is_used_once():
    assert not process_ended(make_owner_name())
    assert make_owner_name() != make_owner_name()


def test_an_ended_process_of_this_machine_is_gone():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert process_ended(f"{socket.gethostname()}:{ended.pid}:00000000")


def test_nothing_is_claimed_about_other_machines_or_unreadable_names():
    for name in (
        f"elsewhere.example:{os.getpid()}:0",
        f"{socket.gethostname()}:0:0",
        f"{socket.gethostname()}:-1:0",
        f"{socket.gethostname()}:nonsense:0",
        "somebody",
        "",
        f"{socket.gethostname()}:{10**30}:0",
    ):
        assert not process_ended(name)
