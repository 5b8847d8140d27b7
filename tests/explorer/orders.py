"""Play every order of the events of a small world, up to the end of a process or of the power at every place, once each.

Two orders that differ in nothing that anybody has seen come to the same. So a state is known by what is there and by what each
has seen, and what follows it is not played again if it was there before:

* A process is known by its events, and by what it has read in each: rows of the database of its computer, and answers.
* A database is known by its rows, and by the commits that the disk does not have yet. The order of records in the audit log counts for nothing.
* The store is known by the changes of its notes in their order, each by the request.
* An event that is waited for is known by what its process had seen when it was made; an answer, by what it says.
* What follows the end of a process is always played.

Who waits for another one looks again only when something has changed, or nothing else can happen. Time stands still and each process has its
own chance, so that such states are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from explorer.choices import KILL, Chooser
from explorer.loop import PAUSE_SECONDS

if TYPE_CHECKING:
    from explorer.loop import Event

_FOREIGN = "another device: "
_ARRIVES = " arrives"
_DATA_VERSION = "PRAGMA data_version"
_LOOKS_AGAIN = f" {PAUSE_SECONDS:g} s pass"
_LAST_RECORD = "SELECT number, mac FROM audit"
_LOST = "commits the disk still has"


class Seen(BaseException):
    """What follows was played before."""


@dataclass
class Scope:
    """Remember what was played of a small world.

    ``seen``: the marks of what was played before; None plays every order, also those that differ in nothing. ``share``: of the ends of a
    process or of the power, which one of how many parts is played; all orders without an end are.
    """

    seen: set[str] | None
    share: tuple[int, int] = (0, 1)
    orders: int = 0
    """Orders without an end that were played."""
    ends: int = 0
    """Orders with an end that were played."""
    known_ends: int = 0
    """Ends that there are in the orders so far: of a process, and of the power, at each place."""
    whole: bool = False
    """Nothing is left."""


class EveryOrder(Chooser):
    """Decide one after the other.

    ``prefix`` are the first decisions; :meth:`next_prefix` is that of the next schedule.
    """

    def __init__(self, prefix: Sequence[int], scope: Scope, *, kills: int = 1) -> None:
        super().__init__(schedule={})
        self._prefix = prefix
        self._kills = kills
        self._scope = scope
        self._places = 0
        """Places to end at so far."""
        self._turns: list[int] = []
        """What was decided of orders."""
        self.taken: list[tuple[int, int]] = []
        """What was decided, and among how many."""
        self.words: list[str] = []
        self.changes: Callable[[], int] = lambda: 0
        """How often the notes of the store have changed."""
        self._store = ""
        self.contents: Callable[[], str] = lambda: ""
        """What the databases hold, what each client is at, and what it must find in the end."""
        self._unflushed: dict[str, str] = {}
        """Computer to what led to the commits that a loss of power may undo."""
        self._processes: dict[str, str] = {}
        self._versions: dict[str, Any] = {}
        """Process to the number by which it knows that somebody else has written."""
        self._event: Event | None = None
        self._running: dict[str, Any] = {}
        """Process to the hash of what it had seen before, and sees in this event."""
        self._made = 0
        self._before = 0
        self._changed = 0
        """How often anything was committed, or changed at the store."""
        self._looked: dict[str, int] = {}
        """Mark of a pause between two looks to that number when it began."""

    def _choose(
        self, label: str, names: Sequence[object], *, rate: float, said: Sequence[object]
    ) -> int:
        """Return the option of the prefix for the end of a process, and for what a disk has lost; the calm one otherwise."""
        del rate, said
        options = len(names)
        ends = label.startswith(KILL)
        if self.mute or options < 2 or not (ends or label.endswith(_LOST)):
            return 0
        if ends and (self.killed >= self._kills or not self._is_shared(label, options)):
            return 0
        return self._decide(label, options)

    def _is_shared(self, label: str, options: int) -> bool:
        """Count a place to end at, once; tell whether it is in the part that is played."""
        self._places += 1
        if len(self.taken) >= len(self._prefix):
            self._scope.known_ends += options - 1
        mark = _hash(label, str(self._places), repr(self._turns))
        part, parts = self._scope.share
        return int(mark, 16) % parts == part

    def delay_event(self, label: str, *, late: bool) -> tuple[int, float]:
        """Return that it waits for nothing but its turn."""
        del label, late
        return 0, 0.0

    def delay_step(self, owner: str) -> int:
        """Return that steps are not delayed."""
        del owner
        return 0

    def observe(self, process: str, sql: str, found: object) -> None:
        """See ``Chooser.observe``."""
        event = self._event
        if (
            self.mute or event is None or _is_at_store(event)
        ):  # what it reads there is in the answer
            return
        if sql == _DATA_VERSION:
            before = self._versions.get(process)
            self._versions[process], found = found, found != before
        if not sql.startswith(_LAST_RECORD):
            self._run_of(process).update(repr(found).encode())

    def committed(self, machine: str, process: str) -> None:
        """See ``Chooser.committed``."""
        self._changed += 1
        if self._kills and not self.mute and self._event is not None:
            mark = self._run_of(process).hexdigest()
            self._unflushed[machine] = _hash(self._unflushed.get(machine, ""), mark)

    def flushed(self, machine: str) -> None:
        """See ``Chooser.flushed``."""
        self._unflushed.pop(machine, None)

    def bring(self, found: object) -> None:
        """See ``Chooser.bring``."""
        if not self.mute:
            self._running[""] = hashlib.sha256(repr(found).encode())

    def mark(self, label: str, owner: Any) -> str:
        """See ``Decider.mark``."""
        self._made += 1
        event = self._event
        if self.mute or event is None:
            return _hash(label)
        if _is_at_store(event):
            return _hash(label, self._run_of("").hexdigest())
        name = label.partition(": ")[0] if owner is None else owner.name
        mark = _hash(label, self._run_of(name).hexdigest(), str(self._made))
        if label.endswith(_LOOKS_AGAIN):
            self._looked[mark] = self._changed
        return mark

    def pick(self, events: Sequence[Event]) -> int:
        """See ``Decider.pick``. Raises ``Seen``."""
        self._finish()
        news = [at for at, event in enumerate(events) if self._may_be_news(event)]
        order = sorted(
            news or range(len(events)), key=lambda at: (events[at].label, events[at].mark)
        )
        at = order[0]
        if not self.mute and not self.killed:
            self._require_new(events, order)
            names = [events[one].label for one in order]
            if len(names) > 1:
                self._turns.append(self._decide(f"{names[0]} before others", len(names), names))
                at = order[self._turns[-1]]
        self._begin(events[at])
        return at

    def _may_be_news(self, event: Event) -> bool:
        """Tell whether an event is more than another look at what nobody has changed since the last one."""
        return self._looked.get(event.mark) != self._changed

    def next_prefix(self) -> list[int] | None:
        """Return the decisions of the next schedule, None after the last one."""
        decided = self.taken[:]
        while decided:
            option, options = decided.pop()
            if option + 1 < options:
                return [*(taken for taken, _ in decided), option + 1]
        return None

    @property
    def killed(self) -> int:
        """Count the ends so far."""
        return sum(1 for word in self.words if word.startswith(KILL))

    def _decide(self, label: str, options: int, names: Sequence[str] = ()) -> int:
        at = len(self.taken)
        option = self._prefix[at] if at < len(self._prefix) else 0
        self.taken.append((option, options))
        if option:
            self.words.append(f"{label} {names[option] if names else option}")
        return option

    # What led to a decision.

    def _require_new(self, events: Sequence[Event], order: Sequence[int]) -> None:
        seen = self._scope.seen
        if seen is None or len(self.taken) < len(self._prefix):
            return
        found = _hash(
            self._store,
            self.contents(),
            *(f"{name} {mark}" for name, mark in sorted(self._unflushed.items())),
            *(f"{name} {mark}" for name, mark in sorted(self._processes.items())),
            *sorted(event.mark for event in events),
            *(events[at].mark for at in order),
        )
        if found in seen:
            raise Seen
        seen.add(found)

    def _begin(self, event: Event) -> None:
        self._event, self._made, self._before = event, 0, self.changes()
        self._running = {}
        self._run_of(_process_of(event))

    def _run_of(self, process: str) -> Any:
        """Return what is to be the mark of a process after this event; '' stands for the store, and for nobody."""
        if process not in self._running:
            event = self._event
            assert event is not None
            before = self._store if not process else self._processes.get(process, "")
            self._running[process] = hashlib.sha256(f"{before} {event.mark}".encode())
        return self._running[process]

    def _finish(self) -> None:
        event, self._event = self._event, None
        if event is None:
            return
        if self.changes() != self._before:
            self._store = _hash(self._store, event.mark)
            self._changed += 1
        self._processes |= {name: run.hexdigest() for name, run in self._running.items() if name}


def _is_at_store(event: Event) -> bool:
    return event.label.endswith(_ARRIVES) or event.label.startswith(_FOREIGN)


def _process_of(event: Event) -> str:
    """Return the process that an event is for, '' if it is for the store, or for nobody."""
    if _is_at_store(event):
        return ""
    return event.label.partition(": ")[0] if event.owner is None else event.owner.name


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
