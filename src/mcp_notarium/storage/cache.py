"""Bundle the tables of one open database."""

from __future__ import annotations

from contextlib import AbstractContextManager

from mcp_notarium.domain.visibility import EVERYTHING, Visibility
from mcp_notarium.storage.connection import Database
from mcp_notarium.storage.note_search import SearchIndex
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.storage.pending_writes import PendingWrites
from mcp_notarium.storage.sync_state import SyncState


class Cache:
    """Hold everything that is stored for one account, as visible under ``rules``."""

    def __init__(self, database: Database, rules: Visibility = EVERYTHING) -> None:
        self.database = database
        self.notes = NoteTable(database, rules)
        self.search = SearchIndex(database)
        self.sync_state = SyncState(database)
        self.pending = PendingWrites(database)

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Run one write transaction; see :meth:`Database.transaction`."""
        return self.database.transaction(durable=durable)

    def another(self) -> Cache:
        """Open the same notes through a second connection; see :meth:`Database.another`."""
        return Cache(self.database.another(), self.notes.gate.rules)

    def close(self) -> None:
        """Close the database. Idempotent."""
        self.database.close()
