"""How a question to the person names the note it is about, so that they notice when it is another.

The text of a note is not ours: nothing in it may look like the question's own words, turn them
around, or hide. Pure. What is made here is for the person's eyes and never for a log.
"""

from __future__ import annotations

import re
import unicodedata

from mcp_notarium.domain.preview import shorten
from mcp_notarium.logs.escaping import one_line

WIDTH = 60
LONGEST_ID = 64
LOOKED_AT = 4096
"""Characters of a text in which a first line is looked for."""

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159")
"""They have no shape, and still count as letters or signs; so do variation selectors."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_QUOTES = re.compile('["\u201c-\u201f\u00ab\u00bb\u2033\uff02]')
_LINES = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


def named(text: str, *, note_id: str | None) -> str:
    """Like ``note “Shopping” (id 8f3c)``; without an id ``new note “Shopping”``."""
    line = _first_line(text)
    name = f" “{line}”" if line else " without text"
    return f"new note{name}" if note_id is None else f"note{name} (id {_cut(one_line(note_id))})"


def _first_line(text: str) -> str:
    """The first line with something to see, at most 60 characters; '' if there is none."""
    for line in _LINES.split(text[:LOOKED_AT]):
        if seen := _seen(line):
            cut = shorten(seen, WIDTH)
            return cut if cut == seen else f"{cut}…"
    return ""


def _seen(line: str) -> str:
    """What of it can be seen, with single spaces and without double quotation marks."""
    spaced = "".join(" " if character.isspace() else character for character in line)
    shown = "".join(character for character in spaced if _is_seen(character))
    return " ".join(_QUOTES.sub("'", shown).split())


def _is_seen(character: str) -> bool:
    return not (
        unicodedata.category(character) in _UNSEEN
        or character in _INVISIBLE
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
    )


def _cut(note_id: str) -> str:
    return note_id if len(note_id) <= LONGEST_ID else f"{note_id[:LONGEST_ID]}…"
