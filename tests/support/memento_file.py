"""Make files as Memento's app has them, and write them as another program."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

USER = """
CREATE TABLE "User" (
    "id" TEXT NOT NULL PRIMARY KEY, "name" TEXT, "email" TEXT NOT NULL,
    "createdAt" DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
)
"""
NOTE = """
CREATE TABLE "Note" (
    "id" TEXT NOT NULL PRIMARY KEY,
    "title" TEXT,
    "content" TEXT NOT NULL,
    "color" TEXT NOT NULL DEFAULT 'default',
    "isPinned" BOOLEAN NOT NULL DEFAULT false,
    "isArchived" BOOLEAN NOT NULL DEFAULT false,
    "type" TEXT NOT NULL DEFAULT 'text',
    "checkItems" TEXT,
    "labels" TEXT,
    "images" TEXT,
    "reminder" DATETIME,
    "isReminderDone" BOOLEAN NOT NULL DEFAULT false,
    "reminderRecurrence" TEXT,
    "reminderLocation" TEXT,
    "isMarkdown" BOOLEAN NOT NULL DEFAULT false,
    "size" TEXT NOT NULL DEFAULT 'small',
    "embedding" TEXT,
    "userId" TEXT,
    "order" INTEGER NOT NULL DEFAULT 0,
    "createdAt" DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updatedAt" DATETIME NOT NULL,
    CONSTRAINT "Note_userId_fkey" FOREIGN KEY ("userId") REFERENCES "User" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE
)
"""
MIGRATIONS = 'CREATE TABLE "_prisma_migrations" ("id" TEXT PRIMARY KEY, "migration_name" TEXT)'
BUSY_SECONDS = 5.0
"""As long as the app waits for a lock."""


class MementoFile:
    """One file, and the app that has it open. Each call is a transaction of its own."""

    def __init__(self, path: Path, *, page_size: int = 4096, note: str = NOTE) -> None:
        self.path = path
        if not path.exists():
            with self.opened() as db:
                db.execute(f"PRAGMA page_size = {page_size}")
                for statement in (USER, note, MIGRATIONS):
                    db.execute(statement)
                db.execute("INSERT INTO \"_prisma_migrations\" VALUES ('1', 'init')")

    @contextmanager
    def opened(self, *, seconds: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=seconds, isolation_level=None)
        try:
            db.execute("PRAGMA foreign_keys = ON")
            db.row_factory = sqlite3.Row
            yield db
        finally:
            db.close()

    def run(self, sql: str, values: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        with self.opened() as db:
            return [dict(row) for row in db.execute(sql, values).fetchall()]

    def put(self, note_id: str, content: str, **columns: Any) -> None:
        """Make a note, or change one as Prisma does: these columns and ``updatedAt``."""
        now = int(time.time() * 1000)
        made = {"createdAt": now, "updatedAt": now, "content": content, **columns}
        changed = {"updatedAt": now, "content": content, **columns}
        names = ", ".join(f'"{name}"' for name in made)
        changes = ", ".join(f'"{name}" = ?' for name in changed)
        self.run(
            f'INSERT INTO "Note" ("id", {names}) VALUES (?{", ?" * len(made)}) '
            f'ON CONFLICT ("id") DO UPDATE SET {changes}',
            (note_id, *made.values(), *changed.values()),
        )

    def row(self, note_id: str) -> dict[str, Any]:
        """The row of a note. ``KeyError`` if it is gone."""
        found = self.run('SELECT * FROM "Note" WHERE "id" = ?', (note_id,))
        if not found:
            raise KeyError(note_id)
        return found[0]

    def remove(self, note_id: str) -> None:
        self.run('DELETE FROM "Note" WHERE "id" = ?', (note_id,))
