r"""Split a text into lines and return parts of it byte for byte, or a preview. Changes no text.

A line ends at ``\n``; a ``\r`` right before it belongs to the end of the line. Nothing else ends
a line: a lone ``\r``, form feed, U+0085, U+2028 and U+2029 are ordinary characters inside one.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from mcp_notarium.errors import InvalidRequest

CRLF = "\r\n"
LF = "\n"

EMPTY = "(empty note)"
WIDTH = 80

_BACK = 12
_JOINER = "\u200d"
_ATTACHED = frozenset({_JOINER, "\ufe0e", "\ufe0f"})


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
    r"""Return how many lines ``split_lines`` gives: 0 for ``""``, 1 for ``a`` and ``a\n``."""
    return text.count(LF) + (text != "" and not text.endswith(LF))


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


@dataclass(frozen=True, slots=True)
class LineRange:
    """Name ``count`` lines from line ``start`` on (the first line is 1); count 0 means to the end."""

    start: int = 1
    count: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """Hold lines ``start`` .. ``start + count - 1`` of a text that has ``total`` lines."""

    text: str
    start: int
    count: int
    total: int

    @property
    def partial(self) -> bool:
        """Return whether lines of the text are missing here."""
        return self.count < self.total


def cut_lines(text: str, lines: LineRange) -> Slice:
    """Return the named lines with their ends, unchanged; a range beyond the last line is clipped.

    Raises ``InvalidRequest``, naming the number of lines, if the range starts after the last line.
    Starting an empty text at line 1 is legal and gives the empty slice.
    """
    if lines.start < 1 or lines.count < 0:
        raise InvalidRequest(
            "A line range starts at 1 or later and its count is 0 (to the end) or more.",
            resolution_hint="Lines are numbered from 1; use a count of 0 for all that follow.",
        )
    parts = split_lines(text)
    total = len(parts)
    if lines.start > max(total, 1):
        raise InvalidRequest(
            f"Line {lines.start} is outside the note, which has {total} lines.",
            details={"total_lines": total},
            resolution_hint=f"Ask for a start between 1 and {max(total, 1)}.",
        )
    stop = lines.start - 1 + lines.count if lines.count else total
    chosen = parts[lines.start - 1 : stop]
    return Slice(text="".join(chosen), start=lines.start, count=len(chosen), total=total)


def preview(text: str, lines: int = 1) -> str:
    r"""Return the first ``lines`` lines that are not blank, trimmed, joined by ``\n``; never empty.

    Each is cut after at most 80 characters, never inside a visible character. A note of white space
    only gives ``(empty note)``.
    """
    found: list[str] = []
    start = 0
    while len(found) < max(lines, 1) and start <= len(text):
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        if line := text[start:stop].strip():
            found.append(shorten(line))
        start = stop + 1
    return "\n".join(found) or EMPTY


def shorten(line: str, width: int = WIDTH) -> str:
    """Return at most ``width`` characters of the line, cut between two visible characters.

    Looks back a few characters for such a place; a longer pile of marks is cut through.
    """
    if len(line) <= width:
        return line
    for cut in range(width, max(width - _BACK, 0), -1):
        if not _torn(line, cut):
            return line[:cut].rstrip() or line[:cut]
    return line[:width]


def _torn(line: str, cut: int) -> bool:
    """Return whether the characters around the cut make one visible character together."""
    before, after = line[cut - 1], line[cut]
    return (
        before == _JOINER
        or after in _ATTACHED
        or unicodedata.category(after) in {"Mn", "Mc", "Me"}
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or (_is_flag_half(after) and _halves_before(line, cut) % 2 == 1)
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _halves_before(line: str, cut: int) -> int:
    count = 0
    while count < cut and _is_flag_half(line[cut - 1 - count]):
        count += 1
    return count
