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
_ATTACHED = frozenset({_JOINER, "\ufe0e", "\ufe0f"})
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
    """Return at most ``width`` characters of the line, cut between two visible characters.

    Looks back a few characters for such a place; a longer pile of marks is cut through.
    """
    if len(line) <= width:
        return line
    for cut in range(width, max(width - _BACK, 0), -1):
        if not _splits_grapheme(line, cut):
            return line[:cut].rstrip() or line[:cut]
    return line[:width]


def _splits_grapheme(line: str, cut: int) -> bool:
    """Return whether the characters around the cut make one visible character together."""
    before, after = line[cut - 1], line[cut]
    return (
        before == _JOINER
        or after in _ATTACHED
        or unicodedata.category(after) in {"Mn", "Mc", "Me"}
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or (after in _FLAG_HALVES and (cut - len(line[:cut].rstrip(_FLAG_HALVES))) % 2 == 1)
    )
