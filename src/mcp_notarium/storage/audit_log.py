"""``AuditLog``: what the doors write the audit chain with. Acts that change something first, reads in time.

:meth:`open` puts a record on the disk before the act; if it cannot, it raises and the act must not be
begun. :meth:`note` keeps a record in memory until :meth:`flush`, which the caller sees to soon. What
cannot be stored for long is counted, and the chain says how many are missing. One thread only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from mcp_notarium.audit.chain import AuditKeys, Head
from mcp_notarium.audit.record import Act, Entry
from mcp_notarium.errors import CacheDamaged, CacheError, NotRecorded
from mcp_notarium.storage.audit_table import AuditTable
from mcp_notarium.storage.connection import Database

MOST_KEPT: Final = 5000
"""Records that wait for a disk that takes none; one has about half a kilobyte."""
_PAUSE: Final = 600.0
"""Seconds between two looks for records that are kept long enough."""
_DAY: Final = 86_400.0


class AuditLog:
    """The audit chain of an open cache, for one process.

    ``days``: how many calendar days records are kept. ``clock`` gives epoch seconds, ``stopwatch``
    those of a clock nobody sets.
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
        self._waiting: deque[Entry] = deque()
        self._lost = 0
        self._stopwatch = stopwatch
        self._tidied_at: float | None = None
        self.table = AuditTable(database, keys.seal)

    @property
    def waiting(self) -> int:
        """How many records are only in memory."""
        return len(self._waiting)

    def digest(self, name: str, arguments: Any) -> str:
        """See :meth:`AuditKeys.digest`."""
        return self._keys.digest(name, arguments)

    def named(self, note_id: str) -> str:
        """See :meth:`AuditKeys.note`."""
        return self._keys.note(note_id)

    def now(self) -> float:
        """Epoch seconds, as records have them."""
        return self._clock()

    def known(self, note_id: str) -> bool:
        """Whether it is the id of a note here, and not something else in its place. Never raises."""
        try:
            return self._db.row("SELECT 1 FROM notes WHERE id = ?", (note_id,)) is not None
        except CacheError:
            return False

    def open(self, entry: Entry) -> int:
        """Record an act before it is begun, on the disk; the number to refer to.

        Raises ``NotRecorded`` (or ``CacheDamaged``): then it must not be begun.
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

    def close(self, entry: Entry) -> None:
        """Record the outcome of an act, on the disk if that can be. Never raises.

        The act is done by now; telling its caller otherwise would have it done again.
        """
        self._waiting.append(entry)
        self._store(durable=True)

    def note(self, entry: Entry) -> None:
        """Record something that changes nothing, with the next :meth:`flush`. Never raises."""
        self._waiting.append(entry)

    def flush(self, *, patient: bool = False) -> bool:
        """Store what waits, without waiting for the disk; False if some of it waits on.

        Unless ``patient`` it does not wait for another process's transaction either. Never raises.
        """
        if not self._waiting and not self._lost:
            return True
        if patient or self._db.closed:
            return self._store(durable=False)
        with self._db.without_waiting():
            return self._store(durable=False)

    def tidy(self) -> None:
        """Remove the records that are older than ``days``, at most every ten minutes. Never raises.

        It does not wait for another process's transaction; it comes again.
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
            while len(self._waiting) > MOST_KEPT:
                self._waiting.popleft()
                self._lost += 1
            return False
        return True

    def _due(self) -> list[Entry]:
        """Everything that waits, and how much could not."""
        if not self._lost:
            return list(self._waiting)
        gap = Entry(at=self._clock(), act=Act.GAP, facts={"not_recorded": self._lost})
        return [gap, *self._waiting]

    def _append(self, entries: list[Entry], *, durable: bool) -> Head:
        head = self.table.append(entries, durable=durable)
        self._waiting.clear()
        self._lost = 0
        return head
