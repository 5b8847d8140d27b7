"""Keep the terms of a full-text index in memory, for looking inside words and for words that are misspelt.

They are used only when a search has found little. Reading them means reading the whole index (a second at 50,000
notes), so a thread does that, they are kept (about a megabyte), and the words of a few changed notes are
added. Terms are folded and stemmed. With each stands how many notes have it, to a power of two.

A mistake in a word is a letter that is wrong, missing or too many, or two neighbours that are swapped.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter

from mcp_notarium.search.folding import GRAM, spaced, words_only
from mcp_notarium.search.stemming import stem
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.fts_index import FtsIndex

_QUICKLY_READ = 2000
"""Notes whose terms are read in a few hundredths of a second."""
_PATIENCE = 30.0
"""Seconds after which more terms are read again while a load goes on or waits to be merged: else the whole index
would be read at every search meanwhile."""
_LONGEST_WAIT = 2.0
"""Seconds for which a search waits until terms are read."""
_LONGEST_TERM = 64
_MOST_OCCURRENCES = 3000
"""Places at which a part of a misspelt word is looked for: 2 ms. A part that is so common says little."""
_MOST_COMPARED = 250
"""Terms that are compared with a misspelt word letter by letter: 1 ms."""
_ONCE = 11
"""The byte that says that one note has a term; the next ones: 2, 4, 8, ... notes or more."""


_REACHES = ((8, 2), (4, 1))


@dataclass(frozen=True, slots=True)
class NearTerm:
    """Hold a term spelled almost like a word."""

    term: str
    mistakes: int
    notes: int
    """About how many have it, perhaps before some have gone."""


class Vocabulary:
    """Hold the terms of one full-text index in memory: a line each, which begins with how common it is.

    The first lines are in the order of their terms; those of changed notes follow.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._index = FtsIndex(database)
        self._lines = b"\n"
        self._in_order = 1
        self._added: set[str] = set()
        self._changes: int | None = None
        self._read_at = -math.inf
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

    async def finish(self, seconds: float) -> None:
        """Wait until nothing is being read, ``seconds`` at most: it has a connection of its own."""
        if self._reading is not None and not self._reading.done():
            await asyncio.wait({self._reading}, timeout=seconds)

    def containing(self, part: str, *, limit: int) -> list[str]:
        """Return up to ``limit`` terms that contain ``part``: in alphabetical order, then those that came since."""
        found: dict[str, None] = {}
        for _, term in self._find(part.encode()):
            found[term.decode(errors="replace")] = None
            if len(found) == limit:
                break
        return list(found)

    def has(self, term: str) -> bool:
        """Tell whether the index has a term, or had it when the terms were read."""
        first = next(self._find_first(term.encode()), (0, b""))
        return first[1] == term.encode() or term in self._added

    def near(self, word: str, *, reach: int) -> list[NearTerm]:
        """Return terms that ``reach`` mistakes or fewer make of ``word``; not itself. Some may have gone."""
        candidates = self._find_candidates(word, reach)
        compared = dict(islice(candidates.items(), _MOST_COMPARED))
        apart = ((term, distance(word, term, at_most=reach)) for term in compared)
        return [
            NearTerm(term, mistakes, 1 << compared[term] - _ONCE)
            for term, mistakes in apart
            if 0 < mistakes <= reach
        ]

    async def _read(self) -> None:
        self._read_at = time.monotonic()
        self._changes, self._lines = await self._db.run_aside(_read_terms)
        self._in_order = len(self._lines)
        self._added.clear()

    def _find_candidates(self, word: str, reach: int) -> dict[str, int]:
        """Return terms that may be near, and how common they are.

        Those with the part that the fewest terms have come first, and of these the common ones.
        """
        found: dict[str, int] = {}
        for terms in sorted(
            (self._with(part, word, reach) for part in parts_of(word, reach)), key=len
        ):
            for term, common in sorted(terms.items(), key=itemgetter(1), reverse=True):
                found.setdefault(term, common)
        return found

    def _with(self, part: Part, word: str, reach: int) -> dict[str, int]:
        letters = part.letters.encode()
        rest = self._find(letters + b"\n" * part.last, after=self._in_order if part.first else 0)
        lines = chain(self._find_first(letters), rest) if part.first else rest
        lengths = range(len(word) - reach, len(word) + reach + 1)
        found: dict[str, int] = {}
        for common, line in islice(lines, _MOST_OCCURRENCES):
            term = line.decode(errors="replace")
            if len(term) in lengths and found.get(term, 0) < common:
                found[term] = common
        return found

    def _find_first(self, letters: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the lines in order whose terms begin with ``letters``."""
        lines = self._lines
        low, high = 1, self._in_order
        while low < high:
            start = lines.rfind(b"\n", 0, (low + high) // 2) + 1
            end = lines.find(b"\n", start)
            if lines[start + 1 : end] < letters:
                low = end + 1
            else:
                high = start
        while low < self._in_order and lines.startswith(letters, low + 1):
            end = lines.find(b"\n", low)
            yield lines[low], lines[low + 1 : end]
            low = end + 1

    def _find(self, part: bytes, *, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield how common it is, and the term, for each place where ``part`` stands; a line end in it counts."""
        lines = self._lines
        at = lines.find(part, after)
        while at >= 0:
            start = lines.rfind(b"\n", 0, at) + 1
            end = lines.find(b"\n", at)
            yield lines[start], lines[start + 1 : end]
            at = lines.find(part, at + 1)

    def _catch_up(self) -> bool:
        """Add the words of a few changed notes; False if the terms must be read."""
        changes = self._index.changes()
        if changes == self._changes:
            return True
        fresh = None if self._changes is None else self._index.changed_since(self._changes)
        if fresh is None:
            return False
        added = self._terms_of(fresh) - self._added
        self._lines += b"".join(b"%c%b\n" % (_ONCE, term.encode()) for term in added)
        self._added |= added
        self._changes = changes
        return True

    def _may_read(self) -> bool:
        few = self._db.number("SELECT active + trashed FROM note_counts") <= _QUICKLY_READ
        return few or not self._index.tidy_due or time.monotonic() > self._read_at + _PATIENCE

    def _terms_of(self, pks: list[int]) -> set[str]:
        texts = self._db.rows(_TEXTS, (json.dumps(pks),))
        both = (said for (text,) in texts for said in (text, spaced(text)))
        words = {word for said in both for word in words_only(said).split()}
        return {term for term in map(stem, words) if 0 < len(term) <= _LONGEST_TERM}


def _retrieve(reading: asyncio.Task[None]) -> None:
    if not reading.cancelled():
        reading.exception()  # the one who waited got it


def _read_terms(database: Database) -> tuple[int, bytes]:
    """Return the number of changes and the lines of all terms. SQLite joins them: meanwhile Python is free."""
    changes = FtsIndex(database).changes()
    database.run(_VIEW)
    row = database.row(_ALL_TERMS, {"longest": _LONGEST_TERM, "once": _ONCE, "gram": GRAM})
    return changes, b"\n%b\n" % row[0] if row and row[0] else b"\n"


_TEXTS = """
SELECT coalesce(n.title, '') || char(10) || n.text || char(10) || n.tags
FROM json_each(?) AS wanted JOIN notes n ON n.pk = wanted.value
"""
_VIEW = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.index_terms USING fts5vocab('main', 'notes_fts', 'row')
"""
_ALL_TERMS = """
SELECT CAST(group_concat(char(
  :once + (doc >= 2) + (doc >= 4) + (doc >= 8) + (doc >= 16) + (doc >= 32) + (doc >= 64) + (doc >= 128)
  + (doc >= 256) + (doc >= 512) + (doc >= 1024) + (doc >= 2048) + (doc >= 4096) + (doc >= 8192) + (doc >= 16384)
) || term, char(10)) AS BLOB)
FROM (
  SELECT term, doc FROM temp.index_terms
  WHERE length(term) <= :longest AND substr(term, 1, 1) <> :gram
)
"""
"""The terms but for pairs of characters."""


@dataclass(frozen=True, slots=True)
class Part:
    """Hold letters that a word near a misspelt one has; ``first`` and ``last``: they begin or end it."""

    letters: str
    first: bool = False
    last: bool = False


def reach_of(word: str) -> int:
    """Return how many mistakes make a word like this one: one in four letters, two in eight."""
    return next((reach for length, reach in _REACHES if len(word) >= length), 0)


def parts_of(word: str, reach: int) -> Iterator[Part]:
    """Yield parts of which every word with ``reach`` mistakes or fewer has one.

    Of ``reach + 1`` parts each mistake breaks one, but for two swapped letters that stand in different parts.
    """
    size = -(-len(word) // (reach + 1))
    parts = [word[start : start + size] for start in range(0, len(word), size)]
    final = len(parts) - 1
    for number, letters in enumerate(parts):
        yield Part(letters, first=number == 0, last=number == final)
    if final:
        yield Part(parts[0][:-1] + parts[1][0], first=True)
        yield Part(parts[-2][-1] + parts[-1][1:], last=True)


def distance(one: str, other: str, *, at_most: int) -> int:
    """Count the mistakes that make one word of the other; ``at_most + 1`` if more."""
    if abs(len(one) - len(other)) > at_most:
        return at_most + 1
    one, other = _without_common_ends(one, other)
    if not one or not other:
        return len(one) + len(other)
    if len(set(one).difference(other)) > at_most or len(set(other).difference(one)) > at_most:
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


def _without_common_ends(one: str, other: str) -> tuple[str, str]:
    start, most = 0, min(len(one), len(other))
    while start < most and one[start] == other[start]:
        start += 1
    end = 0
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]
