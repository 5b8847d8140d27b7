"""Begin the note of a day that is saved first, and new notes from templates; put ids in the place of days.

What a new note begins with is text: code in a template is never run. An id that is one stays one, whatever it looks like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from pydantic import BaseModel

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import InvalidRequest, NoteNotFound, NotPermitted
from mcp_notarium.markup.templates import Filling, has_code, names_title
from mcp_notarium.tools.day_ids import (
    at_day,
    find_note_of,
    local_time,
    missing_day_error,
    read_day,
)
from mcp_notarium.tools.note_lookup import find_id
from mcp_notarium.tools.requests import (
    DAY_PREFIX,
    PathSaveRequest,
    SaveRequest,
    TitledSaveRequest,
    is_day,
)
from mcp_notarium.tools.sync_notice import still_loading
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App

_HEADING = re.compile(r"\s*#{1,6}\s+")
MOST_TEMPLATES = 50
"""Templates that a refusal names."""
_CODE = "The template has code of Templater (`<% %>`), which is not run; it stands in the note as it is."
_NO_TEMPLATE = "The app's template for daily notes was not found, so the note began without it."
_UNFILLED = "The app has a template for new journals, which is not filled here."
_OTHER_NAME = (
    "The user's policy hides notes here, so the name has digits behind it as that of any new note: the app will not take it "
    "for its note of that day."
)


@dataclass(frozen=True, slots=True)
class Begun:
    """Hold what a new note begins with, before what was asked for is put into it.

    ``path``: the only id that it may get, '' for any. ``form``: what its text is. ``said``: what else to say in the answer.
    ``key``: what calls have in common that would make the same note.
    """

    content: Content
    path: str = ""
    form: Form = Form.LINES
    said: str = ""
    key: str = ""


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
    day = _missing_day(app, request)
    if day is None or not app.library.days.made_elsewhere:
        return request
    request = _require_new(request)
    # The service would answer with a hidden note as with a new one.
    # defence: made-day-betrays-nothing =False
    if app.config.policy.visibility.has_rules:
        raise NotPermitted(
            "No note of a day can be made here, because the user's policy hides notes.",
            resolution_hint="Ask the user to open that day in their app; once the note is there, `save` can change it. Or make a note "
            "with a title of its own.",
        )
    with app.usage_limits.write():
        call.act.begin()
        note = await app.library.days.make(day)
    if note is None:
        raise NoteNotFound("The note of this day was made and is gone again; nothing was saved.")
    named = {"id": note.id, "local_version": note.local_version}
    if request.tags is None:
        return request.model_copy(update=named)
    return request.model_copy(update={**named, "tags": [*note.tags, *request.tags]})


async def begin(app: App, request: SaveRequest) -> tuple[SaveRequest, Begun | None]:
    """Return the request, and what a new note begins with that has a template or is of a day; None for any other.

    If the note of the day is there by now, the request is to change that.
    """
    if (day := _missing_day(app, request)) is not None:
        note = await find_note_of(app, day)
        if note is not None:
            _require_not_trashed(request, note)
            return request.model_copy(update={"id": note.id}), None
        return await _begin_day(app, _require_new(request), day)
    name = request.template if isinstance(request, PathSaveRequest) else None
    if name is None:
        return request, None
    if request.id is not None:
        raise InvalidRequest(
            "`template` is for new notes.",
            subcategory="arguments",
            resolution_hint="Leave `id` out to make a note from it, or `template` out to change the note.",
        )
    begun = await _begin_from_template(app, name, request)
    return _with_text_below(request, begun), begun


async def _begin_day(app: App, request: SaveRequest, day: date) -> tuple[SaveRequest, Begun]:
    at, traits = at_day(app, day), app.library.traits
    new = await app.library.days.plan(at)
    key = f"{DAY_PREFIX}{day.isoformat()}"
    if new.place is None:
        if traits.titles:
            return request, Begun(Content("", title=new.title), key=key)
        if request.text is not None and _first_line(request.text) != new.title:
            request = request.model_copy(update={"text": f"{new.title}\n{request.text}"})
        return request, Begun(Content(f"{new.title}\n"), key=key)
    said = [_OTHER_NAME if not new.path else "", _UNFILLED if new.place.unfilled else ""]
    text = ""
    if new.place.template and request.text is None:
        template = _shown_text(app, app.library.days.find_at(new.place.template))
        _require_loaded(app, template)
        said.append(_NO_TEMPLATE if template is None else _CODE if has_code(template) else "")
        settings = await app.library.days.read_templates()
        filling = Filling(at, new.place.title, new.place.date_format)
        if settings is not None:
            filling = Filling(at, new.place.title, new.place.date_format, settings.time_format)
        text = filling.fill(template or "")
    begun = Begun(
        Content(text, title=new.title),
        path=new.path,
        form=Form.FILE if traits.tags_in_text else Form.LINES,
        said=" ".join(filter(None, said)),
        key=key,
    )
    return request, begun


async def _begin_from_template(app: App, name: str, request: SaveRequest) -> Begun:
    settings = await app.library.days.read_templates()
    if settings is None:
        raise InvalidRequest(
            "This vault has no folder for templates.",
            subcategory="template",
            resolution_hint="Leave `template` out, or ask the user to name the folder in Obsidian (Settings > Templates).",
        )
    found = (
        []
        if app.config.policy.hides(Field.TEXT)
        else app.library.days.list_templates(settings.folder)
    )
    chosen = _choose(found, name, settings.folder)
    template = None if chosen is None else _shown_text(app, app.library.get(chosen))
    _require_loaded(app, template)
    if template is None:
        raise InvalidRequest(
            "There is no template of this name, or there are several.",
            subcategory="template",
            details={"templates": found[:MOST_TEMPLATES]} if found else {},
            resolution_hint="Give one of `templates`, or leave `template` out."
            if found
            else "Leave `template` out.",
        )
    title = (request.title if isinstance(request, TitledSaveRequest) else None) or None
    if title is None and names_title(template):
        raise InvalidRequest(
            "This template names the title of its note.",
            subcategory="arguments",
            resolution_hint="Give `title` too.",
        )
    named = None if title is None else title.rpartition("/")[2].removesuffix(".md").strip()
    filling = Filling(local_time(app), named, settings.date_format, settings.time_format)
    return Begun(
        Content(filling.fill(template)),
        form=Form.FILE if app.library.traits.tags_in_text else Form.LINES,
        said=_CODE if has_code(template) else "",
    )


def _choose(paths: list[str], name: str, folder: str) -> str | None:
    """Return the template that a name means: its path, its path below the folder, or its name alone; None for several."""
    wanted = name.strip().removesuffix(".md").strip("/").casefold()
    stems = {path: path.removesuffix(".md").casefold() for path in paths}
    for names in (
        stems,
        {path: stem[len(folder) + 1 :] for path, stem in stems.items()},
        {path: stem.rpartition("/")[2] for path, stem in stems.items()},
    ):
        found = [path for path, stem in names.items() if stem == wanted]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _with_text_below(request: SaveRequest, begun: Begun) -> SaveRequest:
    """Return the request with its text as one that stands below the template."""
    if not begun.content.text:
        return request
    return request.model_copy(update={"text": None, "append": request.text or None})


def _require_loaded(app: App, template: str | None) -> None:
    """Raise ``StillLoading`` if a template that is not found may be among the notes that are not here yet."""
    if template is None and not app.library.status().complete:
        raise still_loading(app, "whether the template is there shows when all are here.")


def _shown_text(app: App, note: Note | None) -> str | None:
    """Return the text of a template; None if there is none that may be read."""
    if note is None or note.trash or app.config.policy.hides(Field.TEXT):
        return None
    return note.text


def _require_not_trashed(request: BaseModel, note: Note) -> None:
    """Raise ``InvalidRequest`` for a save to a note in the trash: what is written there nobody looks for."""
    if note.trash and isinstance(request, SaveRequest) and request.trash is not False:
        raise InvalidRequest(
            "The note of this day is in the trash; nothing was saved.",
            subcategory="day",
            resolution_hint="`manage` with `untrash` and this id brings it back.",
        )


def _first_line(text: str) -> str:
    """Return the first line without what makes it a heading."""
    return _HEADING.sub("", text.partition("\n")[0]).strip()


def _missing_day(app: App, request: SaveRequest) -> date | None:
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
    template = request.template if isinstance(request, PathSaveRequest) else None
    if titled or template:
        raise InvalidRequest(
            "The note of a day has its title and its template from the app.",
            subcategory="arguments",
            resolution_hint="Leave `title` and `template` out."
            if template
            else "Leave `title` out.",
        )
    return request if titled is None else request.model_copy(update={"title": None})
