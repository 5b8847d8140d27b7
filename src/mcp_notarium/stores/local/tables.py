"""Define the tables of the local notebook: its notes, what was removed, the number of the last change.

* ``notebook_notes.change`` is the notebook's number of the note's last change. It is etag, version and place
  in the stream of changes at once, and no number is given twice.
* ``made_by`` is the write that made the note: another one that asks for the same id has to take another.
* ``properties`` is a JSON object with everything of a note that has no column of its own.
* ``text`` stands last: a listing without content reads the index alone.
* ``notebook_removed`` has no text, and only the newest removals: a cursor from before ``forgotten`` is lost.

The checks are what a verification of the database verifies.
"""

from __future__ import annotations

from mcp_notarium.stores.kind import LentTables

TABLES = LentTables(
    keys={"notebook": ("one",), "notebook_notes": ("id",), "notebook_removed": ("id",)},
    statements=(
        """
        CREATE TABLE notebook (
          one       INTEGER PRIMARY KEY CHECK (one = 1),
          change    INTEGER NOT NULL DEFAULT 0 CHECK (change >= 0),
          forgotten INTEGER NOT NULL DEFAULT 0 CHECK (forgotten BETWEEN 0 AND change)
        ) STRICT
        """,
        "INSERT INTO notebook(one) VALUES (1)",
        """
        CREATE TABLE notebook_notes (
          id          TEXT PRIMARY KEY CHECK (id <> ''),
          change      INTEGER NOT NULL CHECK (change >= 1),
          write_id    TEXT NOT NULL,
          made_by     TEXT NOT NULL,
          created_at  REAL NOT NULL,
          modified_at REAL NOT NULL,
          trash       INTEGER NOT NULL CHECK (trash IN (0, 1)),
          tags        TEXT NOT NULL CHECK (json_valid(tags)),
          properties  TEXT NOT NULL CHECK (json_valid(properties)),
          title       TEXT,
          text        TEXT NOT NULL
        ) STRICT
        """,
        "CREATE UNIQUE INDEX notebook_changes ON notebook_notes(change, id)",
        """
        CREATE TABLE notebook_removed (
          id     TEXT PRIMARY KEY,
          change INTEGER NOT NULL CHECK (change >= 1)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE UNIQUE INDEX notebook_removals ON notebook_removed(change)",
    ),
    last_change="SELECT change FROM notebook",
    twins={
        "notebook_notes": """
            SELECT n.id, n.server_version, '', '', b.created_at, b.modified_at, n.trash, n.tags,
                   CAST(b.raw AS TEXT), n.title, n.text
            FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.id = ?
        """
    },
    renumber="""
        UPDATE notebook SET change = max(
          change, :least,
          (SELECT coalesce(max(change), 0) FROM notebook_notes),
          (SELECT coalesce(max(change), 0) FROM notebook_removed)
        )
    """,
)
