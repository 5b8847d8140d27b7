"""Keep the audit log of one database: append, read, verify and prune its chain; changes before they are made, reads soon after.

The head is always read inside the write transaction that appends to it, so two servers can never
make two records that follow the same one. The package ``audit`` says what a record means.

An :class:`Act` puts its record on the disk before anything is done; if it raises, nothing may be done.
:meth:`AuditLog.buffer` keeps a record in memory until :meth:`AuditLog.flush`. Records that cannot be
stored for long are dropped and counted, and the chain says how many are missing. One thread only.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from mcp_notarium.audit.chain import (
    CANCELLED,
    UNKNOWN,
    ActName,
    AuditEntry,
    AuditKeys,
    ChainMac,
    Facts,
    Head,
    Record,
    append_to_chain,
    clean_client_name,
)
from mcp_notarium.audit.verification import ChainVerifier, Verification
from mcp_notarium.errors import CacheDamaged, CacheError, NotRecorded, RollbackSeen
from mcp_notarium.storage.approval_table import ApprovalTable
from mcp_notarium.storage.authorizer import Row
from mcp_notarium.storage.database import Database

ANCHORED = "audit_anchored"
"""Row of ``sync_metadata``: an anchor was written for this chain, so it must exist."""

_BELOW_ALL_NUMBERS = -(1 << 63)
"""Below every number that a row can have; our own begin with 1."""
_SLICE = 500
_COUNTED = 500
"""Records at the end of the chain whose numbers each start counts."""
_MOST_PRUNED = 20_000
"""Records that one transaction removes: other processes wait for it."""


class AuditTable:
    """Hold the chain of one database under one key."""

    def __init__(self, database: Database, chain_mac: ChainMac) -> None:
        self._db = database
        self.chain_mac = chain_mac

    def head(self) -> Head:
        """Return the end of the chain; the beginning of all chains if it is empty."""
        row = self._db.row("SELECT number, mac FROM audit ORDER BY number DESC LIMIT 1")
        return Head() if row is None else Head(*row)

    def end(self) -> tuple[Head, int]:
        """Return the end of the chain, and when its last record was made (epoch milliseconds; 0: no record)."""
        row = self._db.row("SELECT number, mac, at_ms FROM audit ORDER BY number DESC LIMIT 1")
        return (Head(), 0) if row is None else (Head(row[0], row[1]), row[2])

    def has_gap(self) -> bool:
        """Tell whether a number is missing among the newest records."""
        first = self.head().count - _COUNTED
        row = self._db.row(
            "SELECT count(*), min(number), max(number) FROM audit WHERE number > ?", (first,)
        )
        return row is not None and row[0] > 0 and row[0] != row[2] - row[1] + 1

    def append(self, entries: Iterable[AuditEntry], *, durable: bool) -> Head:
        """Add records in the caller's transaction, or in their own; return the new head.

        Raises ``CacheError`` with nothing added.
        """
        with self._db.join_or_begin(durable=durable):
            head = self.head()
            records = []
            for entry in entries:
                record, head = append_to_chain(entry, head, self.chain_mac)
                records.append(record)
            self._insert(records)
        return head

    def _insert(self, records: Iterable[Record]) -> None:
        self._db.run_many(_INSERT, map(_row, records))

    def begin(self, at: float, *, facts: Facts) -> None:
        """Start a chain if there is none yet; ``facts`` say why."""
        with self._db.join_or_begin(durable=True):
            if self.head().count == 0:
                self.append([AuditEntry(at=at, act=ActName.BEGUN, facts=facts)], durable=True)

    def records(self, *, first: int = 1, last: int | None = None) -> Iterator[Record]:
        """Yield records in the order of their numbers, read some hundred at a time."""
        before = first - 1
        while rows := self._db.rows(_SLICE_BEHIND, (before, last, _SLICE)):
            yield from map(_record, rows)
            before = rows[-1][0]

    def first(self) -> int:
        """Return the number of the oldest record; 1 on an empty chain."""
        return self._db.number("SELECT min(number) FROM audit") or 1

    def first_number_since(self, at: float) -> int:
        """Return the number of the first record not older than ``at`` (epoch seconds)."""
        found = self._db.number("SELECT min(number) FROM audit WHERE at_ms >= ?", (int(at * 1000),))
        return found or self.head().count + 1

    def verify(
        self,
        *,
        anchored: Head | None,
        expected: Head | None = None,
        also: Callable[[Record], None] | None = None,
    ) -> Verification:
        """Verify the whole chain, as it is at one moment. Servers may keep running meanwhile.

        ``also`` gets each record, the invalid ones too.
        """
        check = ChainVerifier(self.chain_mac, anchored, expected)
        with self._db.moment():
            for record in self.records(first=_BELOW_ALL_NUMBERS + 1):
                check.feed(record)
                if also is not None:
                    also(record)
        return check.result()

    def prune(self, last: int, *, at: float) -> int:
        """Remove records up to number ``last``, the oldest first, and record that; return how many.

        Many take several calls. The newest record stays. Removal and record are one transaction.
        """
        if self._db.row("SELECT 1 FROM audit WHERE number <= ? LIMIT 1", (last,)) is None:
            return 0
        with self._db.transaction(durable=True):
            end = self._db.row(_LAST_PRUNABLE, (last, _MOST_PRUNED))
            if end is None:
                return 0
            facts = {"upto": end[0], "head": end[1]}
            self.append([AuditEntry(at=at, act=ActName.PRUNED, facts=facts)], durable=True)
            return self._db.run("DELETE FROM audit WHERE number <= ?", (end[0],))

    def insert_chained(self, records: Iterable[Record]) -> None:
        """Store records that have their MAC already, after the last one."""
        with self._db.join_or_begin(durable=True):
            self._insert(records)


def _record(row: Row) -> Record:
    """Turn a row into a record; what is no text shows its bytes, and no MAC fits it."""
    fields: list[Any] = [
        part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else part
        for part in row
    ]
    return Record(**dict(zip(_NAMES, fields, strict=True)))


_COLUMNS = (
    "number, at_ms, client, act, digest, notes, decision, outcome, bytes_out, refers, facts, "
    "previous, mac"
)
_NAMES = tuple(_COLUMNS.split(", "))
_row = attrgetter(*_NAMES)
"""A record as a row; ``dataclasses.astuple`` would copy every field, which took a third of the time."""
_INSERT = f"INSERT INTO audit({_COLUMNS}) VALUES ({', '.join('?' * 13)})"  # noqa: S608 - constants only
_BEHIND = "FROM audit WHERE number > ?1 AND (?2 IS NULL OR number <= ?2) ORDER BY number LIMIT ?3"
_AS_BYTES = (
    "number, at_ms, CAST(client AS BLOB), CAST(act AS BLOB), CAST(digest AS BLOB), "
    "CAST(notes AS BLOB), CAST(decision AS BLOB), CAST(outcome AS BLOB), bytes_out, refers, "
    "CAST(facts AS BLOB), CAST(previous AS BLOB), CAST(mac AS BLOB)"
)
_SLICE_BEHIND = f"SELECT {_AS_BYTES} {_BEHIND}"
_LAST_PRUNABLE = """
SELECT number, mac FROM audit
WHERE number <= ?1
  AND number < (SELECT max(number) FROM audit)
  AND number < (SELECT min(number) FROM audit) + ?2
ORDER BY number DESC LIMIT 1
"""


MOST_WAITING: Final = 5000
"""Records kept in memory while the disk takes none; one has about half a kilobyte."""
_PAUSE: Final = 600.0
"""Seconds between two searches for expired records."""
_DAY: Final = 86_400.0


class AuditLog:
    """Write the audit log of an open database for one process.

    ``profile`` is the one that the calls of this process come under, if any. Records are kept for ``days`` calendar days. ``clock`` gives epoch seconds, ``stopwatch`` seconds
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
        profile: str = "",
    ) -> None:
        self._db = database
        self.facts: Facts = {"profile": profile} if profile else {}
        """Stand in the record of every call."""
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
        """Remove the records that are older than ``days``, and expired approvals, at most every ten minutes. Never raises.

        It does not wait for another process's transaction; a later call tries again.
        """
        now = self._stopwatch()
        if self._tidied_at is not None and now - self._tidied_at < _PAUSE:
            return
        with suppress(CacheError), self._db.without_waiting():
            at = self._clock()
            self.table.prune(self.table.first_number_since(at - self._days * _DAY) - 1, at=at)
            ApprovalTable(self._db).drop_expired(now=at)
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


@dataclass(slots=True)
class Step:
    """Hold one save of a call, for who makes the same call again: what was to be saved, and how that ended."""

    draft: Any = None
    """None: it has not begun."""
    result: Any = None
    """None: nobody knows."""
    etag: str | None = None
    """Of the note as it was stored then."""


class Steps:
    """Hold the saves of a call in their order. ``earlier``: those of the same call that was made before, and taken back."""

    def __init__(self) -> None:
        self.made: list[Step] = []
        self.earlier: Steps | None = None
        self.repeats = False
        """The save that was begun last was begun by an earlier call."""

    def next(self) -> Step:
        """Begin a save: the one that an earlier call has begun in its place, if any."""
        at = len(self.made)
        self.made.append(self.find_earlier(at) or Step())
        self.repeats = self.made[at].draft is not None
        return self.made[at]

    def find_earlier(self, at: int) -> Step | None:
        """Return the save that an earlier call has begun in this place."""
        before = self.earlier
        while before is not None and len(before.made) <= at:  # it was taken back before that
            before = before.earlier
        return before.made[at] if before else None

    def see_stored(self, result: Any, etag: str | None) -> None:
        """Learn how the save that was begun last has ended."""
        for step in self.made[-1:]:
            step.result, step.etag = result, etag


class Act:
    """Represent a call that may change something: its first durable transaction records that it begins.

    ``entry`` makes that record, with what is decided by then. ``begun`` is its number, 0 before; ``client``
    names the program that calls, '' before. ``files`` are the SHA-256 of the files that the call keeps, takes away or brings back.

    ``outcome`` is what has become of it by now if its caller takes the call back; ``rest`` is a write that goes on then.
    """

    def __init__(
        self, log: AuditLog, entry: Callable[[], AuditEntry], steps: Steps | None = None
    ) -> None:
        self._log = log
        self._entry = entry
        self.begun = 0
        self.client = ""
        self.files: tuple[str, ...] = ()
        self.outcome = CANCELLED
        self.rest: asyncio.Task[Any] | None = None
        self.steps = steps or Steps()

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
        """Record alone that it begins, with what no write of a note tells. Raises as :meth:`AuditLog.recording_begin`."""
        with self.transaction():
            pass
        self.outcome = UNKNOWN


def not_recorded_error(error: CacheError) -> NotRecorded:
    """Make the error for an act that is not done because its record did not get to the disk."""
    return NotRecorded(
        "what was asked for cannot be recorded in the audit chain, so nothing was done",
        details={"reason": error.subcategory or "cache"},
        resolution_hint=error.resolution_hint,
    )


_HAS_NOTE = "SELECT 1 FROM notes WHERE id = ? UNION ALL SELECT 1 FROM note_aliases WHERE alias = ?"
