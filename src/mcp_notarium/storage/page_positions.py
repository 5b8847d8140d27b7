"""``Places``: where pages of a listing begin, so that the way to them is not walked again.

An index finds a note at once, but not the note at a position: who asks for a page in the middle has half
the index walked. Whoever has read that page before, or the one before it, begins there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mcp_notarium.search.query import Query
from mcp_notarium.search.sql_builder import Place
from mcp_notarium.storage.connection import Database, Row
from mcp_notarium.storage.query_cache import Kept

FAR = 200
"""Notes; a way as short as this is walked as fast as a place is looked up."""
MOST_PLACES = 256
_MOST_LISTINGS = 16
_PK, _MODIFIED_AT, _CREATED_AT = 0, 4, 5  # among the columns of a page


class ListingPlaces:
    """The known places of one listing, true as long as no note changes."""

    def __init__(self, query: Query) -> None:
        self._sorted = _CREATED_AT if query.sort_by == "created_at" else _MODIFIED_AT
        self._places: dict[int, Place] = {}

    def nearest(self, offset: int) -> Place | None:
        """The last one at or before ``offset``."""
        at = max((known for known in self._places if known <= offset), default=None)
        return None if at is None else self._places[at]

    def note(self, offset: int, rows: Sequence[Row]) -> None:
        """The page at ``offset`` is made of these rows; beyond so many the oldest is forgotten."""
        for at in {0, len(rows) - 1} if rows else ():
            if offset + at not in self._places and len(self._places) == MOST_PLACES:
                self._places.pop(next(iter(self._places)))
            row = rows[at]
            self._places[offset + at] = Place(offset + at, row[self._sorted], row[_PK])


class Places:
    """Those of a few listings. See :class:`Kept` for ``written``."""

    def __init__(self, database: Database, *, written: Callable[[], int]) -> None:
        self._kept: Kept[Query, ListingPlaces] = Kept(
            database, written=written, most=_MOST_LISTINGS
        )

    def of(self, query: Query, *, up_to: int) -> ListingPlaces:
        """Those of this listing; ask before reading a page that ends at ``up_to``, and note it there."""
        fresh = ListingPlaces(query)
        if up_to < FAR or (kept := self._kept.now()) is None:
            return fresh
        if query not in kept:
            self._kept.keep(query, fresh)
        return kept[query]
