"""Ask questions at the terminal with questionary; passwords are asked by ``terminal.ask_secret``.

Each raises ``ConfigError`` without a terminal, ``InvalidRequest`` without an answer, and ``KeyboardInterrupt``
for Ctrl+C. The questions stand on stderr, like all messages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mcp_notarium.cli import console
from mcp_notarium.cli.terminal import can_ask, wrap
from mcp_notarium.errors import ConfigError, InvalidRequest

_BESIDE = 9
"""Columns of what stands before and behind a question."""


class Choice(NamedTuple):
    """Hold one answer to choose: its value, and how it is shown."""

    value: str
    title: str


def choose(question: str, choices: Sequence[Choice], *, default: str, option: str) -> str:
    """Ask for one of several answers. ``option`` gives the answer without a question."""
    asked = _require(option)
    shown = [asked.Choice(one.title, value=one.value) for one in choices]
    return str(_ask(asked.select, question, choices=shown, default=default))


def choose_some(question: str, choices: Sequence[Choice], *, option: str) -> list[str]:
    """Ask for any number of answers; all are chosen at first."""
    asked = _require(option)
    shown = [asked.Choice(one.title, value=one.value, checked=True) for one in choices]
    hint = "(space: on or off)"  # no longer: lines of questions break within words
    return list(_ask(asked.checkbox, question, choices=shown, instruction=hint))


def ask_text(
    question: str, *, default: str, option: str, problem: Callable[[str], str | None]
) -> str:
    """Ask for a line until ``problem`` returns none; what is wrong with one is shown below it."""
    asked = _require(option)
    while True:
        # It is typed in a line of its own: a path is not broken within a word beside the question.
        typed = str(_ask(asked.text, question, below="\n ", default=default)).strip()
        if (wrong := problem(typed)) is None:
            return typed
        console.warn(wrong)
        default = typed


def confirm(question: str, *, default: bool, option: str) -> bool:
    """Ask a yes-or-no question, whose answer ends with Enter: a key typed too early answers no other one."""
    return bool(_ask(_require(option).confirm, question, default=default, auto_enter=False))


def _require(option: str) -> Any:
    """Return questionary. Raises ``ConfigError`` if nobody can be asked."""
    if not can_ask():
        raise ConfigError(
            "there is no terminal to ask on",
            resolution_hint=f"Run the command in a terminal, or give `{option}`.",
        )
    import questionary  # noqa: PLC0415 - slow, and only for those who are asked

    return questionary


def _ask(kind: Any, question: str, below: str = "", **options: Any) -> Any:
    from prompt_toolkit.output import create_output  # noqa: PLC0415 - the same

    # A question that is too wide would be broken within a word.
    question = "\n".join(wrap(question, console.console().width - _BESIDE)) + below
    try:
        return kind(question, output=create_output(stdout=sys.stderr), **options).unsafe_ask()
    except (EOFError, OSError):  # Ctrl+D, or the terminal is gone
        raise InvalidRequest(
            "no answer was given", resolution_hint="Run the command again and answer its questions."
        ) from None
