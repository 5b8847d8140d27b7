"""What a person at a terminal is asked, and that Ctrl+C is an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_notarium.simulator import Simulator
from support.terminal import CTRL_C, Terminal
from support.whole import environment

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are needed")
PROMPT_SECONDS = 10.0


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


def test_a_code_typed_at_the_terminal_logs_in(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
    with Terminal(env, "login") as terminal:
        terminal.shows("Code from the e-mail: ")
        terminal.type(simulator.sent_codes[-1].code + "\n")
        assert terminal.ends() == 0, terminal.screen
        assert simulator.sent_codes[-1].code not in terminal.screen
