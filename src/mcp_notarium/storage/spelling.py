"""Search misspelt words of a query as what they probably mean, and offer the words that they may mean.

A near word is the likelier the more notes have it, and the less likely with a second mistake or another first
letter. How many notes have it is counted within the limits: nothing outside of them decides.

A word is misspelt if no note within the limits has it, not even inside another word. In a query with other words it
is searched as the likeliest near word, alone only as one that is meant without a doubt. A word that one note has is
searched as it is: the note may have it from somebody who has misspelt it, so a much commoner word is offered.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.search.folding import fold, is_run, pieces, spaced, words_only
from mcp_notarium.search.fts_expression import build_match, match_any, match_terms
from mcp_notarium.search.query import Query, Word
from mcp_notarium.search.ranking import FEW, Kind, Piece, Sought, strict_conditions
from mcp_notarium.search.sql_builder import build_some, filters_of
from mcp_notarium.search.stemming import stem
from mcp_notarium.search.stop_words import stop_words
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.vocabulary import NearTerm, Vocabulary, distance, reach_of

_MOST_COUNTED = 256
"""Notes with a word that are counted: half a millisecond."""
_MOST_COMPARED = 6
_MOST_TRIED = 24
"""Terms of which the first that are still there are compared."""
_MISTAKE = 32
"""A word with one mistake more is meant if it is in so many times more notes."""
_FIRST_LETTER = 8
"""The same of a word with another first letter."""
_CLEARLY = 4
"""Factor by which a word that is meant without a doubt is likelier than the next."""
_SHORTEST_STEM = 6
"""Letters of a stem that may have as many mistakes as its word."""
_SHORTEST_CLEAR = 5
_SHORTEST_OTHER_START = 6
_FARTHEST_FORM = 6
_MOST_READ = 65_536
"""Characters of a text, at most, in which the written form of a term is looked for."""
_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a term that may be meant: how many notes have it, and some of them (pk)."""

    near: NearTerm
    notes: int
    same_start: bool
    pks: tuple[int, ...] = ()

    @property
    def likelihood(self) -> float:
        """Return what compares it with others: its notes, and less for a second mistake or another first letter."""
        second = 1 if self.near.mistakes == 1 else _MISTAKE
        return self.notes / second / (1 if self.same_start else _FIRST_LETTER)

    @property
    def is_likely(self) -> bool:
        """Tell whether it may be taken for the word: many short words differ in their first letter only."""
        return self.same_start or len(self.near.term) >= _SHORTEST_OTHER_START

    def is_clear(self, second: Candidate | None) -> bool:
        """Tell whether it is meant without a doubt, if ``second`` is the next."""
        if len(self.near.term) < _SHORTEST_CLEAR or not self.same_start:
            return False
        return second is None or self.likelihood >= _CLEARLY * second.likelihood


class Speller:
    """Correct words by those of one cache. Reads only."""

    def __init__(self, database: Database, vocabulary: Vocabulary) -> None:
        self._db = database
        self._vocabulary = vocabulary

    async def refresh(self) -> bool:
        """Bring the vocabulary up to date; False if it has still to be read."""
        return await self._vocabulary.refresh()

    async def find_near(self, word: str, *, within: Query) -> list[Candidate]:
        """Return terms spelled almost like this word that do find something, the likeliest first.

        ``within`` gives the limits (tags, dates, trash); its terms do not matter. A term that only
        notes outside of the limits have is never returned. The vocabulary is taken as it is.
        """
        wanted = words_only(replace_surrogates(word))
        if not (wanted.isalnum() and reach_of(wanted)) or wanted.isdigit():
            return []
        await asyncio.sleep(0)  # let other calls through
        return sorted(
            self._count(self._nearby(wanted), within),
            key=lambda one: (-one.likelihood, one.near.mistakes, one.near.term),
        )

    def write(self, one: Candidate, word: str, within: Query) -> str | None:
        """Return a candidate for a word as notes write it, in its nearest form; None if that is not near."""
        wanted = words_only(replace_surrogates(word))
        reach, term = reach_of(wanted), one.near.term
        sql = _WRITTEN_AND_TAGS if within.in_tags else _WRITTEN
        texts = [
            row[0] for pk in dict.fromkeys(one.pks) for row in self._db.rows(sql, (_MOST_READ, pk))
        ]
        forms = {form for text in texts for form in _forms_of(term, text)}
        forms = forms or {form for text in texts for form in _forms_of(term, spaced(text))}
        near = ((distance(wanted, fold(form), at_most=_FARTHEST_FORM), form) for form in forms)
        apart, nearest = min(near, default=(0, ""))
        stems = (wanted, stem(wanted))  # the nearest form may be inflected otherwise
        near_stem = any(distance(one, term, at_most=2) <= reach_of(one) for one in stems)
        return nearest if apart and (apart <= reach or near_stem) else None

    def count(self, expression: str, *, within: Query, most: int) -> int:
        """Return how many notes within the limits an FTS5 expression finds, up to ``most``."""
        return self._read_some(expression, within, most)[0]

    def _nearby(self, wanted: str) -> list[Candidate]:
        reach, digits = reach_of(wanted), _DIGITS.findall(wanted)
        nearest: dict[str, NearTerm] = {}
        for form in dict.fromkeys((wanted, stem(wanted))):
            for near in self._vocabulary.near(
                form, reach=reach if len(form) >= _SHORTEST_STEM else 1
            ):
                known = nearest.get(near.term)
                if known is None or near.mistakes < known.mistakes:
                    nearest[near.term] = near
        found = [
            Candidate(near, near.notes, _starts_alike(near.term, wanted))
            for near in nearest.values()
            # A term with an accent is there without it, too.
            if _DIGITS.findall(near.term) == digits and fold(near.term) == near.term
        ]
        return sorted(found, key=lambda one: (-one.likelihood, one.near.term))

    def _count(self, candidates: Sequence[Candidate], within: Query) -> Iterator[Candidate]:
        """Yield the first of these that notes within the limits have, with how many and one of them."""
        left = _MOST_COMPARED
        for one in candidates[:_MOST_TRIED]:
            notes, *pks = self._read_some(match_terms([one.near.term]), within, _MOST_COUNTED)
            if notes:
                # Of a common word the vocabulary knows about how many notes have it.
                number = max(notes, one.notes) if notes == _MOST_COUNTED else notes
                yield replace(one, notes=number, pks=tuple(pks))
                left -= 1
            if not left:
                return

    def _read_some(self, expression: str, within: Query, most: int) -> tuple[int, ...]:
        some = build_some(within, expression, most=most)
        row = self._db.row(some.sql, some.parameters)
        return tuple(row) if row else (0,)


def _starts_alike(one: str, other: str) -> bool:
    return one[0] == other[0] or one[:2] == other[1::-1]


def _forms_of(term: str, text: str) -> list[str]:
    """Return the words of a text, in lower case, whose stem is the term."""
    text = text.lower()
    start = term[: max(1, len(term) - 3)]  # a stem's end may differ
    found = set(re.findall(rf"(?<![^\W_]){re.escape(start)}[^\W_]*", text))
    if not found and not text.isascii():
        # As in the index: accents, strokes and ligatures make no other word.
        written, folded = _WORD.findall(text), _WORD.findall(fold(text))
        pairs = zip(written if len(written) == len(folded) else folded, folded, strict=True)
        found = {word for word, form in pairs if form.startswith(start)}
    return [word for word in found if stem(fold(word)) == term]


_WRITTEN = "SELECT substr(coalesce(title, '') || char(10) || text, 1, ?) FROM notes WHERE pk = ?"
_WRITTEN_AND_TAGS = """
SELECT substr(coalesce(title, '') || char(10) || tags || char(10) || text, 1, ?) FROM notes WHERE pk = ?
"""


MOST_SUGGESTED = 5
_MOST_OF_ONE = 3
_MEANT = frozenset({Kind.WHOLE, Kind.CORRECTED})
_MOST_TOGETHER = 64
_COMMONER = 50
"""Factor by which a word that is offered is commoner than one that a single note has."""


@dataclass(slots=True)
class Spelled:
    """Hold what is looked for, with corrections."""

    sought: list[Sought]
    read: bool | None
    """The terms of all notes were known; None: none were needed."""
    corrected: dict[str, str] = field(default_factory=dict)
    """Words as typed, and what they are searched as, too."""
    unknown: dict[str, list[Candidate]] = field(default_factory=dict)
    """Misspelt words, and what they may mean, the likeliest first."""
    rare: dict[str, list[Candidate]] = field(default_factory=dict)
    """Likewise words that one note has."""


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
    found = dict.fromkeys(chain.from_iterable(zip_longest(*words)))
    return [word for word in found if word is not None][:MOST_SUGGESTED]


def _choose(
    speller: Speller, near: Sequence[Candidate], others: Sequence[Sought], within: Query
) -> list[Candidate]:
    """Return what to search, the first that can be: with others what is in most notes with them, alone what is clear."""
    if not others:
        second = near[1] if near[1:] else None
        return [one for one in near[:1] if one.is_clear(second)]
    idle = stop_words([one.near.term for one in near])
    likely = [one for one in near if one.is_likely and one.near.term not in idle]
    if not likely[1:]:
        return likely
    beside = _join(
        piece.expression for one in others for piece in one.pieces if piece.kind in _MEANT
    )

    def rank(one: Candidate) -> tuple[float, float]:
        both = f"({match_terms([one.near.term])} AND {beside})"
        together = speller.count(both, within=within, most=_MOST_TOGETHER)
        return together * one.likelihood / one.notes, one.likelihood

    return sorted(likely, key=rank, reverse=True)


def _words(one: Sought) -> list[str]:
    words = pieces(fold(one.text))
    return [] if one.text.endswith("*") or any(map(is_run, words)) else list(dict.fromkeys(words))


def _expression(one: Sought, word: str) -> str:
    if word != words_only(one.text):
        return match_any([word]) or one.whole.expression
    return _join(piece.expression for piece in one.pieces if piece.kind is not Kind.PART)


def _join(expressions: Iterable[str]) -> str:
    return f"({' OR '.join(expressions)})"
