"""Define what the four tools take, field for field, and read it as agents and proxies send it. Pure.

Only shapes are checked here; the handlers decide what is permitted on which note. Unknown arguments
are refused.

Every request, of our tools and of native ones, is read by ``Wire`` first, because agents do not send every value in its type. Numbers, flags and lists may arrive as
text, a text as a number. An empty value means "not given" where nothing else is meant by it: ``null``, ``""``, ``[]``,
and ``0`` where numbers begin above it, also as text. A field whose emptiness is a value has the mark ``EMPTY``. What
does not fit stays as it came, and the request refuses it.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from annotated_types import Ge
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
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from mcp_notarium.domain.note import LONGEST_ID
from mcp_notarium.domain.policy import Action
from mcp_notarium.search.parser import day_start


@dataclass(frozen=True, slots=True)
class Empty:
    """Mark a field whose emptiness is a value."""

    null: bool = False
    """So is ``null``."""


@dataclass(frozen=True, slots=True)
class LoneText:
    """Mark a list of texts without commas that may arrive as one text: the only one, or all with commas between."""


EMPTY, NULL, LONE_TEXT = Empty(), Empty(null=True), LoneText()
_FLAGS = {"true": True, "false": False}
_EXACT = 2**53
"""From here on a float may stand for several whole numbers."""


@dataclass(frozen=True, slots=True)
class _Field:
    """Hold what reading has to know of a field: the names that it may have, its type, and its marks."""

    names: tuple[str, ...]
    kind: Any
    required: bool
    empty: Empty | None
    lone_text: bool
    from_one: bool


def read_arguments(model: type[BaseModel], sent: Any) -> Any:
    """Return the arguments in the form that the model checks; anything but an object as it is."""
    if not isinstance(sent, Mapping):
        return sent
    read = dict(sent)
    for field in _fields(model):
        for name in field.names:
            if name in read:
                read[name] = _read(field, read[name])
                if not field.required and _is_absent(field, read[name]):
                    del read[name]
    return read


_NAMING = ("id", "noteId", "parentNoteId", "path")
"""The arguments that name a note, of all tools."""


def named_notes(request: BaseModel) -> dict[str, str]:
    """Return the arguments that name a note, by their names."""
    return {name: value for name, value in request if name in _NAMING and isinstance(value, str)}


DAY_PREFIX = "daily:"
"""Begins an id that means the note of a day; see ``tools/note_lookup.py``."""


def is_day(note_id: str) -> bool:
    """Tell whether an id begins as that of a day does."""
    return note_id.lstrip()[: len(DAY_PREFIX)].lower() == DAY_PREFIX


def _is_absent(field: _Field, value: Any) -> bool:
    """Tell whether a value can only mean that there is none."""
    if value is None:
        return field.empty is None or not field.empty.null
    if isinstance(value, str):
        if field.kind is str:
            return not value and field.empty is None
        zero = value.strip() == "0" and (field.from_one or field.kind is bool)
        return zero or not value.strip()
    if isinstance(value, list | dict):
        return not value and field.empty is None
    is_zero = value == 0 and not isinstance(value, bool)
    return is_zero and (field.from_one or field.kind is bool)


def _read(field: _Field, value: Any) -> Any:
    kind, origin = field.kind, get_origin(field.kind)
    if kind is str:
        return _read_text(value)
    if kind is bool:
        return read_flag(value)
    if origin is Literal:
        return _read_choice(value, get_args(kind))
    if origin is list:
        return _read_list(field, value)
    return _parse_json(value) if _is_model(kind) else value


def read_flag(value: Any) -> Any:
    """Take ``"true"`` and ``"false"`` for flags; anything else as it is."""
    return _FLAGS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _read_text(value: Any) -> Any:
    """Take a number for its text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    whole_digits = isinstance(value, int) and abs(value) < 10**_MOST_DIGITS
    return (
        str(value) if whole_digits or (isinstance(value, float) and math.isfinite(value)) else value
    )


_MOST_DIGITS = 400


def _read_choice(value: Any, choices: tuple[Any, ...]) -> Any:
    """Take a choice in any letter case."""
    if not isinstance(value, str):
        return value
    meant = value.strip().casefold()
    return next((one for one in choices if str(one).casefold() == meant), value)


def _read_list(field: _Field, value: Any) -> Any:
    """Take a list as JSON text, an object for the list of it, and one text if it may stand for a list."""
    [inner] = get_args(field.kind)
    value = _parse_json(value)
    if isinstance(value, str) and field.lone_text and value.strip():
        return _read_lone_text(value)
    if isinstance(value, Mapping) and value and (_is_model(inner) or get_origin(inner) is dict):
        return [value]
    if isinstance(value, list) and inner is str:
        return [_read_text(one) for one in value]
    return value


def _read_lone_text(value: str) -> Any:
    """Take a text for the list of its parts between commas, unless it may be a list in some notation."""
    if value.lstrip()[0] in "[{":
        return value
    if "," not in value:
        return [value]
    parts = [part.strip() for part in value.split(",") if part.strip()]
    return parts if parts and _NOTATION.isdisjoint(value) else value


_NOTATION = frozenset("[]{}\"'")


def _parse_json(value: Any) -> Any:
    """Parse a list or an object that was sent as JSON text."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


@functools.cache
def _fields(model: type[BaseModel]) -> tuple[_Field, ...]:
    return tuple(_describe(name, field) for name, field in model.model_fields.items())


def _describe(name: str, field: FieldInfo) -> _Field:
    kind, marks = _unwrap(field.annotation)
    marks = [*marks, *_flat(field.metadata)]
    alias = field.validation_alias
    names = (
        [one for one in alias.choices if isinstance(one, str)]
        if isinstance(alias, AliasChoices)
        else []
    )
    return _Field(
        names=tuple(names) or (name,),
        kind=kind,
        required=field.is_required(),
        empty=next((one for one in marks if isinstance(one, Empty)), None),
        lone_text=any(isinstance(one, LoneText) for one in marks),
        from_one=any(
            isinstance(one, Ge) and isinstance(one.ge, int) and one.ge > 0 for one in marks
        ),
    )


def _unwrap(annotation: Any) -> tuple[Any, list[Any]]:
    """Return the type without ``None`` and ``Annotated``, and the marks on the way to it."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        kind, more = _unwrap(inner)
        return kind, [*_flat(marks), *more]
    if get_origin(annotation) in (Union, UnionType):
        [kept] = [one for one in get_args(annotation) if one is not type(None)]
        return _unwrap(kept)
    return annotation, []


def _flat(marks: Any) -> Iterator[Any]:
    for mark in marks:
        if isinstance(mark, FieldInfo):
            yield from mark.metadata
        else:
            yield mark


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


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
MOST_READ = 20
"""Notes that one call reads."""


class Wire(BaseModel):
    """Hold what all requests share. Error texts never repeat what was sent."""

    model_config = ConfigDict(  # defence: unknown-arguments forbid=ignore
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
        """Return the arguments without empty ones that mean nothing with the others."""
        return read


class PropertyChanges(Wire):
    """Hold values of properties by their names; the marks that stores have (``Traits.properties``) are fields."""

    model_config = ConfigDict(extra="allow")

    pinned: Annotated[StrictBool | None, NULL] = None
    markdown: Annotated[StrictBool | None, NULL] = None
    archived: Annotated[StrictBool | None, NULL] = None


class ListRequest(Wire):
    """Hold the arguments of ``list``."""

    query: str | None = Field(
        default=None,
        description='words "a phrase" -not a OR b prefix* tag:x status:open due:<2025-01-31 has:x task:open modified:2025-01 trash:any',
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
        default=None, json_schema_extra={"maximum": MOST_PREVIEW_LINES, **QUIET}
    )


class PathListRequest(ListRequest):
    """Hold the arguments of ``list`` in a store with paths."""

    query: str | None = Field(
        default=None,
        description='words "a phrase" -not a OR b prefix* tag:x path:Folder/Below '
        "status:open due:<2025-01-31 has:x",
    )


class GetRequest(Wire):
    """Hold the arguments of ``get``: one of ``id`` and ``ids``, and ``ids`` stands alone."""

    id: NoteId | None = Field(default=None, validation_alias=ID_NAMES)
    ids: Annotated[list[NoteId], Field(max_length=MOST_READ), LONE_TEXT] | None = None
    section: str | None = Field(default=None, description="heading, A > B, number, ^block")
    local_version: Positive | None = None
    version: VersionName | None = None
    range_line_start: Positive | None = None
    range_line_count: Annotated[int, Field(ge=0), BeforeValidator(_whole)] | None = None
    range_char_start: Positive | None = None

    @model_validator(mode="after")
    def names_notes(self) -> Self:
        """Refuse a request that names no note, or several in two ways."""
        if self.ids is None:
            if self.id is None:
                raise PydanticCustomError("note_id", "Give `id`, or `ids` for several notes")
        elif self.model_fields_set != {"ids"}:
            raise PydanticCustomError(
                "note_ids", "`ids` stands alone: the notes are read as they are"
            )
        return self


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
    section: str | None = None
    heading: str | None = None
    task: str | None = Field(default=None, description="words or line")
    done: StrictBool | None = None
    tags: Annotated[Tags, EMPTY] | None = Field(
        default=None, description="replaces all; an e-mail address shares"
    )
    add_tags: Tags | None = None
    remove_tags: Tags | None = None
    trash: StrictBool | None = None
    properties: PropertyChanges | None = Field(default=None, description="any; null removes")
    template: str | None = None
    file: str | None = Field(default=None, description="path or data: URI")
    confirm: StrictBool | None = Field(default=None, description="the user has agreed")
    return_text: StrictBool | None = Field(default=None, json_schema_extra=QUIET)

    @classmethod
    def without_placeholders(cls, read: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments without an empty text if there is another change of it, and what is empty of a new note."""
        changes = {"text_patch", "append", "prepend", "find", "task"} & read.keys()
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

    server_version: Positive | None = Field(default=None, json_schema_extra=QUIET)
    """Files have none."""
    title: Text | None = Field(default=None, description="Folder/Name moves")
    rewrite_links: StrictBool | None = Field(default=None, json_schema_extra=QUIET)
    """The refusal `links_would_break` names it."""


class ManageRequest(Wire):
    """Hold the arguments of ``manage``."""

    action: Action
    id: NoteId | None = Field(default=None, validation_alias=ID_NAMES)
    local_version: Positive | None = None
    version: VersionName | None = None
    ids: Annotated[list[NoteId], LONE_TEXT] | None = None
    query: str | None = None
    add_tags: Tags | None = None
    remove_tags: Tags | None = None
    properties: dict[str, Any] | None = None
    folder: str | None = None
    new_folder: str | None = None
    change_id: str | None = Field(default=None, json_schema_extra=QUIET)
    tag: str | None = None
    new_tag: str | None = None
    dry_run: StrictBool | None = None
    page: Positive | None = None
    confirm: StrictBool | None = None
