"""Test the screen of ``watch`` with the driver of its library: sizes, what is markup, and what a key decides."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from textual.widgets import OptionList, Static

from mcp_notarium.cli import watch, watch_screen
from mcp_notarium.cli.watch_screen import READ_SECONDS, WatchScreen
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import CacheError
from mcp_notarium.report.activity import Result
from mcp_notarium.storage.approval_table import Approval
from mcp_notarium.tools.question import NoteChange, show_changes
from mcp_notarium.tools.question import Question as Asked
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


def test_a_question_that_came_behind_a_note_is_not_agreed_to_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        source: Any = Source()
        source.read = lambda _id: ("Plan", "text")
        screen = WatchScreen(source, clock=lambda: NOW)
        async with screen.run_test() as pilot:
            await pilot.press("s")
            del source.questions[0]  # its ten minutes are over
            screen.look()
            monkeypatch.setattr(watch_screen, "SEEN_SECONDS", 0.5)
            await pilot.pause(0.6)
            await pilot.press("escape", "y")
            await pilot.pause()
        assert source.decided == []

    asyncio.run(play())


def test_an_undo_is_not_agreed_to_before_it_can_be_read() -> None:
    async def play() -> list[str]:
        source: Any = Source()
        undone: list[str] = []

        async def undo(note_id: str) -> str:
            undone.append(note_id)
            return "undone."

        source.read, source.undo = (lambda _id: ("Plan", "text")), undo
        screen = WatchScreen(source, clock=lambda: NOW)
        async with screen.run_test() as pilot:
            await pilot.press("end", "u", "y", "n")
            await pilot.pause()
            assert not undone
            await pilot.press("u")
            await pilot.pause(READ_SECONDS + 0.1)
            await pilot.press("y")
            await pilot.pause()
        return undone

    assert len(asyncio.run(play())) == 1


def test_the_minutes_that_are_left_go_down_on_the_screen() -> None:
    async def play() -> list[str]:
        source: Any = Source()
        now = [NOW]
        screen = WatchScreen(source, clock=lambda: now[0])
        seen = []
        async with screen.run_test() as pilot:
            for _ in range(2):
                await pilot.pause()
                screen.look()
                row = str(screen.query_one(OptionList).options[0].prompt)
                seen.append(row.rpartition("(")[2])
                now[0] += 120
        return seen

    before, after = asyncio.run(play())
    assert int(before.split()[0]) == int(after.split()[0]) + 2


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


def _fails(*_arguments: object) -> Any:
    raise CacheError("Gone.")


def test_no_title_text_or_change_ends_or_stops_the_screen() -> None:
    source = Source()
    source.questions = [replace(source.questions[0], diff="\n" * 100_000)]
    source.read = lambda _id: ("'/[/", "- [a](b) **c**\n" * 3000)  # type: ignore[attr-defined]
    began = time.monotonic()
    rows, _ = played(source, "s", "escape", "u", "escape")
    assert len(rows) == 6
    assert time.monotonic() - began < 8


@pytest.mark.parametrize("broken", ["read", "left_out"])
def test_a_database_that_fails_is_told_and_no_act_is_lost(broken: str) -> None:
    source = Source()
    setattr(source, broken, _fails)
    rows, _ = played(source, "s", "u")
    assert len(rows) == (7 if broken == "read" else 0)
    assert len(source.poll()) == (0 if broken == "read" else 5)


def test_a_crash_shows_no_variables(capsys: pytest.CaptureFixture[str]) -> None:
    source = Source()

    def read(note_id: str) -> Any:
        text = "never " + "shown"
        raise RuntimeError(len(text + note_id))

    source.read = read  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError):
        played(source, "s")
    said = capsys.readouterr()
    assert "never shown" not in said.out + said.err
    assert "1eac1019" not in said.out + said.err


def test_what_a_person_reads_stays_where_it_is_while_acts_come() -> None:
    async def play() -> tuple[float, float]:
        source: Any = Source()
        source.questions = [replace(source.questions[0], diff="+line\n" * 200)]
        screen = WatchScreen(source, clock=lambda: NOW)
        async with screen.run_test() as pilot:
            await pilot.press("space")
            await pilot.pause()
            about = screen.query_one("#about")
            before = about.scroll_offset.y
            source._acts = [*Example()._acts]
            screen.look()
            await pilot.pause()
            return before, about.scroll_offset.y

    before, after = asyncio.run(play())
    assert before == after > 0


def test_no_row_of_a_long_line_looks_like_a_line_of_its_own() -> None:
    async def play() -> list[str]:
        source: Any = Source()
        lines = "+" + "x" * 500 + "-" * 500
        source.questions = [replace(source.questions[0], question="Q?", diff=lines)]
        screen = WatchScreen(source, clock=lambda: NOW)
        async with screen.run_test(size=(80, 60)) as pilot:
            await pilot.pause()
            facts = screen.query_one("#facts", Static)
            return [facts.render_line(y).text for y in range(2, facts.size.height)]

    rows = asyncio.run(play())
    assert next(row[:1] for row in rows if row.strip()) == "+"
    assert {row[:1] for row in rows if row.strip()} == {"+", " "}


def test_lines_for_a_script_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    watch._say({"diff": "+\x9b2J\u202e\ud800"})
    said = capsys.readouterr().out
    assert said.isascii()
    assert json.loads(said) == {"diff": "+\x9b2J\u202e\ud800"}


def test_a_day_of_many_acts_is_shown_at_once() -> None:
    source = Source()
    (first, *_) = source.poll()
    source._acts = [replace(first, number=number) for number in range(1, 25_001)]
    began = time.monotonic()
    rows, _ = played(source)
    assert len(rows) == 2 + watch_screen.MOST_ACTS
    assert time.monotonic() - began < 4


def test_a_change_of_many_lines_is_cut_and_says_so() -> None:
    content = Content(text="\n" * 100_000)

    async def change() -> AsyncIterator[NoteChange]:
        yield NoteChange(None, content)

    async def forms(*_change: object) -> tuple[dict[str, str], dict[str, str]]:
        return {}, {}

    shown = asyncio.run(show_changes(Asked((), changes=change), forms)).diff.splitlines()
    assert len(shown) < 11_000
    assert shown[-1].endswith("more lines that are not shown")


def test_a_person_reads_no_code_of_an_error() -> None:
    act = replace(Example().poll()[0], decision="", result=Result.FAILED)
    said = replace(act, outcome="no_column").ended
    assert said == "failed; the app's file has no place for it"
