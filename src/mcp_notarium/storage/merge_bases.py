"""Keep the last revisions of a note that remote changes replaced, as bases for merging a late edit.

An agent that has read one of them may still change it: its edit is merged with what came since. They are
index: a note's rows go with the note. What our own writes replace is in ``version_table.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from mcp_notarium.domain.note import Content, Properties
from mcp_notarium.storage.database import Database

PER_NOTE = 3
TOTAL_BYTES = 8 * 1024 * 1024
"""Of all notes together. Agents save what they have read a moment ago, so the newest are enough."""
ROW_BYTES = 500
"""Counted for each row in addition to its text."""


class MergeBases:
    """Hold the bases of one database. Writing methods join the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, note_id: str, local_version: int) -> Content | None:
        """Return what the note said at this version, or None."""
        row = self._db.row(_GET, (note_id, local_version))
        return None if row is None else _content(*row)

    def of(self, note_id: str) -> list[Content]:
        """Return all that is kept of a note, newest first."""
        return [_content(*row) for row in self._db.rows(_OF, (note_id,))]

    def keep(self, pks: Iterable[int]) -> None:
        """Keep the revisions that these notes have now, and remove what is over the limits.

        One that is a version already is left out: then a write of ours replaces it.
        """
        rows = [(pk,) for pk in pks]
        if self._db.run_many(_KEEP, rows):
            self._db.run_many(_LIMIT_EACH, rows)
            self._db.run(_LIMIT_ALL, (TOTAL_BYTES,))

    def clear(self) -> None:
        """Remove all bases."""
        self._db.run("DELETE FROM merge_bases")


def _content(text: str, tags: str, trash: int, title: str | None, properties: str) -> Content:
    set_then = Properties.from_json(properties)
    return Content(text, tuple(json.loads(tags)), bool(trash), title, set_then)


_OF = """
SELECT b.text, b.tags, b.trash, b.title, b.properties FROM notes n JOIN merge_bases b ON b.pk = n.pk
WHERE n.id = ? ORDER BY b.local_version DESC
"""
_GET = """
SELECT b.text, b.tags, b.trash, b.title, b.properties FROM notes n JOIN merge_bases b ON b.pk = n.pk
WHERE n.id = ? AND b.local_version = ?
"""
# ``number`` is a running total of bytes, so that the oldest rows over the limit are found without a count.
_KEEP = f"""
INSERT OR IGNORE INTO merge_bases(number, pk, local_version, trash, properties, tags, title, text)
SELECT (SELECT coalesce(max(number), 0) FROM merge_bases) + {ROW_BYTES} + length(CAST(n.text AS BLOB)),
       n.pk, n.local_version, n.trash, n.properties, n.tags, n.title, n.text
FROM notes n
WHERE n.pk = ? AND NOT EXISTS (
  SELECT 1 FROM note_versions v WHERE v.note_id = n.id AND v.number = n.local_version
)
"""  # noqa: S608 - a constant of ours
_LIMIT_EACH = f"""
DELETE FROM merge_bases WHERE pk = ?1 AND local_version <= (
  SELECT local_version FROM merge_bases WHERE pk = ?1
  ORDER BY local_version DESC LIMIT 1 OFFSET {PER_NOTE}
)
"""  # noqa: S608 - the same
_LIMIT_ALL = "DELETE FROM merge_bases WHERE number <= (SELECT max(number) FROM merge_bases) - ?"
