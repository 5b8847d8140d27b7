"""Bundle the tables of one account's database as ``Cache``; remove notes that new rules hide, keep what is lost elsewhere."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TypeVar

from mcp_notarium.domain.note import Note, Revision, Tombstone
from mcp_notarium.domain.policy import EVERYTHING, Visibility
from mcp_notarium.errors import CacheDamaged, CacheError
from mcp_notarium.storage.change_records import ChangeRecords
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.hidden_notes import RULES_KEY
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.storage.note_search import SearchIndex
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.storage.sync_progress import SyncProgress
from mcp_notarium.storage.sync_state import LoadProgress, SyncState
from mcp_notarium.storage.version_table import DEFAULT_LIMITS, VersionLimits, VersionTable
from mcp_notarium.storage.vocabulary import Vocabulary
from mcp_notarium.storage.write_ahead_log import WalFlusher
from mcp_notarium.system import SYSTEM
from mcp_notarium.threads import run_in_thread, shield_task


class Cache:
    """Hold everything that is stored for one account, as visible under ``rules``.

    ``limits`` bound its versions. ``clock`` gives the epoch seconds that are stored.
    """

    def __init__(
        self,
        database: Database,
        rules: Visibility = EVERYTHING,
        limits: VersionLimits = DEFAULT_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.versions = VersionTable(database, limits, clock)
        self.notes = NoteTable(database, rules, self.versions)
        self.vocabulary = Vocabulary(database)
        self.search = SearchIndex(database, self.vocabulary)
        self.sync_state = SyncState(database)
        self.change_records = ChangeRecords(database)
        self.progress = SyncProgress(database, self.versions)
        self.journal = JournalTable(database)
        self._flusher = WalFlusher(database.path, database.before_flush)
        self.stored: Cache = self
        """Cache as stored, of which this may be a view."""
        self.seen: Cache = self
        """Cache that this process's agents see: itself, or the view of a profile."""
        self.follow: Callable[[], None] = self.notes.visibility.require_match
        """Brings a view in step with what is stored. Raises ``PolicyChanged`` if that is under other rules by now."""
        self.shown: Callable[[str], Note | None] = self.notes.get
        """Returns a note as this process's agents see it now, or None."""

    def clock(self) -> float:
        """Return the epoch seconds that are stored now."""
        return self.versions.clock()

    def standing(self, note_id: str) -> tuple[str | None, bool]:
        """Return the etag of a note, None if it is not stored, and whether a write of it is unfinished."""
        etag, busy = self.database.row(_STANDING, (note_id,)) or (None, 0)
        return etag, bool(busy)

    async def flush(self) -> None:
        """Wait until the disk has what was committed. Raises ``CacheError``."""
        if not self.database.in_memory:
            await self._flusher.flush()

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Run one write transaction; see :meth:`Database.transaction`."""
        return self.database.transaction(durable=durable)

    def find_lost(self, note_ids: Iterable[str]) -> list[tuple[int, Revision]]:
        """Return those of these notes that have what a write from here has made, with their versions.

        Not those in the trash: a person who empties that means it.
        """
        lost = []
        for note_id in filter(self.notes.is_written_here, note_ids):
            held = self.notes.numbered_base(note_id)
            if held is not None and not held[1].content.trash:
                lost.append(held)
        return lost

    def keep_lost(self, lost: Iterable[tuple[int, Revision]]) -> None:
        """Keep such notes, which are gone elsewhere, as versions: their store keeps nothing of them. Inside a transaction."""
        for number, base in lost:
            self.versions.keep(base, number=number, at=self.clock(), by="", full_copy=b"")

    def adopt(self, head: Revision | Tombstone, *, keeps_lost: bool) -> None:
        """Store what a note is at the store, inside a transaction. ``keeps_lost``: what was written from here stays as a version.

        A note that is gone already leaves what is kept of it.
        """
        if isinstance(head, Tombstone) and self.notes.etag(head.id) is None:
            return
        lost = self.find_lost([head.id]) if keeps_lost and isinstance(head, Tombstone) else []
        self.notes.apply([head])
        self.keep_lost(lost)

    def open_another(self) -> Cache:
        """Open the same notes through a second connection; see :meth:`Database.open_another`."""
        database = self.database.open_another()
        versions = self.versions
        return Cache(database, self.notes.visibility.rules, versions.limits, versions.clock)

    def close(self) -> None:
        """Close the database. Idempotent."""
        self.database.close()


def apply_rules(cache: Cache) -> int:
    """Apply the rules to an index that was filled under others; return how many notes were removed.

    The caller holds the account alone. Notes that are hidden from now on are removed at once, in the
    transaction that records the rules. Notes that are no longer hidden have to be fetched, so the cursor
    is cleared and the next cycle compares everything. 0 if these rules are active already.
    """
    visibility = cache.notes.visibility
    with cache.transaction(durable=True):
        if visibility.matches_index:
            return 0
        # A rule means the note that its id names now or named before, wherever that note is.
        visibility.names.forget_other_rules()
        visibility.names.follow(cache.notes.names.seen())
        hidden = cache.notes.find_hidden(cache.notes.etags())
        visibility.clear()
        cache.notes.hide(hidden)
        cache.notes.names.drop_aliases(visibility.rules)
        cache.versions.remove_hidden(cache.notes.visibility)
        # defence: new-rules-clear-bases
        cache.notes.merge_bases.clear()  # what they said then may be hidden now
        cache.database.run(
            "DELETE FROM approvals"
        )  # what was asked then may be about a hidden note
        cache.sync_state.set_cursor(None)
        if not cache.sync_state.progress().complete:
            # Pages that were read already held notes that may be shown now.
            cache.sync_state.set_progress(LoadProgress())
        cache.sync_state.set(RULES_KEY, visibility.rules.digest or None)
    while cache.notes.index.tidy():  # terms of what was removed go now, not when there is time
        pass
    cache.database.checkpoint()
    return len(hidden)


_STANDING = """
SELECT (SELECT b.etag FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.id = ?1),
       EXISTS (SELECT 1 FROM journal WHERE note_id = ?1 AND state = 'in_flight')
"""


_LAST_SECONDS = 1.0
"""Seconds that a cancelled load waits for the transaction that is running."""
_Result = TypeVar("_Result")
release_memory = SYSTEM.release_memory


class ThreadConnection:
    """Run transactions in a thread, one at a time.

    Most of a first load is the database's work, which needs no Python: meanwhile the event loop reads
    the next page and answers tools. To SQLite the thread is one more process. The loop passes one
    transaction at a time, so that the next who waits there for the write lock gets it. The connection
    is open from the first :meth:`call` to :meth:`close`. A database in memory has none: there the loop writes.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._opened: Cache | None = None
        self._in_use = threading.Lock()
        self._task: asyncio.Task[object] | None = None

    async def call(self, work: Callable[[Cache], _Result]) -> _Result:
        """Return what ``work`` returns. After a cancel, its transaction may still be finished."""
        if self._cache.database.in_memory:
            return work(self._cache)
        try:
            if self._opened is None:
                self._opened = self._open()
            task = asyncio.create_task(
                run_in_thread(partial(_alone, work, self._opened, self._in_use))
            )
            self._task = task
            return await shield_task(task)
        except CacheDamaged as damage:
            self._cache.database.mark_damaged(damage.message)
            raise

    def _open(self) -> Cache:
        opened, checkpointer = self._cache.open_another(), self._cache.database.checkpointer
        try:
            if checkpointer:
                # Never both: SQLite before 3.51.3 can lose a transaction when two checkpoint at once.
                self._cache.database.set_checkpointer(False)
                opened.database.set_checkpointer(True)
        except CacheError:
            opened.close()
            with suppress(CacheError):
                self._cache.database.set_checkpointer(checkpointer)
            raise
        return opened

    async def close(self) -> None:
        """Close the connection; wait a moment for a transaction that is running.

        A statement that runs longer closes the connection when it ends, and nobody is left to checkpoint here:
        another process may lead by then. One in use is never closed: it stays open if the event loop ends before.
        """
        opened, self._opened = self._opened, None
        task, self._task = self._task, None
        if opened is None or task is None:
            return

        def finish(ended: asyncio.Task[object]) -> None:
            if not ended.cancelled():
                ended.exception()  # the caller got it
            if self._in_use.locked():
                return  # the loop ends and has cancelled the task; the thread goes on
            opened.close()
            if in_time:  # defence: one-process-moves-the-log =True
                with suppress(CacheError):
                    self._cache.database.set_checkpointer(opened.database.checkpointer)
            release_memory()

        await asyncio.wait({task}, timeout=_LAST_SECONDS)
        in_time = task.done()
        if in_time:
            finish(task)
        else:
            task.add_done_callback(finish)


def _alone(work: Callable[[Cache], _Result], cache: Cache, in_use: threading.Lock) -> _Result:
    with in_use:
        return work(cache)
