"""Keep the full-text index in step with the notes.

The writer of the notes tells which rows change; the index reads their columns itself. What FTS5 removes it
only marks as deleted; ``tidy`` merges it away in slices. Its ``secure-delete`` would overwrite it at once, but then
an older entry of the same row counts again, where a merge of newer ones has left it apart. Everything here
happens inside the caller's transaction, except ``tidy``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

from mcp_notarium.storage.database import Database
from mcp_notarium.storage.note_rows import BULK_SIZE

_MOST_UNMERGED = 16
"""Notes that are indexed before their words are merged at rest. Each write adds a segment that searches look into."""
_SLICE_PAGES = 200
_MOST_RECORDED = 100
_REMEMBERED = 192
_FORGOTTEN_TOGETHER = 64


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
        self._db.run("INSERT INTO notes_fts(notes_fts) VALUES ('flush')")
        # defence: deleted-words-leave -difference
        whole = len(written) > BULK_SIZE or bool(set(replaced).difference(written))
        self._record_changes(written, whole=whole, left=bool(replaced) and not whole)

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

    def _record_changes(self, written: Sequence[int], *, whole: bool, left: bool) -> None:
        """Count what was written, and set which merge is due: ``whole`` now, of words ``left`` behind later."""
        counted = {"written": len(written), "whole": whole, "left": left, "most": _MOST_UNMERGED}
        change = self._db.number(_COUNT_CHANGES, counted)
        if 0 < len(written) <= _MOST_RECORDED:
            self._db.run(_RECORD_CHANGES, (json.dumps(written), change))
            if change % _FORGOTTEN_TOGETHER < len(written):
                self._db.run("DELETE FROM index_changes WHERE change <= ?", (change - _REMEMBERED,))

    @property
    def tidy_due(self) -> bool:
        """Tell whether :meth:`tidy` has something to do."""
        return self._merge_state is not _MergeState.NOTHING

    @property
    def _merge_state(self) -> _MergeState:
        return _MergeState(self._db.number(_OWED))

    def tidy(self) -> bool:
        """Merge a slice of the index in its own transaction; True while more is due. Call it with pauses while others write.

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
            worked = self._merge(_SLICE_PAGES)  # defence: merge-goes-on =False
            if not worked and state is _MergeState.WHOLE:
                # defence: last-merge -_prepare_last_merge
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


_OWED = """
SELECT CASE WHEN owed = 0 AND left_behind AND abs(unixepoch() - merged_at) >= 86400 THEN 1 ELSE owed END
FROM search_index
"""
_PAGES = "SELECT count(*) FROM (SELECT 1 FROM notes_fts_data WHERE id > 10 LIMIT 2)"
_KEEPS_MARKS = """
SELECT substr(block, -2) = x'0000' AND EXISTS (SELECT 1 FROM notes_fts_data WHERE id > 10)
FROM notes_fts_data WHERE id = 10
"""
"""True if the one part is on a lower level, where FTS5 keeps what is marked as deleted.

The list of parts ends with the last level: how many of its parts are being merged, and how many it has. Two zeros: none.
"""
_COUNT_CHANGES = """
UPDATE search_index SET
  changes = changes + :written,
  left_behind = left_behind OR :left,
  owed = CASE WHEN :whole THEN 1
              WHEN owed = 0 AND (changes + :written) % :most < :written THEN 2
              ELSE owed END
RETURNING changes
"""
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
SELECT ?2 - written.key, written.value FROM json_each(?1) AS written ORDER BY written.key DESC
"""
_CHANGED_SINCE = "SELECT pk FROM index_changes WHERE change > ?"
