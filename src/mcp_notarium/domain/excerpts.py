"""Cut parts of a text to show what changed in it, within a number of characters. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_notarium.domain.diff import Change, find_changes
from mcp_notarium.domain.lines import LF, content_of, end_of, shared_ends, split_lines

AROUND = 2
"""Lines shown before and after a change."""
LONGEST_LINE = 500
"""Characters of one line that are shown, from a little before its change; the others are cut off."""
_BEFORE = 100
_COMPARED = 20
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
    start, ends = _differing(old, new)
    before, lines = (
        split_lines(text[start:end]) for text, end in zip((old, new), ends, strict=True)
    )
    first, room, excerpts = new.count(LF, 0, start) + 1, most, []
    places = _places(before, lines)
    for place in places:
        was = before[place.low : place.high]
        part = cut(lines[place.start : place.stop], line=first + place.start, most=room, other=was)
        if part.text:
            excerpts.append(part)
        if room <= 0:
            break
        room -= len(part.text)
    return excerpts, len(excerpts) == len(places) and all(one.whole for one in excerpts)


def _differing(old: str, new: str) -> tuple[int, tuple[int, int]]:
    """Return from where, and to where in each, two texts differ: whole lines, with those to show around.

    Splitting all lines of a text of millions takes a hundred times as long.
    """
    if old == new:
        return 0, (0, 0)
    head, tail = shared_ends(old, new)
    start, end = head, len(new) - tail
    for _ in range(AROUND):
        start = new.rfind(LF, 0, max(0, start - 1)) + 1
        end = new.find(LF, end) + 1 or len(new)
    return start, (end + len(old) - len(new), end)


def cut(lines: Sequence[str], *, line: int, most: int, other: Sequence[str]) -> Excerpt:
    """Return the leading lines that fit into ``most`` characters; a long line is cut, with marks.

    ``other``: what stood there before, or stands there on the other side. Where a long line begins to differ
    from that is shown.
    """
    shown: list[str] = []
    whole = True
    for each in lines:
        short = each if len(each) <= LONGEST_LINE else _shorten(each, other)
        if len(short) > most:
            whole = False
            break
        whole &= short == each
        most -= len(short)
        shown.append(short)
    return Excerpt(line, "".join(shown), whole)


def _shorten(line: str, other: Sequence[str]) -> str:
    content = content_of(line)
    equal = [] if line in other else [_equal_start(content, each) for each in other[:_COMPARED]]
    start = max(0, min(max(equal, default=0) - _BEFORE, len(content) - LONGEST_LINE))
    shown = content[start : start + LONGEST_LINE]
    ends = start + LONGEST_LINE >= len(content)
    return f"{_CUT if start else ''}{shown}{'' if ends else _CUT}{end_of(line)}"


def _equal_start(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _places(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """Return the ranges of ``new`` to show: every change and the lines around it; none touch."""
    places: list[Change] = []
    for change in find_changes(old, new):
        low, start = change.low, max(0, change.start - AROUND)
        if places and start <= places[-1].stop:
            low, start = places[-1].low, places.pop().start
        places.append(Change(low, change.high, start, min(len(new), change.stop + AROUND)))
    return [place for place in places if place.start < place.stop]
