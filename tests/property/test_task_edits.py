"""A ticked task differs in its box and its day; what Markdown takes for a task is one."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.tasklists import tasklists_plugin

from mcp_notarium.markup.tasks import find_tasks, set_task

TODAY = date(2026, 11, 28)
DAYS = st.sampled_from(
    ["", " 📅 2026-12-01", " [due:: 2026-12-01]", " ⏳ 2026-12-01 ⏫", " #tag", " ^id"]
)
BOXES = st.builds(
    "{}[{}] {}{}".format,
    st.sampled_from(["- ", "* ", "+ ", "1. ", "  - ", "> - ", "\t- "]),
    st.sampled_from(" xX/->?!"),
    st.sampled_from(["a", "two words", "über", "[x] y", "`code`"]),
    DAYS,
)
WORDS = st.builds(
    "{} {}{}".format,
    st.sampled_from(["- TODO", "- DONE", "  - NOW", "- LATER"]),
    st.just("b"),
    DAYS,
)
OTHERS = st.sampled_from(
    ["", "text", "- item", "[ ] no item", "## [ ] title", "- [x](y)", "```", "~~~", "a:: [ ]"]
)
LINES = st.lists(BOXES | WORDS | OTHERS, max_size=8)


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.data())
def test_ticking_changes_the_line_alone_and_reopening_gives_it_back(lines, end, last, data):
    text = end.join(lines) + end * last
    tasks = [*find_tasks(text)]
    if not tasks:
        return
    task = data.draw(st.sampled_from(tasks))
    assert lines[task.line - 1][: len(lines[task.line - 1])].count(task.mark)
    ticked = set_task(text, task, done=True, today=TODAY)
    after = ticked.split(end)
    assert len(after) == len(text.split(end))
    changed = [
        number for number, (a, b) in enumerate(zip(text.split(end), after, strict=True)) if a != b
    ]
    assert changed == ([] if task.state == "done" else [task.line - 1])
    (again,) = (one for one in find_tasks(ticked) if one.line == task.line)
    assert (again.state, again.text, again.due) == ("done", task.text, task.due)
    assert again.day("done") in {None, TODAY}
    if task.state == "open" and task.mark in {" ", "TODO"}:
        reopened = set_task(ticked, again, done=False, today=TODAY)
        kept = text.replace("LATER", "TODO"), text
        assert reopened.replace("LATER", "TODO") in {one.replace("LATER", "TODO") for one in kept}


PLAIN = st.lists(
    st.tuples(
        st.sampled_from(["- ", "  - ", "> - ", "```", "~~~"]),
        st.sampled_from(["[ ] a", "[x] b", "[X] c", "d", "[x](y)", "[ ]e"]),
    ).map(lambda one: one[0] if one[0] in {"```", "~~~"} else "".join(one)),
    max_size=8,
)


@given(PLAIN)
def test_the_tasks_of_a_list_are_those_of_another_reader(lines):
    text = "\n".join(lines)
    html = MarkdownIt().use(tasklists_plugin).render(text)
    assert len([*find_tasks(text)]) == html.count('type="checkbox"')
