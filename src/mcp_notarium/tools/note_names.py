"""Find the note that an agent names by something else than its id: another spelling of it, a link, or its title.

A name counts only if one note has it, and only where no id is meant: an id that is known here is never looked up. Nor
is a path with ``..`` in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel

from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import NoteNotFound

if TYPE_CHECKING:
    from mcp_notarium.app import App

_NAMING = ("id", "noteId", "parentNoteId", "path")
"""The arguments that name a note, of all tools."""
_LINK = re.compile(r"!?\[\[(?P<target>[^\]|#]+)[^\]]*\]\]")
_ONE_WORD = re.compile(r"\w+", re.ASCII)

Request = TypeVar("Request", bound=BaseModel)


def with_ids(app: App, request: Request) -> Request:
    """Return the request with the ids of the notes that it names. Raises ``NoteNotFound`` for a name of several."""
    named = {name: value for name, value in request if name in _NAMING and isinstance(value, str)}
    found = {name: find_id(app, value) for name, value in named.items()}
    changed = {name: one for name, one in found.items() if one != named[name]}
    return request.model_copy(update=changed) if changed else request


def find_id(app: App, name: str) -> str:
    """Return the id of the only note of this name, or the name if no note is called so."""
    if app.library.get(name) is not None:
        return name
    link = _LINK.fullmatch(name.strip())
    asked = link["target"].strip() if link else name
    if _leads_up(asked):
        return name  # from where it leads up nobody can say
    if not link and app.library.live is not None and _ONE_WORD.fullmatch(asked):
        return name  # an id of a note that only the store has
    titles = app.library.status().complete and not app.config.policy.hides(Field.TEXT)
    found = app.library.find_called(asked, titles=titles)
    if len(found) > 1:
        raise NoteNotFound(
            "No note has this id, and several notes are called so.",
            resolution_hint="Find the right one with `list` and take its `uuid` as `id`.",
        )
    return found[0] if found else name


def _leads_up(path: str) -> bool:
    """Tell whether ``..`` is among the folders of a path, as it is written or as a link writes it."""
    return any(part.strip() == ".." for part in re.split(r"[/\\]", unquote(path)))
