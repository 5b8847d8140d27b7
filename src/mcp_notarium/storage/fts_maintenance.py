"""Keep the full-text index in step with the notes where triggers would be too slow.

Triggers keep ``notes_fts`` for every plain write, and remove the terms of old text from the index
for good (FTS5 ``secure-delete``). For many rows at once both cost too much: the index would write
a segment per row, and search every term of every old text in lists as long as the collection.
Many rows are therefore indexed with one statement, and the segments they leave are merged in
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
"""Up to this many replaced rows are indexed by triggers, some milliseconds each."""

_BULK_AUTOMERGE = 16
"""FTS5 ``automerge`` during a load: two thirds fewer merges, which saves a sixth of the work of a first
load; searching is as fast. The rest is merged when the server is idle."""
_DEFAULT_AUTOMERGE = 4  # the default of FTS5: every write merges a little
_BULK_HASHSIZE = 16 << 20
"""Bytes of words that a load collects before they are written as one segment."""
_DEFAULT_HASHSIZE = 1 << 20  # the default of FTS5
_SLICE_PAGES = 200
_MOST_RECORDED = 100


class _MergeDue(IntEnum):
    """Say whether a merge of the whole index is due."""

    NOTHING = 0
    START = 1
    CONTINUE = 2


class FtsMaintenance:
    """Maintain the full-text index of one database for those who write notes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @contextmanager
    def index_at_once(
        self, *, replaced: Sequence[int] = (), written: Sequence[int]
    ) -> Iterator[None]:
        """Switch triggers off inside the ``with`` block; index these rows (pk) at once.

        ``replaced`` rows are about to be rewritten or deleted, ``written`` rows exist at the end.
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
            self._set_merge_due(_MergeDue.START)  # else some save merges them all, for seconds
        if replaced:
            self._configure("secure-delete", 1)
            self._set_merge_due(_MergeDue.START)

    def empty(self) -> None:
        """Remove every term, those of deleted notes included."""
        self._db.run("INSERT INTO notes_fts(notes_fts) VALUES ('delete-all')")
        self._set_merge_due(_MergeDue.NOTHING)

    def changes(self) -> int:
        """Return a number that grows whenever words come into the index."""
        return self._db.number("SELECT changes FROM search_index")

    def changed_since(self, change: int) -> list[int] | None:
        """Return the notes (pk) indexed after ``change``; None if there were too many to record."""
        pks = [row[0] for row in self._db.rows(_CHANGED_SINCE, (change,))]
        return pks if len(pks) == self.changes() - change else None

    def mark_vocabulary_stale(self) -> None:
        """Make every copy of the vocabulary be read again: words may have gone."""
        self._db.run("UPDATE search_index SET changes = changes + 1000")

    def _record_changes(self, written: Sequence[int]) -> None:
        self._db.run("UPDATE search_index SET changes = changes + ?", (len(written),))
        if len(written) <= _MOST_RECORDED:
            self._db.run(_RECORD_CHANGES, (json.dumps(written),))

    def tidy(self) -> bool:
        """Merge a slice of the index in its own transaction; True while more is due.

        It costs nothing if nothing is due. At the end no term of replaced or removed text is left.
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
