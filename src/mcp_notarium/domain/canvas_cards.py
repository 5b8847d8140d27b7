"""Find the cards of a canvas that show a note, and let them show it under another path. Pure.

A canvas is JSON: in ``nodes``, a card of the type ``file`` names the path of its file from the top of the vault. Only
the characters of these paths change.
"""

from __future__ import annotations

import json
import re
import unicodedata

_FILE = re.compile(r'"file"\s*:\s*("(?:[^"\\]|\\.)*+")', re.DOTALL)


class NotACanvas(ValueError):
    """The text is no JSON of a canvas."""


def count_cards(text: str, path: str) -> int:
    """Return how many cards show the note at a path. Raises ``NotACanvas``."""
    return len(_find_cards(text, path))


def move_cards(text: str, old: str, new: str) -> str:
    """Return the text with another path in these cards. Raises ``NotACanvas``."""
    put = json.dumps(new, ensure_ascii=text.isascii() and not old.isascii())
    for start, end in reversed(_find_cards(text, old)):
        text = text[:start] + put + text[end:]
    return text


def _find_cards(text: str, path: str) -> list[tuple[int, int]]:
    """Return where the paths of these cards stand, with their quotation marks.

    What looks so elsewhere is told apart by a mark in the place of each: a card has it, or nothing that counts.
    """
    _cards(text)
    places = [one.span(1) for one in _FILE.finditer(text) if _is_same(one[1], path)]
    if not places:
        return []
    parts, at = [], 0
    for number, (start, end) in enumerate(places):
        parts += [text[at:start], json.dumps(f"\0{number}")]
        at = end
    marked = set(_cards("".join((*parts, text[at:]))))
    return [place for number, place in enumerate(places) if f"\0{number}" in marked]


def _cards(text: str) -> list[str]:
    """Return the paths of all cards that show a file."""
    if not text.strip("\ufeff \t\r\n"):
        return []  # as Obsidian makes a new one
    try:
        canvas = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        raise NotACanvas from None
    nodes = canvas.get("nodes", []) if isinstance(canvas, dict) else None
    if not isinstance(nodes, list):
        raise NotACanvas
    files = (
        one.get("file") for one in nodes if isinstance(one, dict) and one.get("type") == "file"
    )
    return [one for one in files if isinstance(one, str)]


def _is_same(written: str, path: str) -> bool:
    try:
        said = str(json.loads(written))
    except ValueError:
        return False
    return unicodedata.normalize("NFC", said) == unicodedata.normalize("NFC", path)
