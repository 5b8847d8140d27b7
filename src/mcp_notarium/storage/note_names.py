"""Give a note another id where its store has renamed it, and keep the old ids as aliases.

An id that an agent holds, or a rule of the policy names, goes on meaning the same note.
"""

from __future__ import annotations

from mcp_notarium.storage.database import Database


class NoteNames:
    """Read and change the ids of the notes of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def current(self, alias: str) -> str | None:
        """Return the id that the note of an old id has now; None if there was no such note."""
        row = self._db.row("SELECT id FROM note_aliases WHERE alias = ?", (alias,))
        return row[0] if row else None

    def former(self, note_id: str) -> tuple[str, ...]:
        """Return the ids that a note had before."""
        rows = self._db.rows("SELECT alias FROM note_aliases WHERE id = ?", (note_id,))
        return tuple(row[0] for row in rows)

    def identities(self) -> dict[str, str]:
        """Return id to identity of every note that has one, hidden ones included. For sync only."""
        return dict(self._db.rows(_IDENTITIES))

    def rename(self, old: str, new: str) -> bool:
        """Give the note another id, with its unfinished write; inside a transaction.

        False, and nothing is changed, if there is a note of that id already.
        """
        if self._db.row(_EXISTS, (new, new)) is not None:
            return False
        self._db.run("UPDATE notes SET id = ? WHERE id = ?", (new, old))
        self._db.run("UPDATE withheld SET id = ? WHERE id = ?", (new, old))
        self._db.run("UPDATE pending_writes SET note_id = ? WHERE note_id = ?", (new, old))
        self._db.run("UPDATE note_aliases SET id = ? WHERE id = ?", (new, old))
        self._db.run("DELETE FROM note_aliases WHERE alias = ?", (new,))
        self._db.run(_ADD, (old, new))
        return True


_IDENTITIES = """
SELECT n.id, b.identity FROM notes n JOIN note_base b ON b.pk = n.pk WHERE b.identity IS NOT NULL
UNION ALL
SELECT id, identity FROM withheld WHERE identity IS NOT NULL
"""
_EXISTS = "SELECT 1 FROM notes WHERE id = ? UNION ALL SELECT 1 FROM withheld WHERE id = ?"
_ADD = """
INSERT INTO note_aliases(alias, id) VALUES (?, ?) ON CONFLICT (alias) DO UPDATE SET id = excluded.id
"""
