r"""Split a text into lines and return parts of it byte for byte, or a preview. Changes no text.

A line ends at ``\n``; a ``\r`` right before it belongs to the end of the line. Nothing else ends
a line: a lone ``\r``, form feed, U+0085, U+2028 and U+2029 are ordinary characters inside one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import islice

CRLF = "\r\n"
LF = "\n"

EMPTY = "(empty note)"
WIDTH = 80
LONGEST_FIRST_LINE = 200

_BACK = 12
_NEAR = 1024
_WORD = re.compile(r"\S")
_JOINER = "\u200d"
_ATTACHED = frozenset({_JOINER, "\u200c", "\u0e33", "\u0eb3", "\uff9e", "\uff9f"})
_HEADS = frozenset(
    {_JOINER, *"\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e"}
)
"""A joiner, and the signs that stand before the number or letter that they enclose."""
_VIRAMA = 9
"""Combining class of the signs that join Indic letters."""
_TAILS = (
    ("\U0001f3fb", "\U0001f3ff"),
    ("\U000e0020", "\U000e007f"),
    ("\u1160", "\u11ff"),
    ("\ud7b0", "\ud7fb"),
)
"""Skin tones, the letters of a flag, vowels and ends of Korean syllables: they belong to what they follow."""
_HANGUL_HEADS = (("\u1100", "\u115f"), ("\ua960", "\ua97c"))
_HANGUL = (*_HANGUL_HEADS, ("\uac00", "\ud7a3"))
_FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""Regional indicators: two of them in a row make one flag."""


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text with their ends; ``"".join`` of them is the text again.

    The empty text has no lines. Only the last line may lack an end.
    """
    *ended, rest = text.split(LF)
    lines = [line + LF for line in ended]
    if rest:
        lines.append(rest)
    return lines


def count_lines(text: str) -> int:
    """Return how many lines :func:`split_lines` makes of the text."""
    return text.count(LF) + bool(text and not text.endswith(LF))


def start_of(text: str, number: int) -> int:
    """Return where the line of this number (from 1) starts; the length of the text if it has fewer lines.

    Halves the text until the place is near: splitting a text of millions of lines takes much longer.
    """
    wanted, low, high = number - 1, 0, len(text)
    if wanted > text.count(LF):
        return high
    while high - low > _NEAR:
        middle = (low + high) // 2
        before = text.count(LF, low, middle)
        if before >= wanted:
            high = middle
        else:
            wanted, low = wanted - before, middle
    for _ in range(wanted):
        low = text.index(LF, low) + 1
    return low


def shared_ends(one: str, other: str) -> tuple[int, int]:
    """Return how many characters of whole equal lines two texts begin with, and, of the rest, end with."""
    most = min(len(one), len(other))
    head = longest(lambda size: one.startswith(other[:size]), most)
    if head < max(len(one), len(other)):
        head = one.rfind(LF, 0, head) + 1
    tail = longest(lambda size: one.endswith(other[len(other) - size :]), most - head)
    places = [(text, len(text) - tail) for text in (one, other)]
    if not all(at == head or text[at - 1] == LF for text, at in places):
        begins = one.find(LF, len(one) - tail)
        tail = len(one) - begins - 1 if begins >= 0 else 0
    return head, tail


def between_shared_ends(one: str, other: str) -> tuple[str, str]:
    """Return both texts without the whole lines that both begin with and end with."""
    head, tail = shared_ends(one, other)
    return one[head : len(one) - tail], other[head : len(other) - tail]


def longest(holds: Callable[[int], bool], most: int) -> int:
    """Return the largest size up to ``most`` that holds, where every smaller one does, too."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def end_of(line: str) -> str:
    r"""Return the end of this line: ``\r\n``, ``\n`` or nothing."""
    if line.endswith(CRLF):
        return CRLF
    return LF if line.endswith(LF) else ""


def content_of(line: str) -> str:
    """Return the line without its end."""
    return line[: len(line) - len(end_of(line))]


def with_end(content: str, end: str) -> str:
    r"""Return the line with this content and this end.

    A content that itself ends with ``\r`` gets ``\r\n`` if ``\n`` is asked for: the ``\r`` would
    otherwise become part of the line's end.
    """
    return content + (CRLF if end == LF and content.endswith("\r") else end)


def newline_of(text: str) -> str:
    r"""Return the end that most lines have; ``\n`` if none has one or both are equally frequent."""
    with_return = text.count(CRLF)
    return CRLF if with_return > text.count(LF) - with_return else LF


def preview(text: str, lines: int = 1) -> str:
    r"""Return the first ``lines`` lines that are not blank, trimmed, joined by ``\n``; never empty.

    Each is cut after at most 80 characters, never inside a visible character. A note of white space
    only gives ``(empty note)``.
    """
    return LF.join(map(shorten, islice(_nonblank(text), lines))) or EMPTY


def _nonblank(text: str) -> Iterator[str]:
    """Yield the lines that are not blank, trimmed."""
    at = 0
    while found := _WORD.search(text, at):
        start, end = found.start(), text.find(LF, found.start())
        at = len(text) if end < 0 else end
        yield text[start:at].rstrip()


def first_line(text: str) -> str:
    """Return the first line that is not blank, trimmed; '' if it is too long for the title of a note."""
    beginning = text[: 2 * LONGEST_FIRST_LINE].lstrip()
    line = beginning.partition(LF)[0].strip()
    return line if len(line) <= LONGEST_FIRST_LINE else ""


def shorten(line: str, width: int = WIDTH) -> str:
    """Return at most ``width`` characters of the line, cut between two visible characters."""
    if len(line) <= width:
        return line
    cut = find_cut(line, width)
    return line[:cut].rstrip() or line[:cut]


def find_cut(text: str, at: int, *, back: int = _BACK) -> int:
    """Return the last place at ``at`` or before it that is between two visible characters.

    It looks ``back`` characters back; a longer pile of marks is cut through at ``at``.
    """
    for cut in range(min(at, len(text)), max(at - back, 0), -1):
        if cut >= len(text) or not _splits_grapheme(text, cut):
            return cut
    return at


def _splits_grapheme(text: str, cut: int) -> bool:
    """Return whether the characters around the cut make one visible character, or the end of a line, together.

    It follows the clusters of Unicode (UAX 29); where it differs, it keeps more together.
    """
    before, after = text[cut - 1], text[cut]
    if after.isascii():
        return (before, after) == ("\r", "\n") or before in _HEADS
    return (
        before in _HEADS
        or after in _ATTACHED
        or unicodedata.category(after) in {"Mn", "Mc", "Me"}
        or unicodedata.combining(before) == _VIRAMA
        or _is_in(after, _TAILS)
        or (_is_in(before, _HANGUL_HEADS) and _is_in(after, _HANGUL))
        or (after in _FLAG_HALVES and (cut - len(text[:cut].rstrip(_FLAG_HALVES))) % 2 == 1)
    )


def _is_in(character: str, ranges: tuple[tuple[str, str], ...]) -> bool:
    return any(first <= character <= last for first, last in ranges)
