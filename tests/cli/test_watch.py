"""Test the screen of ``watch`` in a real terminal, beside a real server, and its lines for scripts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from support.talker import SERVE
from support.tmux import Tmux
from support.whole import Server, run, store_environment

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="tmux is needed"),
    pytest.mark.slow("each test runs servers and a screen"),
]
EVIL = "[bold]Evil[/] \x1b[31m\x1b]0;owned\x07 title"
SHOWN_EVIL = "[bold]Evil[/]"


@pytest.fixture(name="env")
def _env(tmp_path: Path) -> dict[str, str]:
    return store_environment(tmp_path, "local")


def lines(env: dict[str, str], count: int) -> list[dict[str, object]]:
    """The first lines of ``watch --json``."""
    process = subprocess.Popen(
        [*SERVE, "watch", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        found = [json.loads(process.stdout.readline()) for _ in range(count)]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGINT
    return found


@pytest.mark.parametrize(("width", "colour"), [(60, True), (80, False), (120, True)])
def test_acts_come_as_they_are_made_and_an_undo_takes_one_back(
    env: dict[str, str], width: int, colour: bool
) -> None:
    env |= {} if colour else {"NO_COLOR": "1"}
    with Server(env) as server:
        bread = server.tool("save", title="Sourdough bread", text="flour\nwater\n")
        evil = server.tool("save", title=EVIL, text="# Plan\n\n[[click](https://evil.example)]\n")
        with Tmux(env, "watch", width=width) as window:
            window.shows("today: 2 changed", "Sourdough bread  new", "q Quit")
            server.tool("save", id=bread["id"], append="salt", local_version=1)
            screen = window.shows("today: 3 changed", "Sourdough bread  +1 line", "talker")
            assert SHOWN_EVIL in screen
            assert all(len(line) <= width for line in screen.splitlines())
            assert bool(re.search("\x1b\\[[0-9;]*3[0-7]m", window.coloured)) == colour
            window.type("Home", "s")
            window.shows("Sourdough bread", "flour water salt", "esc Back")
            window.type("q")
            window.shows("q Quit")
            window.type("u")
            window.shows("Take back the last change", "y Yes")
            window.type("n")
            assert "salt" in server.tool("get", id=bread["id"])["text"]
            window.type("u")
            window.shows("Take back the last change")
            window.type("y")
            window.shows("undone.", "mcp-notarium undo")
            assert "salt" not in server.tool("get", id=bread["id"])["text"]
            window.type("/")
            window.shows("words of a client")
            window.type("e", "v", "i", "l")
            found = window.shows("“evil”", SHOWN_EVIL)
            assert "Sourdough" not in found.split("─")[0]
            window.type("Escape")
            window.shows("Sourdough bread")
            server.tool("get", id=evil["id"])
            window.shows("3 read")
            window.type("q")
        assert server.leave() == 0
    assert run(env, "audit", "verify").returncode == 0


def test_a_script_reads_each_act_as_a_line(env: dict[str, str]) -> None:
    with Server(env) as server:
        note = server.tool("save", title=EVIL, text="one\ntwo\n")
        server.tool("save", id=note["id"], text="one\n", local_version=1)
        server.error("manage", action="trash", id="absent", local_version=1)
        saved, changed, late = lines(env, 3)
        assert server.leave() == 0
    assert (saved["act"], saved["changed"], saved["result"]) == ("save", "new", "changed")
    assert (changed["changed"], changed["notes"]) == ("-1 line", [note["id"]])
    assert (late["result"], late["outcome"]) == ("failed", "not_found")
    assert "\x1b" not in str(saved)


def test_without_a_terminal_it_says_what_to_do(env: dict[str, str]) -> None:
    with Server(env) as server:
        assert server.leave() == 0
    done = run(env, "watch")
    assert done.returncode == 1
    assert "watch --json" in done.stderr
