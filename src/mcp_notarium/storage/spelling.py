"""Find words that may be meant by a misspelt one, among those that do find something within the same limits."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.search.folding import fold, words_only
from mcp_notarium.search.query import Query, Word
from mcp_notarium.search.sql_builder import build
from mcp_notarium.search.stemming import spelling, stem
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.vocabulary import Vocabulary, distance, reach_of

_MOST_CANDIDATES = 24
_WORD = re.compile(r"\w+")


class Speller:
    """Correct words by those of one cache. Reads only."""

    def __init__(self, database: Database, vocabulary: Vocabulary) -> None:
        self._db = database
        self._vocabulary = vocabulary

    async def suggest(self, word: str, *, within: Query | None = None, limit: int = 3) -> list[str]:
        """Return words spelled almost like this one that do find something, best first.

        ``within`` gives the limits (tags, dates, trash); its terms do not matter. A word that only
        notes outside of the limits have is never offered.
        """
        found: list[str] = []
        wanted = words_only(replace_surrogates(word))
        if not (wanted.isalnum() and reach_of(wanted)):
            return found
        await self._vocabulary.refresh()
        for term in self._nearby(wanted):
            await asyncio.sleep(0)  # let other calls through
            spelled = self._find_written_form(term, within or Query())
            if spelled and spelled not in found and _is_near(fold(spelled), wanted):
                found.append(spelled)
            if len(found) == limit:
                break
        return found

    def _nearby(self, word: str) -> list[str]:
        near = self._vocabulary.near(word)[:_MOST_CANDIDATES]
        stemmed = stem(word)
        if stemmed != word:
            near += self._vocabulary.near(stemmed)[:_MOST_CANDIDATES]
        return list(dict.fromkeys(near))

    def _find_written_form(self, term: str, within: Query) -> str | None:
        """Return a whole word of a note within the limits whose stem is this index term."""
        query = replace(within, terms=Word(spelling(term)))
        statements = build(query, limit=1, expansions={spelling(term): [term]})
        row = self._db.row(statements.unranked.sql, statements.unranked.parameters)
        if row is None:
            return None
        text = self._db.row(_WRITTEN_AND_TAGS if within.in_tags else _WRITTEN, (row[-1],))
        words = dict.fromkeys(_WORD.findall(text[0])) if text else ()
        return next((word.lower() for word in words if stem(fold(word)) == term), None)


def _is_near(word: str, wanted: str) -> bool:
    """Tell whether a whole word is near: its stem may be nearer than itself."""
    reach = reach_of(wanted)
    return 0 < distance(word, wanted, at_most=reach) <= reach


_WRITTEN = "SELECT coalesce(title, '') || char(10) || text FROM notes WHERE pk = ?"
_WRITTEN_AND_TAGS = """
SELECT coalesce(title, '') || char(10) || text || char(10) || tags FROM notes WHERE pk = ?
"""
