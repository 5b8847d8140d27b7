"""Keep the terms of the full-text index in memory, for looking inside words and for suggestions.

It is used only when a search has found nothing. Reading all terms means reading the whole index, so
they are kept (about a megabyte for 50,000 notes), and the words of a few changed notes are added.
After many changes all terms are read again. Terms are folded and stemmed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from mcp_notarium.search.folding import words_only
from mcp_notarium.search.stemming import stem
from mcp_notarium.storage.connection import Database
from mcp_notarium.storage.fts_maintenance import FtsMaintenance

_GRAM_LENGTHS = (7, 14)
_LONGEST_TERM = 64
_SHORT_WORD = 5


class Vocabulary:
    """Hold the terms of one full-text index."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._index = FtsMaintenance(database)
        self._terms = "\n"
        self._changes: int | None = None

    def containing(self, part: str, *, limit: int) -> list[str]:
        """Return up to ``limit`` terms that contain ``part``, in alphabetical order."""
        return sorted({term for term, _ in self._around(part)})[:limit]

    def near(self, word: str, *, limit: int) -> list[str]:
        """Return up to ``limit`` terms spelled almost like ``word``, the nearest first; not itself."""
        reach = 1 if len(word) < _SHORT_WORD else 2
        apart = {
            term: distance(word, term, at_most=reach) for term in self._sharing_a_part(word, reach)
        }
        found = sorted(
            (mistakes, term[0] != word[0], term)
            for term, mistakes in apart.items()
            if 0 < mistakes <= reach
        )
        # A term that is gone must not displace one that exists.
        return list(islice((term for *_, term in found if self._is_there(term)), limit))

    def _is_there(self, term: str) -> bool:
        return self._db.row("SELECT 1 FROM temp.index_terms WHERE term = ?", (term,)) is not None

    def _sharing_a_part(self, word: str, reach: int) -> set[str]:
        """Return terms that may be near: of ``reach + 1`` parts, ``reach`` mistakes leave one intact."""
        size = -(-len(word) // (reach + 1))
        return {
            term
            for start in range(0, len(word), size)
            for term, at in self._around(word[start : start + size])
            if abs(at - start) <= reach and abs(len(term) - len(word)) <= reach
        }

    def _around(self, part: str) -> Iterator[tuple[str, int]]:
        """Yield every occurrence of ``part``: the term and the position in it."""
        terms = self._current()
        at = terms.find(part)
        while at >= 0:
            start, end = terms.rfind("\n", 0, at) + 1, terms.find("\n", at)
            yield terms[start:end], at - start
            at = terms.find(part, at + 1)

    def _current(self) -> str:
        """Return all terms, one a line. Terms of removed text may stay: they find nothing."""
        changes = self._index.changes()
        if changes != self._changes:
            fresh = None if self._changes is None else self._index.changed_since(self._changes)
            if fresh is None:
                self._terms = "\n" + "".join(f"{term}\n" for term in self._read())
            else:
                known = set(self._terms.split("\n"))
                self._terms += "".join(f"{term}\n" for term in self._terms_of(fresh) - known)
            self._changes = changes
        return self._terms

    def _read(self) -> Iterator[str]:
        self._db.run(_VIEW)
        for (term,) in self._db.rows("SELECT term FROM temp.index_terms"):
            is_gram = len(term) in _GRAM_LENGTHS and term[0] == "0" and term.isdigit()
            if not is_gram and len(term) <= _LONGEST_TERM:
                yield term

    def _terms_of(self, pks: list[int]) -> set[str]:
        """Return the index terms of the words of these notes."""
        texts = self._db.rows(_TEXTS, (json.dumps(pks),))
        words = {word for (text,) in texts for word in words_only(text).split()}
        return {term for term in map(stem, words) if 0 < len(term) <= _LONGEST_TERM}


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


_TEXTS = "SELECT n.text FROM json_each(?) AS wanted JOIN notes n ON n.pk = wanted.value"
_VIEW = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.index_terms USING fts5vocab('main', 'notes_fts', 'row')
"""
