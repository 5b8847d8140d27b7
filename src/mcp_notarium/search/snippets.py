"""Find the line of a text that shows best why a query matches it. Pure.

Words match as in the index: folded and stemmed. The best line is the one with the most and the rarest of them. Terms that the reader sees anyway (in a title, a preview or
tags) are not looked for, so a snippet always says something new. Lines end at newlines, as everywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from mcp_notarium.domain.lines import LF, shorten
from mcp_notarium.search.folding import fold, is_run, next_piece, pieces
from mcp_notarium.search.query import And, Condition, Or, Phrase, Ranked, Word
from mcp_notarium.search.query_expansion import units_of
from mcp_notarium.search.stemming import stem

WIDTH = 120
"""Characters of a snippet, at most, without the marks of what was cut off."""

_BEFORE = 40
_MOST_HITS = 50
_MOST_CANDIDATES = 500
_LONGEST_MAPPED = 4096
_SHORTEST_PREFIX = 2
_CUT = "…"
_stem = lru_cache(maxsize=4096)(stem)  # the same few words in note after note


@dataclass(frozen=True, slots=True)
class Snippet:
    """Hold a part of a line that has hits; ``line`` counts from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Term:
    """Hold a word or phrase to look for, in folded pieces."""

    pieces: tuple[str, ...]
    prefix: bool = False
    """The last piece is the beginning of a word."""
    inside: bool = False
    """It may stand inside a word."""
    sought: str = ""
    """Text that was asked for; several terms may be spellings of the same."""
    weight: float = 1.0
    """Weight among the terms."""


def spelled(
    spellings: Sequence[str],
    sought: str,
    *,
    parts: Sequence[str] = (),
    weight: float = 1.0,
    prefix: bool = False,
    inside: bool = False,
) -> Iterator[Term]:
    """Yield the terms of what was asked for: its spellings, and its parts, which say less."""
    for spelling in spellings:
        if found := tuple(pieces(fold(spelling))):
            yield Term(found, prefix, inside and len(found) == 1, sought, weight)
    for part in parts:
        if found := tuple(pieces(fold(part))):
            yield Term(found, sought=part, weight=weight / (1 + len(parts)))


def terms_of(condition: Condition | None) -> tuple[Term, ...]:
    """Return what a query looks for in texts."""
    return tuple(dict.fromkeys(_terms(condition)))


def _terms(condition: Condition | None) -> Iterator[Term]:
    match condition:
        case Ranked(words):
            yield from _terms_of_words(words)
        case And(conditions) | Or(conditions):
            for one in conditions:
                yield from _terms(one)
        case Word():
            yield from _terms_of_words([condition])
        case Phrase(text):
            yield from spelled([text], f'"{text}"')
        case _:
            return


def _terms_of_words(words: Sequence[Word]) -> Iterator[Term]:
    for word in words:
        if word.prefix:
            yield from spelled([word.text], word.text, prefix=True)
    for unit in units_of([word.text for word in words if not word.prefix]):
        yield from spelled(unit.spellings, unit.text, parts=unit.parts)


def find_snippet(text: str, terms: Sequence[Term], *, shown: str) -> Snippet | None:
    """Return the line with the most and the rarest of the terms that are not in ``shown``, the first of such lines.

    None if there is none: the index knows more spellings than are looked for here.
    """
    folded, seen = fold(text), fold(shown)
    known = {term.sought for term in terms if next(_hits(seen, term), None) is not None}
    lines: dict[int, dict[str, float]] = {}
    places: dict[int, int] = {}
    for term in terms:
        if term.sought in known:
            continue
        for place in islice(_hits(folded, term), _MOST_HITS):
            start = folded.rfind(LF, 0, place) + 1
            lines.setdefault(start, {}).setdefault(term.sought, term.weight)
            places[start] = min(place, places.get(start, place))
    if not lines:
        return None
    start = min(lines, key=lambda at: (-sum(lines[at].values()), at))
    number = folded.count(LF, 0, start)
    line = text.split(LF, number + 1)[number]
    return Snippet(number + 1, _cut(line, _place_in(line, places[start] - start)))


def _hits(folded: str, term: Term) -> Iterator[int]:
    parts = [_part(term, index) for index in range(len(term.pieces))]
    if not all(part in folded for part in parts):
        return
    part = parts[0]
    place = folded.find(part)
    for _ in range(_MOST_CANDIDATES):
        if place < 0:
            return
        if _stands_at(folded, place, term):
            yield place
        place = folded.find(part, place + 1)


def _part(term: Term, index: int) -> str:
    piece = term.pieces[index]
    return piece if is_run(piece) or term.inside or _is_prefix(term, index) else _common_part(piece)


def _common_part(word: str) -> str:
    """Return what every word with the stem of this one begins with, nearly always."""
    root = _stem(word)
    return root[:-1] if len(root) > _SHORTEST_PREFIX else root


def _is_prefix(term: Term, index: int) -> bool:
    return term.prefix and index == len(term.pieces) - 1


def _stands_at(folded: str, place: int, term: Term) -> bool:
    if term.inside:
        return True
    if not is_run(term.pieces[0]) and place:
        before = next_piece(folded, place - 1)
        if before is not None and before.start() < place < before.end():
            return False  # it begins inside a word
    last = len(term.pieces) - 1
    at = place
    for index, piece in enumerate(term.pieces):
        found = next_piece(folded, at)
        if found is None or not _fits(found[0], piece, term, index, last):
            return False
        at = found.end()
    return True


def _fits(there: str, piece: str, term: Term, index: int, last: int) -> bool:
    if is_run(piece):
        return there.startswith(piece) if index == last else there == piece
    if _is_prefix(term, index):
        return there.startswith(piece)
    return _stem(there) == _stem(piece)


def _place_in(line: str, folded_place: int) -> int:
    """Return the place in a line of one in the folded line; about that one in a very long line."""
    if line.isascii() or len(line) > _LONGEST_MAPPED:
        return min(folded_place, len(line))
    return bisect_left(range(len(line)), folded_place, key=lambda size: len(fold(line[:size])))


def _cut(line: str, place: int) -> str:
    """Return the line, or as much of it around ``place`` as a snippet holds."""
    if len(line.strip()) <= WIDTH:
        return line.strip()
    start = max(0, min(place - _BEFORE, len(line) - WIDTH))
    if start:
        space = line.find(" ", start, max(start, place))
        start = space + 1 if space >= 0 else start
    rest = line[start:].rstrip()
    part = shorten(rest, WIDTH)
    return f"{_CUT if start else ''}{part.strip()}{_CUT if len(part) < len(rest) else ''}"
