"""Tell what has changed at a Trilium server since a listing, without listing everything again.

The server counts its changes and names none. The notes of a later date are asked for if the count has grown. No date
moves with a label, with a place in the tree or with a deletion; the totals of the server's own statistics do. Everything
is listed if these have moved, or no note explains the count. A change that leaves both as they are (a note moved and
another edited between two looks) shows in the listing that follows ``LISTING_SECONDS`` after the last.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mcp_notarium.errors import CursorLost, StoreError
from mcp_notarium.stores.contract import BaseLookup
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.trilium.note_codec import NoteObject
from mcp_notarium.stores.trilium.note_reader import NoteReader
from mcp_notarium.stores.trilium.session import TriliumSession, date_of, value_of
from mcp_notarium.stores.trilium.urls import Urls

LISTING_SECONDS = 300.0
MOST_CHANGED = 200
"""Changed notes that are read one by one; more are listed."""
_OVERLAP = 2.0
"""Seconds before the newest date that is known: two changes may have one."""
_LARGEST = 64 * 1024
_PROBE_SECONDS = 5.0
_COUNTER = "trilium-max-entity-change-id"
_TOTALS = ("totalNotes", "totalBranches", "deletedNotes", "protectedNotes", "totalAttributes")
_UNKNOWN = "unknown"
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Place:
    """Hold what is known of the server at one moment."""

    count: str | None
    """Its changes. None: it does not tell."""
    totals: tuple[int, ...] = ()
    """See ``_TOTALS``. Empty: it does not tell."""
    newest: float = 0.0
    """The newest date of a note, in epoch seconds."""
    listed: float | None = None
    """Time of the last listing of everything, in epoch seconds."""
    whole: bool = True
    """Nothing but such a listing has found what has changed since."""

    def cursor(self) -> str:
        """Return it as a cursor."""
        if self.count is None:
            return _UNKNOWN
        return to_json([self.count, self.totals, self.newest, self.listed, self.whole]).decode()


def place_of(cursor: str) -> Place:
    """Read a cursor of :meth:`Place.cursor`. Raises ``CursorLost`` for another one."""
    try:
        count, totals, newest, listed, whole = json.loads(cursor)
        return Place(str(count), tuple(totals), float(newest), listed, bool(whole))
    except (ValueError, TypeError):
        raise CursorLost("the server does not count its changes") from None


class ChangeProbe:
    """Ask one server for its changes."""

    def __init__(
        self, http: HttpSession, session: TriliumSession, urls: Urls, reader: NoteReader
    ) -> None:
        self._http = http
        self._session = session
        self._urls = urls
        self._reader = reader
        self._has_totals = True

    async def before_listing(self) -> Place:
        """Return the place before everything is listed: the listing may have more."""
        reply = await self._ask_count()
        if reply is None:
            return Place(None)
        return Place(_count(reply), await self._totals(), listed=date_of(reply))

    async def since(self, cursor: str, base_of: BaseLookup) -> tuple[list[NoteObject], str]:
        """Return the notes that have changed since, and the new cursor: the same if nothing has.

        Raises ``CursorLost`` if only a listing tells.
        """
        place = place_of(cursor)
        reply = await self._ask_count()
        if reply is None or (count := _count(reply)) is None:
            raise CursorLost("the server does not tell its count of changes")
        if count == place.count and not _listing_due(place, date_of(reply)):
            return [], cursor
        totals = await self._totals() if count != place.count and place.totals else ()
        if not totals or _listing_due(place, date_of(reply)):
            raise CursorLost("something may have changed at Trilium")
        notes = await self._find_later(place)
        fresh = [note for note in notes if note.modified > place.newest]
        if not _explains(place.totals, totals, fresh):
            raise CursorLost("labels, places or deletions may have changed at Trilium")
        newest = max(note.modified for note in fresh)
        moved = replace(place, count=count, totals=totals, newest=newest, whole=False)
        known = ((note, base_of(note.id)) for note in notes if note.modified <= place.newest)
        late = [note for note, base in known if base is not None and base.etag != note.etag]
        return [*fresh, *late], moved.cursor()

    async def _find_later(self, place: Place) -> tuple[NoteObject, ...]:
        try:
            rows = await self._reader.found(self._urls.changed_since(_date(place.newest)))
            if len(rows) > MOST_CHANGED:
                raise CursorLost("many notes have changed at Trilium")
            return self._reader.notes_of(rows)
        except StoreError as error:  # a search may fail that a listing finds a way round
            raise CursorLost("the search for changed notes has failed") from error

    async def _ask_count(self) -> Reply | None:
        """Ask for the count of changes; None if there is no answer, as behind a proxy for ETAPI alone."""
        request = Request(
            "GET", self._urls.status(), tries=1, deadline=_PROBE_SECONDS, largest=_LARGEST
        )
        try:
            reply = await self._http.send(request)
        except StoreError:
            return None
        return reply if reply.ok and _count(reply) is not None else None

    async def _totals(self) -> tuple[int, ...]:
        """Return the totals that every change but an edit moves; empty for a server that has none, or fails."""
        if not self._has_totals:
            return ()
        request = Request("GET", self._urls.totals(), tries=1, deadline=_PROBE_SECONDS)
        try:
            reply = await self._session.send(request)
            self._has_totals = reply.status != _NOT_FOUND
            return _read_totals(value_of(reply)) if reply.ok else ()
        except StoreError:
            return ()


def _explains(before: tuple[int, ...], now: tuple[int, ...], fresh: list[NoteObject]) -> bool:
    """Tell whether these notes are all that has changed, as far as the totals tell."""
    notes, branches, *others = (new - old for new, old in zip(now, before, strict=True))
    made = notes == branches and 0 <= notes <= len(fresh)
    return bool(fresh) and made and not any(others)


def _listing_due(place: Place, now: float | None) -> bool:
    if place.listed is None or now is None:
        return not place.whole
    return not place.whole and not 0 <= now - place.listed < LISTING_SECONDS


def _count(reply: Reply) -> str | None:
    count = reply.headers.get(_COUNTER, "")
    return count if count.isdecimal() and len(count) < len(str(2**64)) else None


def _read_totals(value: Any) -> tuple[int, ...]:
    totals = value.get("database") if isinstance(value, dict) else None
    found = [totals.get(name) if isinstance(totals, dict) else None for name in _TOTALS]
    whole = tuple(one for one in found if type(one) is int)
    return whole if len(whole) == len(_TOTALS) else ()


def _date(newest: float) -> str:
    """Return a date as Trilium writes it, some seconds before another."""
    moment = datetime.fromtimestamp(newest - _OVERLAP, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
