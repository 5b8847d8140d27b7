"""Find the headings of a Markdown text. Pure."""

from __future__ import annotations

import re

from mcp_notarium.domain.lines import LF

MOST = 50
"""Headings that are named, at most."""
_LONGEST = 80
_DEEPEST = 6
_BLANKS = r"[^\S\n]*"
_LINES = tuple(
    re.compile(
        rf"^(?:{_BLANKS}(`{{3,}}|~{{3,}})|(?:- | {{0,3}})(#{{1,{deepest}}})[ \t](.*))", re.MULTILINE
    )
    for deepest in range(1, _DEEPEST + 1)
)
"""A fence of code, or a heading of these levels: other lines are not looked at one by one."""
_BEGIN = re.compile(rf"---{_BLANKS}(?=\n)")
_END = re.compile(rf"\n---{_BLANKS}(?=\n|\Z)")


def find_headings(text: str) -> list[tuple[int, str]]:
    """Return the headings outside code and front matter, with their line numbers, from 1.

    If there are more than :data:`MOST`, the lowest levels are left out.
    """
    if "#" not in text:
        return []
    text = text.removeprefix("\ufeff")
    found: list[tuple[int, int, str]] = []
    levels, deepest = [0] * _DEEPEST, _DEEPEST
    fence, line, counted, at = "", 1, 0, _front_matter(text)
    while match := _LINES[deepest - 1].search(text, at):
        at = match.end()
        line, counted = line + text.count(LF, counted, match.start()), match.start()
        opened, marks, words = match.groups()
        if opened:
            if not fence:
                fence = opened
            elif opened.startswith(fence):
                fence = ""
        elif not fence and words.strip():
            found.append((len(marks), line, match[0].strip().removeprefix("- ")))
            levels[len(marks) - 1] += 1
            while deepest > 1 and sum(levels[:deepest]) > MOST:
                deepest -= 1
            if levels[0] > MOST:
                break
    kept = [one for one in found if one[0] <= deepest]
    return [(number, _cut(words)) for _, number, words in kept[:MOST]]


def _front_matter(text: str) -> int:
    """Return where it ends; its comments begin as headings do."""
    begin = _BEGIN.match(text)
    end = _END.search(text, begin.end()) if begin else None
    return end.end() if end else 0


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
