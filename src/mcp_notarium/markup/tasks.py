"""Read the tasks of a Markdown text, and tick or reopen one in its place. Pure.

A task is an item with a box (``- [ ]``), whose dates stand as emoji of Obsidian Tasks (``📅 2026-12-01``) or as Dataview's fields
(``[due:: 2026-12-01]``), or an item that begins with a word of Logseq (``- TODO``), whose dates may stand below it. What stands in
a block of code is no task.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Literal

from mcp_notarium.domain.lines import LF
from mcp_notarium.markup.code_parts import lines_outside_code
from mcp_notarium.markup.front_block import text_start

State = Literal["open", "doing", "done", "cancelled"]
DateForm = Literal["emoji", "field", "none"]
"""Way to write the day on which a task was done."""
MOST = 1_000
"""Tasks of a note that are read."""
LONGEST = 500
"""Characters of a task's text."""
_BOXES: dict[str, State] = {"x": "done", "X": "done", "-": "cancelled", "/": "doing"}
"""States of Obsidian Tasks and of Minimal; every other character is open there, such as ``>`` for forwarded."""
_WORDS: dict[str, State] = {
    "TODO": "open",
    "LATER": "open",
    "WAITING": "open",
    "WAIT": "open",
    "DOING": "doing",
    "NOW": "doing",
    "IN-PROGRESS": "doing",
    "DONE": "done",
    "CANCELED": "cancelled",
    "CANCELLED": "cancelled",
}
_ANY_WORD = "|".join(_WORDS)
_WANTED = re.compile(rf"\[[^\n]\]|[-#] (?:{_ANY_WORD})(?![\w-])")
_BOX = re.compile(
    r"[ \t>]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[(?P<mark>[^\n])\](?=[ \t]|\Z)(?P<text>.*)"
)
_WORD = re.compile(rf"[ \t>]*- (?:#{{1,6}} )?(?P<mark>{_ANY_WORD})(?=[ \t]|\Z)(?P<text>.*)")
_DAY = r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
_DATES = {
    "📅": "due", "📆": "due", "🗓": "due", "⏳": "scheduled", "⌛": "scheduled", "🛫": "start", "✅": "done", "❌": "cancelled", "\u2795": "created",
}  # fmt: skip
_PRIORITIES = {"🔺": "highest", "⏫": "high", "🔼": "medium", "🔽": "low", "⏬": "lowest"}
_LETTERS = {"A": "high", "B": "medium", "C": "low"}
_NAMES = {
    "due": "due", "scheduled": "scheduled", "start": "start", "created": "created", "completion": "done", "cancelled": "cancelled",
    "priority": "priority", "repeat": "recurrence",
}  # fmt: skip
_EMOJI = re.compile(
    rf"(?P<sign>[{''.join(_DATES)}])\ufe0f?[ \t]*{_DAY}(?![0-9])"
    r"|🔁\ufe0f?[ \t]*(?P<rule>[a-zA-Z0-9, !]{1,200})"
    rf"|(?P<priority>[{''.join(_PRIORITIES)}])\ufe0f?"
)
_FIELD = re.compile(
    rf"(?P<open>[\[(])[ \t]*(?P<name>{'|'.join(_NAMES)})::[ \t]*(?P<value>[^\[\]()\n]{{1,200}}?)[ \t]*(?(open)[\])])"
)
_STAMP = re.compile(
    rf"(?P<kind>SCHEDULED|DEADLINE):[ \t]*<{_DAY}(?:[ \t][^<>\n]{{0,40}}?)??(?:[ \t](?P<rule>(?:\.\+|\+\+|\+)[0-9]{{1,4}}[hdwmy]))?>"
)
_LETTER = re.compile(r"\[#(?P<letter>[ABC])\]")
_BLOCK_ID = re.compile(r"[ \t]\^[A-Za-z0-9-]+\Z")
_MOST_BELOW = 10
"""Lines below a task of Logseq that may have its dates."""
_MOST_BLANKS = 9
_MOST_FIELDS = 20
"""Fields of each form that are looked at in a line."""


class TaskNotFound(ValueError):
    """Report that the text has no such task at this place: it has changed."""


@dataclass(frozen=True, slots=True)
class TaskField:
    """Hold what a task says of itself, and where it stands in the text; ``emoji``: as Obsidian Tasks writes it."""

    name: str
    value: str
    start: int
    end: int
    emoji: bool


@dataclass(frozen=True, slots=True)
class Task:
    """Hold a task, with the days that its fields say."""

    line: int
    """Counts from 1."""
    text: str
    """Its words, without mark and fields."""
    state: State
    mark: str
    """The character in its box, or the word before it."""
    box: bool
    """True: ``mark`` stands in a box."""
    start: int
    """Start of ``mark`` in the text."""
    end: int
    fields: tuple[TaskField, ...] = ()

    @property
    def is_open(self) -> bool:
        """Tell whether there is something left to do."""
        return self.state in {"open", "doing"}

    @property
    def due(self) -> date | None:
        """Return the day by which it must be done."""
        return self.day("due")

    @property
    def scheduled(self) -> date | None:
        """Return the day for which it is planned."""
        return self.day("scheduled")

    @property
    def recurrence(self) -> str | None:
        """Return the words that say when it comes again."""
        return self.value("recurrence")

    def day(self, name: str) -> date | None:
        """Return the day of ``due``, ``scheduled``, ``start``, ``done``, ``created`` or ``cancelled``."""
        value = self.value(name)
        return date.fromisoformat(value) if value else None

    def value(self, name: str) -> str | None:
        """Return what the first field of this name says."""
        return next((one.value for one in self.fields if one.name == name), None)


def find_tasks(text: str) -> Iterator[Task]:
    """Yield the tasks of a text, in order. Takes linear time, and little if there are none."""
    line, counted, found = 1, 0, 0
    for start, end in lines_outside_code(text, _WANTED, text_start(text)):
        content = text[start:end].removesuffix("\r")
        shown = _BOX.fullmatch(content) or _WORD.fullmatch(content)
        if shown is None:
            continue
        line, counted = line + text.count(LF, counted, start), start
        yield _task(text, start, line, shown, box=shown.re is _BOX)
        found += 1
        if found == MOST:
            return


def _task(text: str, offset: int, line: int, shown: re.Match[str], *, box: bool) -> Task:
    mark, words = shown["mark"], shown["text"]
    at = offset + shown.start("text")
    fields = sorted(_fields(words, at, box=box), key=lambda one: one.start)
    rest, done = [], 0
    for one in fields:
        rest.append(words[done : one.start - at])
        done = max(done, one.end - at)
    written = " ".join(_BLOCK_ID.sub("", " ".join((*rest, words[done:])).rstrip()).split())
    written = written.rstrip(" ,") if fields else written
    if not box:
        fields += _stamps_below(text, offset + shown.end())
    return Task(
        line,
        written if len(written) <= LONGEST else f"{written[: LONGEST - 1]}…",
        _BOXES.get(mark, "open") if box else _WORDS[mark],
        mark,
        box,
        offset + shown.start("mark"),
        offset + shown.end("mark"),
        tuple(fields),
    )


def _fields(words: str, at: int, *, box: bool) -> Iterator[TaskField]:
    if not words.isascii():
        yield from _emoji_fields(words, at)
    if "::" in words:
        for found in islice(_FIELD.finditer(words), _MOST_FIELDS):
            name, value = _NAMES[found["name"]], found["value"]
            if _is_day(name, value):
                yield TaskField(name, value, at + found.start(), at + found.end(), emoji=False)
    if not box:
        yield from _stamps(words, at)
        letter = _LETTER.search(words)
        if letter:
            value = _LETTERS[letter["letter"]]
            yield TaskField("priority", value, at + letter.start(), at + letter.end(), emoji=False)


def _emoji_fields(words: str, at: int) -> Iterator[TaskField]:
    for found in islice(_EMOJI.finditer(words), _MOST_FIELDS):
        if found["sign"]:
            name, value = _DATES[found["sign"]], found["day"]
        elif found["rule"]:
            name, value = "recurrence", found["rule"].strip()
        else:
            name, value = "priority", _PRIORITIES[found["priority"]]
        if _is_day(name, value):
            end = found.start() + len(found[0].rstrip())
            yield TaskField(name, value, at + found.start(), at + end, emoji=True)


def _is_day(name: str, value: str) -> bool:
    """Tell whether the value is a day, if the name demands one."""
    if name in {"priority", "recurrence"}:
        return True
    try:
        return re.fullmatch(_DAY, value) is not None and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _stamps(words: str, at: int) -> Iterator[TaskField]:
    """Yield the days that stand as Logseq writes them, and what they say on repetition."""
    for found in islice(_STAMP.finditer(words), _MOST_FIELDS) if "<" in words else ():
        name = "due" if found["kind"] == "DEADLINE" else "scheduled"
        if _is_day(name, found["day"]):
            place = at + found.start(), at + found.end()
            yield TaskField(name, found["day"], *place, emoji=False)
            if found["rule"]:
                yield TaskField("recurrence", found["rule"], *place, emoji=False)


def _stamps_below(text: str, at: int) -> list[TaskField]:
    """Return those of the lines that belong to the item: indented ones before the next item."""
    found: list[TaskField] = []
    for _ in range(_MOST_BELOW):
        begin = text.find("\n", at) + 1
        if not begin:
            break
        at = text.find("\n", begin)
        at = len(text) if at < 0 else at
        line = text[begin:at]
        if not line[:1].isspace() or not line.strip() or line.lstrip().startswith("- "):
            break
        found += _stamps(line, begin)
    return found


def set_task(text: str, task: Task, *, done: bool, today: date) -> str:
    """Return the text with a task ticked or reopened, and every other character as it was.

    The day on which it was done is written as this task has its fields, or most tasks of the note have theirs; else not at
    all, nor where Logseq has words. Reopening removes it. A task that comes again is ticked, and no next one is
    added. Raises ``TaskNotFound``.
    """
    tasks = list(find_tasks(text))
    if task not in tasks:
        raise TaskNotFound
    if task.state == "done" if done else task.is_open:
        return text
    changes = [
        (_with_blanks(text, task, one), one.end, "")
        for one in task.fields
        if one.name in {"done", "cancelled"}
    ]
    if not task.box:
        changes.append((task.start, task.end, "DONE" if done else _word_for_open(tasks)))
    else:
        changes.append((task.start, task.end, "x" if done else " "))
        put = _done_date(_form_of(task, tasks), today) if done else ""
        at = _end_of(text, task)
        changes.append((at, at, put))
    for start, end, put in sorted(changes, reverse=True):
        text = text[:start] + put + text[end:]
    return text


def _with_blanks(text: str, task: Task, field: TaskField) -> int:
    """Return where a field begins with the blanks before it, except those that keep its neighbours apart."""
    if not text[field.end : field.end + 1].isspace() and field.end < len(text):
        return field.start
    first = task.end + (2 if task.box else 1)
    before = text[max(first, field.start - _MOST_BLANKS) : field.start]
    return field.start - len(before) + len(before.rstrip(" \t"))


def _word_for_open(tasks: Sequence[Task]) -> str:
    words = Counter(one.mark for one in tasks if not one.box)
    return "LATER" if words["LATER"] + words["NOW"] > words["TODO"] + words["DOING"] else "TODO"


def _form_of(task: Task, tasks: Sequence[Task]) -> DateForm:
    for fields in (task.fields, [field for one in tasks if one.box for field in one.fields]):
        emoji = sum(one.emoji for one in fields)
        if fields:
            return "emoji" if emoji * 2 >= len(fields) else "field"
    return "none"


def _done_date(form: DateForm, today: date) -> str:
    if form == "emoji":
        return f" ✅ {today.isoformat()}"
    return f"  [completion:: {today.isoformat()}]" if form == "field" else ""


def _end_of(text: str, task: Task) -> int:
    """Return where a field is added: behind the words and fields, and before the id of the block."""
    stop = text.find("\n", task.end)
    line = text[task.end : len(text) if stop < 0 else stop].rstrip()
    block_id = _BLOCK_ID.search(line)
    return task.end + len(line[: block_id.start()].rstrip() if block_id else line)
