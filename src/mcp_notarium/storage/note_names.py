"""Give a note another id where its store has renamed it, and keep the old ids as aliases.

An id that an agent holds, or a rule of the policy names, goes on meaning the same note.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcp_notarium.storage.database import Database


class NoteNames:
    """Read and change the ids of the notes of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def current(self, alias: str) -> str | None:
        """Return the id that the note of an old id has now; None if there was none, or more than one."""
        rows = self._db.rows("SELECT id FROM note_aliases WHERE alias = ?", (alias,))
        return rows[0][0] if len(rows) == 1 else None

    def former(self, note_id: str) -> tuple[str, ...]:
        """Return the ids that a note had before."""
        rows = self._db.rows("SELECT alias FROM note_aliases WHERE id = ?", (note_id,))
        return tuple(row[0] for row in rows)

    def identities(self) -> dict[str, str]:
        """Return id to identity of every note that has one, hidden ones included. For sync only."""
        return dict(self._db.rows(_IDENTITIES))

    def set_identities(self, identities: Mapping[str, str]) -> None:
        """Record what names these notes beyond their ids; inside a transaction."""
        rows = [(identity, note_id) for note_id, identity in identities.items()]
        self._db.run_many(_SET_IDENTITY, rows)
        self._db.run_many("UPDATE withheld SET identity = ? WHERE id = ?", rows)

    def rename(self, old: str, new: str) -> bool:
        """Give the note another id, with its unfinished write and its versions; inside a transaction.

        False, and nothing is changed, if there is a note of that id already.
        """
        if self._db.row(_EXISTS, (new, new)) is not None:
            return False
        self._db.run("UPDATE notes SET id = ? WHERE id = ?", (new, old))
        self._db.run("UPDATE withheld SET id = ? WHERE id = ?", (new, old))
        self._db.run("UPDATE pending_writes SET note_id = ? WHERE note_id = ?", (new, old))
        self._db.run("DELETE FROM note_versions WHERE note_id = ?", (new,))
        self._db.run("UPDATE note_versions SET note_id = ? WHERE note_id = ?", (new, old))
        self._db.run("UPDATE OR IGNORE note_aliases SET id = ? WHERE id = ?", (new, old))
        self._db.run("DELETE FROM note_aliases WHERE id IN (?, alias)", (old,))
        self._db.run("INSERT OR IGNORE INTO note_aliases(alias, id) VALUES (?, ?)", (old, new))
        return True


_IDENTITIES = """
SELECT n.id, b.identity FROM notes n JOIN note_base b ON b.pk = n.pk WHERE b.identity IS NOT NULL
UNION ALL
SELECT id, identity FROM withheld WHERE identity IS NOT NULL
"""
_EXISTS = "SELECT 1 FROM notes WHERE id = ? UNION ALL SELECT 1 FROM withheld WHERE id = ?"
_SET_IDENTITY = """
UPDATE note_base SET identity = ? WHERE pk = (SELECT pk FROM notes WHERE id = ?)
"""
