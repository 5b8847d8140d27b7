"""Define the arguments of the nine tools of the note cards contract."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field as Described
from pydantic import StrictBool

from mcp_notarium.tools.arguments import EMPTY, NULL
from mcp_notarium.tools.requests import QUIET, Wire


class Card(Wire):
    """Hold the fields of a note that can be set. ``null`` empties a title or a list."""

    title: Annotated[str, NULL] | None = Described(default=None, description="Note title")
    color: str | None = Described(
        default=None,
        max_length=100,
        description="default, red, orange, yellow, green, teal, blue, purple, pink or gray",
    )
    checkItems: Annotated[list[dict[str, Any]], NULL] | None = Described(  # noqa: N815 - the contract's names
        default=None, description="Items of a checklist: {id, text, checked}"
    )
    labels: Annotated[list[str], NULL] | None = Described(default=None, description="Labels (tags)")
    isPinned: StrictBool | None = None  # noqa: N815
    isArchived: StrictBool | None = None  # noqa: N815
    images: Annotated[list[str], NULL] | None = Described(
        default=None, description="Images, base64 encoded"
    )


class CreateNoteRequest(Card):
    """Hold the arguments of ``create_note``."""

    content: str = Described(description="Note content")
    type: str = Described(default="text", max_length=100, description="text or checklist")


class UpdateNoteRequest(Card):
    """Hold the arguments of ``update_note``. ``confirm``: see ``save``; a refusal names it."""

    id: str = Described(description="Note ID")
    content: Annotated[str, EMPTY] | None = Described(default=None, description="Note content")
    confirm: StrictBool | None = Described(default=None, json_schema_extra=QUIET)


class NoteIdRequest(Wire):
    """Hold the argument of the tools for one note."""

    id: str = Described(description="Note ID")


class DeleteNoteRequest(NoteIdRequest):
    """Hold the arguments of ``delete_note``. ``confirm``: see ``save``; a refusal names it."""

    confirm: StrictBool | None = Described(default=None, json_schema_extra=QUIET)


class GetNotesRequest(Wire):
    """Hold the arguments of ``get_notes``. ``null`` is the default."""

    includeArchived: StrictBool | None = Described(default=False, description="Also archived notes")  # noqa: N815
    search: str | None = Described(default="", description="Only notes with this text, in any case")


class SearchNotesRequest(Wire):
    """Hold the argument of ``search_notes``."""

    query: str = Described(description="The text to find")


class GetLabelsRequest(Wire):
    """Hold the arguments of ``get_labels``: none."""
