"""Find words that may be meant by a misspelt one, among those that do find something within the same limits.

A near word is the likelier the more notes have it, and the less likely with a second mistake or another first
letter. How many notes have it is counted within the limits: nothing outside of them decides.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.search.folding import fold, words_only
from mcp_notarium.search.misspelling import distance, reach_of
from mcp_notarium.search.query import Query, Word
from mcp_notarium.search.sql_builder import Statements, build
from mcp_notarium.search.stemming import spelling, stem
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.vocabulary import NearTerm, Vocabulary

_MOST_COUNTED = 6
_MOST_TRIED = 24
"""Terms of which the first that are still there are counted."""
_MISTAKE = 32
"""A word with one mistake more is meant if it is in so many times more notes."""
_FIRST_LETTER = 8
"""The same of a word with another first letter."""
_CLEARLY = 4
"""How many times likelier than the next a word is that is meant without a doubt."""
_SHORTEST_CLEAR = 5
_MOST_READ = 262_144
"""Characters of a text, at most, in which the written form of a term is looked for."""
_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class NearWord:
    """Hold a word that may be meant, as notes write it. ``notes`` within the limits have its index term.

    ``clear``: no other is nearly as likely.
    """

    spelled: str
    term: str
    notes: int
    clear: bool = False


class Speller:
    """Correct words by those of one cache. Reads only."""

    def __init__(self, database: Database, vocabulary: Vocabulary) -> None:
        self._db = database
        self._vocabulary = vocabulary

    async def suggest(self, words: Iterable[str], *, within: Query, limit: int = 5) -> list[str]:
        """Return up to ``limit`` words that these may mean: the likeliest of each first."""
        near = [
            [one.spelled for one in await self.find_near(word, within=within)] for word in words
        ]
        found = dict.fromkeys(chain.from_iterable(zip_longest(*near)))
        return [word for word in found if word is not None][:limit]

    async def find_near(self, word: str, *, within: Query, limit: int = 3) -> list[NearWord]:
        """Return words spelled almost like this one that do find something, the likeliest first.

        ``within`` gives the limits (tags, dates, trash); its terms do not matter. A word that only
        notes outside of the limits have is never offered.
        """
        wanted = words_only(replace_surrogates(word))
        if not (wanted.isalnum() and reach_of(wanted)) or wanted.isdigit():
            return []
        await self._vocabulary.refresh()
        await asyncio.sleep(0)  # let other calls through
        near = sorted(self._nearby(wanted), key=lambda one: (-_likelihood(one, wanted), one.term))
        counted = self._count(near, within)
        ranked = sorted(
            counted, key=lambda one: (-_likelihood(one, wanted), one.mistakes, one.term)
        )
        found: dict[str, NearWord] = {}
        for number, one in enumerate(ranked):
            spelled = self._find_written_form(one.term, wanted, within)
            if spelled is None:
                continue
            rest = ranked[number + 1 :]
            clear = not found and _is_clear(one, rest[0] if rest else None, wanted)
            found.setdefault(spelled, NearWord(spelled, one.term, one.notes, clear))
            if len(found) == limit:
                break
        return list(found.values())

    def count(self, word: str, *, within: Query) -> int:
        """Return how many notes within the limits have this word."""
        return self._number(build(replace(within, terms=Word(word)), limit=1))

    def _nearby(self, wanted: str) -> Iterator[NearTerm]:
        """Yield the terms near a word or its stem."""
        reach, digits = reach_of(wanted), _DIGITS.findall(wanted)
        nearest: dict[str, NearTerm] = {}
        for form in dict.fromkeys((wanted, stem(wanted))):
            for one in self._vocabulary.near(form, reach=min(reach, reach_of(form) or 1)):
                known = nearest.get(one.term)
                if (known is None or one.mistakes < known.mistakes) and (
                    not digits or _DIGITS.findall(one.term) == digits
                ):
                    nearest[one.term] = one
        yield from nearest.values()

    def _count(self, near: Iterable[NearTerm], within: Query) -> list[NearTerm]:
        """Return the first of these terms that notes within the limits have, with their number."""
        found: list[NearTerm] = []
        for one in list(near)[:_MOST_TRIED]:
            if notes := self._number(_search(one.term, within)):
                found.append(replace(one, notes=notes))
            if len(found) == _MOST_COUNTED:
                break
        return found

    def _find_written_form(self, term: str, wanted: str, within: Query) -> str | None:
        """Return the nearest word, of a note within the limits, whose stem is this index term."""
        statements = _search(term, within)
        row = self._db.row(statements.unranked.sql, statements.unranked.parameters)
        if row is None:
            return None
        text = self._db.row(
            _WRITTEN_AND_TAGS if within.in_tags else _WRITTEN, (_MOST_READ, row[-1])
        )
        words = dict.fromkeys(map(str.lower, _WORD.findall(text[0]))) if text else ()
        forms = [word for word in words if _may_have_stem(fold(word), term)]
        near = [
            (apart, form)
            for form in forms
            if stem(fold(form)) == term and (apart := _apart(wanted, fold(form))) is not None
        ]
        return min(near)[1] if near else None

    def _number(self, statements: Statements) -> int:
        return self._db.number(statements.count.sql, statements.count.parameters)


def _search(term: str, within: Query) -> Statements:
    word = spelling(term)
    return build(replace(within, terms=Word(word)), limit=1, expansions={word: [term]})


def _likelihood(near: NearTerm, wanted: str) -> float:
    other_first = near.term[0] != wanted[0]
    return near.notes / (_MISTAKE ** (near.mistakes - 1) * (_FIRST_LETTER if other_first else 1))


def _is_clear(best: NearTerm, second: NearTerm | None, wanted: str) -> bool:
    if len(wanted) < _SHORTEST_CLEAR or best.term[0] != wanted[0]:
        return False
    return second is None or _likelihood(best, wanted) >= _CLEARLY * _likelihood(second, wanted)


def _may_have_stem(word: str, term: str) -> bool:
    """Tell whether a word begins like its stem, whose last letters may be others."""
    return word.startswith(term[: max(1, len(term) - 3)])


def _apart(wanted: str, word: str) -> int | None:
    """Return how many mistakes lie between the words; None if too many: stems may be nearer than words."""
    apart = distance(wanted, word, at_most=reach_of(wanted))
    return apart if 0 < apart <= reach_of(wanted) else None


_WRITTEN = "SELECT substr(coalesce(title, '') || char(10) || text, 1, ?) FROM notes WHERE pk = ?"
_WRITTEN_AND_TAGS = """
SELECT substr(coalesce(title, '') || char(10) || tags || char(10) || text, 1, ?) FROM notes WHERE pk = ?
"""
