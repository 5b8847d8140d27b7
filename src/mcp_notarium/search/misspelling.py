"""Tell how far two words are apart, and which words may be meant by a misspelt one. Pure.

Words are folded. A mistake is a letter that is wrong, missing or too many, or two neighbours that are swapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_REACHES = ((8, 2), (4, 1))


@dataclass(frozen=True, slots=True)
class Part:
    """Hold letters that a word near a misspelt one has.

    ``start``: where they begin, about. ``first`` and ``last``: they begin or end the word.
    """

    letters: str
    start: int = 0
    first: bool = False
    last: bool = False


def reach_of(word: str) -> int:
    """Return how many mistakes make a word like this one: one in four letters, two in eight."""
    return next((reach for length, reach in _REACHES if len(word) >= length), 0)


def parts_of(word: str, reach: int) -> Iterator[Part]:
    """Yield parts of which every word with ``reach`` mistakes or fewer has one.

    Of ``reach + 1`` parts each mistake breaks one, but for two swapped letters that stand in different parts.
    """
    size = -(-len(word) // (reach + 1))
    starts = range(0, len(word), size)
    parts = [word[start : start + size] for start in starts]
    final = len(parts) - 1
    for number, (start, letters) in enumerate(zip(starts, parts, strict=True)):
        yield Part(letters, start, first=number == 0, last=number == final)
    if final:
        yield Part(parts[0][:-1] + parts[1][0], first=True)
        yield Part(parts[-2][-1] + parts[-1][1:], starts[-1], last=True)


def distance(one: str, other: str, *, at_most: int) -> int:
    """Count the mistakes that make one word of the other; ``at_most + 1`` if more."""
    if abs(len(one) - len(other)) > at_most:
        return at_most + 1
    one, other = _without_common_ends(one, other)
    if not one or not other:
        return len(one) + len(other)
    if len(set(one).difference(other)) > at_most or len(set(other).difference(one)) > at_most:
        return at_most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        after = [i]
        for j, facing in enumerate(other, 1):
            cost = min(row[j] + 1, after[j - 1] + 1, row[j - 1] + (letter != facing))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == facing:
                cost = min(cost, before[j - 2] + 1)
            after.append(cost)
        if min(after) > at_most:
            return at_most + 1
        before, row = row, after
    return min(row[-1], at_most + 1)


def _without_common_ends(one: str, other: str) -> tuple[str, str]:
    start, most = 0, min(len(one), len(other))
    while start < most and one[start] == other[start]:
        start += 1
    end = 0
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]
