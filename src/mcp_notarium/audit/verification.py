"""Verify a chain and say what is wrong where.

:class:`ChainVerifier` takes the records in the order of their numbers. It compares the chain with itself,
with the anchor that is kept outside it, and with a head that somebody noted elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mcp_notarium.audit.chain import GENESIS, ActName, ChainMac, Head, Record

_MOST_COMPARED: Final = 200
"""Up to this many records with a wrong MAC are tried at each other's places."""
_MOST_KEPT: Final = 1000
MOST_FAULTS: Final = 100


class FaultKind(StrEnum):
    """Name the kinds of faults."""

    EDITED = "edited"
    DELETED = "deleted"
    REORDERED = "reordered"
    INSERTED = "inserted"
    TAIL_CUT = "tail_cut"
    FOREIGN = "foreign"
    UNEXPECTED = "unexpected"
    CARRIED = "carried_over_broken"
    ANCHOR = "anchor"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Fault:
    """Hold one fault at record ``number``, in words for a person."""

    kind: FaultKind
    number: int
    words: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Hold the result for a chain."""

    head: Head
    first: int
    """The number of its oldest record, 0 if there is none."""
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    """Facts that are no fault but worth a line."""

    @property
    def whole(self) -> bool:
        """Tell whether there is no fault."""
        return not self.faults


@dataclass(slots=True)
class ChainVerifier:
    """Verify a chain: feed every record, then ask for :meth:`result`."""

    chain_mac: ChainMac
    anchored: Head | None = None
    """The head kept outside."""
    expected: Head | None = None
    """A head that a person noted."""
    first: int = 0
    head: Head = field(default_factory=Head)
    _faults: list[Fault] = field(default_factory=list)
    _invalid: list[Record] = field(default_factory=list)
    _valid_count: int = 0
    _started_from: Head = field(default_factory=Head)
    _pruned: Head | None = None
    _carried: list[Head] = field(default_factory=list)
    _seen: dict[int, str] = field(default_factory=dict)
    _cuts: list[Fault] = field(default_factory=list)
    _cut_heads: list[str] = field(default_factory=list)

    def feed(self, record: Record) -> None:
        """Take the next record; its number is higher than the one before."""
        valid = self.chain_mac.verifies(record)  # defence: audit-records-authenticated =True
        if not self.first:
            self.first = record.number
            self._started_from = Head(record.number - 1, record.previous)
        else:
            self._compare(record, valid=valid)
        if valid:
            self._valid_count += 1
            self._read_chain_record(record)
        elif len(self._invalid) < _MOST_KEPT:
            self._invalid.append(record)
        if record.number in self._compared_numbers():
            self._seen[record.number] = record.mac
        self.head = Head(record.number, record.mac)

    def result(self) -> Verification:
        """Return all faults, the earliest first."""
        faults = [*self._invalid_faults(), *self._faults, *self._beginning_faults()]
        faults += self._cuts + self._anchor_faults() + self._expected_faults()
        faults.sort(key=lambda fault: fault.number)
        return Verification(self.head, self.first, tuple(faults[:MOST_FAULTS]), self._notes())

    def _compared_numbers(self) -> Iterator[int]:
        return (each.count for each in (self.anchored, self.expected) if each is not None)

    def _compare(self, record: Record, *, valid: bool) -> None:
        """Compare a record with the one before."""
        missing = record.number - self.head.count - 1
        if missing:  # defence: audit-numbers-without-gap
            last = record.number - 1
            which = f"{last}" if missing == 1 else f"{self.head.count + 1} to {last}"
            self._add(FaultKind.DELETED, self.head.count + 1, f"missing: {which}")
        elif valid and record.previous != self.head.mac:  # defence: audit-records-chained
            self._add(
                FaultKind.INSERTED,
                record.number,
                "does not follow the record before it: that one was put in or replaced",
            )

    def _read_chain_record(self, record: Record) -> None:
        """Read what an authentic record says about the chain itself."""
        if record.act == ActName.ACCEPTED:
            self._cuts.clear()
        if record.act not in (ActName.PRUNED, ActName.CARRIED, ActName.CUT):
            return
        try:
            facts = json.loads(record.facts)
            if record.act == ActName.CUT:
                missing, first = int(facts["missing"]), int(facts["upto"]) + 1
                words = f"the tail was cut: {missing} records are missing that the anchor knew at the next start"
                self._cuts.append(Fault(FaultKind.TAIL_CUT, first, words))
                self._cut_heads.append(str(facts["anchor"]))
                return
            if record.act == ActName.PRUNED:
                self._pruned = Head(int(facts["upto"]), str(facts["head"]))
                return
            self._carried.append(Head(int(facts["old_count"]), str(facts["old_head"])))
            faults = ", ".join(map(str, facts["faults"]))
        # Without a key anybody can make a valid MAC.
        except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
            self._add(
                FaultKind.EDITED,
                record.number,
                "says something about the chain that makes no sense",
            )
            return
        if faults:
            words = f"the chain was broken already when it was carried over: {faults}"
            self._add(FaultKind.CARRIED, record.number, words)

    def _invalid_faults(self) -> list[Fault]:
        if self._invalid and not self._valid_count:
            words = "no record is of this cache: the whole chain was made under another key"
            return [Fault(FaultKind.FOREIGN, self.first, words)]
        return [self._invalid_fault(record) for record in self._invalid]

    def _invalid_fault(self, record: Record) -> Fault:
        for other in self._invalid[:_MOST_COMPARED]:
            if other.number != record.number and self.chain_mac.verifies(
                record, number=other.number
            ):
                words = f"stands in the place of another: it was made as record {other.number}"
                return Fault(FaultKind.REORDERED, record.number, words)
        return Fault(FaultKind.EDITED, record.number, "was changed, or not made by this program")

    def _beginning_faults(self) -> list[Fault]:
        start = self._pruned or Head()
        # An empty chain: the anchor tells what should be there. A beginning before what was pruned:
        # pruning is one transaction, so a later record pruned, and the MACs tell.
        if not self.first or self._started_from.count < start.count or self._started_from == start:
            return []
        if self._started_from.count == start.count:
            words = "the oldest record does not follow what was pruned (or the beginning)"
            return [Fault(FaultKind.INSERTED, self.first, words)]
        missing = f"{start.count + 1} to {self.first - 1}"
        return [Fault(FaultKind.DELETED, start.count + 1, f"missing at the beginning: {missing}")]

    def _anchor_faults(self) -> list[Fault]:
        if self.anchored is None or self.anchored.count == 0:
            return []
        if self._cuts and str(self.anchored) in self._cut_heads:
            return []
        count, mac = self.anchored.count, self.anchored.mac
        if count > self.head.count:  # defence: audit-tail-not-cut
            words = f"the tail is cut: the anchor knows {count} records, the chain has {self.head.count}"
            return [Fault(FaultKind.TAIL_CUT, self.head.count + 1, words)]
        if self._differs(self.anchored):
            words = f"record {count} is not the one that the anchor names ({mac[:16]}…)"
            return [Fault(FaultKind.FOREIGN, count, words)]
        return []

    def _expected_faults(self) -> list[Fault]:
        if self.expected is None:
            return []
        count = self.expected.count
        if count == 0 < self.head.count:
            words = "you noted the beginning of all chains, which says nothing of this one"
            return [Fault(FaultKind.UNEXPECTED, 0, words)]
        if self.expected in self._carried:
            return []
        if count > self.head.count:
            words = f"you noted {count} records, the chain has {self.head.count}"
            return [Fault(FaultKind.TAIL_CUT, self.head.count + 1, words)]
        if not self._differs(self.expected):
            return []
        words = f"record {count} is not the one you noted"
        if any(count < carried.count for carried in self._carried):
            words += (
                "; it was noted before the cache was rewritten, and of that time only "
                + " and ".join(str(carried) for carried in self._carried)
                + " can be compared"
            )
        return [Fault(FaultKind.UNEXPECTED, count, words)]

    def _differs(self, head: Head) -> bool:
        """Tell whether the chain has another record at that place; pruned ones cannot be compared."""
        if head.count == 0:
            return head.mac != GENESIS
        if self._pruned is not None and head.count <= self._pruned.count:
            return head.count == self._pruned.count and head.mac != self._pruned.mac
        return self._seen.get(head.count) != head.mac

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if not self.chain_mac.keyed:
            notes.append(
                "This cache is not encrypted, so the chain has no key: it shows accidents, and anybody "
                "who can write the file can rewrite it. Only a head you noted elsewhere shows that."
            )
        if self.anchored is None:
            notes.append("There is no anchor yet: a cut tail would not be seen.")
        if self._pruned is not None:
            notes.append(f"Records up to {self._pruned.count} were pruned after their time.")
        return tuple(notes)

    def _add(self, kind: FaultKind, number: int, words: str) -> None:
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(Fault(kind, number, words))
