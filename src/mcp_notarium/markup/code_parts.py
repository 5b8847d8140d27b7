"""Find the code in a Markdown text: blocks between fences, and spans within a line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TICKS = re.compile("`+")
_FENCE = re.compile("`{3,}|~{3,}")
_BEFORE = re.compile(r"\ufeff?[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?")


def lines_outside_code(
    text: str, wanted: re.Pattern[str], start: int = 0
) -> Iterator[tuple[int, int]]:
    """Yield where each line begins and ends that holds what is wanted, and stands in no block of code.

    Takes linear time, and little where nothing is wanted.
    """
    blocks, at = _fenced(text, start), start
    begin = end = -1
    while found := wanted.search(text, at):
        while end <= found.start() and begin < len(text):
            begin, end = next(blocks, (len(text), len(text)))
        if begin <= found.start() < end:
            at = end
            continue
        line_end = text.find("\n", found.start())
        line_end = len(text) if line_end < 0 else line_end
        yield text.rfind("\n", 0, found.start()) + 1, line_end
        at = line_end + 1


def _fenced(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield where the blocks of code begin, and where the line after each begins."""
    opened, fence, at = 0, "", start
    while found := _FENCE.search(text, at):
        begin = text.rfind("\n", 0, found.start()) + 1
        at = text.find("\n", found.end()) + 1 or len(text)
        before = text[begin : found.start()]
        if not _BEFORE.fullmatch(before):
            continue
        rest = text[found.end() : at]
        if fence:
            if found[0].startswith(fence) and not rest.strip():
                yield opened, at
                fence = ""
        elif found[0][0] == "~" or "`" not in rest:
            opened, fence = begin, found[0]
    if fence:
        yield opened, len(text)


def without_code(line: str) -> str:
    """Return the line with blanks in the place of what stands between two runs of as many backticks."""
    runs = [found.span() for found in _TICKS.finditer(line)]
    following: dict[int, int] = {}
    closes = [0] * len(runs)
    for number in reversed(range(len(runs))):
        size = runs[number][1] - runs[number][0]
        closes[number] = following.get(size, 0)
        following[size] = number
    kept, at, number = [], 0, 0
    while number < len(runs):
        if closing := closes[number]:
            start, end = runs[number][0], runs[closing][1]
            kept += [line[at:start], " " * (end - start)]
            at, number = end, closing
        number += 1
    return "".join((*kept, line[at:]))
