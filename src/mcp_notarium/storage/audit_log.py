"""Write the audit log: changes before they are made, reads soon after.

:meth:`AuditLog.open` puts a record on the disk before the act; if it raises, the act must not begin.
:meth:`AuditLog.note` keeps a record in memory until :meth:`AuditLog.flush`. Records that cannot be
stored for long are dropped and counted, and the chain says how many are missing. One thread only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from mcp_notarium.audit.chain import Act, AuditEntry, AuditKeys, Head
from mcp_notarium.errors import CacheDamaged, CacheError, NotRecorded
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
        """Tell whether this is the id of a stored note. Never raises."""
        try:
            return self._db.row("SELECT 1 FROM notes WHERE id = ?", (note_id,)) is not None
        except CacheError:
            return False

    def open(self, entry: AuditEntry) -> int:
        """Record an act on the disk before it begins; return the record's number.

        Raises ``NotRecorded`` (or ``CacheDamaged``): then the act must not begin.
        """
        try:
            return self._append([*self._due(), entry], durable=True).count
        except CacheDamaged:
            raise
        except CacheError as error:
            raise NotRecorded(
                "what was asked for cannot be recorded in the audit chain, so nothing was done",
                details={"reason": error.subcategory or "cache"},
                resolution_hint=error.resolution_hint,
            ) from error

    def close(self, entry: AuditEntry) -> None:
        """Record the outcome of an act, on the disk if possible. Never raises.

        The act is done by now; an error would make the caller repeat it.
        """
        self._waiting.append(entry)
        self._store(durable=True)

    def note(self, entry: AuditEntry) -> None:
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
            self._append(self._due(), durable=durable)
        except CacheError:
            while len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
                self._lost += 1
            return False
        return True

    def _due(self) -> list[AuditEntry]:
        """Return the records in memory, after one that counts the dropped ones."""
        if not self._lost:
            return list(self._waiting)
        gap = AuditEntry(at=self._clock(), act=Act.GAP, facts={"not_recorded": self._lost})
        return [gap, *self._waiting]

    def _append(self, entries: list[AuditEntry], *, durable: bool) -> Head:
        head = self.table.append(entries, durable=durable)
        self._waiting.clear()
        self._lost = 0
        return head
