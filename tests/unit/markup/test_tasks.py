"""Tasks are read as Obsidian Tasks, Dataview and Logseq take them, and ticked as these tick them."""

from datetime import date
from time import process_time

import pytest

from mcp_notarium.markup.tasks import LONGEST, MOST, TaskNotFound, find_tasks, set_task

TODAY = date(2026, 11, 28)
NOTE = """---
plan: "- [ ] not this"
---
- [ ] Plain
* [x] Done ✅ 2026-11-01
+ [/] Half 📅 2026-12-01 🔁 every week ⏫
1. [>] Forwarded [due:: 2026-12-02]  [priority:: low], (start:: 2026-11-30)
> - [-] Left ❌ 2026-11-02 ^abc-1
\t- [ ] Nested 🗓️2026-12-03 ⏳ 2026-12-04 🛫 2026-12-05 \u2795 2026-12-06 🔺
12) [X] Bought
- [x](link) and [ ] within
-[ ] no item
- [] no box
- [xx] no box
```python
- [ ] code
```
- [ ] 📅 2026-02-30 [repeat:: every day]
- [ ]
"""


def shown(task):
    fields = [(one.name, one.value) for one in task.fields]
    return task.line, task.text, task.state, task.mark, fields


def test_boxes_are_tasks_with_their_states_and_days():
    assert [*map(shown, find_tasks(NOTE))] == [
        (4, "Plain", "open", " ", []),
        (5, "Done", "done", "x", [("done", "2026-11-01")]),
        (
            6, "Half", "doing", "/",
            [("due", "2026-12-01"), ("recurrence", "every week"), ("priority", "high")],
        ),
        (
            7, "Forwarded", "open", ">",
            [("due", "2026-12-02"), ("priority", "low"), ("start", "2026-11-30")],
        ),
        (8, "Left", "cancelled", "-", [("cancelled", "2026-11-02")]),
        (
            9, "Nested", "open", " ",
            [
                ("due", "2026-12-03"), ("scheduled", "2026-12-04"), ("start", "2026-12-05"),
                ("created", "2026-12-06"), ("priority", "highest"),
            ],
        ),
        (10, "Bought", "done", "X", []),
        (18, "📅 2026-02-30", "open", " ", [("recurrence", "every day")]),
        (19, "", "open", " ", []),
    ]  # fmt: skip


LOGSEQ = """title:: Plans

- TODO [#A] Call Ann
  SCHEDULED: <2026-12-01 Tue 10:00 .+1d>
  DEADLINE: <2026-12-05 Sat>
\t- DOING it
\t  id:: 1
\t  DEADLINE: <2026-12-06 Sun ++2w>
- ## LATER a heading
- CANCELED one
- DONE two
- WAITING three
  - DEADLINE: <2026-12-07 Mon>
- TODOS are none, nor is TODO
- NOW-ish
TODO no block
"""


def test_words_of_logseq_are_tasks_with_the_days_below_them():
    assert [*map(shown, find_tasks(LOGSEQ))] == [
        (
            3, "Call Ann", "open", "TODO",
            [("priority", "high"), ("scheduled", "2026-12-01"), ("recurrence", ".+1d"), ("due", "2026-12-05")],
        ),
        (6, "it", "doing", "DOING", [("due", "2026-12-06"), ("recurrence", "++2w")]),
        (9, "a heading", "open", "LATER", []),
        (10, "one", "cancelled", "CANCELED", []),
        (11, "two", "done", "DONE", []),
        (12, "three", "open", "WAITING", []),
    ]  # fmt: skip
    first = next(find_tasks(LOGSEQ))
    assert (first.due, first.scheduled, first.day("start")) == (
        date(2026, 12, 5), date(2026, 12, 1), None,
    )  # fmt: skip
    assert (first.value("priority"), first.recurrence, first.is_open) == ("high", ".+1d", True)


def test_what_is_read_is_bounded():
    (task,) = find_tasks("- [ ] " + "x" * (LONGEST + 1))
    assert task.text == "x" * (LONGEST - 1) + "…"
    assert len([*find_tasks("- [ ] x\n" * (MOST + 1))]) == MOST


@pytest.mark.parametrize(
    "text",
    [
        "word word. \n" * 90_000,
        "- [ ] " * 160_000,
        "[ ]" * 330_000,
        "- [ ] " + "[due:: " * 140_000,
        "- [ ] x" + " " * 1_000_000,
        "- [ ] " + "🔁 a" * 300_000,
        "- [ ] " + "📅 " * 300_000,
        "- TODO <" + "SCHEDULED: <2026-12-01 " * 40_000,
        "- TODO x\n" * 10_000 + "  SCHEDULED: <\n" * 10_000,
        ">" * 1_000_000 + "[ ]",
    ],
)
def test_hostile_texts_take_bounded_time(text):
    begin = process_time()
    tasks = [*find_tasks(text)]
    assert len(tasks) <= MOST
    assert all(len(one.fields) < 100 for one in tasks)
    assert process_time() - begin < 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- [ ] a", "- [x] a"),
        ("- [ ] a 📅 2026-12-01 \r\n", "- [x] a 📅 2026-12-01 ✅ 2026-11-28 \r\n"),
        ("- [>] a ⏫ ^id\n", "- [x] a ⏫ ✅ 2026-11-28 ^id\n"),
        ("- [ ] a [due:: 2026-12-01]", "- [x] a [due:: 2026-12-01]  [completion:: 2026-11-28]"),
        ("- [ ] a\n- [x] b ✅ 2026-11-01", "- [x] a ✅ 2026-11-28\n- [x] b ✅ 2026-11-01"),
        ("- [ ] a\n- [x] b (completion:: 2026-11-01)", "- [x] a  [completion:: 2026-11-28]\n- [x] b (completion:: 2026-11-01)"),
        ("- [ ] a\n- [ ] b 📅 2026-12-01\n" + "- [ ] c (due:: 2026-12-01)\n" * 2, "- [x] a  [completion:: 2026-11-28]\n- [ ] b 📅 2026-12-01\n" + "- [ ] c (due:: 2026-12-01)\n" * 2),
        ("- [-] a ❌ 2026-11-02", "- [x] a ✅ 2026-11-28"),
        ("- [ ] a ✅ 2026-11-01 b", "- [x] a b ✅ 2026-11-28"),
        ("- [ ] 📅 2026-12-01", "- [x] 📅 2026-12-01 ✅ 2026-11-28"),
        ("- [ ] ✅ 2026-11-01", "- [x]  ✅ 2026-11-28"),
        ("- [x] a 📅 2026-12-01", "- [x] a 📅 2026-12-01"),
        ("- TODO a 📅 2026-12-01", "- DONE a 📅 2026-12-01"),
        ("- ## NOW a\n  SCHEDULED: <2026-12-01 Tue .+1d>", "- ## DONE a\n  SCHEDULED: <2026-12-01 Tue .+1d>"),
    ],
)  # fmt: skip
def test_a_task_is_ticked_with_the_day_in_the_form_of_the_note(text, wanted):
    task = next(find_tasks(text))
    assert set_task(text, task, done=True, today=TODAY) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- [x] a ✅ 2026-11-01 ^id", "- [ ] a ^id"),
        ("- [X] a  [completion:: 2026-11-01] #tag", "- [ ] a #tag"),
        ("- [-] a ❌ 2026-11-02 ✅ 2026-11-01", "- [ ] a"),
        ("- [/] a", "- [/] a"),
        ("- [x] ✅ 2026-11-01", "- [ ] "),
        ("- [x] ✅ 2026-11-01 a", "- [ ]  a"),
        ("- [x] a ✅ 2026-11-01#b", "- [ ] a #b"),
        ("- DONE ✅ 2026-11-01", "- TODO "),
        ("- DONE a", "- TODO a"),
        ("- CANCELED a\n- NOW b", "- LATER a\n- NOW b"),
        ("- DONE a\n- NOW b\n- TODO c", "- TODO a\n- NOW b\n- TODO c"),
    ],
)
def test_a_task_is_reopened_without_the_day(text, wanted):
    assert set_task(text, next(find_tasks(text)), done=False, today=TODAY) == wanted


def test_a_task_that_has_changed_since_is_not_found():
    text = "- [ ] a\n- [ ] b\n"
    task = next(find_tasks(text))
    for changed in ("\n" + text, text.replace("a", "c"), text.replace("[ ] a", "[x] a"), ""):
        with pytest.raises(TaskNotFound):
            set_task(changed, task, done=True, today=TODAY)


def test_a_task_that_comes_again_is_ticked_and_tells_so():
    text = "- [ ] Water plants 🔁 every day 📅 2026-11-28\n"
    task = next(find_tasks(text))
    assert task.recurrence == "every day"
    ticked = set_task(text, task, done=True, today=TODAY)
    assert ticked == "- [x] Water plants 🔁 every day 📅 2026-11-28 ✅ 2026-11-28\n"
