"""Begin new notes from templates: the notes in the app's folder of templates, or those with the tag ``template``.

A template that the policy hides is not in the index, so there is none. What a new note begins with is text: code in a
template is never run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import InvalidRequest, NoteNotFound
from mcp_notarium.markup.templates import (
    PAGE_TITLE_FORMAT,
    TAG,
    Filling,
    fill,
    has_code,
    names_title,
)
from mcp_notarium.tools.note_lookup import find_id, local_time
from mcp_notarium.tools.requests import SaveRequest, TitledSaveRequest
from mcp_notarium.tools.sync_notice import still_loading

if TYPE_CHECKING:
    from mcp_notarium.app import App

MOST_TEMPLATES = 50
"""Templates that a refusal names."""
CODE_STAYS = "The template has code of Templater (`<% %>`), which is not run; it stands in the note as it is."
CODE_LEFT = "Some of the template (`<% %>`) is not filled here; it stands in the note as it is."
_MOST_TAGGED = 500
"""Templates whose titles are compared with a name."""
_TITLE_SHOWN = 80
_HEADING = re.compile(r"\s*#{1,6}\s+")


@dataclass(frozen=True, slots=True)
class Begun:
    """Hold what a new note begins with, before what was asked for is put into it."""

    content: Content
    path: str = ""
    """The only id that it may get, '' for any."""
    form: Form = Form.LINES
    """Form of its text."""
    said: str = ""
    """Words to add to the answer."""
    key: str = ""
    """Key of calls that would make the same note."""


async def begin_from_template(
    app: App, request: SaveRequest, name: str
) -> tuple[SaveRequest, Begun]:
    """Return the request with its text as one that stands below the template, and what the note begins with.

    Raises ``InvalidRequest`` if no template, or more than one, has this name.
    """
    if app.library.traits.templates:
        begun = await _begin_from_folder(app, request, name)
    else:
        request, begun = await _begin_from_tagged(app, request, name)
    if request.tags is not None:
        request = request.model_copy(update={"tags": [*begun.content.tags, *request.tags]})
    if not begun.content.text:
        return request, begun
    return request.model_copy(update={"text": None, "append": request.text or None}), begun


async def _begin_from_folder(app: App, request: SaveRequest, name: str) -> Begun:
    settings = await app.library.days.read_templates()
    if settings is None:
        if (begun := await _begin_from_block(app, request, name)) is not None:
            return begun
        if blocks := _named_blocks(app):
            raise _unknown_error(blocks)
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
    template = None if chosen is None else shown_text(app, app.library.get(chosen))
    require_loaded(app, template)
    if template is None:
        raise _unknown_error(found)
    title = _title(request)
    if title is None and names_title(template):
        raise _title_error("Give `title` too.")
    named = None if title is None else _last_part(title)
    filling = Filling(local_time(app), named, settings.date_format, settings.time_format)
    return Begun(
        Content(filling.fill(template)),
        form=Form.FILE if app.library.traits.tags_in_text else Form.LINES,
        said=CODE_STAYS if has_code(template) else "",
    )


async def _begin_from_block(app: App, request: SaveRequest, name: str) -> Begun | None:
    """Begin with a template of Logseq, which is a block of some page; None if there is none of this name."""
    if app.config.policy.hides(Field.TEXT):
        return None
    block = app.library.days.find_block(name)
    require_loaded(app, block)
    if block is None:
        return None
    at, title = local_time(app), _title(request)
    place = (await app.library.days.plan(at)).place
    form = place.title_format if place is not None else PAGE_TITLE_FORMAT
    page = None if title is None else _last_part(title)
    text, left = fill(block, at, title_format=form, page=page)
    return Begun(Content(text), form=Form.FILE, said=CODE_LEFT if left else "")


def _named_blocks(app: App) -> list[str]:
    return [] if app.config.policy.hides(Field.TEXT) else app.library.days.list_blocks()


def _last_part(title: str) -> str:
    return title.rpartition("/")[2].removesuffix(".md").strip()


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


async def _begin_from_tagged(
    app: App, request: SaveRequest, name: str
) -> tuple[SaveRequest, Begun]:
    """Begin with a note that has the tag, or is named by its id or its whole title."""
    policy, traits = app.config.policy, app.library.traits
    tagged: list[Note] = []
    # defence: hidden-fields-name-nothing =True
    if not (policy.hides(Field.TEXT) or policy.hides(Field.TAGS)):
        tagged = _find_tagged(app)
    note = _choose_tagged(tagged, name) or _find_any(app, name, tagged)
    template = shown_text(app, note)
    require_loaded(app, template)
    if note is None or template is None:
        raise _unknown_error(
            [{"id": one.id, "title": shorten(title_of(one), _TITLE_SHOWN)} for one in tagged]
        )
    title = _title(request)
    if names_title(template) and not traits.titles and request.text:
        # Its title is the first line of its text, which then stands where the template says.
        title, _, below = request.text.partition("\n")
        request = request.model_copy(update={"text": below.strip("\n")})
        title = _HEADING.sub("", title).strip()
    if not title and names_title(template):
        raise _title_error(
            "Give `title` too."
            if traits.titles
            else "Begin `text` with the title, on a line of its own."
        )
    content, said = await app.library.days.copy(note, Filling(local_time(app), title or None))
    if content is None:
        raise InvalidRequest(
            "This template is no text, so no note can be made from it here.",
            subcategory="template",
            resolution_hint="Leave `template` out, or ask the user to make the note in their app.",
        )
    if policy.hides(Field.TAGS) and not content.native:
        content = Content(content.text, title=content.title, native=content.native)
    said = " ".join(filter(None, (said, CODE_STAYS if has_code(template) else "")))
    return request, Begun(content, form=app.library.form_of(note), said=said)


def _find_tagged(app: App) -> list[Note]:
    found = (one.id for one in app.library.find_tagged(TAG) if not one.trash)
    notes = (app.library.get(one) for one, _ in zip(found, range(_MOST_TAGGED), strict=False))
    return [one for one in notes if one is not None]


def _choose_tagged(tagged: list[Note], name: str) -> Note | None:
    """Return the template of this id, else the only one of this title."""
    wanted = tag_key(name.strip())
    by_id = [one for one in tagged if one.id == name.strip()]
    found = by_id or [one for one in tagged if tag_key(title_of(one)) == wanted]
    return found[0] if len(found) == 1 else None


def _find_any(app: App, name: str, tagged: list[Note]) -> Note | None:
    """Return the note without the tag that has this id, or alone this title."""
    if any(tag_key(title_of(one)) == tag_key(name.strip()) for one in tagged):
        return None  # several templates have it
    try:
        return app.library.get(find_id(app, name.strip()))
    except NoteNotFound:  # several notes have it
        return None


def title_of(note: Note) -> str:
    """Return the title of a note, or the first line of its text."""
    return note.title.strip() if note.title else first_line(note.text)


def first_line(text: str) -> str:
    """Return the first line without what makes it a heading."""
    return _HEADING.sub("", text.partition("\n")[0]).strip()


def _title(request: SaveRequest) -> str | None:
    return (request.title if isinstance(request, TitledSaveRequest) else None) or None


def _title_error(hint: str) -> InvalidRequest:
    return InvalidRequest(
        "This template names the title of its note.",
        subcategory="arguments",
        resolution_hint=hint,
    )


def _unknown_error(found: list[str] | list[dict[str, str]]) -> InvalidRequest:
    return InvalidRequest(
        "There is no template of this name, or there are several.",
        subcategory="template",
        details={"templates": found[:MOST_TEMPLATES]} if found else {},
        resolution_hint="Give one of `templates`, or leave `template` out."
        if found
        else "Leave `template` out.",
    )


def require_loaded(app: App, template: str | None) -> None:
    """Raise ``StillLoading`` if a template that is not found may be among the notes that are not here yet."""
    if template is None and not app.library.status().complete:
        raise still_loading(app, "whether the template is there shows when all are here.")


def shown_text(app: App, note: Note | None) -> str | None:
    """Return the text of a template; None if there is none that may be read."""
    if note is None or note.trash or app.config.policy.hides(Field.TEXT):
        return None
    return note.text
