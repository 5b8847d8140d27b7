"""Read ids such as ``daily:today``, and find the note of a day.

A day is one of the local time zone of this computer. Every tool takes such an id for a note; ``save`` makes that note.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from mcp_notarium.domain.note import Note
from mcp_notarium.errors import InvalidRequest, NoteNotFound
from mcp_notarium.tools.requests import DAY_PREFIX
from mcp_notarium.tools.sync_notice import still_loading

if TYPE_CHECKING:
    from mcp_notarium.app import App

_NAMED = {"yesterday": -1, "today": 0, "tomorrow": 1}
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_FORMS = "Write `daily:today`, `daily:yesterday`, `daily:tomorrow` or a day of the calendar like `daily:2026-11-28`."


def read_day(note_id: str, *, now: float) -> date:
    """Return the day that such an id names. Raises ``InvalidRequest`` for a day that there is not."""
    named = note_id.strip()[len(DAY_PREFIX) :].strip().lower()
    try:
        if named in _NAMED:
            today = datetime.fromtimestamp(now, UTC).astimezone().date()
            return today + timedelta(days=_NAMED[named])
        if _DAY.fullmatch(named):
            return date.fromisoformat(named)
    except (ValueError, OverflowError):
        pass
    raise InvalidRequest("This names no day.", subcategory="day", resolution_hint=_FORMS)


async def find_day(app: App, note_id: str) -> Note:
    """Return the note of the day that such an id names. Raises ``NoteNotFound``, and as the next two."""
    day = read_day(note_id, now=app.clock())
    note = await find_note_of(app, day)
    if note is None:
        raise missing_day_error(app, day)
    return note


async def find_note_of(app: App, day: date) -> Note | None:
    """Return the note of a day. Raises ``StillLoading`` if it may be among the notes that are not here yet."""
    days = app.library.days
    note = await days.find(at_day(app, day))
    unsure = days.titled or app.config.policy.visibility.has_rules
    if note is None and unsure and not app.library.status().complete:
        raise still_loading(app, "whether this day has a note shows when all are here.")
    return note


def missing_day_error(app: App, day: date) -> NoteNotFound:
    """Return the error for a day without a note."""
    writes = app.config.policy.offers("save")
    return NoteNotFound(
        f"There is no note of {day.isoformat()} yet.",
        details={"day": day.isoformat()},
        resolution_hint="`save` with this id and `append` or `text` makes it."
        if writes
        else "None can be made here.",
    )


def local_time(app: App) -> datetime:
    """Return the present time in the local time zone."""
    return datetime.fromtimestamp(app.clock(), UTC).astimezone()


def at_day(app: App, day: date) -> datetime:
    """Return the present time of this day, in the local time zone."""
    clock = local_time(app).replace(tzinfo=None)
    try:
        return datetime.combine(day, clock.time()).astimezone()
    except (ValueError, OverflowError):  # the ends of the calendar, in some zones
        return datetime.combine(day, clock.time(), UTC)
