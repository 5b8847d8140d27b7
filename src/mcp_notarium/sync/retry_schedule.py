"""When notes in doubt and unfinished writes are looked at again. Pure.

New ones soon, always; those that were looked at in vain after twice as long each time. A cycle that
only took up what the change feed brought has not looked at them and lengthens nothing.
"""

from __future__ import annotations

FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0


class Errands:
    """The pace of one engine. ``tried`` is set by a cycle that looks at them."""

    def __init__(self) -> None:
        self.tried = False
        self._known: frozenset[str] = frozenset()
        self._delay = 0.0
        self._at = 0.0

    def due(self, now: float) -> bool:
        """Whether it is time for those that are open."""
        return now >= self._at

    def pace(self, open_: frozenset[str], *, now: float) -> None:
        """After a cycle: ``open_`` is what is left or has come; ``now`` in seconds of any clock."""
        new = open_ - self._known
        if not open_:
            self._delay, self._at = 0.0, now
        elif new:
            self._delay = FIRST_DELAY
            soon = now + FIRST_DELAY
            waiting = bool(open_ & self._known) and not self.tried
            self._at = min(self._at, soon) if waiting else soon  # what comes puts nothing off
        elif self.tried:
            self._delay = min(2 * self._delay, LONGEST_DELAY)
            self._at = now + self._delay
        self._known = open_
        self.tried = False
