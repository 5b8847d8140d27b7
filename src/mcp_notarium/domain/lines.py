r"""Split a text into lines and return parts of it byte for byte, or a preview. Changes no text.

A line ends at ``\n``; a ``\r`` right before it belongs to the end of the line. Nothing else ends
a line: a lone ``\r``, form feed, U+0085, U+2028 and U+2029 are ordinary characters inside one.
"""

from __future__ import annotations

import unicodedata
from itertools import islice

CRLF = "\r\n"
LF = "\n"

EMPTY = "(empty note)"
WIDTH = 80
LONGEST_FIRST_LINE = 200

_BACK = 12
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
    nonblank = (line for line in map(str.strip, text.split(LF)) if line)
    return LF.join(map(shorten, islice(nonblank, lines))) or EMPTY


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
