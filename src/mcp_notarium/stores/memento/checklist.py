"""Show the items of a checklist as lines, and find the items again in edited lines. Pure.

An item is ``- [ ] text`` or ``- [x] text``. Items are shown at the end of the note, and found wherever they stand in an
edited one: the other lines are the content. A line break inside an item indents what follows. An item that was moved, checked or reworded keeps its other fields, such as its id.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Sequence
from typing import Any

from mcp_notarium.domain.characters import replace_surrogates

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
    return replace_surrogates(f"{content}\n{lines}" if content else lines)


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
    """Split a text into the lines that are no items, and the items."""
    content: list[str] = []
    lines: list[Line] = []
    blank: list[str] = []
    inside = False
    for row in text.split("\n"):
        if found := _ITEM.fullmatch(row):
            lines.append((found[1] != " ", (found[2] or "").rstrip("\r")))
            blank, inside = [], True
        elif inside and not row.strip() and not row.startswith(_INDENT):
            blank.append(row)  # what it belongs to, the next line tells
        elif inside and row.startswith(_INDENT):
            checked, said = lines[-1]
            more = [*("" for _ in blank), row.removeprefix(_INDENT)]
            lines[-1] = checked, "\n".join([said, *more])
            blank = []
        else:
            content += [*blank, row]
            blank, inside = [], False
    return ("\n".join(content), lines) if lines else (text, [])


def _match(items: Sequence[Item], lines: Sequence[Line], seed: str) -> list[Item]:
    """Give each line the item that it was: the same text, wherever it is now, else the same place."""
    free: dict[str, deque[int]] = {}
    for number, item in enumerate(items):
        free.setdefault(replace_surrogates(item["text"]), deque()).append(number)
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
    return item if replace_surrogates(item["text"]) == text else item | {"text": text}


def _new(line: Line, seed: str) -> Item:
    digest = hashlib.sha256(f"{seed}/{line[1]}".encode()).hexdigest()
    return {"id": digest[:16], "text": line[1], "checked": line[0]}
