"""``Totals``: how many notes a query has, counted once for as long as no note changes.

Who turns pages asks the same query again, and counting costs more than finding a page.
"""

from __future__ import annotations

from collections.abc import Callable

from mcp_notarium.search.sql_conditions import Parameter, Statement
from mcp_notarium.storage.connection import Database
from mcp_notarium.storage.query_cache import Kept

MOST_KEPT = 64

_Asked = tuple[str, tuple[Parameter, ...]]


class Totals:
    """See :class:`Kept` for ``written``."""

    def __init__(self, database: Database, *, written: Callable[[], int]) -> None:
        self._db = database
        self._kept: Kept[_Asked, int] = Kept(database, written=written, most=MOST_KEPT)

    def of(self, count: Statement) -> int:
        """The number that ``count`` gives now."""
        asked = (count.sql, count.parameters)
        kept = self._kept.now()
        if kept is not None and asked in kept:
            return kept[asked]
        number = self._db.number(count.sql, count.parameters)
        if kept is not None:
            self._kept.keep(asked, number)
        return number
