"""Find the headings of a Markdown text. Pure."""

from __future__ import annotations

import re

MOST = 50
"""Headings that are named, at most."""
_LONGEST = 80
_HEADING = re.compile(r"(?:- | {0,3})(#{1,6})[ \t]+(.*\S)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


def find_headings(text: str) -> list[tuple[int, str]]:
    """Return the headings outside code and front matter, with their line numbers, from 1.

    If there are more than :data:`MOST`, the lowest levels are left out.
    """
    found: list[tuple[int, int, str]] = []
    fence = ""
    lines = text.removeprefix("\ufeff").split("\n")
    above = _front_matter(lines)
    for number, line in enumerate(lines[above:], above + 1):
        opened = _FENCE.match(line)
        if fence:
            fence = "" if opened and opened[1].startswith(fence) else fence
        elif opened:
            fence = opened[1]
        elif heading := _HEADING.match(line):
            found.append((len(heading[1]), number, heading[0].strip().removeprefix("- ")))
    deepest = 6
    while len(found) > MOST and deepest > 1:
        deepest -= 1
        found = [one for one in found if one[0] <= deepest]
    return [(number, _cut(words)) for _, number, words in found[:MOST]]


def _front_matter(lines: list[str]) -> int:
    """Return how many lines it has; its comments begin as headings do."""
    if lines[0].rstrip() != "---":
        return 0
    ends = (number for number, line in enumerate(lines[1:], 2) if line.rstrip() == "---")
    return next(ends, 0)


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
