"""Store the audit chain of one database: append, read, verify, prune, carry over.

The head is always read inside the write transaction that appends to it, so two servers can never
make two records that follow the same one. The package ``audit`` says what a record means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from operator import attrgetter
from typing import Any

from mcp_notarium.audit.chain import (
    ActName,
    AuditEntry,
    ChainMac,
    Facts,
    Head,
    Record,
    append_to_chain,
    rechain,
)
from mcp_notarium.audit.verification import ChainVerifier, Verification
from mcp_notarium.errors import CacheError
from mcp_notarium.storage.authorizer import Row
from mcp_notarium.storage.database import Database

ANCHORED = "audit_anchored"
"""Row of ``sync_metadata``: an anchor was written for this chain, so it must exist."""

_BELOW_ALL_NUMBERS = -(1 << 63)
"""Below every number that a row can have; our own begin with 1."""
_SLICE = 500
_COUNTED = 500
"""Records at the end of the chain whose numbers each start counts."""
_UNREADABLE = "not all of it could be read"
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
        with nullcontext() if self._db.in_transaction else self._db.snapshot():
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


def carry_over(
    source: AuditTable,
    target: AuditTable,
    *,
    at: float,
    why: str,
    anchored: Head | None,
    wrong: Iterable[str] = (),
    rescuing: bool = False,
) -> bool:
    """Copy the whole chain under the target's key and end it with a record that links the two.

    Return whether all of it could be read.

    The old chain is verified on the way (with ``anchored``, its anchor). Its faults, and those in
    ``wrong``, go into that record: a new MAC must not hide them. ``target`` is empty and new.
    ``rescuing``: the source is damaged; what can be read of it is copied.
    """
    check, faults = ChainVerifier(source.chain_mac, anchored), [*wrong]
    records = _readable(source, faults) if rescuing else source.records()
    for batch in _rechain_in_batches(records, check, target.chain_mac):
        target.insert_chained(batch)
    found = check.result()
    faults += [f"{fault.kind.value} at {fault.number}" for fault in found.faults[:10]]
    if found.head.count == 0 and not faults:
        target.begin(at, facts={"why": why})
        return True
    facts = {
        "why": why,
        "old_count": found.head.count,
        "old_head": found.head.mac,
        "faults": faults,
    }
    target.append([AuditEntry(at=at, act=ActName.CARRIED, facts=facts)], durable=True)
    return _UNREADABLE not in faults


def _readable(source: AuditTable, faults: list[str]) -> Iterator[Record]:
    """Yield the records up to the first unreadable page; such a page is a fault."""
    try:
        yield from source.records()
    except CacheError:
        faults.append(_UNREADABLE)


def _rechain_in_batches(
    records: Iterable[Record], check: ChainVerifier, chain_mac: ChainMac
) -> Iterator[list[Record]]:
    """Yield the records under another key, some hundred at a time; ``check`` sees the old ones."""
    batch: list[Record] = []
    previous: str | None = None
    for record in records:
        check.feed(record)
        # After a pruning the first record follows a removed one.
        batch.append(rechain(record, record.previous if previous is None else previous, chain_mac))
        previous = batch[-1].mac
        if len(batch) == _SLICE:
            yield batch
            batch = []
    yield batch


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
