"""Read which lines of a Markdown text belong to the section of each heading. Pure.

A section ends at the next heading of the same or a higher level, so it holds its subsections. That of a heading in an item is the
item with its children, and headings in items end no section outside.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from mcp_notarium.domain.lines import LF, count_lines
from mcp_notarium.markup.front_block import text_start
from mcp_notarium.markup.heading_reader import Heading, HeadingReader

MOST_SHOWN = 50
"""Headings that an outline names, at most."""
LOOKS = 10_000
"""Lines of a text, at most, that are looked at for an outline: that takes 0.02 s."""
_LONGEST = 80
_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Section:
    """Hold a heading and the lines that belong to it, numbered from 1; ``end`` is the first line that does not."""

    ordinal: int
    """Counts the headings from 1; 0 is the part above the first one, which has no heading."""
    level: int
    words: str
    line: int
    body: int
    """The first line below the heading."""
    end: int
    within: tuple[int, ...] = ()
    """The headings above it in the outline, by number, the highest first."""
    in_item: bool = False
    """The heading is the first line of a list item."""

    @property
    def shown(self) -> str:
        """Return the heading as an outline shows it."""
        return _shown(self.level, self.words)


class OutlineRow(NamedTuple):
    """Hold a heading as an outline shows it, with its line and its number among all headings."""

    line: int
    heading: str
    number: int


def read_sections(text: str) -> list[Section]:
    """Return the part above the first heading, and the sections of all headings, in order."""
    found = HeadingReader(text).read()
    last = count_lines(text) + 1
    ends = [last] * len(found)
    within: list[tuple[int, ...]] = [()] * len(found)
    open_: list[int] = []
    for at, one in enumerate(found):
        while open_ and _ends(found[open_[-1]], one):
            last_of = open_.pop()
            ends[last_of] = found[last_of].item_end or one.line
        within[at] = tuple(above + 1 for above in open_)
        open_.append(at)
    for at in open_:
        ends[at] = found[at].item_end or last
    first = text.count(LF, 0, text_start(text)) + 1
    end = (found[0].outermost or found[0].line) if found else last
    above = Section(0, 0, "", first, first, end)
    return [above] + [
        Section(
            at + 1,
            one.level,
            one.words,
            one.line,
            one.body,
            ends[at],
            within[at],
            bool(one.item_end),
        )
        for at, one in enumerate(found)
    ]


def _ends(open_: Heading, one: Heading) -> bool:
    """Tell whether a section is at its end where another heading stands."""
    if open_.item_end:
        return open_.item_end <= one.line
    return not one.item_end and open_.level >= one.level


def outline(text: str, *, most: int = MOST_SHOWN) -> list[OutlineRow]:
    """Return what an outline names: if there are too many headings, the lowest levels are left out, then the last ones."""
    most = max(0, min(most, MOST_SHOWN))
    found = HeadingReader(text).read(LOOKS)
    levels = Counter(one.level for one in found)
    deepest, highest = _DEEPEST, min(levels, default=1)
    while deepest > highest and sum(levels[level] for level in range(1, deepest + 1)) > most:
        deepest -= 1
    rows = (
        OutlineRow(one.line, _shown(one.level, one.words), number)
        for number, one in enumerate(found, start=1)
        if one.level <= deepest
    )
    return list(islice(rows, most))


def _shown(level: int, words: str) -> str:
    line = f"{'#' * level} {words}".rstrip()
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
