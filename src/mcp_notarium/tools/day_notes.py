"""Begin the note of a day that is saved first; put ids in the place of days.

An id that is one stays one, whatever it looks like.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from pydantic import BaseModel

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.note import Content, Note, Published
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import InvalidRequest, NoteNotFound, NotPermitted, VersionConflict
from mcp_notarium.markup.templates import Filling, fill, has_code
from mcp_notarium.tools.consent import ask_before_publishing, require_consent
from mcp_notarium.tools.note_lookup import (
    at_day,
    find_id,
    find_note_of,
    missing_day_error,
    read_day,
)
from mcp_notarium.tools.requests import DAY_PREFIX, SaveRequest, TitledSaveRequest, is_day
from mcp_notarium.tools.templates import (
    CODE_LEFT,
    CODE_STAYS,
    Begun,
    begin_from_template,
    first_line,
    require_loaded,
    shown_text,
)
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App

_NO_TEMPLATE = "The app's template for daily notes was not found, so the note began without it."
_OTHER_NAME = (
    "The user's policy hides notes here, so the name has digits behind it as that of any new note: the app will not take it "
    "for its note of that day."
)


async def with_days(
    app: App, request: BaseModel, named: dict[str, str]
) -> tuple[BaseModel, dict[str, str]]:
    """Return the request, and these arguments of it, with the ids of the notes of days.

    A day without a note stays in a ``save``, as its date. Raises ``NoteNotFound`` in any other request.
    """
    found = {name: await _find_id(app, request, one) for name, one in named.items() if is_day(one)}
    changed = {name: one for name, one in found.items() if one != named[name]}
    if not changed:
        return request, named
    return request.model_copy(update=changed), {**named, **changed}


async def _find_id(app: App, request: BaseModel, named: str) -> str:
    if app.library.get(named) is not None:
        return named
    try:
        day = read_day(named, now=app.clock())
    except InvalidRequest:
        if find_id(app, named) != named:
            return named  # the name of a note, which is looked up later
        raise
    note = await find_note_of(app, day)
    if note is None and not isinstance(request, SaveRequest):
        raise missing_day_error(app, day)
    if note is not None:
        _require_not_trashed(request, note)
    return f"{DAY_PREFIX}{day.isoformat()}" if note is None else note.id


async def with_made_day(app: App, request: SaveRequest, call: CallContext) -> SaveRequest:
    """Return the request to save the note of a day, which the service has made, if only that can make it.

    The audit log has it that the call begins. Making counts as a write.
    """
    day = find_missing_day(app, request)
    if day is None or not app.library.days.made_elsewhere:
        return request
    request = _require_new(request)
    # The service would answer with a hidden note as with a new one.
    # defence: made-day-betrays-nothing =False
    if app.config.policy.visibility.has_rules or app.config.policy.writing.has_rules:
        raise NotPermitted(
            "No note of a day can be made here, because the user's policy has rules on notes.",
            resolution_hint="Ask the user to open that day in their app; once the note is there, `save` can change it. Or make a note "
            "with a title of its own.",
        )
    await _ask_if_public(app, day, call)
    with app.usage_limits.write():
        call.act.begin()
        note = await app.library.days.make(day)
    if note is None:
        raise NoteNotFound("The note of this day was made and is gone again; nothing was saved.")
    named = {"id": note.id, "local_version": note.local_version}
    if request.tags is None:
        return request.model_copy(update=named)
    return request.model_copy(update={**named, "tags": [*note.tags, *request.tags]})


async def _ask_if_public(app: App, day: date, call: CallContext) -> None:
    """Ask the user before the service makes a note that everybody may read, unless they call at a terminal.

    Raises ``VersionConflict`` if that has changed meanwhile.
    """
    place = await app.library.days.find_public(day)
    if not place or call.client is None:
        return
    app.usage_limits.require_write()
    published = Published(frozenset({""}), place)
    # defence: public-day-asks
    asks = ask_before_publishing(app, f"note of {day.isoformat()}", 1, published)
    await require_consent(call, asks)
    if await app.library.days.find_public(day) not in ("", place):
        raise VersionConflict(
            "The note of this day would stand below another shared note by now; nothing was saved."
        )


async def begin(app: App, request: SaveRequest) -> tuple[SaveRequest, Begun | None]:
    """Return the request, and what a new note begins with that has a template or is of a day; None for any other.

    The request is to change the note of the day if that is there by now.
    """
    if (day := find_missing_day(app, request)) is not None:
        note = await find_note_of(app, day)
        if note is not None:
            _require_not_trashed(request, note)
            return request.model_copy(update={"id": note.id}), None
        return await _begin_day(app, _require_new(request), day)
    if request.template is None:
        return request, None
    if request.id is not None:
        raise InvalidRequest(
            "`template` is for new notes.",
            subcategory="arguments",
            resolution_hint="Leave `id` out to make a note from it, or `template` out to change the note.",
        )
    return await begin_from_template(app, request, request.template)


async def _begin_day(app: App, request: SaveRequest, day: date) -> tuple[SaveRequest, Begun]:
    at, traits = at_day(app, day), app.library.traits
    new = await app.library.days.plan(at)
    key = f"{DAY_PREFIX}{day.isoformat()}"
    if new.place is None:
        if traits.titles:
            return request, Begun(Content("", title=new.title), key=key)
        if request.text is not None and first_line(request.text) != new.title:
            request = request.model_copy(update={"text": f"{new.title}\n{request.text}"})
        return request, Begun(Content(f"{new.title}\n"), key=key)
    said = [_OTHER_NAME if not new.path else ""]
    text = ""
    if new.place.template and request.text is None:
        template = shown_text(app, app.library.days.find_at(new.place.template))
        require_loaded(app, template)
        said.append(_NO_TEMPLATE if template is None else CODE_STAYS if has_code(template) else "")
        settings = await app.library.days.read_templates()
        filling = Filling(at, new.place.title, new.place.date_format)
        if settings is not None:
            filling = Filling(at, new.place.title, new.place.date_format, settings.time_format)
        text = filling.fill(template or "")
    elif new.place.block and request.text is None:
        block = None
        if not app.config.policy.hides(Field.TEXT):
            block = app.library.days.find_block(new.place.block)
        require_loaded(app, block)
        text, left = fill(block or "", at, title_format=new.place.title_format)
        said.append(_NO_TEMPLATE if block is None else CODE_LEFT if left else "")
    begun = Begun(
        Content(text, title=new.title),
        path=new.path,
        form=Form.FILE if traits.tags_in_text else Form.LINES,
        said=" ".join(filter(None, said)),
        key=key,
    )
    return request, begun


def _require_not_trashed(request: BaseModel, note: Note) -> None:
    """Raise ``InvalidRequest`` for a save to a note in the trash: what is written there nobody looks for."""
    if note.trash and isinstance(request, SaveRequest) and request.trash is not False:
        raise InvalidRequest(
            "The note of this day is in the trash; nothing was saved.",
            subcategory="day",
            resolution_hint="`manage` with `untrash` and this id brings it back.",
        )


def find_missing_day(app: App, request: SaveRequest) -> date | None:
    """Return the day of which a note is to be made; None if the request names no day."""
    if request.id is None or not is_day(request.id) or app.library.get(request.id) is not None:
        return None
    return read_day(request.id, now=app.clock())


def _require_new(request: SaveRequest) -> SaveRequest:
    """Return a request that can make the note of a day. Raises ``NoteNotFound``, ``InvalidRequest``."""
    if request.local_version is not None or request.server_version is not None:
        raise NoteNotFound(
            "There is no note of this day to have a version.",
            resolution_hint="Leave the version out to make the note.",
        )
    titled = request.title if isinstance(request, TitledSaveRequest) else None
    if titled or request.template:
        raise InvalidRequest(
            "The note of a day has its title and its template from the app.",
            subcategory="arguments",
            resolution_hint="Leave `title` and `template` out."
            if request.template
            else "Leave `title` out.",
        )
    return request if titled is None else request.model_copy(update={"title": None})
