"""Keep one vector per note: what its text means to a model (``meaning/``).

A row belongs to one state of a note (``local_version``) and one model. It goes with its note, so a note that is hidden
has none. ``number`` grows with each row that is written: who keeps the vectors in memory reads those after the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_notarium.storage.database import Database

Vector = tuple[int, int, bytes]
"""``number``, the note's pk, and its vector."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Hold a note whose vector is missing or of an older state; ``text``: its title and beginning."""

    pk: int
    local_version: int
    text: str


class VectorTable:
    """Read and write the vectors of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def find_missing(self, model: str, *, characters: int, limit: int) -> list[Passage]:
        """Return notes without a vector of this model for what they say now, those changed last first."""
        return [Passage(*row) for row in self._db.rows(_MISSING, (characters, model, limit))]

    def count_missing(self, model: str) -> int:
        """Return how many notes have no vector of this model for what they say now."""
        return self._db.number(_COUNT_MISSING, (model,))

    def write(self, model: str, vectors: Sequence[tuple[Passage, bytes]]) -> None:
        """Store vectors in a transaction of their own; those of notes that changed meanwhile count as missing still."""
        with self._db.transaction():
            last = self._db.number("SELECT vectors FROM search_index")
            rows = [
                (number, one.pk, model, one.local_version, vector, one.pk)
                for number, (one, vector) in enumerate(vectors, last + 1)
            ]
            self._db.run_many(_WRITE, rows)
            self._db.run("UPDATE search_index SET vectors = ?", (last + len(rows),))

    def read_after(self, number: int, model: str) -> list[Vector]:
        """Return the vectors of this model that were written after ``number``."""
        return [(row[0], row[1], row[2]) for row in self._db.rows(_AFTER, (number, model))]

    def count(self, model: str) -> int:
        """Return how many vectors of this model there are."""
        return self._db.number("SELECT count(*) FROM note_vectors WHERE model = ?", (model,))

    def forget_others(self, model: str) -> None:
        """Remove the vectors of every other model."""
        with self._db.transaction():
            self._db.run("DELETE FROM note_vectors WHERE model <> ?", (model,))


_MISSING = """
SELECT n.pk, n.local_version, iif(n.title IS NULL, '', n.title || char(10)) || substr(n.text, 1, ?)
FROM notes n LEFT JOIN note_vectors v ON v.pk = n.pk AND v.model = ? AND v.local_version = n.local_version
WHERE v.pk IS NULL ORDER BY n.trash, n.modified_at DESC LIMIT ?
"""
_COUNT_MISSING = """
SELECT count(*) FROM notes n
LEFT JOIN note_vectors v ON v.pk = n.pk AND v.model = ? AND v.local_version = n.local_version
WHERE v.pk IS NULL
"""
_WRITE = """
INSERT OR REPLACE INTO note_vectors(number, pk, model, local_version, vector)
SELECT ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM notes WHERE pk = ?)
"""
_AFTER = "SELECT number, pk, vector FROM note_vectors WHERE number > ? AND model = ?"
