"""Bundle the tables of one account's database as ``Cache``; remove notes that new rules hide."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager

from mcp_notarium.domain.visibility import EVERYTHING, Visibility
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.journal_table import PendingWrites
from mcp_notarium.storage.note_search import SearchIndex
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.storage.sync_state import Progress, SyncState
from mcp_notarium.storage.visibility_filter import RULES_KEY, HiddenNote


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


def apply_rules(cache: Cache) -> int:
    """Apply the rules to an index that was filled under others; return how many notes were removed.

    The caller holds the account alone. Notes that are hidden from now on are removed at once, in the
    transaction that records the rules. Notes that are no longer hidden have to be fetched, so the cursor
    is cleared and the next cycle compares everything. 0 if these rules are in force already.
    """
    with cache.transaction(durable=True):
        if cache.notes.gate.matches_index:
            return 0
        hidden = _now_hidden(cache)
        cache.notes.gate.clear()
        cache.notes.hide(hidden)
        cache.sync_state.set_cursor(None)
        if not cache.sync_state.progress().complete:
            # Pages that were read already held notes that may be shown now.
            cache.sync_state.set_progress(Progress())
        cache.sync_state.set(RULES_KEY, cache.notes.gate.rules.digest or None)
    while cache.notes.tidy():  # terms of what was removed go now, not when there is time
        pass
    cache.database.checkpoint()
    return len(hidden)


def _now_hidden(cache: Cache) -> dict[str, HiddenNote]:
    rules = cache.notes.gate.rules
    hidden = {}
    for note_id, tags, etag, version in cache.database.rows(_TAGS_AND_BASES):
        rule = rules.hidden_by(note_id, json.loads(tags))
        if rule is None and rules.tags_matter and (base := cache.notes.base(note_id)) is not None:
            rule = cache.notes.gate.hides(base)
        if rule is not None:
            hidden[note_id] = HiddenNote(etag, version, rule)
    return hidden


_TAGS_AND_BASES = """
SELECT n.id, n.tags, b.etag, n.server_version FROM notes n JOIN note_base b ON b.pk = n.pk
"""
