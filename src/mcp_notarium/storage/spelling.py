"""Find words that may be meant by a misspelt one, among those that do find something within the same limits.

A near word is the likelier the more notes have it, and the less likely with a second mistake or another first
letter. How many notes have it is counted within the limits: nothing outside of them decides.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.search.folding import fold, words_only
from mcp_notarium.search.fts_expression import match_terms
from mcp_notarium.search.identifiers import spaced
from mcp_notarium.search.misspelling import distance, reach_of
from mcp_notarium.search.query import Query
from mcp_notarium.search.sql_builder import build_some
from mcp_notarium.search.stemming import stem
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.vocabulary import NearTerm, Vocabulary

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
"""How many times likelier than the next a word is that is meant without a doubt."""
_SHORTEST_CLEAR = 5
_SHORTEST_OTHER_START = 6
_FARTHEST_FORM = 6
_MOST_READ = 262_144
"""Characters of a text, at most, in which the written form of a term is looked for."""
_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class NearWord:
    """Hold a word that may be meant, as notes write it. ``notes`` within the limits have its index term.

    ``likely``: it may be taken for the word beside other words; ``clear``: also alone, as no other is nearly as likely.
    """

    spelled: str
    term: str
    notes: int
    likelihood: float
    likely: bool
    clear: bool


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Hold a term that may be meant: how many notes have it, and some of them (pk)."""

    near: NearTerm
    notes: int
    same_start: bool
    pks: tuple[int, ...] = ()

    @property
    def likelihood(self) -> float:
        second = 1 if self.near.mistakes == 1 else _MISTAKE
        return self.notes / second / (1 if self.same_start else _FIRST_LETTER)

    @property
    def is_likely(self) -> bool:
        """Tell whether it may be taken for the word: many short words differ in their first letter only."""
        return self.same_start or len(self.near.term) >= _SHORTEST_OTHER_START

    def is_clear(self, second: _Candidate | None) -> bool:
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

    async def find_near(self, word: str, *, within: Query, limit: int = 4) -> list[NearWord]:
        """Return words spelled almost like this one that do find something, the likeliest first.

        ``within`` gives the limits (tags, dates, trash); its terms do not matter. A word that only
        notes outside of the limits have is never offered. The vocabulary is taken as it is.
        """
        wanted = words_only(replace_surrogates(word))
        if not (wanted.isalnum() and reach_of(wanted)) or wanted.isdigit():
            return []
        await asyncio.sleep(0)  # let other calls through
        counted = sorted(
            self._count(self._nearby(wanted), within),
            key=lambda one: (-one.likelihood, one.near.mistakes, one.near.term),
        )
        found: dict[str, NearWord] = {}
        for number, one in enumerate(counted):
            spelled = self._find_written_form(one, wanted, within)
            if spelled is None:
                continue
            rest = counted[number + 1 :]
            clear = not found and one.is_clear(rest[0] if rest else None)
            near = NearWord(spelled, one.near.term, one.notes, one.likelihood, one.is_likely, clear)
            found.setdefault(spelled, near)
            if len(found) == limit:
                break
        return list(found.values())

    def count(self, expression: str, *, within: Query, most: int) -> int:
        """Return how many notes within the limits an FTS5 expression finds, up to ``most``."""
        return self._read_some(expression, within, most)[0]

    def _nearby(self, wanted: str) -> list[_Candidate]:
        """Return the terms near a word or its stem, the likeliest first."""
        reach, digits = reach_of(wanted), _DIGITS.findall(wanted)
        nearest: dict[str, NearTerm] = {}
        for form in dict.fromkeys((wanted, stem(wanted))):
            for near in self._vocabulary.near(form, reach=min(reach, reach_of(form) or 1)):
                known = nearest.get(near.term)
                if known is None or near.mistakes < known.mistakes:
                    nearest[near.term] = near
        found = [
            _Candidate(near, near.notes, near.term[0] == wanted[0])
            for near in nearest.values()
            if _DIGITS.findall(near.term) == digits
        ]
        return sorted(found, key=lambda one: (-one.likelihood, one.near.term))

    def _count(self, candidates: Sequence[_Candidate], within: Query) -> Iterator[_Candidate]:
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

    def _find_written_form(self, one: _Candidate, wanted: str, within: Query) -> str | None:
        """Return the nearest word of the candidate's notes whose stem is its term."""
        reach, near = reach_of(wanted), []
        for pk in dict.fromkeys(one.pks):
            near += self._forms_in(pk, one.near.term, wanted, within)
            if near and min(near)[0] <= reach:
                break
        apart, nearest = min(near, default=(0, ""))
        of_term = distance(wanted, one.near.term, at_most=reach)
        return nearest if apart and min(apart, of_term) <= reach else None

    def _forms_in(self, pk: int, term: str, wanted: str, within: Query) -> list[tuple[int, str]]:
        """Return the words of a note whose stem is the term, and how far each is from ``wanted``."""
        text = self._db.row(_WRITTEN_AND_TAGS if within.in_tags else _WRITTEN, (_MOST_READ, pk))
        said = text[0] if text else ""
        words = dict.fromkeys(
            word.lower() for form in (said, spaced(said)) for word in _WORD.findall(form)
        )
        folded = {word: word if word.isascii() else fold(word) for word in words}
        start = term[: max(1, len(term) - 3)]  # a stem's end may differ
        return [
            (distance(wanted, form, at_most=_FARTHEST_FORM), word)
            for word, form in folded.items()
            if form.startswith(start) and stem(form) == term
        ]


_WRITTEN = "SELECT substr(coalesce(title, '') || char(10) || text, 1, ?) FROM notes WHERE pk = ?"
_WRITTEN_AND_TAGS = """
SELECT substr(coalesce(title, '') || char(10) || tags || char(10) || text, 1, ?) FROM notes WHERE pk = ?
"""
