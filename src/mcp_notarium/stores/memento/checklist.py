"""Show the items of a checklist as lines, and find the items again in edited lines. Pure.

An item is ``- [ ] text`` or ``- [x] text``. Items are shown at the end of the note, and found wherever they stand in
an edited text; what else stands there is the content. A line break inside an item indents what follows. An item that
was moved, checked or reworded keeps its other fields, such as its id.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.domain.diff import find_changes

Item = dict[str, Any]
Line = tuple[bool, str]
"""True if an item is checked, and its text."""
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
        f"- [{'x' if item.get('checked') else ' '}] " + _text(item).replace("\n", f"\n{_INDENT}")
        for item in items
    )
    return f"{content}\n{lines}" if content else lines


def split(text: str, content: str, items: Sequence[Item], *, seed: str) -> tuple[str, list[Item]]:
    """Return the content and the items that a text stands for; ``content`` and ``items`` are those it had before.

    Lines of the content before that look like items stay content, and those within an item stay in it. ``seed`` makes the ids of new items.
    """
    before = Counter(filter(_ITEM.fullmatch, content.split("\n")))
    shown = render("", items)
    if items and (text == shown or text.endswith(f"\n{shown}")):
        head = text[: -len(shown)].removesuffix("\n")
        rest, lines = _find_lines(head, before)
        return (rest, _match([], lines, seed) + list(items)) if lines else (head, list(items))
    within = (row for row in shown.split("\n") if row.startswith(_INDENT))
    rest, lines = _find_lines(text, before + Counter(filter(_ITEM.fullmatch, within)))
    return rest, _match(items, lines, seed)


def _find_lines(text: str, before: Counter[str]) -> tuple[str, list[Line]]:
    """Part the lines of items from the others; ``before``: lines that only look like items.

    Empty lines below an item belong to what follows: to other text, and not to an item.
    """
    others: list[str] = []
    lines: list[Line] = []
    empty: list[str] = []
    in_item = False
    for row in text.split("\n"):
        found = _ITEM.fullmatch(row)
        if found and before[row]:
            before[row] -= 1
            found = None
        if found:
            lines.append((found[1] != " ", (found[2] or "").rstrip("\r")))
            in_item, empty = True, []
        elif in_item and not row.strip():
            empty.append(row)
        elif in_item and row.startswith(_INDENT):
            checked, said = lines[-1]
            rows = (one.rstrip("\r").removeprefix(_INDENT) for one in (*empty, row))
            lines[-1], empty = (checked, "\n".join((said, *rows))), []
        else:
            others += (*empty, row)
            in_item, empty = False, []
    return "\n".join(others), lines


def _match(items: Sequence[Item], lines: Sequence[Line], seed: str) -> list[Item]:
    """Give each line the item that it was: unchanged, else with the same text, wherever it is now, else at the same place."""
    same = _find_unchanged(items, lines)
    for with_state in (True, False):
        free: dict[Line, deque[int]] = {}
        for number in sorted({*range(len(items))} - {*same}):
            free.setdefault(_line(items[number], with_state=with_state), deque()).append(number)
        for place, (checked, text) in enumerate(lines):
            if same[place] is None and free.get(line := (checked and with_state, text)):
                same[place] = free[line].popleft()
    left = {*range(len(items))} - {*same}
    made, follows = [], 0
    for place, line in enumerate(lines):
        was = same[place]
        if was is None and follows in left:
            left.remove(follows)
            was = follows
        follows = follows if was is None else was + 1
        made.append(_new(line, f"{seed}/{place}") if was is None else _changed(items[was], line))
    return made


def _find_unchanged(items: Sequence[Item], lines: Sequence[Line]) -> list[int | None]:
    """Return of each line which item it is still, in the same order; None: of none."""
    shown = [repr(_line(item)) for item in items]
    found: list[int | None] = []
    at = 0
    for change in find_changes(shown, [*map(repr, lines)]):
        found += range(at, change.low)
        found += [None] * (change.high - change.low + change.growth)
        at = change.high
    return [*found, *range(at, len(items))]


def _line(item: Item, *, with_state: bool = True) -> Line:
    return bool(item.get("checked")) and with_state, _said(item)


def _text(item: Item) -> str:
    """Return the text of an item as the index holds it. The item keeps its half characters."""
    return replace_surrogates(item["text"])


def _said(item: Item) -> str:
    """Return the text of an item as its lines say it, which lack returns at their ends, and empty lines at the end."""
    first, *rest = (row.rstrip("\r") for row in _text(item).split("\n"))
    while rest and not rest[-1].strip():
        rest.pop()
    return "\n".join((first, *rest))


def _changed(item: Item, line: Line) -> Item:
    checked, text = line
    if bool(item.get("checked")) != checked:
        item = item | {"checked": checked}
    return item if _said(item) == text else item | {"text": text}


def _new(line: Line, seed: str) -> Item:
    digest = hashlib.sha256(f"{seed}/{line[1]}".encode()).hexdigest()
    return {"id": digest[:16], "text": line[1], "checked": line[0]}
