"""Show the items of a checklist as lines, and find the items again in edited lines. Pure.

An item is ``- [ ] text`` or ``- [x] text``, at the end of the note. A line break inside an item indents what
follows. An item that was moved, checked or reworded keeps its other fields, such as its id.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Sequence
from typing import Any

Item = dict[str, Any]
Line = tuple[bool, str]
"""Whether an item is checked, and its text."""
_ITEM = re.compile(r"\s*[-*+] \[([ xX])\](?: (.*))?")
_INDENT = "  "


def is_checklist(value: Any) -> bool:
    """Tell whether a value is a list of items with texts."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("text"), str) for item in value
    )


def render(content: str, items: Sequence[Item]) -> str:
    """Return the text of a note: its content, and one line for each item."""
    if not items:
        return content
    lines = "\n".join(
        f"- [{'x' if item.get('checked') else ' '}] " + item["text"].replace("\n", f"\n{_INDENT}")
        for item in items
    )
    return f"{content}\n{lines}" if content else lines


def split(text: str, items: Sequence[Item], *, seed: str) -> tuple[str, list[Item]]:
    """Return the content and the items that a text stands for; ``items`` are those it had before.

    ``seed`` makes the ids of new items.
    """
    shown = render("", items)
    if items and (text == shown or text.endswith(f"\n{shown}")):
        return text[: -len(shown)].removesuffix("\n"), list(items)
    content, lines = _find_lines(text)
    return content, _match(items, lines, seed)


def _find_lines(text: str) -> tuple[str, list[Line]]:
    """Split a text before its last lines that are all items."""
    rows = text.split("\n")
    end = len(rows)
    while end and not rows[end - 1].strip():
        end -= 1
    begin = first = end
    while begin and (_ITEM.fullmatch(rows[begin - 1]) or rows[begin - 1].startswith(_INDENT)):
        begin -= 1
        if _ITEM.fullmatch(rows[begin]):
            first = begin
    if first == end:
        return text, []
    lines: list[Line] = []
    for row in rows[first:end]:
        if found := _ITEM.fullmatch(row):
            lines.append((found[1] != " ", (found[2] or "").rstrip("\r")))
        else:
            checked, said = lines[-1]
            lines[-1] = checked, f"{said}\n{row.removeprefix(_INDENT)}"
    return "\n".join(rows[:first]), lines


def _match(items: Sequence[Item], lines: Sequence[Line], seed: str) -> list[Item]:
    """Give each line the item that it was: the same text, wherever it is now, else the same place."""
    free: dict[str, deque[int]] = {}
    for number, item in enumerate(items):
        free.setdefault(item["text"], deque()).append(number)
    same = [free[text].popleft() if free.get(text) else None for _, text in lines]
    left = {number for numbers in free.values() for number in numbers}
    made, follows = [], 0
    for place, line in enumerate(lines):
        was = same[place]
        if was is None and follows in left:
            left.remove(follows)
            was = follows
        follows = follows if was is None else was + 1
        made.append(_new(line, f"{seed}/{place}") if was is None else _changed(items[was], line))
    return made


def _changed(item: Item, line: Line) -> Item:
    checked, text = line
    if bool(item.get("checked")) != checked:
        item = item | {"checked": checked}
    return item if item["text"] == text else item | {"text": text}


def _new(line: Line, seed: str) -> Item:
    digest = hashlib.sha256(f"{seed}/{line[1]}".encode()).hexdigest()
    return {"id": digest[:16], "text": line[1], "checked": line[0]}
