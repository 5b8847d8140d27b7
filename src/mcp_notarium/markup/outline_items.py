"""Write lines as children of a list item, as outliners have them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mcp_notarium.domain.lines import content_of, split_lines

_ITEM = re.compile(r"[ \t]*[-+*](?:[ \t]|\r?$)")
_PROPERTY = re.compile(r"[ \t]*[\w./-]+::(?:[ \t]|\r?$)")
_FENCE = re.compile(r"[ \t]*(?:[-+*][ \t]+)?(`{3,}|~{3,})")
_BLANKS = re.compile(r"[ \t]*")
_TAB = 4
_NESTS = range(2, 6)
"""By how many columns a child of ``-`` is indented: with more it is code."""
_WITHIN = "  "
"""What stands before further lines of an item."""


def is_property(line: str) -> bool:
    """Tell whether a line is a property of the item that it stands in."""
    return bool(_PROPERTY.match(line))


def find_own_end(lines: Sequence[str], line: int, last: int) -> int:
    """Return where the children begin of the item that begins at ``line``, or ``last`` if it has none."""
    return next(_items(lines, line + 1, last), last)


def child_indent(lines: Sequence[str], line: int, end: int, *, first: bool) -> str:
    """Return what stands before the children of the item that begins at ``line``, or would stand before one.

    ``first``: before the first of them; otherwise before the least indented one, which one more child can follow.
    """
    children = [_blanks(lines[number - 1]) for number in _items(lines, line + 1, end)]
    if children:
        return children[0] if first else min(children, key=_width)
    others = (_blanks(one) for one in lines if one[:1] in " \t" and _ITEM.match(one))
    step = next((one for one in others if _width(one) in _NESTS), "\t")
    return _blanks(lines[line - 1]) + step


def as_children(value: str, indent: str) -> list[str]:
    """Return the lines of a text as items with this indentation: each paragraph that is no item becomes one."""
    given = [content_of(line) for line in split_lines(value.strip("\r\n"))]
    common = min((_width(_blanks(line)) for line in given if line.strip()), default=0)
    made: list[str] = []
    fence, goes_on, deeper = "", False, ""
    for line in (_less_indented(line, common) for line in given):
        at_start = line[:1] not in ("", " ", "\t")
        item = not fence and at_start and bool(_ITEM.match(line))
        if not line.strip():
            made.append("")
        elif item or not (fence or goes_on or not at_start):
            while made and not made[-1]:
                made.pop()
            made.append(indent + line if item else f"{indent}- {line}")
            deeper = "" if item else _WITHIN
        else:
            made.append(indent + (_WITHIN if at_start else deeper) + line)
        fence = _fence_after(fence, line)
        goes_on = bool(line.strip())
    return made


def _items(lines: Sequence[str], start: int, end: int) -> Iterator[int]:
    """Yield which of these lines begin an item, outside code."""
    fence = ""
    for number in range(start, end):
        if not fence and _ITEM.match(lines[number - 1]):
            yield number
        fence = _fence_after(fence, lines[number - 1])


def _fence_after(fence: str, line: str) -> str:
    """Return the marks of the code that is open after this line; '': none is."""
    found = _FENCE.match(line)
    if fence:
        return "" if found and found[1].startswith(fence) else fence
    return found[1] if found else ""


def _blanks(line: str) -> str:
    found = _BLANKS.match(line)
    return found[0] if found else ""


def _width(blanks: str) -> int:
    return len(blanks.expandtabs(_TAB))


def _less_indented(line: str, width: int) -> str:
    """Return a line without so many columns of its indentation."""
    blanks = _blanks(line)
    at = next((at for at in range(len(blanks) + 1) if _width(blanks[:at]) >= width), len(blanks))
    return " " * max(0, _width(blanks[:at]) - width) + line[at:]
