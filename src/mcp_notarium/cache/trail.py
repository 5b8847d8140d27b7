"""``Trail``: what the doors write the audit chain with. Acts that change something first, reads in time.

:meth:`open` puts a record on the disk before the act; if it cannot, it raises and the act must not be
begun. :meth:`note` keeps a record in memory until :meth:`flush`, which the caller sees to soon. What
cannot be stored for long is counted, and the chain says how many are missing. One thread only.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mcp_notarium.audit.chain import AuditKeys, Head
from mcp_notarium.audit.record import Act, Entry
from mcp_notarium.cache.audit_table import AuditTable
from mcp_notarium.cache.connection import Database
from mcp_notarium.errors import CacheDamaged, CacheError, NotRecorded

MOST_KEPT: Final = 5000
"""Records that wait for a disk that takes none; one has about half a kilobyte."""
_DAY: Final = 86_400.0
_GRACE: Final = 7 * _DAY
_BELIEVED: Final = "audit_time"
"""Row of ``sync_metadata``: epoch seconds that are believed, and the clock's when they were decided."""


class Trail:
    """The audit chain of an open cache, for one process.

    ``days``: how long records are kept. ``clock`` gives epoch seconds.
    """

    def __init__(
        self, database: Database, keys: AuditKeys, *, clock: Callable[[], float], days: int
    ) -> None:
        self._db = database
        self._keys = keys
        self._clock = clock
        self._days = days
        self._waiting: deque[Entry] = deque()
        self._lost = 0
        self._last_use = self._newest()
        self._pruned_at: float | None = None
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
        with self._db.impatient():
            return self._store(durable=False)

    def tidy(self) -> None:
        """Once a day, take away what is older than the records are to be kept. Never raises.

        Time counts no further than a week a day, whatever the clock says and whatever was recorded
        by it meanwhile, so that a clock that is wrong by years takes nothing away.
        """
        now = self._clock()
        if self._pruned_at is not None and 0 <= now - self._pruned_at < _DAY:
            return
        self._pruned_at = now
        try:
            with self._db.joined(durable=False):
                believed = self._believed(now)
            self.table.prune(min(now, believed) - self._days * _DAY, at=now)
        except CacheError:
            return  # tomorrow is another day

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

    def _believed(self, now: float) -> float:
        """How late it is at most; remembered, with the day (by the clock) on which that was decided."""
        row = self._db.row("SELECT value FROM sync_metadata WHERE key = ?", (_BELIEVED,))
        believed, decided = (self._last_use or now, None) if row is None else json.loads(row[0])
        if now > believed and (decided is None or abs(now - decided) >= _DAY):
            believed, decided = min(now, believed + _GRACE), now
            value = json.dumps([believed, decided])
            self._db.run("INSERT OR REPLACE INTO sync_metadata VALUES (?, ?)", (_BELIEVED, value))
        return float(believed)

    def _newest(self) -> float | None:
        """When the chain was last written to, before this process."""
        try:
            row = self._db.row("SELECT at_ms FROM audit ORDER BY number DESC LIMIT 1")
        except CacheError:
            return None
        return None if row is None else row[0] / 1000
