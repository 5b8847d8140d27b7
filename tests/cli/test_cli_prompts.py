"""Test the questions at a terminal, and Ctrl+C as an answer."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from mcp_notarium.cli import signals
from mcp_notarium.files.account_folder import AccountFolder
from notarium_devtools.simperium import Simulator
from support.long import sample
from support.terminal import CTRL_C, CTRL_D, Terminal
from support.whole import Server, account_folder, environment

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are needed")
PROMPT_SECONDS = 25.0
# The main thread leaves signals to another one: they are noted, and interrupt nothing it waits for, as
# when they come between its last step and the wait.
_DEAF = """
import asyncio, signal, sys, threading
from mcp_notarium.cli import signals as command_signals; from mcp_notarium.cli import terminal
async def ask():
    return getattr(terminal, sys.argv[1])("Well? ")
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
with command_signals.stop_on_signals():
    try:
        if sys.argv[2] == "loop":
            asyncio.run(ask())
        else:
            getattr(terminal, sys.argv[1])("Well? ")
    except KeyboardInterrupt as interrupt:
        sys.exit(command_signals.exit_code(interrupt))
"""

# Ctrl+C comes while the echo is switched off.
_INTERRUPTED_HIDING = """
import signal, sys, termios
from mcp_notarium.cli import terminal
switch = termios.tcsetattr
def interrupted(*arguments):
    termios.tcsetattr = switch
    switch(*arguments)
    signal.raise_signal(signal.SIGINT)
termios.tcsetattr = interrupted
try:
    terminal.ask_secret("Well? ")
except KeyboardInterrupt:
    sys.exit(130)
"""

# Two questions, one after the other.
_ASKED_TWICE = {
    "ask_yes": """
from mcp_notarium.cli import terminal
print("answers", [terminal.ask_yes(f"question {n}") for n in (1, 2)])
""",
    "confirm": """
from mcp_notarium.cli import console
print("answers", [console.confirm(f"question {n}", default=False, option="") for n in (1, 2)])
""",
}


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator(poll_seconds=1.0)
    with simulator.running():
        yield simulator


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["login"], "Code from the e-mail: "),
        (["login", "--password"], "Simplenote password: "),
        (["reset-cache"], "[y/N]"),
        (["rotate-key", "--ask-old"], "Old key: "),
    ],
)
def test_the_first_interrupt_at_a_prompt_ends_the_command(
    simulator: Simulator, tmp_path: Path, arguments: list[str], prompt: str
) -> None:
    with Terminal(environment(simulator, tmp_path), *arguments) as terminal:
        terminal.shows(prompt)
        terminal.type(CTRL_C)
        assert terminal.ends(within=PROMPT_SECONDS) == 130
        assert "Traceback" not in terminal.screen


@pytest.mark.parametrize(
    ("asks", "number", "way"),
    sample(
        "signals at prompts",
        [
            *itertools.product(
                ["ask_secret", "ask_line", "ask_yes"],
                [signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
                ["loop", "plain"],
            )
        ],
        6,
    ),
)
def test_a_signal_that_interrupts_no_wait_ends_the_command_all_the_same(
    asks: str, number: signal.Signals, way: str
) -> None:
    program = [sys.executable, "-c", _DEAF, asks, way]
    with Terminal(dict(os.environ), program=program) as terminal:
        terminal.shows("Well? ")
        os.kill(terminal.process.pid, number)
        assert terminal.ends(within=10.0) == 128 + number, terminal.screen
        assert terminal.echoes()


def test_an_interrupt_while_the_echo_is_switched_off_switches_it_on_again() -> None:
    program = [sys.executable, "-c", _INTERRUPTED_HIDING]
    with Terminal(dict(os.environ), program=program) as terminal:
        assert terminal.ends(within=10.0) == 130, terminal.screen
        assert terminal.echoes()


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["login"], "Code from the e-mail: "),
        (["rotate-key", "--ask-old"], "Old key: "),
        (["keys", "--ask-key", "list"], "Key: "),
        (["keys", "recovery", "test"], "Recovery key: "),
        (["keys", "recovery", "create"], "of 9: "),
        (["purge"], "to go on: "),
        (["reset-cache"], "[y/N]"),
    ],
)
@pytest.mark.parametrize("typed", [CTRL_D, "\xff\xfe\n", None], ids=["end", "no text", "closed"])
def test_no_answer_at_a_prompt_changes_nothing_and_says_so(
    simulator: Simulator, tmp_path: Path, arguments: list[str], prompt: str, typed: str | None
) -> None:
    env = environment(simulator, tmp_path)
    with Server(env) as server:
        server.tool("list")
        assert server.leave() == 0
    before = kept(simulator, tmp_path)
    with Terminal(env, *arguments) as terminal:
        terminal.shows(prompt)
        if typed is None:
            terminal.hang_up()
            # The end of the input may be met before the signal that tells of it.
            assert terminal.ends() in {1, 128 + signal.SIGHUP}
        else:
            for _ in range(3):  # a group of a recovery key may be tried again
                terminal.type_bytes(typed.encode("latin-1"))
            assert terminal.ends(within=PROMPT_SECONDS) == 1
            assert "unexpected" not in terminal.screen
            assert re.search(r"[Nn]othing was (changed|destroyed)|was not made", terminal.screen)
    assert kept(simulator, tmp_path) == before


def test_an_interrupted_command_says_whether_it_has_changed_anything(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    with Server(env) as server:
        server.tool("list")
        assert server.leave() == 0
    with Terminal(env, "rotate-key", "--ask-old") as terminal:
        terminal.shows("Old key: ")
        terminal.type(CTRL_C)
        assert terminal.ends(within=PROMPT_SECONDS) == 130
        assert "Interrupted. Nothing was changed." in terminal.screen
    simulator.faults.delay(30.0, query={"data": "1"})  # when the cache is emptied
    with Terminal(env, "reset-cache", "--yes", kind="xterm") as terminal:
        terminal.shows("Loading the notes")
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
        assert "Interrupted. The cache was emptied" in terminal.screen


def test_a_key_file_replaced_under_its_old_inode_is_a_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Some file systems give a new file the inode of one just removed."""
    monkeypatch.setattr(signals, "_watch", signals._Watch())
    key_file = AccountFolder(tmp_path).key_file
    key_file.write_bytes(b"old")
    signals.watch_folder(tmp_path)
    unchanged = signals.describe_interruption()
    inode = key_file.stat().st_ino
    key_file.write_bytes(b"new")
    os.utime(key_file, ns=(1, 1))
    assert key_file.stat().st_ino == inode
    changed = signals.describe_interruption()
    assert changed != unchanged
    assert "after the change was made or begun" in changed


def kept(simulator: Simulator, place: Path) -> bytes:
    return (account_folder(simulator, place) / "notarium_keys.json").read_bytes()


def test_a_code_typed_at_the_terminal_logs_in(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
    with Terminal(env, "login") as terminal:
        terminal.shows("Code from the e-mail: ")
        terminal.type(simulator.sent_codes[-1].code + "\n")
        assert terminal.ends() == 0, terminal.screen
        assert simulator.sent_codes[-1].code not in terminal.screen


@pytest.mark.slow("two questions of a library that is slow to import")
@pytest.mark.attack(36)
@pytest.mark.parametrize("way", _ASKED_TWICE)
def test_what_is_typed_before_a_question_answers_none(tmp_path: Path, way: str) -> None:
    program = [sys.executable, "-c", _ASKED_TWICE[way]]
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with Terminal(env, program=program, kind="xterm") as terminal:
        terminal.type("y\ny\n")
        terminal.finds("(?s)question 1.*y/N")
        time.sleep(0.2)  # for a question that takes what was typed
        terminal.type("n\ny\n" if way == "ask_yes" else "n\ry\r")
        terminal.finds("(?s)question 2.*y/N")
        time.sleep(0.2)
        terminal.type("n\n" if way == "ask_yes" else "n\r")
        terminal.shows("answers [False, False]")
