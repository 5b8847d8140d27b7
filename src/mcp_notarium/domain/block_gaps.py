r"""Keep lines that are added to a Markdown text apart from the blocks next to them. Pure.

Right below a line of text, Markdown takes ``---`` for the underline of a heading, and any other line for more of
the same paragraph, item, row or quote. So a blank line goes between what is added and what stands next to it. Nothing
goes between them where one carries on what the other began:

* a line right below a heading (``# a``);
* an item of the list above it, of the same kind (bullets, numbers), or a line that is indented into that list;
* a row (``| a |``) of the table above it;
* a line within a paragraph or a quote of several lines, within code, a formula or front matter.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple

from mcp_notarium.markup.front_block import text_start

_MOST_READ = 1000
"""Lines above, at most, in which the list is looked for that is still open."""
_LOOKED_AT = 1000
"""Characters of a line that tell what it is."""
_TAB = 4
_WITHIN = r"(?:[ \t]|>|(?:[-*+]|\d{1,9}[.)])[ \t])*+"
"""Prefix of a line that is in a quote or the first of an item."""
_FENCE = re.compile(rf"^({_WITHIN})(?:(`{{3,}}|~{{3,}})(.*)|(\$\$)[ \t]*)$", re.MULTILINE)
_FENCES = ("```", "~~~", "$$")
_BREAK = re.compile(r" {0,3}(?:([-*_])[ \t]*(?:\1[ \t]*){2,}|=+[ \t]*|--[ \t]*)$")
"""A line across, or what underlines a heading."""
_ITEM = re.compile(r"([-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_KINDS = {
    "break": _BREAK,
    "heading": re.compile(r" {0,3}#{1,6}(?: |$)"),
    "fence": re.compile(r" *(?:```|~~~|\$\$)"),
    "quote": re.compile(r" *>"),
    "row": re.compile(r" *\|"),
}
_CALLOUT = re.compile(r" *>[ \t]?\[!")


class Form(Enum):
    """Name what the text of a note is."""

    LINES = "lines, each for itself"
    MARKDOWN = "Markdown"
    FILE = "Markdown, below front matter if there is some"


class _Line(NamedTuple):
    """Hold what a line is: an item (``bullet`` or ``number``), one of :data:`_KINDS`, or ``text``."""

    kind: str
    indent: int
    content: int = 0
    """The column in which an item's text begins."""


def find_text(text: str, form: Form) -> int:
    """Return how many lines of front matter stand above the text."""
    return text.count("\n", 0, text_start(text)) if form is Form.FILE else 0


def set_apart(lines: Sequence[str], at: int, added: list[str], *, front: int) -> list[str]:
    """Return the lines to add, with the blank lines that keep them apart from those next to them.

    ``lines``: the whole text, each with its end. ``at``: how many of them stand above. ``front``: how many of
    them are front matter.
    """
    if not any(line.strip() for line in added):
        return added
    before = "".join(lines[:at])
    if at < front or _is_in_fence(before, added[0]):
        return added
    above = [line.rstrip("\r\n") for line in lines[max(front, at - _MOST_READ) : at]]
    below = [line.rstrip("\r\n") for line in islice(lines, at, at + 2)]
    if above and below and _are_alike([above[-1], *added, below[0]]):
        return added
    start = [""] if _needs_blank(above, added) else []
    end = [""] if _needs_blank([*above, *start, *added], below) else []
    return [*start, *added, *end]


def _is_in_fence(before: str, line: str) -> bool:
    """Tell whether a line right after this text is in code or a formula that is still open."""
    if not any(mark in before for mark in _FENCES):  # the usual case, and far quicker
        return False
    opened, quoted, end = "", False, 0
    for found in _FENCE.finditer(before):
        marks, rest, quote = found[2] or found[4], found[3] or "", ">" in found[1]
        if quoted and not (quote and _is_one_quote(before[end : found.start()])):
            opened = ""  # it ended with the quote
        if not opened:
            quoted = quote
            opened = "" if marks[0] == "`" and "`" in rest else marks
        elif marks.startswith(opened) and not rest.strip():
            opened = ""
        end = found.end() + 1
    return bool(opened) and (not quoted or (_is_one_quote(before[end:]) and _is_one_quote(line)))


def _is_one_quote(text: str) -> bool:
    """Tell whether each of these lines is in a quote."""
    return all(line.lstrip().startswith(">") for line in text.splitlines())


def _are_alike(lines: Sequence[str]) -> bool:
    """Tell whether these are lines of one paragraph, or of one quote."""
    kinds = {_read(line).kind if line.strip() else "" for line in lines}
    return kinds in ({"text"}, {"quote"}) and not any(map(_CALLOUT.match, lines[1:]))


def _needs_blank(above: Sequence[str], below: Sequence[str]) -> bool:
    """Tell whether the last line above and the first one below need a blank line between them."""
    if not above or not below or not above[-1].strip() or not below[0].strip():
        return False
    last, first = _read(above[-1]), _read(below[0])
    if last.kind == "heading":
        return False
    if first.kind == last.kind == "row":
        heads = len(below) > 1 and _DELIMITER.match(below[1])
        return bool(heads) or not _is_in_table(above)
    return not _goes_on(_open_items(above), first)


def _is_in_table(above: Sequence[str]) -> bool:
    for line in reversed(above):
        if _read(line).kind != "row":
            return False
        if _DELIMITER.match(line):
            return True
    return False


def _open_items(above: Sequence[str]) -> list[_Line]:
    """Return the items that the last line belongs to, the innermost first."""
    found: list[_Line] = []
    limit, lazy = sys.maxsize, False
    for line in reversed(above):
        one = _read(line)
        if one.kind in ("bullet", "number"):
            lazy = False
            if one.indent < limit:
                found.append(one)
                limit = one.indent
        elif not line.strip():
            if lazy:
                break
        elif one.indent == 0:
            lazy = True
        if limit == 0 or (lazy and one.kind != "text"):
            break
    return found


def _goes_on(items: Sequence[_Line], first: _Line) -> bool:
    for item in items:
        if first.indent >= item.content:
            return True
        if first.indent >= item.indent and first.kind in ("bullet", "number"):
            return first.kind == item.kind
    return False


def _read(line: str) -> _Line:
    line = line[:_LOOKED_AT].expandtabs(_TAB)
    words = line.lstrip(" ")
    indent = len(line) - len(words)
    item = None if _BREAK.match(line) else _ITEM.match(words)
    if item:
        kind = "number" if item[1][0].isdigit() else "bullet"
        return _Line(kind, indent, indent + len(item[1]) + 1)
    kinds = (kind for kind, pattern in _KINDS.items() if pattern.match(line))
    return _Line(next(kinds, "text"), indent)
