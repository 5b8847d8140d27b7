"""Search misspelt words of a query as what they probably mean, too, and offer what they may mean.

A word is misspelt if no note within the limits has it, not even inside another word. In a query with other words it
is searched as the likeliest near word, alone only as one that is meant without a doubt. A word that one note has is
searched as it is: the note may have it from somebody who has misspelt it, so a much commoner word is offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest

from mcp_notarium.search.folding import fold, is_run, pieces, words_only
from mcp_notarium.search.fts_expression import build_match, match_any, match_terms
from mcp_notarium.search.function_words import function_words
from mcp_notarium.search.query import Query, Word
from mcp_notarium.search.ranking import Kind, Piece, Sought
from mcp_notarium.storage.spelling import NearWord, Speller

MOST_SUGGESTED = 5
_MEANT = frozenset({Kind.WHOLE, Kind.CORRECTED})
_MOST_COUNTED = 64
_COMMONER = 50
"""How many times commoner than a word that one note has another one is that is offered."""


@dataclass(slots=True)
class Spelled:
    """Hold what is looked for, with corrections.

    ``corrected``: words as typed, and what they are searched as, too. ``alternatives``: for each misspelt word what it
    may mean, the likeliest first; ``commoner`` likewise for words that one note has. ``read``: whether the terms of all
    notes were known; None: none were needed.
    """

    sought: list[Sought]
    read: bool | None
    corrected: dict[str, str] = field(default_factory=dict)
    alternatives: list[list[NearWord]] = field(default_factory=list)
    commoner: list[list[NearWord]] = field(default_factory=list)

    def suggestions(self, *, found: bool) -> list[str]:
        """Return what to offer; ``found``: the words as typed, or as corrected, have found something."""
        return interleave(self.commoner if found else [*self.alternatives, *self.commoner])


async def correct(
    speller: Speller, sought: Sequence[Sought], *, within: Query, read: bool | None
) -> Spelled:
    """Add what the misspelt ones of these words are searched as, too. ``read``: as in ``Spelled``."""
    spelled = Spelled(list(sought), read)
    for at, one in enumerate(sought):
        for word in _words(one):
            notes = speller.count(_expression(one, word), within=within, most=2)
            if notes > 1:
                continue
            if spelled.read is None:
                spelled.read = await speller.refresh()
            near = await speller.find_near(word, within=within)
            if notes:
                spelled.commoner.append([other for other in near if other.notes >= _COMMONER][:1])
                continue
            spelled.alternatives.append(near)
            others = [*spelled.sought[:at], *spelled.sought[at + 1 :]]
            if meant := _choose(speller, near, others, within):
                typed = one.text if word == fold(one.text) else word
                spelled.corrected[typed] = meant.spelled
                piece = Piece(match_terms([meant.term]), Kind.CORRECTED)
                spelled.sought[at] = replace(one := spelled.sought[at], pieces=(*one.pieces, piece))
    return spelled


def _choose(
    speller: Speller, near: Sequence[NearWord], others: Sequence[Sought], within: Query
) -> NearWord | None:
    """Return what to search: beside others what is in most notes together with them, alone what is clear."""
    if not others:
        return near[0] if near and near[0].clear else None
    likely = [one for one in near if one.likely and not function_words([one.spelled])]
    beside = _join(
        piece.expression for one in others for piece in one.pieces if piece.kind in _MEANT
    )
    together = {
        one.term: speller.count(
            f"({match_terms([one.term])} AND {beside})", within=within, most=_MOST_COUNTED
        )
        for one in likely
    }
    return max(
        likely,
        key=lambda one: (together[one.term] * one.likelihood / one.notes, one.likelihood),
        default=None,
    )


async def suggest(speller: Speller, words: Iterable[str], *, within: Query) -> list[str]:
    """Return what those of these words may mean that no note within the limits has."""
    unknown = [
        word
        for word in words
        if (expression := build_match(Word(word)))
        and not speller.count(expression, within=within, most=1)
    ]
    return interleave([await speller.find_near(word, within=within) for word in unknown])


def interleave(near: Iterable[Sequence[NearWord]]) -> list[str]:
    """Return some of the words, the first of each list before the second of any."""
    rows = chain.from_iterable(zip_longest(*near))
    return list(dict.fromkeys(one.spelled for one in rows if one is not None))[:MOST_SUGGESTED]


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
