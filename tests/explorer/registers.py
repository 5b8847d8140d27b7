"""Remember what servers set, one value at a time, and say which values may be there in the end.

A *register* is a property, a tag or a task of a note. What was answered as done holds until a change of the same register that began later is
answered as done. Of changes at the same moment any may be the last one, and one without an answer may arrive whenever it will.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Key = tuple[str, str, str]
"""A word of the note, the kind of register, and its name."""
Value = object


@dataclass(eq=False, slots=True)
class Change:
    """Hold one change of a register. ``told``: what it makes of it, in words."""

    key: Key
    allows: Callable[[Value], bool]
    told: str
    began: int
    ended: int | None = None
    certain: bool = False


@dataclass
class Registers:
    """All registers of a run."""

    _changes: dict[Key, list[Change]] = field(default_factory=dict)
    _moment: int = 0

    def has(self, key: Key, value: Value) -> None:
        """Learn what a register is at the beginning."""
        self.end(self.begin(key, lambda one: one == value, repr(value)), certain=True)

    def knows(self, key: Key, value: Value) -> None:
        """See :meth:`has`, of a register that nobody may have changed before."""
        if key not in self._changes:
            self.has(key, value)

    def begin(self, key: Key, allows: Callable[[Value], bool], told: str) -> Change:
        """Learn that somebody is about to change a register, so that it has a value which is allowed then."""
        self._moment += 1
        made = Change(key, allows, told, self._moment)
        absent = Change(key, lambda one: not one, "nothing", 0, 0, certain=True)
        self._changes.setdefault(key, [absent]).append(made)
        return made

    def end(self, change: Change, *, certain: bool) -> None:
        """Learn that a change was answered; ``certain``: as done."""
        self._moment += 1
        change.ended, change.certain = self._moment, certain

    def beside(self, change: Change) -> list[Change]:
        """Return the other changes of the register that were not over before this one began."""
        return [
            one
            for one in self._changes[change.key]
            if one is not change and (one.ended is None or one.ended > change.began)
        ]

    def stood(self, change: Change, value: Value) -> bool:
        """Tell whether an earlier change of the register may have made this value: that it is there proves nothing."""
        changes = self._changes[change.key]
        earlier = (one for one in changes if one.ended is not None and one.ended <= change.began)
        return any(one.allows(value) for one in earlier)

    def of(self, mark: str) -> list[Key]:
        """Return the registers of a note that somebody has changed."""
        return [key for key in self._changes if key[0] == mark]

    def fault(self, key: Key, value: Value) -> str:
        """Return what is wrong with a value, '' if nothing is."""
        changes = self._changes[key]
        possible = [
            one
            for one in changes
            if one.ended is None
            or not any(later.certain and later.began > one.ended for later in changes)
        ]
        if any(one.allows(value) for one in possible):
            return ""
        return f"it is {value!r}, and was made {', or '.join(one.told for one in possible)}"
