"""Return the first words of a note for a listing. Does not judge or escape the text."""

from __future__ import annotations

import unicodedata

EMPTY = "(empty note)"
WIDTH = 80

_BACK = 12
_JOINER = "\u200d"
_ATTACHED = frozenset({_JOINER, "\ufe0e", "\ufe0f"})


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
