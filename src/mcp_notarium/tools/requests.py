"""Define what the four tools take, field for field.

Only shapes are checked here; the handlers decide what is permitted on which note. Unknown arguments
are refused. ``arguments`` reads what was sent first, because agents do not send every value in its type.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mcp_notarium.domain.note import LONGEST_ID
from mcp_notarium.search.parser import day_start
from mcp_notarium.tools.arguments import EMPTY, LONE_TEXT, read_arguments

QUIET: dict[str, Any] = {"x-quiet": True}
"""``Field(json_schema_extra=QUIET)``: an argument that is taken, but not shown in the schema."""


def _whole(value: Any) -> Any:
    """Refuse ``true`` as a number: pydantic would take it for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a whole number")
    return value


def _identifier(value: str) -> str:
    if not 0 < len(value) <= LONGEST_ID:
        raise PydanticCustomError("note_id", "Input should be the id of a note")
    return value


def _day(value: str) -> str:
    if day_start(value) is None:
        raise PydanticCustomError("day", "Input should be a day of the calendar like 2025-01-31")
    return value


def _trash_status(value: int) -> int:
    if value not in (0, 1, 2):
        raise PydanticCustomError("trash_status", "Input should be 0, 1 or 2")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Text = Annotated[str, EMPTY]
"""A text that may be empty."""
Positive = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Tags = Annotated[list[str], LONE_TEXT]
Day = Annotated[str, AfterValidator(_day)]
NoteId = Annotated[str, AfterValidator(_identifier)]
VersionName = NoteId
"""Stores name their versions; most names are numbers."""
ID_NAMES = AliasChoices("id", "uuid")
"""The names under which the id of a note may be sent; rows of ``list`` have it as ``uuid``."""
MOST_ROWS = 100
MOST_PREVIEW_LINES = 20


class Wire(BaseModel):
    """Hold what all requests share. Error texts never repeat what was sent."""

    model_config = ConfigDict(
        extra="forbid", hide_input_in_errors=True, frozen=True, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def read(cls, sent: Any) -> Any:
        """Return what was sent in the types of the fields."""
        read = read_arguments(cls, sent)
        return cls.without_placeholders(read) if isinstance(read, dict) else read

    @classmethod
    def without_placeholders(cls, read: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments without empty ones that mean nothing beside the others."""
        return read


class Properties(Wire):
    """Hold what is set of the properties that stores have (``Traits.properties``): one field each."""

    pinned: StrictBool | None = None
    markdown: StrictBool | None = None
    archived: StrictBool | None = None


class ListRequest(Wire):
    """Hold the arguments of ``list``."""

    query: str | None = Field(
        default=None,
        description='words "a phrase" -not a OR b prefix* tag:x modified:2025-01 trash:any',
    )
    tags: Tags | None = None
    trash_status: Annotated[int, BeforeValidator(_whole), AfterValidator(_trash_status)] | None = (
        Field(default=None, description="1 trashed, 2 both")
    )
    date_before: Day | None = Field(default=None, description="YYYY-MM-DD")
    date_after: Day | None = None
    sort_by: Literal["modified_at", "created_at"] | None = None
    sort_order: Literal["ASC", "DESC"] | None = None
    limit: Positive | None = Field(default=None, json_schema_extra={"maximum": MOST_ROWS})
    page: Positive | None = None
    preview_lines: Positive | None = Field(
        default=None, json_schema_extra={"maximum": MOST_PREVIEW_LINES}
    )


class PathListRequest(ListRequest):
    """Hold the arguments of ``list`` in a store with paths."""

    query: str | None = Field(
        default=None,
        description='words "a phrase" -not a OR b prefix* tag:x path:Folder/Below '
        "before:2025-01-31 after:… trash:any",
    )


class GetRequest(Wire):
    """Hold the arguments of ``get``."""

    id: NoteId = Field(validation_alias=ID_NAMES)
    local_version: Positive | None = None
    version: VersionName | None = None
    range_line_start: Positive | None = None
    range_line_count: Annotated[int, Field(ge=0), BeforeValidator(_whole)] | None = None
    range_char_start: Positive | None = None


class PatchOperation(Wire):
    """Hold one change of one line."""

    operation: Literal["addition", "modification", "deletion"]
    line_number: Positive
    value: Text | None = None


class SaveRequest(Wire):
    """Hold the arguments of ``save``."""

    id: NoteId | None = Field(default=None, validation_alias=ID_NAMES)
    local_version: Positive | None = None
    server_version: Positive | None = None
    text: Text | None = Field(default=None, description="whole text")
    text_patch: list[PatchOperation] | None = Field(
        default=None,
        description="lines as read; addition: before its line",
    )
    append: str | None = None
    prepend: str | None = Field(default=None)
    find: str | None = Field(default=None, description="exact, once")
    replace: Text | None = None
    tags: Annotated[Tags, EMPTY] | None = Field(
        default=None, description="replaces all; an e-mail address shares"
    )
    trash: StrictBool | None = None
    properties: Properties | None = None
    confirm: StrictBool | None = Field(default=None, description="the user has agreed")
    return_text: StrictBool | None = None

    @classmethod
    def without_placeholders(cls, read: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments without an empty text beside another change of it, and what is empty of a new note."""
        changes = {"text_patch", "append", "prepend", "find"} & read.keys()
        meaningless = {"text"} if changes else set()
        meaningless |= set() if "find" in read else {"replace"}
        meaningless |= set() if {"id", "uuid"} & read.keys() else {"title", "tags"}
        return {
            name: value
            for name, value in read.items()
            if name not in meaningless or value not in ("", [])
        }


class TitledSaveRequest(SaveRequest):
    """Hold the arguments of ``save`` where notes have titles of their own."""

    title: Text | None = None


class PathSaveRequest(TitledSaveRequest):
    """Hold the arguments of ``save`` where the title names the note's file."""

    title: Text | None = Field(
        default=None, description="file name; another renames, Folder/Name moves"
    )
    rewrite_links: StrictBool | None = Field(
        default=None, description="links that a new title breaks"
    )


Action = Literal[
    "trash",
    "untrash",
    "delete_permanently",
    "pin",
    "unpin",
    "history",
    "restore_version",
    "undo",
    "list_tags",
    "rename_tag",
    "find_duplicates",
    "get_stats",
    "reset_cache",
]


class ManageRequest(Wire):
    """Hold the arguments of ``manage``."""

    action: Action
    id: NoteId | None = Field(default=None, validation_alias=ID_NAMES)
    local_version: Positive | None = None
    version: VersionName | None = None
    tag: str | None = None
    new_tag: str | None = None
    dry_run: StrictBool | None = None
    page: Positive | None = None
    confirm: StrictBool | None = Field(default=None, description="the user has agreed")
