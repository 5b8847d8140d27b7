"""Split identifiers where a capital begins the next word: ``ArrayPool`` is ``Array Pool``. Pure.

The index takes such an identifier for one word. Its words are indexed beside it, so that they find it too.
Those of ``snake_case`` are words of the index anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_HINT = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
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
    for found in _HINT.finditer(text):
        start = found.start()
        if start < end:
            continue
        while start > end and _is_inside(text[start - 1]):
            start -= 1
        end = found.end()
        while end < len(text) and _is_inside(text[end]):
            end += 1
        yield text[start:end]


def _is_inside(character: str) -> bool:
    """Tell whether a character goes on with a word; those from Thai on may stand in a run."""
    return character.isalnum() and character < "\u0e00"
