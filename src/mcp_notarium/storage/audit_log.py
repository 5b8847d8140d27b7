"""Write the audit log: changes before they are made, reads soon after.

An :class:`Act` puts its record on the disk before anything is done; if it raises, nothing may be done.
:meth:`AuditLog.buffer` keeps a record in memory until :meth:`AuditLog.flush`. Records that cannot be
stored for long are dropped and counted, and the chain says how many are missing. One thread only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final

from mcp_notarium.audit.chain import ActName, AuditEntry, AuditKeys, clean_client_name
from mcp_notarium.errors import CacheDamaged, CacheError, NotRecorded, RollbackSeen
from mcp_notarium.storage.audit_table import AuditTable
from mcp_notarium.storage.database import Database

MOST_WAITING: Final = 5000
"""Records kept in memory while the disk takes none; one has about half a kilobyte."""
_PAUSE: Final = 600.0
"""Seconds between two searches for expired records."""
_DAY: Final = 86_400.0


class AuditLog:
    """Write the audit log of an open database for one process.

    Records are kept for ``days`` calendar days. ``clock`` gives epoch seconds, ``stopwatch`` seconds
    of a monotonic clock.
    """

    def __init__(
        self,
        database: Database,
        keys: AuditKeys,
        *,
        clock: Callable[[], float],
        days: int,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = database
        self._keys = keys
        self._clock = clock
        self._days = days
        self._waiting: deque[AuditEntry] = deque()
        self._lost = 0
        self._stopwatch = stopwatch
        self._tidied_at: float | None = None
        self.table = AuditTable(database, keys.chain_mac)
        self.last_begun = 0
        """Number of the newest record of this process that an act began with, 0 before."""
        self.refusal: Callable[[], RollbackSeen | None] = lambda: None
        """Returns why no act may begin, None if it may."""

    @property
    def waiting(self) -> int:
        """Return how many records are only in memory."""
        return len(self._waiting)

    def digest(self, name: str, arguments: Any) -> str:
        """Return the keyed digest of a call; see :meth:`AuditKeys.digest`."""
        return self._keys.digest(name, arguments)

    def note_reference(self, note_id: str) -> str:
        """Return a note's id as it may be recorded; see :meth:`AuditKeys.note`."""
        return self._keys.note(note_id)

    def now(self) -> float:
        """Return epoch seconds, as records have them."""
        return self._clock()

    def has_note(self, note_id: str) -> bool:
        """Tell whether this is the id of a stored note, or was before a rename. Never raises."""
        try:
            return self._db.row(_HAS_NOTE, (note_id, note_id)) is not None
        except CacheError:
            return False

    @contextmanager
    def recording_begin(
        self, entry: AuditEntry, *, durable: bool = True, changes: bool = True
    ) -> Iterator[int]:
        """Run a transaction that also records an act before it begins; give the record's number.

        If it is not ``durable``, the caller flushes it before the act begins. What ``changes`` nothing also begins
        in a database that lacks something. Raises ``NotRecorded`` or
        ``CacheDamaged`` with nothing stored: then the act must not begin.
        """
        refusal = self.refusal() if changes else None
        if refusal is not None:
            raise refusal
        before = self.last_begun
        try:
            with self._db.transaction(durable=durable):  # defence: act-flushed-first durable=False
                number = self.table.append([*self._due(), entry], durable=durable).count
                self.last_begun = number  # the flush at the end of the transaction may tell it
                yield number
        except BaseException as error:
            self.last_begun = before
            if not isinstance(error, CacheError) or isinstance(error, CacheDamaged):
                raise
            raise not_recorded_error(error) from error
        self._forget_due()

    def record_begin(self, entry: AuditEntry, *, changes: bool = True) -> int:
        """Record an act alone, as :meth:`recording_begin` does; return the record's number."""
        with self.recording_begin(entry, changes=changes) as number:
            return number

    def transaction(self, *, durable: bool) -> AbstractContextManager[None]:
        """Run a transaction; see :meth:`Database.transaction`."""
        return self._db.transaction(durable=durable)

    def record_outcome(self, entry: AuditEntry, *, durable: bool = True) -> None:
        """Record the outcome of an act, on the disk if possible. Never raises.

        The act is done by now; an error would make the caller repeat it. If it is not ``durable``, the caller
        flushes it.
        """
        self._waiting.append(entry)
        self._store(durable=durable)

    def buffer(self, entry: AuditEntry) -> None:
        """Record an act that changes nothing, with the next :meth:`flush`. Never raises."""
        self._waiting.append(entry)

    def flush(self, *, wait: bool = False) -> bool:
        """Store the records in memory without waiting for the disk; False if some could not be stored.

        Without ``wait`` it does not wait for another process's transaction either. Never raises.
        """
        if not self._waiting and not self._lost:
            return True
        if wait or self._db.closed:
            return self._store(durable=False)
        with self._db.without_waiting():
            return self._store(durable=False)

    def tidy(self) -> None:
        """Remove the records that are older than ``days``, at most every ten minutes. Never raises.

        It does not wait for another process's transaction; a later call tries again.
        """
        now = self._stopwatch()
        if self._tidied_at is not None and now - self._tidied_at < _PAUSE:
            return
        with suppress(CacheError), self._db.without_waiting():
            at = self._clock()
            self.table.prune(self.table.first_number_since(at - self._days * _DAY) - 1, at=at)
            self._tidied_at = now

    def _store(self, *, durable: bool) -> bool:
        try:
            self.table.append(self._due(), durable=durable)
        except CacheError:
            while len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
                self._lost += 1
            return False
        self._forget_due()
        return True

    def _due(self) -> list[AuditEntry]:
        if not self._lost:
            return list(self._waiting)
        gap = AuditEntry(at=self._clock(), act=ActName.GAP, facts={"not_recorded": self._lost})
        return [gap, *self._waiting]

    def _forget_due(self) -> None:
        self._waiting.clear()
        self._lost = 0


class Act:
    """Represent a call that may change something: its first durable transaction records that it begins.

    ``entry`` makes that record, with what is decided by then. ``begun`` is its number, 0 before; ``client``
    names the program that calls, '' before.
    """

    def __init__(self, log: AuditLog, entry: Callable[[], AuditEntry]) -> None:
        self._log = log
        self._entry = entry
        self.begun = 0
        self.client = ""

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        """Run a transaction; the first one holds the record. Raises as :meth:`AuditLog.recording_begin`."""
        if self.begun:
            with self._log.transaction(durable=durable):
                yield
            return
        entry = self._entry()
        self.client = clean_client_name(entry.client)
        with self._log.recording_begin(entry, durable=durable) as number:
            yield
        self.begun = number

    def begin(self) -> None:
        """Record alone that it begins. Raises as :meth:`AuditLog.recording_begin`."""
        with self.transaction():
            pass


def not_recorded_error(error: CacheError) -> NotRecorded:
    """Make the error for an act that is not done because its record did not get to the disk."""
    return NotRecorded(
        "what was asked for cannot be recorded in the audit chain, so nothing was done",
        details={"reason": error.subcategory or "cache"},
        resolution_hint=error.resolution_hint,
    )


_HAS_NOTE = "SELECT 1 FROM notes WHERE id = ? UNION ALL SELECT 1 FROM note_aliases WHERE alias = ?"
