"""``FtsMaintenance``: keeps the search index in step where triggers would be too slow.

Triggers keep ``notes_fts`` for every plain write, and remove the terms of old text from the index
for good (FTS5 ``secure-delete``). For many rows at once both cost too much: the index would write
a segment per row, and search every term of every old text in lists as long as the collection.
Many rows are therefore indexed with one statement, and what they leave behind is merged away in
slices by ``tidy``. Everything here happens inside the caller's transaction, except ``tidy``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

from mcp_notarium.storage.connection import Database
from mcp_notarium.storage.note_changes import BULK_SIZE

MOST_BY_TRIGGERS = 8
"""Up to so many replaced rows the triggers do it, each taking some milliseconds."""

_BULK_AUTOMERGE = 16
"""Of a load: the index is merged two thirds less often, which is a sixth of the work of a first one, and
searched as fast. What is left is merged when nothing else is to be done."""
_DEFAULT_AUTOMERGE = 4  # what FTS5 begins with: every write merges a little
_BULK_HASHSIZE = 16 << 20
"""Bytes of words that a load collects before they are written as one part of the index."""
_DEFAULT_HASHSIZE = 1 << 20  # what FTS5 begins with
_SLICE_PAGES = 200
_MOST_RECORDED = 100


class _MergeDue(IntEnum):
    """Whether a merge of the whole index is due."""

    NOTHING = 0
    START = 1
    CONTINUE = 2


class FtsMaintenance:
    """The search index of one cache, seen from those who write notes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @contextmanager
    def index_at_once(
        self, *, replaced: Sequence[int] = (), written: Sequence[int]
    ) -> Iterator[None]:
        """Triggers rest while it is entered; it does their work for these rows (pk) at once.

        ``replaced`` are about to be rewritten or deleted, ``written`` are there at the end.
        """
        self._db.run("UPDATE search_index SET deferred = 1")
        if replaced:
            self._configure("secure-delete", 0)
            self._db.run(_REMOVE_TERMS, (json.dumps(replaced),))
        yield
        if len(written) > BULK_SIZE:
            self._configure("automerge", _BULK_AUTOMERGE)
            self._configure("hashsize", _BULK_HASHSIZE)
        if written:
            self._db.run(_ADD_TERMS, (json.dumps(written),))
            self._record_changes(written)
        self._db.run("INSERT INTO notes_fts(notes_fts) VALUES ('flush')")
        self._db.run("UPDATE search_index SET deferred = 0")
        if len(written) > BULK_SIZE:
            self._configure("automerge", _DEFAULT_AUTOMERGE)
            self._configure("hashsize", _DEFAULT_HASHSIZE)
            self._set_merge_due(
                _MergeDue.START
            )  # else it is a save that merges them all, and waits for seconds
        if replaced:
            self._configure("secure-delete", 1)
            self._set_merge_due(_MergeDue.START)

    def empty(self) -> None:
        """Drop every term, together with what deleted notes left behind."""
        self._db.run("INSERT INTO notes_fts(notes_fts) VALUES ('delete-all')")
        self._set_merge_due(_MergeDue.NOTHING)

    def changes(self) -> int:
        """A number that grows whenever words come into the index."""
        return self._db.number("SELECT changes FROM search_index")

    def changed_since(self, change: int) -> list[int] | None:
        """The notes (pk) whose words came in after ``change``; None if too many to tell."""
        pks = [row[0] for row in self._db.rows(_CHANGED_SINCE, (change,))]
        return pks if len(pks) == self.changes() - change else None

    def mark_vocabulary_stale(self) -> None:
        """Whoever keeps a copy of the vocabulary reads it again: words in it may not be known of."""
        self._db.run("UPDATE search_index SET changes = changes + 1000")

    def _record_changes(self, written: Sequence[int]) -> None:
        self._db.run("UPDATE search_index SET changes = changes + ?", (len(written),))
        if len(written) <= _MOST_RECORDED:
            self._db.run(_RECORD_CHANGES, (json.dumps(written),))

    def tidy(self) -> bool:
        """Merge a slice of the index in a transaction of its own; True while more is to be done.

        Costs nothing when nothing is due. At the end no term of replaced or removed text is left.
        """
        owed = _MergeDue(self._db.number("SELECT owed FROM search_index"))
        if owed is _MergeDue.NOTHING:
            return False
        with self._db.transaction():
            worked = self._merge(-_SLICE_PAGES if owed is _MergeDue.START else _SLICE_PAGES)
            self._set_merge_due(_MergeDue.CONTINUE if worked else _MergeDue.NOTHING)
        if not worked:
            self._db.shrink()  # every page of the index has been read
        return worked

    def _merge(self, pages: int) -> bool:
        before = self._db.number("SELECT total_changes()")
        self._db.run("INSERT INTO notes_fts(notes_fts, rank) VALUES ('merge', ?)", (pages,))
        # The command itself counts as one change.
        return self._db.number("SELECT total_changes()") - before > 1

    def _set_merge_due(self, due: _MergeDue) -> None:
        self._db.run("UPDATE search_index SET owed = ?", (int(due),))

    def _configure(self, name: str, value: int) -> None:
        self._db.run("INSERT INTO notes_fts(notes_fts, rank) VALUES (?, ?)", (name, value))


_REMOVE_TERMS = """
INSERT INTO notes_fts(notes_fts, rowid, text, tags, supplement)
SELECT 'delete', n.pk, n.text, n.tags, n.supplement
FROM json_each(?) AS wanted CROSS JOIN notes n ON n.pk = wanted.value
"""
_RECORD_CHANGES = """
INSERT INTO index_changes(change, pk)
SELECT i.changes - written.key, written.value FROM json_each(?) AS written, search_index AS i
ORDER BY written.key DESC
"""
_CHANGED_SINCE = "SELECT pk FROM index_changes WHERE change > ?"
_ADD_TERMS = """
INSERT INTO notes_fts(rowid, text, tags, supplement)
SELECT n.pk, n.text, n.tags, n.supplement
FROM json_each(?) AS wanted CROSS JOIN notes n ON n.pk = wanted.value
"""
