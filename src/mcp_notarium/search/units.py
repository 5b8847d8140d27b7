"""Tell what typed words ask for: each in the ways in which notes write it. Pure.

A word is not always one word of the index. ``l'animation`` asks for ``animation``; ``snake_case`` stands in other
notes as ``snakeCase``; a run of Chinese or Thai has no spaces where its words end; three words may be one date. Only
bare words are read so: what stands in quotes is searched as it was typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from mcp_notarium.search.dates import DateWords, find_dates
from mcp_notarium.search.folding import fold, is_run, pieces, spaced

MOST_PARTS = 32
"""Parts of one unit, at most: each is looked for in the index."""

_APOSTROPHE = "['\u2019\u02bc\uff07]"
_ELIDED = re.compile(
    rf"\A\W*(?:l|d|j|m|t|s|n|c|qu|jusqu|lorsqu|puisqu|quoiqu|un|all|dall|dell|nell|sull|coll|quell|bell|sant)"
    rf"{_APOSTROPHE}(?=[^\W\d_]{{2}})",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(rf"(?<=[^\W\d_]{{2}}){_APOSTROPHE}s?(?=\W*$)", re.IGNORECASE)
_CONTRACTED = re.compile(rf"n{_APOSTROPHE}t\W*$", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<![0-9])[0-9]{1,3}(?:[.,'\u2019][0-9]{3})+(?![0-9])")
_SHORTEST_PART = 2
_PAIR = 2
_JOINED = (2, 3)
_SHORTEST_JOINED = 5
"""Letters of words that may stand in a note as one; shorter ones are other words (``to do``, ``as is``)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Hold one thing that typed words ask for.

    ``text`` is what was typed. ``spellings`` are words and phrases: a note with any of them has the unit. ``parts``: a note
    with some of them has some of it (the pairs of a run, the words of an identifier). ``words``: how many typed words
    it stands for.
    """

    text: str
    spellings: tuple[str, ...]
    parts: tuple[str, ...] = ()
    words: int = 1


def units_of(words: Sequence[str]) -> tuple[Unit, ...]:
    """Return the units of typed words, in their order; a word without a letter, digit or picture has none."""
    units: list[Unit] = []
    at = 0
    for found in find_dates(words):
        units += _units_of_words(words[at : found.first])
        units.append(_date(words, found))
        at = found.last
    return tuple(_joined([*units, *_units_of_words(words[at:])]))


def unit_of(word: str) -> Unit | None:
    """Return the unit of one typed word."""
    return next(iter(units_of([word])), None)


def _joined(units: Sequence[Unit]) -> Iterator[Unit]:
    """Yield the units, each also as one word with its neighbours: ``array pool`` is in ``ArrayPool``, ``back up`` in ``backup``."""
    words = [_single_word(unit) for unit in units]
    joined: list[list[str]] = [[] for _ in units]
    for size in _JOINED:
        for start in range(len(units) - size + 1):
            row = words[start : start + size]
            if all(row) and sum(map(len, row)) >= _SHORTEST_JOINED:
                for index in range(start, start + size):
                    joined[index].append("".join(row))
    for unit, more in zip(units, joined, strict=True):
        yield replace(unit, spellings=(*unit.spellings, *more)) if more else unit


def _single_word(unit: Unit) -> str:
    """Return a unit that is one word of letters, folded; else nothing."""
    word = "" if len(unit.spellings) > 1 else next(iter(pieces(fold(unit.spellings[0]))))
    return word if len(word) >= _SHORTEST_PART and word.isalpha() and not is_run(word) else ""


def _units_of_words(words: Sequence[str]) -> Iterator[Unit]:
    for word in words:
        if unit := _unit(word):
            yield unit


def _date(words: Sequence[str], found: DateWords) -> Unit:
    typed = words[found.first : found.last]
    own = [word for word in typed if len("".join(pieces(fold(word)))) > _SHORTEST_PART]
    own = own if len(typed) > 1 else []
    parts = tuple(dict.fromkeys([*found.month_forms, *own]))
    return Unit(" ".join(typed), found.forms, parts, found.last - found.first)


def _unit(word: str) -> Unit | None:
    found = pieces(fold(word))
    if not found:
        return None
    if any(map(is_run, found)):
        parts = tuple(dict.fromkeys(_script_parts(found)))
        is_pair = len(found) == 1 and len(found[0]) <= _PAIR
        return Unit(word, (word,), () if is_pair else parts)
    core = _POSSESSIVE.sub("", _ELIDED.sub("", word))
    found = pieces(fold(core))
    parts = () if len(found) == 1 or _CONTRACTED.search(core) else _word_parts(found)
    return Unit(word, tuple(_spellings(core, found)), parts)


def _spellings(word: str, found: Sequence[str]) -> Iterator[str]:
    """Yield a word as typed, as one word of the index, and with a space before each capital inside it."""
    yield word
    if len(found) > 1 and (_has_letter(word) or _THOUSANDS.search(word)):
        yield "".join(found)
    apart = spaced(word)
    if apart != word:
        yield apart


def _word_parts(found: Sequence[str]) -> tuple[str, ...]:
    """Return the pieces that say something alone."""
    telling = [piece for piece in found if len(piece) >= _SHORTEST_PART and _has_letter(piece)]
    return tuple(dict.fromkeys(telling))[:MOST_PARTS]


def _script_parts(found: Sequence[str]) -> Iterator[str]:
    """Yield the pairs of the runs, and the words beside them."""
    left = MOST_PARTS
    for piece in found:
        pairs = [a + b for a, b in pairwise(piece)] if is_run(piece) else _word_parts([piece])
        yield from pairs[:left]
        left = max(0, left - len(pairs))


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))
