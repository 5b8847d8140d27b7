"""``Calm``: whether another look at the cache would find what the last one found, nothing to do."""

from __future__ import annotations

from collections.abc import Callable

from mcp_notarium.errors import CacheError
from mcp_notarium.storage.connection import Database

SECONDS = 5.0
"""How long a look is good for at most: some things are due by the clock, without anybody having written."""


class Calm:
    """For whoever looks again and again. ``stopwatch`` gives seconds from anywhere."""

    def __init__(self, database: Database, *, stopwatch: Callable[[], float]) -> None:
        self._db = database
        self._stopwatch = stopwatch
        self._now: tuple[int, int] | None = None
        self._as_of: tuple[int, int] | None = None
        self._until = 0.0

    def lasts(self) -> bool:
        """Whether nothing has been written since the look that began it. Ask before every look."""
        try:
            self._now = self._db.stamp()
        except CacheError:
            self._now = None  # whoever looks meets it
        return (
            self._now is not None and self._now == self._as_of and self._stopwatch() < self._until
        )

    def disturb(self) -> None:
        """The look could not be taken."""
        self._now = None

    def begin(self) -> None:
        """The look that was taken after :meth:`lasts` has found nothing; without effect if disturbed."""
        self._as_of = self._now
        self._until = self._stopwatch() + SECONDS
