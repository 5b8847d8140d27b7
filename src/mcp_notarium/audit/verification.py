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

from mcp_notarium.audit.chain import GENESIS, Act, Head, Record, Seal

_MOST_COMPARED: Final = 200
"""Up to this many records with a wrong MAC are tried at each other's places."""
_MOST_KEPT: Final = 1000
MOST_FAULTS: Final = 100


class Kind(StrEnum):
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


@dataclass(frozen=True, slots=True)
class Fault:
    """Hold one fault at record ``number``, in words for a person."""

    kind: Kind
    number: int
    words: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Hold the result for a chain. ``first`` is the number of its oldest record, 0 if there is none.

    ``noted`` lists facts that are no fault but should be known.
    """

    head: Head
    first: int
    faults: tuple[Fault, ...]
    noted: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Tell whether there is no fault."""
        return not self.faults


@dataclass(slots=True)
class ChainVerifier:
    """Verify a chain: feed every record, then ask for :meth:`result`.

    ``anchored`` is the head kept outside, ``expected`` a head that a person noted.
    """

    seal: Seal
    anchored: Head | None = None
    expected: Head | None = None
    first: int = 0
    head: Head = field(default_factory=Head)
    _faults: list[Fault] = field(default_factory=list)
    _unfit: list[Record] = field(default_factory=list)
    _fit: int = 0
    _started_from: Head = field(default_factory=Head)
    _pruned: Head | None = None
    _carried: list[Head] = field(default_factory=list)
    _seen: dict[int, str] = field(default_factory=dict)

    def feed(self, record: Record) -> None:
        """Take the next record; its number is higher than the one before."""
        fits = self.seal.verifies(record)
        if not self.first:
            self.first = record.number
            self._started_from = Head(record.number - 1, record.previous)
        else:
            self._compare(record, fits=fits)
        if fits:
            self._fit += 1
            self._read_chain_record(record)
        elif len(self._unfit) < _MOST_KEPT:
            self._unfit.append(record)
        if record.number in self._wanted():
            self._seen[record.number] = record.mac
        self.head = Head(record.number, record.mac)

    def result(self) -> Verification:
        """Return all faults, the earliest first."""
        faults = [*self._of_unfit(), *self._faults, *self._of_beginning()]
        faults += self._of_anchor() + self._of_expected()
        faults.sort(key=lambda fault: fault.number)
        return Verification(self.head, self.first, tuple(faults[:MOST_FAULTS]), self._noted())

    def _wanted(self) -> Iterator[int]:
        return (each.count for each in (self.anchored, self.expected) if each is not None)

    def _compare(self, record: Record, *, fits: bool) -> None:
        """Compare a record with the one before."""
        missing = record.number - self.head.count - 1
        if missing:
            last = record.number - 1
            which = f"{last}" if missing == 1 else f"{self.head.count + 1} to {last}"
            self._add(Kind.DELETED, self.head.count + 1, f"missing: {which}")
        elif fits and record.previous != self.head.mac:
            self._add(
                Kind.INSERTED,
                record.number,
                "does not follow the record before it: that one was put in or replaced",
            )

    def _read_chain_record(self, record: Record) -> None:
        """Read what an authentic record says about the chain itself."""
        if record.act not in (Act.PRUNED, Act.CARRIED):
            return
        try:
            facts = json.loads(record.facts)
            if record.act == Act.PRUNED:
                self._pruned = Head(int(facts["upto"]), str(facts["head"]))
                return
            self._carried.append(Head(int(facts["old_count"]), str(facts["old_head"])))
            faults = ", ".join(map(str, facts["faults"]))
        # Without a key anybody can make a valid MAC.
        except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
            self._add(Kind.EDITED, record.number, "says something about the chain that is no sense")
            return
        if faults:
            words = f"the chain was broken already when it was carried over: {faults}"
            self._add(Kind.CARRIED, record.number, words)

    def _of_unfit(self) -> list[Fault]:
        if self._unfit and not self._fit:
            words = "no record is of this cache: the whole chain was made under another key"
            return [Fault(Kind.FOREIGN, self.first, words)]
        return [self._unfit_one(record) for record in self._unfit]

    def _unfit_one(self, record: Record) -> Fault:
        for other in self._unfit[:_MOST_COMPARED]:
            if other.number != record.number and self.seal.verifies(record, number=other.number):
                words = f"stands in the place of another: it was made as record {other.number}"
                return Fault(Kind.REORDERED, record.number, words)
        return Fault(Kind.EDITED, record.number, "was changed, or not made by this program")

    def _of_beginning(self) -> list[Fault]:
        due = self._pruned or Head()
        if not self.first:
            return []  # the anchor tells what should be there
        if self._started_from.count < due.count:
            return []  # pruning is one transaction, so a later record pruned: the MACs tell
        if self._started_from == due:
            return []
        if self._started_from.count == due.count:
            words = "the oldest record does not follow what was pruned (or the beginning)"
            return [Fault(Kind.INSERTED, self.first, words)]
        missing = f"{due.count + 1} to {self.first - 1}"
        return [Fault(Kind.DELETED, due.count + 1, f"missing at the beginning: {missing}")]

    def _of_anchor(self) -> list[Fault]:
        if self.anchored is None or self.anchored.count == 0:
            return []
        count, mac = self.anchored.count, self.anchored.mac
        if count > self.head.count:
            words = f"the tail is cut: the anchor knows {count} records, the chain has {self.head.count}"
            return [Fault(Kind.TAIL_CUT, self.head.count + 1, words)]
        if self._differs(self.anchored):
            words = f"record {count} is not the one that the anchor names ({mac[:16]}…)"
            return [Fault(Kind.FOREIGN, count, words)]
        return []

    def _of_expected(self) -> list[Fault]:
        if self.expected is None:
            return []
        count = self.expected.count
        if count == 0 < self.head.count:
            words = "you noted the beginning of all chains, which says nothing of this one"
            return [Fault(Kind.UNEXPECTED, 0, words)]
        if self.expected in self._carried:
            return []
        if count > self.head.count:
            words = f"you noted {count} records, the chain has {self.head.count}"
            return [Fault(Kind.TAIL_CUT, self.head.count + 1, words)]
        if not self._differs(self.expected):
            return []
        words = f"record {count} is not the one you noted"
        if any(count < carried.count for carried in self._carried):
            words += (
                "; it was noted before the cache was written anew, and of that time only "
                + " and ".join(str(carried) for carried in self._carried)
                + " can be compared"
            )
        return [Fault(Kind.UNEXPECTED, count, words)]

    def _differs(self, head: Head) -> bool:
        """Tell whether the chain has another record at that place; pruned ones cannot be compared."""
        if head.count == 0:
            return head.mac != GENESIS
        if self._pruned is not None and head.count <= self._pruned.count:
            return head.count == self._pruned.count and head.mac != self._pruned.mac
        return self._seen.get(head.count) != head.mac

    def _noted(self) -> tuple[str, ...]:
        noted = []
        if not self.seal.keyed:
            noted.append(
                "This cache is not encrypted, so the chain has no key: it shows accidents, and anybody "
                "who can write the file can make it anew. Only a head you noted elsewhere shows that."
            )
        if self.anchored is None:
            noted.append("There is no anchor yet: a cut tail would not be seen.")
        if self._pruned is not None:
            noted.append(f"Records up to {self._pruned.count} were pruned after their time.")
        return tuple(noted)

    def _add(self, kind: Kind, number: int, words: str) -> None:
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(Fault(kind, number, words))
