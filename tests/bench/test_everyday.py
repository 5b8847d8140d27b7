"""Do two everyday tasks with our server as the bench does, and judge wrong results."""

from __future__ import annotations

from pathlib import Path

from bench.everyday_notes import edit, notes, same, set_values
from bench.everyday_page import DONE, everyday_tables
from bench.rows_everyday import JUDGES, OUR_RIVALS, attempt

TASKS = ("tick the task that is due", "set properties")


def test_two_tasks_are_done_and_shown(tmp_path: Path) -> None:
    (vault,) = (rival for rival in OUR_RIVALS if rival.store == "vault")
    with vault.world(tmp_path) as world:
        figures = [one for task in TASKS for one in attempt(vault, world, task, tmp_path)]
    results = {figure.row: figure.unit for figure in figures if ": " not in figure.row}
    assert results == {f"{task} | vault | here": DONE for task in TASKS}
    lines = list(everyday_tables(figures))
    assert lines[2].startswith(f"| {TASKS[0]} | ")
    assert lines[2].endswith(" in 2 |")


def test_a_wrong_result_is_seen() -> None:
    before = notes(files=True)
    comment = before["Apples"].replace("  # as of October", "")
    judge = set_values("Apples", price=9)
    priced = comment.replace("price: 8", "price: 9")
    assert judge(before, before | {"Apples": priced}, "") == (
        "damaged: other lines of front matter"
    )
    blanks = before["Apples"].replace("price: 8", "price: 9").replace("  #", " #")
    assert "the blanks" in judge(before, before | {"Apples": blanks}, "")
    assert judge(before, before, "").startswith("not done")
    right = before | {"Apples": before["Apples"].replace("price: 8", "price: 9")}
    assert judge(before, right, "") == ""
    assert judge(before, right | {"Figs": "gone"}, "") == "damaged: changes Figs"
    assert same(before, before) == ""
    oil = edit("Chores", "- [ ] oil", "- [x] oil")
    assert oil(before, before, "").startswith("not done")
    both = before["Chores"].replace("oil", "").replace("[ ]", "[x]")
    assert oil(before, before | {"Chores": both}, "").startswith("damaged")
    assert JUDGES["take all of that back"](before, right, "") == "damaged: changes Apples"
