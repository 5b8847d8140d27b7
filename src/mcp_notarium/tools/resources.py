"""Define the resources: notes, their versions and two lists, each read as the answer of a tool.

A resource has no rules of its own. Reading one is a call of ours that only reads: the pipeline asks the
policy for the tool it stands for, charges the limits, records it, and marks the text of notes as untrusted.
The text of a resource is therefore the JSON that the tool answers with.

A listing of the protocol has no field for boundaries, so each name in it stands between them, and an id that may
say something stands in the URI as base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.tools import get, tags
from mcp_notarium.tools import list as list_
from mcp_notarium.tools.answers import FromNotes, PlainAnswer, TagsAnswer
from mcp_notarium.tools.consent import first_visible_line
from mcp_notarium.tools.requests import GetRequest, ListRequest, Wire
from mcp_notarium.tools.tool import CallContext, Tool
from mcp_notarium.tools.untrusted_text import DATA, boundary_for, is_foreign

if TYPE_CHECKING:
    from mcp_notarium.app import App

MIME_TYPE = "application/json"
RECENT, TAGS = "notes://recent", "notes://tags"
PAGE = 100
"""Notes on one page of ``resources/list``."""
MOST_RECENT = 20


class NothingRequest(Wire):
    """Hold the arguments of a resource without any."""


class UriRequest(Wire):
    """Hold the arguments of a subscription."""

    uri: str


async def _tags(app: App, _request: NothingRequest, _call: CallContext) -> TagsAnswer:
    """Return the tags used most."""
    return await tags.read_page(app)


async def _unknown(_app: App, _request: NothingRequest, _call: CallContext) -> PlainAnswer:
    """Raise ``NoteNotFound``."""
    raise NoteNotFound(
        "There is no resource of this URI.",
        resolution_hint=f"Use note://ID, {RECENT} or {TAGS}; `resources/templates/list` describes them.",
    )


async def _subscribe(app: App, request: UriRequest, _call: CallContext) -> PlainAnswer:
    """Check what the pipeline cannot know. Raises ``NotPermitted``."""
    if request.uri == TAGS:
        app.config.policy.require_filter(Field.TAGS)
    return PlainAnswer(text="", from_notes=False)


def _reading(name: str, request: type[Wire], handle: Any, *, stands_for: str) -> Tool:
    return Tool(
        family="resource",
        name=name,
        title="",
        description="",
        request=request,
        answer=FromNotes,
        handle=handle,
        read_only=True,
        stands_for=stands_for,
    )


LISTING = _reading("list", ListRequest, list_.handle, stands_for="list")
"""Read a page of the notes that ``resources/list`` shows."""
_NOTE = _reading("note", GetRequest, get.handle, stands_for="get")
_VERSION = _reading("version", GetRequest, get.handle, stands_for="get")
_RECENT = _reading("recent", ListRequest, list_.handle, stands_for="list")
_TAGS = _reading("tags", NothingRequest, _tags, stands_for="list")
_UNKNOWN = _reading("unknown", NothingRequest, _unknown, stands_for="get")
_SUBSCRIBE = _reading("subscribe", UriRequest, _subscribe, stands_for="get")


@dataclass(frozen=True, slots=True)
class Resource:
    """Describe a resource, or with ``{...}`` in its URI a template of many."""

    uri: str
    name: str
    title: str
    description: str
    stands_for: str
    """The tool whose rules of the policy hold for it."""

    @property
    def is_template(self) -> bool:
        """Tell whether it stands for many."""
        return "{" in self.uri


RESOURCES = (
    Resource(
        uri=RECENT,
        name="recent_notes",
        title="Recent notes",
        description=f"The {MOST_RECENT} notes that were changed last, as rows of `list`.",
        stands_for="list",
    ),
    Resource(
        uri=TAGS,
        name="tags",
        title="Tags",
        description="The tags used most, with how many notes have each.",
        stands_for="list",
    ),
    Resource(
        uri="note://{id}",
        name="note",
        title="Note",
        description="A note as `get` gives it.",
        stands_for="get",
    ),
    Resource(
        uri="note://{id}/versions/{version}",
        name="note_version",
        title="Version of a note",
        description="An earlier version of a note as `get` gives it.",
        stands_for="get",
    ),
)
Asked = tuple[Tool, dict[str, Any]]
"""Hold what reading a resource calls, and its arguments."""


def reading(uri: str) -> Asked:
    """Return what reads the resource of this URI."""
    if uri == RECENT:
        return _RECENT, {"limit": MOST_RECENT}
    if uri == TAGS:
        return _TAGS, {}
    if (note_id := note_id_of(uri)) is not None:
        return _NOTE, {"id": note_id}
    if (found := _VERSION_URI.fullmatch(uri)) is not None:
        return _VERSION, {"id": _decoded(found[1]), "version": _decoded(found[2])}
    return _UNKNOWN, {}


def subscribing(uri: str) -> Asked:
    """Return what asks whether changes of the resource of this URI may be told."""
    tool, _ = reading(uri)
    if tool is _UNKNOWN:
        return tool, {}
    return replace(_SUBSCRIBE, stands_for=tool.stands_for), {"uri": uri}


_CODED = "~"
_NOTE_URI = re.compile(r"note://([^/?#]+)/?")
_VERSION_URI = re.compile(r"note://([^/?#]+)/versions/([^/?#]+)")


def note_id_of(uri: str) -> str | None:
    """Return the id in the URI of a note; None if it is no such URI."""
    found = _NOTE_URI.fullmatch(uri)
    return _decoded(found[1]) if found else None


def uri_of(note_id: str) -> str:
    """Return the URI of a note as answers show it."""
    return f"note://{_coded(note_id)}"


def shown_uri(uri: str) -> str:
    """Return the URI of what was asked for as answers show it: a client may have encoded an id otherwise."""
    if (note_id := note_id_of(uri)) is not None:
        return uri_of(note_id)
    if (found := _VERSION_URI.fullmatch(uri)) is not None:
        return f"{uri_of(_decoded(found[1]))}/versions/{_coded(_decoded(found[2]))}"
    return uri


def _coded(name: str) -> str:
    """Return an id or the name of a version for a URI: nothing in it can be read that somebody has written."""
    if not is_foreign(name):
        return name
    coded = base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    return f"{_CODED}{coded}"


def _decoded(part: str) -> str:
    """Return what a part of a URI stands for; a client may send it percent-encoded as well."""
    if part.startswith(_CODED):
        with suppress(ValueError):  # or it begins so
            given = part.removeprefix(_CODED)
            padded = given + "=" * (-len(given) % 4)
            return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    return unquote(part)


def shows_notes(offered: Collection[Resource]) -> bool:
    """Return whether ``resources/list`` may go on to notes: they can be listed, and read."""
    return {one.stands_for for one in offered} >= {"list", "get"}


def newest_notes(app: App) -> object:
    """Return a value that is another one when the notes that were changed last have changed."""
    return [(note.id, note.local_version) for note in app.library.find_last_changed(MOST_RECENT)]


def tag_counts(app: App) -> object:
    """Return a value that is another one when the tags have changed."""
    return app.library.count_tags(limit=tags.MOST_TAGS, offset=0)


def display_names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return what a person may read of each row of a listing, between boundaries: its first words, or its id."""
    names = [first_visible_line(row.get("title") or row["text"]) or row["uuid"] for row in rows]
    boundary = boundary_for(names)
    return [
        f"{DATA} {boundary}: {name} :{boundary}" if is_foreign(name) else name for name in names
    ]
