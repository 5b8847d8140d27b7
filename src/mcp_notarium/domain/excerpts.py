"""Cut parts of a text to show what changed in it, within a number of characters. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_notarium.domain.diff import find_changes
from mcp_notarium.domain.lines import content_of, end_of, split_lines

AROUND = 2
"""Lines shown before and after a change."""
LONGEST_LINE = 500
"""Characters of one line that are shown; the others are cut off."""
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Hold lines of a text; ``line`` is the number of the first, from 1. ``whole``: nothing is cut off."""

    line: int
    text: str
    whole: bool = True


def changed_lines(old: str, new: str, *, most: int) -> tuple[list[Excerpt], bool]:
    """Return the changed lines of ``new`` with two around them, and whether that is all of them.

    Where lines were only removed it is the lines around. At most ``most`` characters, and a mark where a
    line is cut.
    """
    lines, room, excerpts = split_lines(new), most, []
    places = _places(split_lines(old), lines)
    for start, stop in places:
        part = cut(lines[start:stop], line=start + 1, most=room)
        if part.text:
            excerpts.append(part)
        if room <= 0:
            break
        room -= len(part.text)
    return excerpts, len(excerpts) == len(places) and all(one.whole for one in excerpts)


def cut(lines: Sequence[str], *, line: int, most: int) -> Excerpt:
    """Return the leading lines that fit into ``most`` characters; a long line is cut, with a mark."""
    shown: list[str] = []
    whole = True
    for each in lines:
        short = each if len(each) <= LONGEST_LINE else _shorten(each)
        if len(short) > most:
            whole = False
            break
        whole &= short == each
        most -= len(short)
        shown.append(short)
    return Excerpt(line, "".join(shown), whole)


def _shorten(line: str) -> str:
    return content_of(line)[:LONGEST_LINE] + _CUT + end_of(line)


def _places(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the ranges of ``new`` to show: every change and the lines around it; none touch."""
    places: list[tuple[int, int]] = []
    for change in find_changes(old, new):
        start, stop = max(0, change.start - AROUND), min(len(new), change.stop + AROUND)
        if places and start <= places[-1][1]:
            start = places.pop()[0]
        places.append((start, stop))
    return [place for place in places if place[0] < place[1]]
