"""Keep the terms of a full-text index in memory, for looking inside words and for words that are misspelt.

They are used only when a search has found little. Reading them means reading the whole index (a second at 50,000
notes), so a thread does that, they are kept (about a megabyte), and the words of a few changed notes are
added. Terms are folded and stemmed.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from itertools import islice

from mcp_notarium.search.folding import GRAM, words_only
from mcp_notarium.search.identifiers import spaced
from mcp_notarium.search.stemming import stem
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.fts_index import FtsIndex

_QUICKLY_READ = 2000
"""Notes whose terms are read in a few hundredths of a second."""
_PATIENCE = 30.0
"""Seconds for which more terms are not read while a load goes on or waits to be merged: else every search
meanwhile would wait until the whole index is read."""
_LONGEST_TERM = 64
_MOST_OCCURRENCES = 3000
"""Places at which a part of a misspelt word is looked for: 3 ms. A part that is so common says little."""
_MOST_COMPARED = 250
"""Terms that are compared with a misspelt word letter by letter: 6 ms."""
_REACHES = ((8, 2), (4, 1))


class Vocabulary:
    """Hold the terms of one full-text index in memory."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._index = FtsIndex(database)
        self._terms = "\n"
        self._added: set[str] = set()
        self._changes: int | None = None
        self._put_off_until: float | None = None
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Bring the terms up to date. Terms of removed text may stay: they find nothing.

        Those of new text are missing while many notes are being loaded.
        """
        async with self._reading:
            if not self._catch_up() and self._may_read():
                self._changes, self._terms = await self._db.run_aside(_read_terms)
                self._added.clear()

    def containing(self, part: str, *, limit: int) -> list[str]:
        """Return up to ``limit`` terms that contain ``part``: in alphabetical order, then those that came since."""
        found: dict[str, None] = {}
        for term, _ in self._find_occurrences(part):
            found[term] = None
            if len(found) == limit:
                break
        return list(found)

    def near(self, word: str) -> list[str]:
        """Return terms spelled almost like ``word``, the nearest first; not itself. Some may have gone."""
        reach = reach_of(word)
        candidates = islice(self._find_candidates(word, reach), _MOST_COMPARED)
        apart = {term: distance(word, term, at_most=reach) for term in candidates}
        found = sorted(
            (mistakes, term[0] != word[0], term)
            for term, mistakes in apart.items()
            if 0 < mistakes <= reach
        )
        return [term for *_, term in found]

    def _find_candidates(self, word: str, reach: int) -> Iterator[str]:
        """Yield terms that may be near: of ``reach + 1`` parts, ``reach`` mistakes leave one intact.

        Those with the rarest part come first.
        """
        size = -(-len(word) // (reach + 1))
        parts = [(word[start : start + size], start) for start in range(0, len(word), size)]
        for part, start in sorted(parts, key=lambda one: self._terms.count(one[0])):
            for term, at in islice(self._find_occurrences(part), _MOST_OCCURRENCES):
                if abs(at - start) <= reach and abs(len(term) - len(word)) <= reach:
                    yield term

    def _find_occurrences(self, part: str) -> Iterator[tuple[str, int]]:
        """Yield every occurrence of ``part``: the term and the position in it."""
        terms = self._terms
        at = terms.find(part)
        while at >= 0:
            start, end = terms.rfind("\n", 0, at) + 1, terms.find("\n", at)
            yield terms[start:end], at - start
            at = terms.find(part, at + 1)

    def _catch_up(self) -> bool:
        """Add the words of a few changed notes; False if the terms must be read."""
        changes = self._index.changes()
        if changes == self._changes:
            return True
        fresh = None if self._changes is None else self._index.changed_since(self._changes)
        if fresh is None:
            return False
        added = self._terms_of(fresh) - self._added
        self._terms += "".join(f"{term}\n" for term in added)
        self._added |= added
        self._changes = changes
        return True

    def _may_read(self) -> bool:
        few = self._db.number("SELECT active + trashed FROM note_counts") <= _QUICKLY_READ
        now = time.monotonic()
        if few or not self._index.tidy_due or now >= (self._put_off_until or math.inf):
            self._put_off_until = None
            return True
        self._put_off_until = self._put_off_until or now + _PATIENCE
        return False

    def _terms_of(self, pks: list[int]) -> set[str]:
        """Return the index terms of the words of these notes."""
        texts = self._db.rows(_TEXTS, (json.dumps(pks),))
        both = (said for (text,) in texts for said in (text, spaced(text)))
        words = {word for said in both for word in words_only(said).split()}
        return {term for term in map(stem, words) if 0 < len(term) <= _LONGEST_TERM}


def _read_terms(database: Database) -> tuple[int, str]:
    """Return the number of changes and all terms, one a line. SQLite joins them: meanwhile Python is free."""
    changes = FtsIndex(database).changes()
    database.run(_VIEW)
    row = database.row(_ALL_TERMS, {"longest": _LONGEST_TERM, "gram": GRAM})
    return changes, f"\n{row[0]}\n" if row and row[0] else "\n"


def reach_of(word: str) -> int:
    """Return how many mistakes make a word like this one: one in four letters, two in eight."""
    return next((reach for length, reach in _REACHES if len(word) >= length), 0)


def distance(one: str, other: str, *, at_most: int) -> int:
    """Count letters that differ, are missing, extra or swapped; ``at_most + 1`` if more."""
    if abs(len(one) - len(other)) > at_most:
        return at_most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        after = [i]
        for j, facing in enumerate(other, 1):
            cost = min(row[j] + 1, after[j - 1] + 1, row[j - 1] + (letter != facing))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == facing:
                cost = min(cost, before[j - 2] + 1)
            after.append(cost)
        if min(after) > at_most:
            return at_most + 1
        before, row = row, after
    return min(row[-1], at_most + 1)


_TEXTS = """
SELECT coalesce(n.title, '') || char(10) || n.text || char(10) || n.tags
FROM json_each(?) AS wanted JOIN notes n ON n.pk = wanted.value
"""
_VIEW = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.index_terms USING fts5vocab('main', 'notes_fts', 'row')
"""
_ALL_TERMS = """
SELECT group_concat(term, char(10)) FROM (
  SELECT term FROM temp.index_terms
  WHERE length(term) <= :longest AND substr(term, 1, 1) <> :gram
)
"""
"""The terms but for pairs of characters."""
