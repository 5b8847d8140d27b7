"""Tick and reopen a task of a note, named by its words or its line. Nothing else of the text changes."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from mcp_notarium.domain.lines import shorten
from mcp_notarium.errors import PatchError
from mcp_notarium.markup.tasks import Task, find_tasks, set_task

_NAMED = 5
"""Tasks that a refusal names, at most."""
_LINE = re.compile(r"\s*(?:line\s+)?([0-9]+)\s*", re.ASCII | re.IGNORECASE)
_MARKS = re.compile(r"[*_~`=]")
"""Marks that Markdown shows words with, which nobody says."""
COMES_AGAIN = "This task comes again; the next one is not added here, as its app would."


def is_line(task: str) -> bool:
    """Tell whether a task is named by its line, ``3`` or ``line 3``, which needs the version that was read."""
    return _LINE.fullmatch(task) is not None


def with_task(text: str, named: str, *, done: bool, now: float) -> str:
    """Return the text with this task ticked or reopened. Raises ``PatchError`` that names the tasks there are."""
    task = _find(text, named)
    return set_task(text, task, done=done, today=day_of(now))


def day_of(now: float) -> date:
    """Return the day that a time, in epoch seconds, has on this machine's clock."""
    return datetime.fromtimestamp(now, UTC).astimezone().date()


def comes_again(text: str, named: str) -> bool:
    """Tell whether the app of the notes would add a next task when this one is ticked."""
    try:
        return _find(text, named).recurrence is not None
    except PatchError:
        return False


def _find(text: str, named: str) -> Task:
    tasks = list(find_tasks(text))
    if by_line := _LINE.fullmatch(named):
        found = [task for task in tasks if task.line == int(by_line[1])]
    else:
        words = " ".join(named.split()).casefold()
        said = [(" ".join(task.text.split()).casefold(), task) for task in tasks]
        found = _called(said, words) or _called(
            [(_MARKS.sub("", text), task) for text, task in said], _MARKS.sub("", words)
        )
    if len(found) == 1:
        return found[0]
    error = PatchError(
        "The note has no tasks."
        if not tasks
        else "There is no task at this line."
        if by_line
        else f"{len(found) or 'No'} tasks of the note are called so.",
        details={"tasks": [_shown(task) for task in (found or tasks)[:_NAMED]]},
        resolution_hint="Give the words of one task as `list` shows them with `task:any`, or its line with `local_version`.",
    )
    error.tells_text = True
    raise error


def _called(said: list[tuple[str, Task]], words: str) -> list[Task]:
    """Return the tasks that these words are all of; if there are none, those that have them."""
    whole = [task for text, task in said if words and text == words]
    return whole or [task for text, task in said if words and words in text]


def _shown(task: Task) -> dict[str, int | str]:
    return {"line": task.line, "text": shorten(task.text), "state": task.state}
