"""Search misspelt words of a query as what they probably mean, too, and offer what they may mean.

A word is misspelt if no note within the limits has it, not even inside another word. In a query with other words it
is searched as the likeliest near word, alone only as one that is meant without a doubt. A word that one note has is
searched as it is: the note may have it from somebody who has misspelt it, so a much commoner word is offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest

from mcp_notarium.search.folding import fold, is_run, pieces, words_only
from mcp_notarium.search.fts_expression import build_match, match_any, match_terms
from mcp_notarium.search.function_words import function_words
from mcp_notarium.search.query import Query, Word
from mcp_notarium.search.ranking import FEW, Kind, Piece, Sought, strict_conditions
from mcp_notarium.search.sql_builder import filters_of
from mcp_notarium.storage.spelling import Candidate, Speller

MOST_SUGGESTED = 5
_MOST_OF_ONE = 3
_MEANT = frozenset({Kind.WHOLE, Kind.CORRECTED})
_MOST_COUNTED = 64
_COMMONER = 50
"""How many times commoner than a word that one note has another one is that is offered."""


@dataclass(slots=True)
class Spelled:
    """Hold what is looked for, with corrections.

    ``corrected``: words as typed, and what they are searched as, too. ``unknown``: misspelt words, and what they may
    mean, the likeliest first; ``rare`` likewise words that one note has. ``read``: whether the terms of all
    notes were known; None: none were needed.
    """

    sought: list[Sought]
    read: bool | None
    corrected: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, list[Candidate]] = field(default_factory=dict)
    rare: dict[str, list[Candidate]] = field(default_factory=dict)


async def correct(
    speller: Speller, sought: Sequence[Sought], *, within: Query, read: bool | None
) -> Spelled:
    """Add what the misspelt ones of these words are searched as, too. ``read``: as in ``Spelled``."""
    spelled = Spelled(list(sought), read)
    _, filtered = filters_of(within, strict_conditions(within))
    for at, one in enumerate(sought):
        if one.notes >= FEW and not filtered:
            continue
        for word in _words(one):
            notes = speller.count(_expression(one, word), within=within, most=2)
            if notes > 1 or (notes and any(map(str.isdigit, word))):
                continue
            if spelled.read is None:
                spelled.read = await speller.refresh()
            near = await speller.find_near(word, within=within)
            if notes:
                spelled.rare[word] = [other for other in near[:1] if other.notes >= _COMMONER]
                continue
            spelled.unknown[word] = near
            others = [*spelled.sought[:at], *spelled.sought[at + 1 :]]
            for meant in _choose(speller, near, others, within):
                if form := speller.write(meant, word, within):
                    spelled.corrected[one.text if word == fold(one.text) else word] = form
                    piece = Piece(match_terms([meant.near.term]), Kind.CORRECTED)
                    now = spelled.sought[at]
                    spelled.sought[at] = replace(now, pieces=(*now.pieces, piece))
                    break
    return spelled


async def suggest(
    speller: Speller, spelled: Spelled, words: Iterable[str], *, within: Query
) -> list[str]:
    """Return what the misspelt words may mean, and those of ``words`` that no note within the limits has."""
    offered = spelled.unknown | spelled.rare
    for word in words:
        expression = build_match(Word(word))
        known = fold(word) in offered or not expression
        if not known and not speller.count(expression or "", within=within, most=1):
            offered[word] = await speller.find_near(word, within=within)
    return _interleave(_written(speller, word, near, within) for word, near in offered.items())


def _written(speller: Speller, word: str, near: Iterable[Candidate], within: Query) -> list[str]:
    forms = (speller.write(one, word, within) for one in near)
    return list(islice(filter(None, forms), _MOST_OF_ONE))


def _interleave(words: Iterable[Sequence[str]]) -> list[str]:
    """Return some of the words, the first of each list before the second of any."""
    found = dict.fromkeys(chain.from_iterable(zip_longest(*words)))
    return [word for word in found if word is not None][:MOST_SUGGESTED]


def _choose(
    speller: Speller, near: Sequence[Candidate], others: Sequence[Sought], within: Query
) -> list[Candidate]:
    """Return what to search, the first that can be: beside others what is in most notes with them, alone what is clear."""
    if not others:
        second = near[1] if near[1:] else None
        return [one for one in near[:1] if one.is_clear(second)]
    idle = function_words([one.near.term for one in near])
    likely = [one for one in near if one.is_likely and one.near.term not in idle]
    if not likely[1:]:
        return likely
    beside = _join(
        piece.expression for one in others for piece in one.pieces if piece.kind in _MEANT
    )

    def rank(one: Candidate) -> tuple[float, float]:
        both = f"({match_terms([one.near.term])} AND {beside})"
        together = speller.count(both, within=within, most=_MOST_COUNTED)
        return together * one.likelihood / one.notes, one.likelihood

    return sorted(likely, key=rank, reverse=True)


def _words(one: Sought) -> list[str]:
    """Return the words that may be misspelt in what was typed as one."""
    words = pieces(fold(one.text))
    return [] if one.text.endswith("*") or any(map(is_run, words)) else list(dict.fromkeys(words))


def _expression(one: Sought, word: str) -> str:
    """Return what finds the notes that have a word, or have it inside another."""
    if word != words_only(one.text):
        return match_any([word]) or one.whole.expression
    return _join(piece.expression for piece in one.pieces if piece.kind is not Kind.PART)


def _join(expressions: Iterable[str]) -> str:
    return f"({' OR '.join(expressions)})"
