"""Play every order of the events of a small world, up to the end of a process or of the power at every place, once each.

Two orders that differ only in events which have nothing to do with each other come to the same. So each decision is known by
what led to it, and the rest is not played again if that was there before. What led to it is a *mark* of each part of the world:

* An event of a process has to do with the process, and with the database of its computer. It leaves another mark on the
  database only if something was committed, or a process ended.
* The arrival of a request has to do with the store; it leaves another mark there only if a note has changed.
* Anything else has to do with everything.

The mark of an event that is waited for holds what it was made of. Equal marks mean that the same events have
happened, and in the same order wherever one could know of another. Time stands still and each process has its own chance, so the states are equal, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from explorer.choices import KILL, Chooser

if TYPE_CHECKING:
    from explorer.loop import Event

_FOREIGN = "another device: "
_ARRIVES = " arrives"
_LOST = "commits the disk still has"


class Seen(BaseException):
    """What follows was played before."""


class EveryOrder(Chooser):
    """Decide one after the other.

    ``prefix`` are the first decisions; :meth:`next_prefix` is that of the next schedule. ``seen``: the marks of what was
    played before; None plays every order, also those that differ in nothing.
    """

    def __init__(
        self, prefix: Sequence[int], *, kills: int = 1, seen: set[str] | None = None
    ) -> None:
        super().__init__(schedule={})
        self._prefix = prefix
        self._kills = kills
        self._seen = seen
        self.taken: list[tuple[int, int]] = []
        """What was decided, and among how many."""
        self.words: list[str] = []
        self.commits: Callable[[str], int] = lambda _machine: 0
        self.changes: Callable[[], int] = lambda: 0
        """How often the notes of the store have changed, and how much a computer has committed."""
        self._store = ""
        self._databases: dict[str, str] = {}
        self._processes: dict[str, str] = {}
        self._event: Event | None = None
        self._basis = ""
        self._before: tuple[int, int] = (0, 0)
        self._made = 0
        self._ended = ""
        """Decisions about ends in this event."""

    def choose(self, label: str, options: int, *, rate: float) -> int:
        """Return the option of the prefix for the end of a process, and for what a disk has lost; the calm one otherwise."""
        del rate
        ends = label.startswith(KILL)
        if self.mute or options < 2 or not (ends or label.endswith(_LOST)):
            return 0
        if ends and self._killed() >= self._kills:
            return 0
        option = self._decide(label, options)
        if option or not ends:
            self._ended += f"{label} {option}\n"
        return option

    def delay_event(self, label: str, *, late: bool) -> tuple[int, float]:
        """Return that it waits for nothing but its turn."""
        del label, late
        return 0, 0.0

    def delay_step(self, owner: str) -> int:
        """Return that steps are not delayed."""
        del owner
        return 0

    def mark(self, label: str, owner: Any) -> str:
        """See ``Decider.mark``."""
        self._made += 1
        process = "" if owner is None else self._processes.get(owner.name, "")
        return _hash(label, self._basis, self._ended, str(self._made), process)

    def pick(self, events: Sequence[Event]) -> int:
        """See ``Decider.pick``. Raises ``Seen``."""
        self._finish()
        order = sorted(range(len(events)), key=lambda at: (events[at].label, events[at].mark))
        at = order[0]
        if not self.mute and not self._killed():
            self._require_new(events)
            names = [events[one].label for one in order]
            if len(names) > 1:
                at = order[self._decide(f"{names[0]} before others", len(names), names)]
        self._begin(events[at])
        return at

    def next_prefix(self) -> list[int] | None:
        """Return the decisions of the next schedule, None after the last one."""
        decided = self.taken[:]
        while decided:
            option, options = decided.pop()
            if option + 1 < options:
                return [*(taken for taken, _ in decided), option + 1]
        return None

    def _killed(self) -> int:
        return sum(1 for word in self.words if word.startswith(KILL))

    def _decide(self, label: str, options: int, names: Sequence[str] = ()) -> int:
        at = len(self.taken)
        option = self._prefix[at] if at < len(self._prefix) else 0
        self.taken.append((option, options))
        if option:
            self.words.append(f"{label} {names[option] if names else option}")
        return option

    # What led to a decision.

    def _require_new(self, events: Sequence[Event]) -> None:
        if self._seen is None or len(self.taken) < len(self._prefix):
            return
        found = _hash(
            self._store,
            *(f"{name} {mark}" for name, mark in sorted(self._databases.items())),
            *(f"{name} {mark}" for name, mark in sorted(self._processes.items())),
            *sorted(event.mark for event in events),
            str(self._killed()),
        )
        if found in self._seen:
            raise Seen
        self._seen.add(found)

    def _begin(self, event: Event) -> None:
        machine = _machine_of(event)
        database = self._databases.get(machine, "")
        if _is_at_store(event):
            read = database if "changes" in event.label else ""  # it asks for the base of a note
            self._basis = _hash(event.mark, self._store, read)
        elif event.owner is not None:
            process = self._processes.get(event.owner.name, "")
            self._basis = _hash(event.mark, process, database)
        else:
            every = (*sorted(self._databases.values()), *sorted(self._processes.values()))
            self._basis = _hash(event.mark, self._store, *every)
        self._event, self._made, self._ended = event, 0, ""
        self._before = self.changes(), self.commits(machine)

    def _finish(self) -> None:
        event = self._event
        if event is None:
            return
        self._event = None
        machine, (changes, commits) = _machine_of(event), self._before
        after = _hash(self._basis, self._ended)
        if self.changes() != changes:
            self._store = _hash(self._store, after)
        if event.owner is not None and not _is_at_store(event):
            self._processes[event.owner.name] = after
        alone = event.owner is None and not event.label.startswith(_FOREIGN)
        for name in {machine, *self._databases} if alone else {machine}:
            if alone or self._ended or self.commits(machine) != commits:
                self._databases[name] = _hash(self._databases.get(name, ""), after)


def _is_at_store(event: Event) -> bool:
    return event.label.endswith(_ARRIVES) or event.label.startswith(_FOREIGN)


def _machine_of(event: Event) -> str:
    machine = getattr(event.owner, "machine", None)
    return "" if machine is None else str(machine.name)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
