"""Test the screen of ``watch`` with the driver of its library: sizes, what is markup, and what a key decides."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from textual.widgets import OptionList, Static

from mcp_notarium.cli import watch_screen
from mcp_notarium.cli.watch_screen import WatchScreen
from mcp_notarium.storage.approval_table import Approval
from notarium_devtools.watch_example import NOW, Example

EVIL = "[bold red]Evil[/] [@click=app.quit]go[/]"


class Source(Example):
    """Two questions, and a list of what was decided."""

    def __init__(self) -> None:
        super().__init__()
        (asked,) = super().waiting()
        self.questions = [replace(asked, question=EVIL), replace(asked, id="2", question="Second?")]
        self.decided: list[tuple[str, bool]] = []

    def waiting(self) -> list[Approval]:
        return list(self.questions)

    def decide(self, approval: Approval, *, agrees: bool) -> str:
        self.questions.remove(approval)
        self.decided.append((approval.id, agrees))
        return "Done."


def played(source: Source, *keys: str, size: tuple[int, int] = (80, 24)) -> tuple[list[str], str]:
    """The lines of the list and what is told of the chosen one, after these keys."""

    async def play() -> tuple[list[str], str]:
        shown: Any = source
        screen = WatchScreen(shown, clock=lambda: NOW)
        async with screen.run_test(size=size) as pilot:
            await pilot.press(*keys)
            await pilot.pause()
            acts = screen.query_one(OptionList)
            told = screen.query_one("#facts", Static).visual
            return [str(one.prompt) for one in acts.options], str(told)

    return asyncio.run(play())


@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_questions_stand_first_and_no_text_is_markup(size: tuple[int, int]) -> None:
    rows, _ = played(Source(), size=size)
    assert [row.split("\n")[0] for row in rows[:2]] == ["WAITS FOR YOU  Zed 0.198"] * 2
    assert EVIL in rows[0]
    assert rows[2].startswith("14:0")


def test_no_question_is_agreed_to_in_its_first_second() -> None:
    source = Source()
    played(source, "y", "y")
    assert source.decided == []


def test_one_yes_is_for_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    source, seconds = Source(), iter(range(0, 1000, 2))
    monkeypatch.setattr(watch_screen.time, "monotonic", lambda: float(next(seconds)))
    played(source, "y")
    assert source.decided == [("1eac1019", True)]


def test_a_no_counts_at_once_and_an_act_is_no_question() -> None:
    source = Source()
    played(source, "n", "n", "n", "y")
    assert source.decided == [("1eac1019", False), ("2", False)]


def test_words_choose_acts() -> None:
    source = Source()
    source.questions = []
    rows, _ = played(source, "/", "a", "d", "a")
    assert [row.split("  ")[-2:] for row in rows] == [["Meeting with Ada", "new"]]
