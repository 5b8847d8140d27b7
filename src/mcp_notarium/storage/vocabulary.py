"""Keep the terms of a full-text index in memory, for looking inside words and for words that are misspelt.

They are used only when a search has found little. Reading them means reading the whole index (a second at 50,000
notes), so a thread does that, they are kept (about a megabyte), and the words of a few changed notes are
added. Terms are folded and stemmed. With each stands how many notes have it, to a power of two.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from mcp_notarium.search.folding import words_only
from mcp_notarium.search.misspelling import Part, distance, parts_of
from mcp_notarium.search.stemming import stem
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.fts_index import FtsIndex

_QUICKLY_READ = 2000
"""Notes whose terms are read in a few hundredths of a second."""
_PATIENCE = 30.0
"""Seconds for which more terms are not read while a load goes on or waits to be merged: else every search
meanwhile would wait until the whole index is read."""
_LONGEST_WAIT = 2.0
"""Seconds for which a search waits until terms are read."""
_LONGEST_TERM = 64
_MOST_OCCURRENCES = 3000
"""Places at which a part of a misspelt word is looked for: 2 ms. A part that is so common says little."""
_MOST_COMPARED = 250
"""Terms that are compared with a misspelt word letter by letter: 1 ms."""
_ONCE = 11
"""The character that says that one note has a term; the next ones: 2, 4, 8, ... notes or more."""


@dataclass(frozen=True, slots=True)
class NearTerm:
    """Hold a term spelled almost like a word. ``notes``: about how many have it, perhaps before some have gone."""

    term: str
    mistakes: int
    notes: int


class Vocabulary:
    """Hold the terms of one full-text index in memory: each is a line, and the next line says how common it is."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._index = FtsIndex(database)
        self._terms = "\n"
        self._added: set[str] = set()
        self._changes: int | None = None
        self._put_off_until: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def refresh(self) -> bool:
        """Bring the terms up to date; False if those of new text are missing, because many are to be read.

        Terms of removed text may stay: they find nothing.
        """
        if self._catch_up():
            return True
        if self._reading is None or self._reading.done():
            if not self._may_read():
                return False
            self._reading = asyncio.create_task(self._read(), name="vocabulary")
            self._reading.add_done_callback(_retrieve)
        reading = self._reading
        await asyncio.wait({reading}, timeout=_LONGEST_WAIT)
        if not reading.done():
            return False
        reading.result()
        self._catch_up()
        return True

    def containing(self, part: str, *, limit: int) -> list[str]:
        """Return up to ``limit`` terms that contain ``part``: in alphabetical order, then those that came since."""
        found: dict[str, None] = {}
        for _, start, end in self._find_occurrences(part):
            found[self._terms[start:end]] = None
            if len(found) == limit:
                break
        return list(found)

    def near(self, word: str, *, reach: int) -> list[NearTerm]:
        """Return terms that ``reach`` mistakes or fewer make of ``word``; not itself. Some may have gone."""
        found: dict[str, NearTerm] = {}
        compared: dict[str, int] = {}
        for term, notes in self._find_candidates(word, reach):
            if term not in compared:
                if len(compared) == _MOST_COMPARED:
                    break
                compared[term] = distance(word, term, at_most=reach)
            if 0 < compared[term] <= reach:
                known = found.get(term)
                if known is None or known.notes < notes:
                    found[term] = NearTerm(term, compared[term], notes)
        return list(found.values())

    async def _read(self) -> None:
        self._changes, self._terms = await self._db.run_aside(_read_terms)
        self._added.clear()

    def _find_candidates(self, word: str, reach: int) -> Iterator[tuple[str, int]]:
        """Yield terms that may be near, and about how many notes have them; those with the rarest part first."""
        terms = self._terms
        shortest, longest = len(word) - reach, len(word) + reach
        lines = {_line(part): part for part in parts_of(word, reach)}
        for line in sorted(lines, key=terms.count):
            part = lines[line]
            for at, start, end in islice(self._find_occurrences(line), _MOST_OCCURRENCES):
                if shortest <= end - start <= longest and (
                    part.first or part.last or abs(at - start - part.start) <= reach
                ):
                    yield terms[start:end], 1 << (ord(terms[end + 1]) - _ONCE)

    def _find_occurrences(self, part: str) -> Iterator[tuple[int, int, int]]:
        """Yield each place where ``part`` stands (a line end in it counts), and where the term begins and ends."""
        terms = self._terms
        at = terms.find(part)
        while at >= 0:
            start = terms.rfind("\n", 0, at + 1) + 1
            end = terms.find("\n", at + 1)
            yield at, start, end
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
        self._terms += "".join(f"{term}\n{chr(_ONCE)}\n" for term in added)
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
        words = {word for (text,) in texts for word in words_only(text).split()}
        return {term for term in map(stem, words) if 0 < len(term) <= _LONGEST_TERM}


def _line(part: Part) -> str:
    """Return what is looked for among the lines."""
    begin, end = "\n" * part.first, "\n" * part.last
    return f"{begin}{part.letters}{end}"


def _retrieve(reading: asyncio.Task[None]) -> None:
    if not reading.cancelled():
        reading.exception()  # whoever waited got it


def _read_terms(database: Database) -> tuple[int, str]:
    """Return the number of changes and the lines of all terms. SQLite joins them: meanwhile Python is free."""
    changes = FtsIndex(database).changes()
    database.run(_VIEW)
    row = database.row(_ALL_TERMS, {"longest": _LONGEST_TERM, "once": _ONCE})
    return changes, f"\n{row[0]}\n" if row and row[0] else "\n"


_TEXTS = """
SELECT coalesce(n.title, '') || char(10) || n.text || char(10) || n.tags
FROM json_each(?) AS wanted JOIN notes n ON n.pk = wanted.value
"""
_VIEW = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.index_terms USING fts5vocab('main', 'notes_fts', 'row')
"""
_ALL_TERMS = """
SELECT group_concat(
  term || char(10, :once + (doc >= 2) + (doc >= 4) + (doc >= 8) + (doc >= 16) + (doc >= 32) + (doc >= 64)
  + (doc >= 128) + (doc >= 256) + (doc >= 512) + (doc >= 1024) + (doc >= 2048) + (doc >= 4096) + (doc >= 8192)
  + (doc >= 16384) + (doc >= 32768)), char(10))
FROM (
  SELECT term, doc FROM temp.index_terms
  WHERE length(term) <= :longest
  AND NOT (length(term) IN (7, 14) AND term GLOB '0*' AND term NOT GLOB '*[^0-9]*')
)
"""
"""The terms but for pairs of characters, which are written as digits."""
