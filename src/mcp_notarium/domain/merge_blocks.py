"""Put two blocks of added lines one after the other, what they share only once.

Lines are compared by what they say. Only blank lines are never shared: they separate what was
added, and two additions must not run together.
"""

from __future__ import annotations

from collections.abc import Sequence

Line = tuple[str, str]
"""What a line says, and how it ends."""


def says(lines: Sequence[Line]) -> list[str]:
    """The lines without their ends."""
    return [text for text, _ in lines]


def both_added(first: list[Line], second: list[Line]) -> list[Line]:
    """Both blocks, the first first, what they share at the borders once."""
    head = _common_start(first, second)
    tail = _common_start(first[head:][::-1], second[head:][::-1])
    middle = first[head : len(first) - tail]
    other = second[head : len(second) - tail]
    meeting, inside = overlap(says(middle), says(other))
    if inside:
        other = []
    elif overlap(says(other), says(middle))[1]:
        middle, meeting = [], 0
    return first[:head] + middle + other[meeting:] + first[len(first) - tail :]


def _common_start(first: list[Line], second: list[Line]) -> int:
    """How many lines both begin with, not counting blank ones at the end of these.

    Blank lines separate what was added; sharing one would run two additions together.
    """
    count = 0
    for index, ((text, _), (other, _)) in enumerate(zip(first, second, strict=False), start=1):
        if text != other:
            break
        if text.strip():
            count = index
    return count


def overlap(left: list[str], right: list[str]) -> tuple[int, bool]:
    """The longest end of ``left`` that begins ``right``, and whether all of ``right`` is in it.

    Only blank lines do not count as an overlap. Linear (Knuth, Morris and Pratt).
    """
    fallback = _fallbacks(right)
    matched, inside = 0, not right
    for text in left:
        while matched and (matched == len(right) or text != right[matched]):
            matched = fallback[matched - 1]
        if matched < len(right) and text == right[matched]:
            matched += 1
        inside = inside or matched == len(right)
    blank = not any(text.strip() for text in right[:matched])
    blank_inside = bool(right) and not any(text.strip() for text in right)
    return (0 if blank else matched), inside and not blank_inside


def _fallbacks(pattern: list[str]) -> list[int]:
    fallback = [0] * len(pattern)
    matched = 0
    for index in range(1, len(pattern)):
        while matched and pattern[index] != pattern[matched]:
            matched = fallback[matched - 1]
        if pattern[index] == pattern[matched]:
            matched += 1
        fallback[index] = matched
    return fallback
