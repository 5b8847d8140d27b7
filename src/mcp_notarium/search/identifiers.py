"""Split identifiers where a capital begins the next word: ``ArrayPool`` is ``Array Pool``. Pure.

The index takes such an identifier for one word. Its words are indexed beside it, so that they find it too.
Those of ``snake_case`` are words of the index anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_SHAPE = b"." * 65 + b"A" * 26 + b"." * 6 + b"a" * 26 + b"." * 133
"""Letters as ``a`` or ``A``, all else as dots: a thousand characters are looked through in a microsecond."""
_HINTS = (b"aA", b"AAaa")
_LONGEST = 48
"""Letters of an identifier, at most: what is longer is no word but data."""


def spaced(text: str) -> str:
    """Return the text with a space before each capital that begins a word inside another."""
    return _INNER_CAPITAL.sub(" ", text)


def inner_words(text: str) -> dict[str, None]:
    """Return the identifiers of a text, each once and with spaces between its words, in the order of the text."""
    return {spaced(word): None for word in _identifiers(text) if len(word) <= _LONGEST}


def _identifiers(text: str) -> Iterator[str]:
    end = 0
    for place in _places(text):
        if place < end:
            continue
        start = end = place
        while start and _is_inside(text[start - 1]):
            start -= 1
        while end < len(text) and _is_inside(text[end]):
            end += 1
        yield text[start:end]


def _places(text: str) -> list[int]:
    """Return where identifiers are, in their order."""
    shape = text.encode("ascii", "replace").translate(_SHAPE)
    places = []
    for hint in _HINTS:
        place = shape.find(hint)
        while place >= 0:
            places.append(place)
            place = shape.find(hint, place + 1)
    return sorted(places)


def _is_inside(character: str) -> bool:
    """Tell whether a character goes on with a word; those from Thai on may stand in a run."""
    return character.isalnum() and character < "\u0e00"
