"""Find one note: by its id, by an id of a day such as ``daily:today``, or by the name that an agent uses for it.

Nothing else is searched: an unknown id is an error.

A name counts only if one note has it, and only where no id is meant: an id that is known here is never looked up. Nor
is a path with ``..`` in it.

A day is one of the local time zone of this computer. Every tool takes such an id for a note; ``save`` makes that note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel

from mcp_notarium.domain.note import Note
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import (
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    StoreTimeout,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.markup.templates import DAYS
from mcp_notarium.tools.requests import DAY_PREFIX, is_day
from mcp_notarium.tools.sync_notice import still_loading

if TYPE_CHECKING:
    from mcp_notarium.app import App

_ID_SHOWN = 80


_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_FORMS = "Write `daily:today`, `daily:yesterday`, `daily:tomorrow` or a day of the calendar like `daily:2026-11-28`."


async def find_note(app: App, note_id: str) -> Note:
    """Return the note with this id, or of this day. Raises ``NoteNotFound``, or what the store answers.

    ``StillLoading`` is the only answer about a note that cannot be shown before all are here if rules hide
    notes: the store may refuse a hidden one in words of its own.
    """
    note = app.library.get(note_id)
    if note is None and is_day(note_id):
        return await find_day(app, note_id)
    if note is None and not app.library.status().complete:
        note = await _fetch(app, note_id)
        if (
            note is None
            and app.config.policy.visibility.has_rules
            and not app.library.status().complete
        ):
            raise still_loading(app, "whether there is one with this id shows when all are here.")
    elif note is None and app.library.store_may_have_more:
        with suppress(NotariumError):  # it has answered before that there is none
            note = await app.library.fetch(note_id)
    if note is None:
        raise _missing_note_error(app, note_id)
    return note


def _missing_note_error(app: App, note_id: str) -> NoteNotFound:
    """Return the error for an id without a note; that of a change of many notes is told where it belongs."""
    error = NoteNotFound("There is no note with this id.", details={"id": note_id[:_ID_SHOWN]})
    if app.library.is_change(note_id):
        error.message = "This is the id of a change of many notes, not of a note."
        error.resolution_hint = "`manage` with action `undo` takes it as `change_id`, without `id`."
    return error


async def _fetch(app: App, note_id: str) -> Note | None:
    """Fetch a note from the store; None if the answer must be the same as for a hidden note."""
    try:
        return await app.library.fetch(note_id)
    except NotariumError as error:
        if app.config.policy.visibility.has_rules:
            return None
        if error.retryable and isinstance(error, StoreUnavailable | StoreTimeout):
            error.resolution_hint = (
                "The first sync has not brought this note yet. Read notes that `list` shows, or try "
                "again when the note store can be reached."
            )
        raise


async def find_as_read(
    app: App, note_id: str, version: int | None, *, server_version: int | None = None
) -> Note:
    """Return the note as the caller has read it, at an older version as far as that is still known.

    Raises ``VersionConflict`` if it is not, or if the note is not at this ``server_version``.
    """
    try:
        note = await find_at_version(app, note_id, version)
    except VersionConflict:
        note = await find_note(app, note_id)
        if version is None:
            raise
        was = await app.library.history.content_at(note.id, version)
        if was is None:
            raise
        return replace(
            note,
            local_version=version,
            text=was.text,
            tags=was.tags,
            trash=was.trash,
            title=was.title,
            properties=was.properties,
        )
    if server_version not in (None, note.server_version):
        raise VersionConflict(
            f"The note is at server_version {note.server_version}, not {server_version}.",
            details=versions_of(note),
        )
    return note


async def find_at_version(app: App, note_id: str, version: int | None) -> Note:
    """Return the note a change is meant for. Raises ``VersionConflict`` if it is at another version."""
    if version is None:
        raise missing_version_error("This needs `local_version`.")
    note = await find_note(app, note_id)
    if note.local_version != version:
        raise VersionConflict(
            f"The note is at local_version {note.local_version}, not {version}.",
            details=versions_of(note),
        )
    return note


def missing_version_error(message: str, *, way_out: str = "") -> InvalidRequest:
    """Return the error for a call without ``local_version`` that needs one."""
    return InvalidRequest(
        message,
        resolution_hint="What replaces something needs the version that was read: `get` and the rows of "
        f"`list` have it.{way_out}",
    )


def versions_of(note: Note) -> dict[str, str | int | None]:
    """Return what an error tells about a note's versions."""
    return {
        "id": note.id,
        "current_local_version": note.local_version,
        "current_server_version": note.server_version,
    }


_LINK = re.compile(r"!?\[\[(?P<target>[^\]|#]+)[^\]]*\]\]")
_ONE_WORD = re.compile(r"\w+", re.ASCII)

Request = TypeVar("Request", bound=BaseModel)


def with_ids(app: App, request: Request, named: Mapping[str, str]) -> Request:
    """Return the request with ids in the place of names. Raises ``NoteNotFound`` for a name of several notes."""
    found = {name: find_id(app, value, ours=name == "id") for name, value in named.items()}
    changed = {name: one for name, one in found.items() if one != named[name]}
    return request.model_copy(update=changed) if changed else request


def find_id(app: App, name: str, *, ours: bool = True) -> str:
    """Return the id of the only note of this name, or the name if no note is called so.

    ``ours`` False: a native tool asks, to which one word may be the id of a note that the index lacks.
    """
    if app.library.get(name) is not None:
        return name
    link = _LINK.fullmatch(name.strip())
    asked = link["target"].strip() if link else name
    if _leads_up(asked):
        return name  # from where it leads up nobody can say
    native = app.library.native
    beyond = not ours and native is not None and native.beyond_index
    if beyond and not link and _ONE_WORD.fullmatch(asked):
        return name  # an id of a note that only the store has
    titles = app.library.status().complete and not app.config.policy.hides(Field.TEXT)
    found = app.library.find_called(asked, titles=titles)
    if len(found) > 1:
        raise NoteNotFound(
            "No note has this id, and several notes are called so.",
            resolution_hint="Find the right one with `list` and take its `uuid` as `id`.",
        )
    if found:
        return found[0]
    moved = app.library.get(f"{asked.strip()}.md")  # the old path of a file that was renamed
    return name if moved is None else moved.id


def _leads_up(path: str) -> bool:
    """Tell whether ``..`` is among the folders of a path, as it is written or as a link writes it."""
    return any(part.strip() == ".." for part in re.split(r"[/\\]", unquote(path)))


def read_day(note_id: str, *, now: float) -> date:
    """Return the day that such an id names. Raises ``InvalidRequest`` for a day that there is not."""
    named = note_id.strip()[len(DAY_PREFIX) :].strip().lower()
    try:
        if named in DAYS:
            today = datetime.fromtimestamp(now, UTC).astimezone().date()
            return today + timedelta(days=DAYS[named])
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
