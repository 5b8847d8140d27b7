"""``Totals``: how many notes a query has, counted once for as long as no note changes.

Who turns pages asks the same query again, and counting costs more than finding a page. In memory only.
"""

from __future__ import annotations

from collections.abc import Callable

from mcp_notarium.cache.connection import Database
from mcp_notarium.query.sql import Parameter, Statement

MOST_KEPT = 64

_Asked = tuple[str, tuple[Parameter, ...]]


class Totals:
    """``written`` grows with every change of notes through ``database``; what others change, SQLite tells."""

    def __init__(self, database: Database, *, written: Callable[[], int]) -> None:
        self._db = database
        self._written = written
        self._as_of = (-1, -1)
        self._kept: dict[_Asked, int] = {}

    def of(self, count: Statement) -> int:
        """The number that ``count`` gives now."""
        if self._db.in_transaction:  # it may be undone
            return self._db.number(count.sql, count.parameters)
        # Before counting: a change that comes in between makes the next one count again.
        now = (self._db.data_version(), self._written())
        if now != self._as_of:
            self._kept.clear()
            self._as_of = now
        asked = (count.sql, count.parameters)
        if asked not in self._kept:
            number = self._db.number(count.sql, count.parameters)
            if len(self._kept) == MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[asked] = number
        return self._kept[asked]
