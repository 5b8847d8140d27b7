"""Tell where a text nearly says what was looked for, and which character differs. Pure.

Characters that look alike are compared as one: blanks and line ends, quotation marks, hyphens. If that finds nothing, the
line that is most like the first of what was looked for is named, else the line with a part that is most like it.
"""

from __future__ import annotations

import heapq
import unicodedata
from dataclasses import dataclass
from difflib import SequenceMatcher

_BLANKS = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t"
_SINGLE, _DOUBLE = (
    "\u2018\u2019\u201a\u201b\u2032\u00b4`",
    "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb",
)
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_ALIKE = str.maketrans(
    {
        **dict.fromkeys(_BLANKS, " "),
        **dict.fromkeys(_SINGLE, "'"),
        **dict.fromkeys(_DOUBLE, '"'),
        **dict.fromkeys(_HYPHENS, "-"),
        **dict.fromkeys("\r\n\u2028", " "),
    }
)
"""One character for one, so that places stay."""
_LONGEST = 1_048_576
"""Characters of a text that is compared: a longer one cannot be saved, either."""
_MOST_LINES = 1_000
_MOST_CHARACTERS = 300
_LIKE = 0.6
_COMPARED = 3
"""Lines that are compared exactly: that takes long."""
_PART_LIKE = 0.8
_SHORTEST_PART = 4
_SAME = "begins as `find` does; what follows differs"
_PAIRS = 4_000_000
"""Characters of a text, times those looked for, that are searched for a part that is alike: less than half a second."""


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Hold the nearest line (from 1), its text, and which character differs first there."""

    line: int
    text: str
    differs: str


def find_near_miss(text: str, wanted: str) -> NearMiss | None:
    """Return where ``text`` nearly says ``wanted``, or None. It does not say it exactly."""
    if len(text) > _LONGEST:
        return None
    text, wanted = text.replace("\r\n", "\n"), wanted.replace("\r\n", "\n")
    folded, sought = text.translate(_ALIKE), wanted.translate(_ALIKE)
    start = folded.find(sought)
    if start < 0 and len(folded.lower()) == len(folded):
        start = folded.lower().find(sought.lower())
    fits = start >= 0 and text[start : start + len(wanted)] != wanted
    return _told(text, wanted, start) if fits else _nearest(text, wanted)


def _told(text: str, wanted: str, start: int) -> NearMiss:
    there = text[start : start + len(wanted)]
    differs, at = _differ(there, wanted)
    return NearMiss(text.count("\n", 0, start + at) + 1, _line_at(text, start + at), differs)


def _differ(there: str, wanted: str) -> tuple[str, int]:
    """Return which character differs first, and its place."""
    pairs = enumerate(zip(there, wanted, strict=False))
    at = next((n for n, (one, other) in pairs if one != other), min(len(there), len(wanted)))
    one, other = (_name(text[at]) if at < len(text) else "nothing" for text in (there, wanted))
    return f"has {one} where `find` has {other}", at


def _nearest(text: str, wanted: str) -> NearMiss | None:
    """Return the line that is most like the first one that was looked for."""
    first = next((line.strip() for line in wanted.split("\n") if line.strip()), "")
    if not first or len(first) > _MOST_CHARACTERS:
        return None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(first)

    def likeness(line: str, *, exactly: bool = False) -> float:
        matcher.set_seq1(line.strip()[:_MOST_CHARACTERS])
        if exactly:
            return matcher.ratio()
        return matcher.quick_ratio() if matcher.real_quick_ratio() >= _LIKE else 0.0

    lines = _numbered(text, _MOST_LINES)
    rough = heapq.nlargest(_COMPARED, lines, key=lambda one: likeness(one[1]))
    number, line = max(rough, key=lambda one: likeness(one[1], exactly=True))
    if likeness(line, exactly=True) < _LIKE:
        return _nearest_part(text[: _PAIRS // len(first)], first)
    stripped = line.strip()[:_MOST_CHARACTERS]
    differs = _SAME if stripped == first else _differ(stripped, first)[0]
    return NearMiss(number, line[:_MOST_CHARACTERS], differs)


def _nearest_part(text: str, wanted: str) -> NearMiss | None:
    """Return the line that has a part which is most like ``wanted``, however long the line is."""
    if len(wanted) < _SHORTEST_PART:
        return None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    best: tuple[float, int, str, int] = (_PART_LIKE, 0, "", 0)
    for number, line in _numbered(text, _MOST_LINES):
        matcher.set_seq1(line)
        same = matcher.find_longest_match()
        if same.size * _COMPARED < len(wanted):
            continue
        begin = max(0, same.a - same.b)
        matcher.set_seq1(line[begin : begin + len(wanted)])
        best = max(best, (matcher.ratio(), number, line, begin), key=lambda one: one[0])
    _, number, line, begin = best
    if not number:
        return None
    return NearMiss(number, _line_at(line, begin), _differ_in(line, wanted, begin))


def _differ_in(line: str, wanted: str, begin: int) -> str:
    """Return which character differs first between ``wanted`` and the part of the line near ``begin``."""
    slack = len(wanted) // 4 + 1
    start = max(0, begin - slack)
    part = line[start : begin + len(wanted) + slack]
    matcher = SequenceMatcher(None, part, wanted, autojunk=False)
    changes = [one for one in matcher.get_opcodes() if one[0] != "equal"]
    outside = ("delete", 0), ("delete", len(wanted))
    inside = [one for one in changes if (one[0], one[3]) not in outside]
    if not inside:
        return _SAME
    _, there, there_end, here, here_end = inside[0]
    if not here:  # of what stands before, as much as is wanted
        there = max(there, there_end - here_end)
    return _differ(part[there:], wanted[here:])[0]


def _numbered(text: str, most: int) -> list[tuple[int, str]]:
    return list(enumerate(text.split("\n", most)[:most], start=1))


def _line_at(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    line = text[start : len(text) if end < 0 else end]
    begin = max(0, place - start - _MOST_CHARACTERS // 2)
    return line[begin : begin + _MOST_CHARACTERS]


def _name(character: str) -> str:
    if character == "\n":
        return "a line end"
    if character == "\t":
        return "a tab"
    name = unicodedata.name(character, "").lower()
    code = f"U+{ord(character):04X}"
    return f"{name} ({code})" if name else code
