"""Keep the full-text index in step with the notes, and its terms in memory.

The writer of the notes tells which rows change; the index reads their columns itself. What FTS5 removes it
only marks as deleted; ``tidy`` merges it away in slices. Its ``secure-delete`` would overwrite it at once, but then
an older entry of the same row counts again, where a merge of newer ones has left it apart. Everything here
happens inside the caller's transaction, except ``tidy``.

The terms are used only when a search has found little, for looking inside words and for suggestions.
Reading them means reading the whole index (a second at 50,000 notes), so a thread does that, they are kept (about a
megabyte), and the words of a few changed notes are added. Terms are folded and stemmed.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from itertools import islice

from mcp_notarium.search.folding import GRAM, words_only
from mcp_notarium.search.stemming import stem
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.note_rows import BULK_SIZE

_MOST_UNMERGED = 16
"""Notes that are indexed before their words are merged at rest. Each write adds a segment that searches look into."""
_SLICE_PAGES = 200
_QUICKLY_READ = 2000
"""Notes whose terms are read in a few hundredths of a second."""
_PATIENCE = 30.0
"""Seconds for which more terms are not read while a load goes on or waits to be merged: else every search
meanwhile would wait until the whole index is read."""
_MOST_RECORDED = 100
_LONGEST_TERM = 64
_MOST_OCCURRENCES = 3000
"""Places at which a part of a misspelt word is looked for: 3 ms. A part that is so common says little."""
_MOST_COMPARED = 250
"""Terms that are compared with a misspelt word letter by letter: 6 ms."""
_REACHES = ((8, 2), (4, 1))


class _MergeState(IntEnum):
    """Name what is to be merged at rest."""

    NOTHING = 0
    WHOLE = 1
    PART = 2


class FtsIndex:
    """Maintain the full-text index of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @contextmanager
    def update(self, *, replaced: Sequence[int], written: Sequence[int]) -> Iterator[None]:
        """Index the rows (pk) that the ``with`` block changes.

        ``replaced`` rows are about to be rewritten or deleted, ``written`` rows exist at the end.
        """
        if replaced:
            self._db.run(_REMOVE_TERMS, (json.dumps(replaced),))
        yield
        if written:
            self._db.run(_ADD_TERMS, (json.dumps(written),))
            self._record_changes(written)
        self._db.run("INSERT INTO notes_fts(notes_fts) VALUES ('flush')")
        if len(written) > BULK_SIZE or set(replaced).difference(written):
            self._set_merge_state(_MergeState.WHOLE)
        elif replaced:
            self._db.run("UPDATE search_index SET left_behind = 1 WHERE NOT left_behind")
        if written:
            self._db.run(_OWE_MERGE, (_MOST_UNMERGED, len(written)))

    def empty(self) -> None:
        """Remove every term, those of deleted notes included."""
        self._db.run("INSERT INTO notes_fts(notes_fts) VALUES ('delete-all')")
        self._db.run("UPDATE search_index SET owed = 0, left_behind = 0")

    def rebuild(self) -> None:
        """Index every note from nothing."""
        self._db.run("INSERT INTO notes_fts(notes_fts) VALUES ('rebuild')")
        self._set_merge_state(_MergeState.PART)
        self.mark_terms_stale()

    def changes(self) -> int:
        """Return a number that grows whenever words come into the index."""
        return self._db.number("SELECT changes FROM search_index")

    def changed_since(self, change: int) -> list[int] | None:
        """Return the notes (pk) indexed after ``change``; None if there were too many to record."""
        pks = [row[0] for row in self._db.rows(_CHANGED_SINCE, (change,))]
        return pks if len(pks) == self.changes() - change else None

    def mark_terms_stale(self) -> None:
        """Make every copy of the terms be read again: words may have gone."""
        self._db.run("UPDATE search_index SET changes = changes + 1000")

    def _record_changes(self, written: Sequence[int]) -> None:
        self._db.run("UPDATE search_index SET changes = changes + ?", (len(written),))
        if len(written) <= _MOST_RECORDED:
            self._db.run(_RECORD_CHANGES, (json.dumps(written),))
            self._db.run(_FORGET_CHANGES)

    @property
    def tidy_due(self) -> bool:
        """Tell whether :meth:`tidy` has something to do."""
        return self._merge_state is not _MergeState.NOTHING

    @property
    def _merge_state(self) -> _MergeState:
        return _MergeState(self._db.number(_OWED))

    def tidy(self) -> bool:
        """Merge a slice of the index in its own transaction; True while more is due.

        At the end of a merge of the whole index it is one piece, with what was written between the slices.
        """
        if not self.tidy_due:
            return False
        with self._db.transaction():
            state = self._merge_state  # another process may just have asked for the whole
            if state is _MergeState.WHOLE:
                self._db.run("UPDATE search_index SET left_behind = 0, merged_at = unixepoch()")
            # A merge that has begun goes on. If it began with the whole again, notes that are saved between the
            # slices would keep it at its beginning.
            worked = self._merge(_SLICE_PAGES)
            if not worked and state is _MergeState.WHOLE:
                worked = self._merge(-_SLICE_PAGES) or self._prepare_last_merge()
            self._set_merge_state(state if worked else _MergeState.NOTHING)
        if not worked:
            self._db.shrink()  # every page of the index has been read
        return worked

    def _prepare_last_merge(self) -> bool:
        """Add two small parts if FTS5 keeps marks: then it merges all to a new last level, and drops them."""
        if not self._db.number(_KEEPS_MARKS):
            return False
        if self._db.number(_PAGES) > 1:
            self._db.run("INSERT INTO notes_fts(rowid, text) VALUES (0, 'x')")
            self._db.run("INSERT INTO notes_fts(notes_fts, rowid, text) VALUES ('delete', 0, 'x')")
        else:
            self.rebuild()  # no part is smaller than a page
        return True

    def _merge(self, pages: int) -> bool:
        before = self._db.number("SELECT total_changes()")
        self._db.run("INSERT INTO notes_fts(notes_fts, rank) VALUES ('merge', ?)", (pages,))
        # The command itself counts as one change.
        return self._db.number("SELECT total_changes()") - before > 1

    def _set_merge_state(self, state: _MergeState) -> None:
        self._db.run("UPDATE search_index SET owed = ?", (int(state),))


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
        words = {word for (text,) in texts for word in words_only(text).split()}
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


_OWED = """
SELECT CASE WHEN owed = 0 AND left_behind AND abs(unixepoch() - merged_at) >= 86400 THEN 1 ELSE owed END
FROM search_index
"""
_PAGES = "SELECT count(*) FROM (SELECT 1 FROM notes_fts_data WHERE id > 10 LIMIT 2)"
_KEEPS_MARKS = """
SELECT substr(block, -2) = x'0000' AND EXISTS (SELECT 1 FROM notes_fts_data WHERE id > 10)
FROM notes_fts_data WHERE id = 10
"""
"""Whether the one part is on a lower level, where FTS5 keeps what is marked as deleted.

The list of parts ends with the last level: how many of its parts are being merged, and how many it has. Two zeros: none.
"""
_OWE_MERGE = "UPDATE search_index SET owed = 2 WHERE owed = 0 AND changes % ? < ?"
_REMOVE_TERMS = """
INSERT INTO notes_fts(notes_fts, rowid, text, heading, tag_words, supplement)
SELECT 'delete', n.pk, n.text, n.heading, n.tag_words, n.supplement
FROM json_each(?) AS wanted CROSS JOIN notes n ON n.pk = wanted.value
"""
_ADD_TERMS = """
INSERT INTO notes_fts(rowid, text, heading, tag_words, supplement)
SELECT n.pk, n.text, n.heading, n.tag_words, n.supplement
FROM json_each(?) AS wanted CROSS JOIN notes n ON n.pk = wanted.value
"""
_RECORD_CHANGES = """
INSERT INTO index_changes(change, pk)
SELECT i.changes - written.key, written.value FROM json_each(?) AS written, search_index AS i
ORDER BY written.key DESC
"""
_FORGET_CHANGES = (
    "DELETE FROM index_changes WHERE change <= (SELECT changes - 256 FROM search_index)"
)
_CHANGED_SINCE = "SELECT pk FROM index_changes WHERE change > ?"
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
