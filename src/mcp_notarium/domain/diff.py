"""Find what changed between two sequences, and say in one line what changed between two versions of a note. Pure.

Equal beginnings and ends are matched first. Then items that occur once on both sides become
anchors (the longest run of them that keeps the order), and Myers' greedy search compares what is
left between them. That search has a budget for the whole call: 20,000 lines of a repetitive text
would otherwise cost seconds. What is left when the budget runs out counts as replaced as a whole,
which is true, only less fine.

Lines are counted, not matched: a line that only moved is neither new nor gone. So it takes linear time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

from mcp_notarium.domain.lines import shared_ends, shorten, split_lines
from mcp_notarium.domain.note import Content
from mcp_notarium.markup.front_block import text_start

NO_PARTNER = -1
"""The partner of an item without one."""

_BUDGET = 250_000
_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Change:
    """Hold one change: some items of the base became others of a side."""

    low: int
    """The first of the base, from 0; ``high`` is behind the last."""
    high: int
    start: int
    """The first of the side; ``stop`` is behind the last."""
    stop: int

    @property
    def adds_only(self) -> bool:
        """Return whether nothing of the base is gone."""
        return self.low == self.high

    @property
    def deletes_only(self) -> bool:
        """Return whether nothing is new."""
        return self.start == self.stop

    @property
    def growth(self) -> int:
        """Return how many more items there are than before; below 0 how many fewer."""
        return self.stop - self.start - self.high + self.low


@dataclass(frozen=True, slots=True)
class _Part:
    """Hold a stretch of both sequences that is still to be compared."""

    low: int
    high: int
    other_low: int
    other_high: int
    depth: int = 0


class _Matcher:
    def __init__(self, first: Sequence[str], second: Sequence[str], *, budget: int) -> None:
        numbers = {item: number for number, item in enumerate(dict.fromkeys((*first, *second)))}
        self.first = [*map(numbers.__getitem__, first)]
        self.second = [*map(numbers.__getitem__, second)]
        self.partner = [NO_PARTNER] * len(first)
        self.budget = budget

    def run(self) -> list[int]:
        parts = [_Part(0, len(self.first), 0, len(self.second))]
        while parts:
            part = self._trim(parts.pop())
            if part.low == part.high or part.other_low == part.other_high:
                continue
            anchors = self._anchors(part) if part.depth < _DEPTH else []
            if anchors:
                parts += self._between(part, anchors)
            else:
                self._search(part)
        return self.partner

    def _trim(self, part: _Part) -> _Part:
        low, high, other_low, other_high = part.low, part.high, part.other_low, part.other_high
        while low < high and other_low < other_high and self.first[low] == self.second[other_low]:
            self.partner[low] = other_low
            low, other_low = low + 1, other_low + 1
        while (
            low < high
            and other_low < other_high
            and self.first[high - 1] == self.second[other_high - 1]
        ):
            high, other_high = high - 1, other_high - 1
            self.partner[high] = other_high
        return _Part(low, high, other_low, other_high, part.depth)

    def _anchors(self, part: _Part) -> list[tuple[int, int]]:
        """Return the items that occur once on both sides, as many as keep their order."""
        mine = self.first[part.low : part.high]
        other = self.second[part.other_low : part.other_high]
        count, other_count = Counter(mine), Counter(other)
        single = {item for item, often in other_count.items() if often == 1 == count.get(item)}
        if not single:
            return []
        place = {item: index for index, item in enumerate(other) if item in single}
        pairs = [
            (part.low + index, part.other_low + place[item])
            for index, item in enumerate(mine)
            if item in place
        ]
        return _longest_rising(pairs)

    def _between(self, part: _Part, anchors: list[tuple[int, int]]) -> Iterator[_Part]:
        """Match the anchors and yield the gaps that have something on both sides."""
        low, other_low = part.low, part.other_low
        for high, other_high in [*anchors, (part.high, part.other_high)]:
            if low < high and other_low < other_high:
                yield _Part(low, high, other_low, other_high, part.depth + 1)
            if high < part.high:
                self.partner[high] = other_high
            low, other_low = high + 1, other_high + 1

    def _search(self, part: _Part) -> None:
        """Match the part by Myers' search; leave it unmatched when the budget is used up."""
        mine = self.first[part.low : part.high]
        other = self.second[part.other_low : part.other_high]
        size, other_size = len(mine), len(other)
        reach, history = {1: 0}, []
        for distance in range(size + other_size + 1):
            history.append(reach.copy())
            for diagonal in range(-distance, distance + 1, 2):
                x = _step(reach, diagonal, distance)
                start = x
                y = x - diagonal
                while x < size and y < other_size and mine[x] == other[y]:
                    x, y = x + 1, y + 1
                self.budget -= 1 + x - start
                reach[diagonal] = x
                if x >= size and y >= other_size:
                    self._walk_back(part, history)
                    return
            # Copying the frontier costs about as much as advancing it.
            self.budget -= distance
            if self.budget < 0:
                return

    def _walk_back(self, part: _Part, history: list[dict[int, int]]) -> None:
        x, y = part.high - part.low, part.other_high - part.other_low
        for distance in range(len(history) - 1, -1, -1):
            reach, diagonal = history[distance], x - y
            start = _step(reach, diagonal, distance)
            while x > start:
                x, y = x - 1, y - 1
                self.partner[part.low + x] = part.other_low + y
            if distance:
                down = _goes_down(reach, diagonal, distance)
                x, y = (x, y - 1) if down else (x - 1, y)


def _goes_down(reach: dict[int, int], diagonal: int, distance: int) -> bool:
    return diagonal == -distance or (
        diagonal != distance and reach[diagonal - 1] < reach[diagonal + 1]
    )


def _step(reach: dict[int, int], diagonal: int, distance: int) -> int:
    """Return where the diagonal is entered with one more difference."""
    if _goes_down(reach, diagonal, distance):
        return reach[diagonal + 1]
    return reach[diagonal - 1] + 1


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs, sorted by the first, whose second also rises."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        place = bisect_left(tails, value)
        before.append(ends[place - 1] if place else NO_PARTNER)
        tails[place : place + 1] = [value]
        ends[place : place + 1] = [index]
    chosen: list[tuple[int, int]] = []
    index = ends[-1] if ends else NO_PARTNER
    while index != NO_PARTNER:
        chosen.append(pairs[index])
        index = before[index]
    return chosen[::-1]


def find_partners(
    first: Sequence[str], second: Sequence[str], *, budget: int = _BUDGET
) -> list[int]:
    """Return for each item of ``first`` its index in ``second``, or ``NO_PARTNER``; rising.

    ``budget`` bounds the steps of the fine search, not the whole work, which is about linear.
    """
    return _Matcher(first, second, budget=budget).run()


def _common_start(first: Sequence[str], start: int, second: Sequence[str], begin: int) -> int:
    """Return how many items are equal from these places on. Slices are compared: no item is looked at here."""
    most = min(len(first) - start, len(second) - begin)
    size, step = 0, 1
    while step:
        step = min(step, most - size)
        ends = size + step
        if step and first[start + size : start + ends] == second[begin + size : begin + ends]:
            size, step = ends, 2 * step
        else:
            step //= 2
    return size


def _common_end(first: Sequence[str], second: Sequence[str], *, most: int) -> int:
    """Return how many items are equal at the ends of both, at most ``most``."""
    size, step = 0, 1
    while step:
        step = min(step, most - size)
        ends = size + step
        if step and (
            first[len(first) - ends : len(first) - size]
            == second[len(second) - ends : len(second) - size]
        ):
            size, step = ends, 2 * step
        else:
            step //= 2
    return size


def find_changes(base: Sequence[str], side: Sequence[str]) -> list[Change]:
    """Return what the side changed, in order; no two touch, and each stands as late as it can.

    Standing late makes equal edits equal: one more ``x`` in a row of them can be seen at many
    places, and both sides must see it at the same.
    """
    found: list[Change] = []
    limit = len(base)
    for change in reversed(list(_raw_changes(base, side))):
        for part in reversed(_shift_late(change, base, side, limit=limit)):
            whole = part
            if found and part.high == found[-1].low:
                last = found.pop()
                whole = Change(part.low, last.high, part.start, last.stop)
            found.append(whole)
        limit = found[-1].low
    return found[::-1]


def _raw_changes(base: Sequence[str], side: Sequence[str]) -> Iterator[Change]:
    head = _common_start(base, 0, side, 0)
    tail = _common_end(base, side, most=min(len(base), len(side)) - head)
    inner, other_inner = base[head : len(base) - tail], side[head : len(side) - tail]
    low = start = head
    partners: list[int] = (
        find_partners(inner, other_inner) if inner and other_inner else [NO_PARTNER] * len(inner)
    )
    ended = [*partners, len(other_inner)]
    for index, other in compress(enumerate(ended, head), map(NO_PARTNER.__ne__, ended)):
        if index > low or head + other > start:
            yield Change(low, index, start, head + other)
        low, start = index + 1, head + other + 1


def _shift_late(
    change: Change, base: Sequence[str], side: Sequence[str], *, limit: int
) -> list[Change]:
    """Return the change as late as it can stand; what grew or shrank may stand later than the rest."""
    if not change.growth:
        return [change]
    even = min(change.high - change.low, change.stop - change.start)
    low, start = change.low + even, change.start + even
    rest = Change(low, change.high, start, change.stop)
    moved = _slide(rest, base, side, limit=limit)
    if not even:
        return [moved]
    return [change] if moved == rest else [Change(change.low, low, change.start, start), moved]


def _slide(change: Change, base: Sequence[str], side: Sequence[str], *, limit: int) -> Change:
    """Return a change that only adds or only deletes as late as it can stand."""
    moving, begin = (side, change.start) if change.adds_only else (base, change.low)
    by = min(_common_start(base, change.high, moving, begin), limit - change.high)
    return Change(change.low + by, change.high + by, change.start + by, change.stop + by)


WIDTH = 60


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """Summarize a change of a note."""

    facts: str
    """In words of ours."""
    line: str
    """The first changed line, cut; '' if no line changed."""

    def __str__(self) -> str:
        """Return both."""
        return f"{self.facts}: {self.line}" if self.line else self.facts


def summarize_change(
    old: Content,
    new: Content,
    *,
    text: bool = True,
    tags: bool = True,
    beside: Collection[str] = (),
) -> ChangeSummary:
    """Return what turned ``old`` into ``new``; without ``text`` and ``tags`` nothing that shows those.

    ``beside``: what else has changed that no content says.
    """
    facts, line = [], ""
    if old.text != new.text:
        counts, line = _text_change(old.text, new.text) if text else ("text", "")
        facts.append(counts)
    if old.title != new.title:
        facts.append("title")
        line = line or (_shown(new.title or "") if text else "")
    if tags and old.tags != new.tags:
        facts.append("tags")
    if old.trash != new.trash:
        facts.append("trashed" if new.trash else "taken out of the trash")
    changed = sorted(old.properties.differing(new.properties))
    facts += [f"{name} {'set' if name in new.properties else 'removed'}" for name in changed]
    facts += beside
    return ChangeSummary(", ".join(facts) or "nothing that shows here", line)


def _text_change(old: str, new: str) -> tuple[str, str]:
    head, tail = shared_ends(old, new)
    before, after = (
        split_lines(old[head : len(old) - tail]),
        split_lines(new[head : len(new) - tail]),
    )
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    counts = [f"{sign}{side.total()}" for sign, side in (("+", added), ("-", removed)) if side]
    if not counts:
        return "lines moved", ""
    changed = [line for line in after if line in added]
    changed += [line for line in before if line in removed]
    first = next((line for line in _own_lines(old, new, changed) if line.strip()), "")
    unit = "line" if added.total() + removed.total() == 1 else "lines"
    return f"{' '.join(counts)} {unit}", _shown(first)


def _own_lines(old: str, new: str, changed: list[str]) -> list[str]:
    """Return the changed lines below the front matter; if there are none, those of it without its marks."""
    fronts = [split_lines(text[: text_start(text)]) for text in (new, old)]
    inside = {line for front in fronts for line in front}
    marks = {front[at] for front in fronts if front for at in (0, -1)}
    return [one for one in changed if one not in inside] or [
        one for one in changed if one not in marks
    ]


def _shown(line: str) -> str:
    words = " ".join(line.split())
    cut = shorten(words, WIDTH)
    return cut if cut == words else f"{cut}…"
