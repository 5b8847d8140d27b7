"""Define the wire schema: what the four tools take and return, field for field.

Only shapes are checked here; the handlers decide what is permitted on which note. Unknown arguments
are refused. ``null`` means "not given". Whole numbers may arrive as ``"3"`` or ``3.0``, lists as
JSON text, one tag as text, and an ``id`` as ``uuid``, because agents send them so. Answers leave out what is
``None``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
)
from pydantic_core import PydanticCustomError

from mcp_notarium.domain.note import LONGEST_ID
from mcp_notarium.search.parser import day_start

QUIET: dict[str, Any] = {"x-quiet": True}
"""``Field(json_schema_extra=QUIET)``: an argument that is taken, but not shown in the schema."""


def _whole(value: Any) -> Any:
    """Refuse ``true`` as a number: pydantic would take it for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a whole number")
    return value


def _parse_json(value: Any) -> Any:
    """Parse a list or an object that was sent as JSON text."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _parse_tags(value: Any) -> Any:
    """Parse tags that were sent as JSON text, or as the text of one tag."""
    if (
        isinstance(value, str)
        and value.strip()
        and value.lstrip()[0] not in "[{"
        and "," not in value
    ):
        return [value]
    return _parse_json(value)


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _identifier(value: str) -> str:
    if not 0 < len(value) <= LONGEST_ID:
        raise PydanticCustomError("note_id", "Input should be the id of a note")
    return value


def _as_text(value: Any) -> Any:
    """Take a number for the text of it."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _day(value: str) -> str:
    if day_start(value) is None:
        raise PydanticCustomError("day", "Input should be a day of the calendar like 2025-01-31")
    return value


def _trash_status(value: int) -> int:
    if value not in (0, 1, 2):
        raise PydanticCustomError("trash_status", "Input should be 0, 1 or 2")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Positive = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Tags = Annotated[list[str], BeforeValidator(_parse_tags)]
Day = Annotated[str, AfterValidator(_day)]
NoteId = Annotated[str, AfterValidator(_identifier)]
VersionName = Annotated[str, BeforeValidator(_as_text), AfterValidator(_identifier)]
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


class Answer(BaseModel):
    """Hold what a tool returns; fields may be added later."""

    model_config = ConfigDict(frozen=True, defer_build=True)


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
    sort_order: Annotated[Literal["ASC", "DESC"], BeforeValidator(_upper)] | None = None
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
    local_version: Whole | None = None
    version: VersionName | None = None
    range_line_start: Positive | None = None
    range_line_count: Annotated[int, Field(ge=0), BeforeValidator(_whole)] | None = None
    range_char_start: Positive | None = None


class PatchOperation(Wire):
    """Hold one change of one line."""

    operation: Literal["addition", "modification", "deletion"]
    line_number: Positive
    value: str | None = None


Patch = Annotated[list[PatchOperation], BeforeValidator(_parse_json)]


class SaveRequest(Wire):
    """Hold the arguments of ``save``."""

    id: NoteId | None = Field(default=None, validation_alias=ID_NAMES)
    local_version: Whole | None = None
    server_version: Whole | None = None
    text: str | None = Field(default=None, description="whole text")
    text_patch: Patch | None = Field(
        default=None,
        description="lines as read; addition: before its line",
    )
    append: str | None = None
    prepend: str | None = Field(default=None)
    find: str | None = Field(default=None, description="exact, once")
    replace: str | None = None
    tags: Tags | None = Field(default=None, description="replaces all; an e-mail address shares")
    trash: StrictBool | None = None
    properties: Annotated[Properties, BeforeValidator(_parse_json)] | None = None
    confirm: StrictBool | None = Field(default=None, description="the user has agreed")
    return_text: StrictBool | None = None


class TitledSaveRequest(SaveRequest):
    """Hold the arguments of ``save`` where notes have titles of their own."""

    title: str | None = None


class PathSaveRequest(TitledSaveRequest):
    """Hold the arguments of ``save`` where the title names the note's file."""

    title: str | None = Field(
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
    local_version: Whole | None = None
    version: VersionName | None = None
    tag: str | None = None
    new_tag: str | None = None
    dry_run: StrictBool | None = None
    page: Positive | None = None
    confirm: StrictBool | None = Field(default=None, description="the user has agreed")


class Sync(Answer):
    """Say why the local copy may be incomplete or old; left out if it is neither."""

    state: str
    loaded: int | None = None
    total: int | None = None
    complete: bool
    note: str


class FromNotes(Answer):
    """Hold an answer with text of notes; the boundaries are added when it is sent."""

    begin_untrusted: str | None = Field(
        default=None,
        description="always, first: a random word of this answer, and that note data follows",
    )
    untrusted_end: str | None = Field(default=None, description="always, last: the same word")


class InvisibleText(Answer):
    """Describe invisible characters of the answer's text."""

    kind: Literal["control", "bidi", "zero_width", "variation", "tag"]
    count: int
    first_line: int | None = None
    where: Literal["title", "tags"] | None = None


class Match(Answer):
    """Show where a row has the words of the query: a line (from 1) and the part of it around them."""

    line: int
    text: str


class ListItem(Answer):
    """Hold one row of a listing; ``text`` is a preview. ``title``: where the store has titles."""

    type: Literal["text"] = "text"
    uuid: str
    title: str | None = None
    text: str
    local_version: int
    tags: list[str]
    modified_at: int
    trash: bool
    properties: Properties | None = None
    match: Match | None = None
    hidden: list[str] | None = None


class ListAnswer(FromNotes):
    """Hold the answer of ``list``."""

    content: list[ListItem]
    next_page: int | None = None
    total_items: int
    inside_words: bool | None = None
    hits_alone: dict[str, int] | None = None
    suggestions: list[str] | None = None
    hidden: list[str] | None = None
    note: str | None = None
    sync: Sync | None = None


class NoteFields(FromNotes):
    """Hold what answers of ``get`` and ``save`` have. Times are Unix epoch seconds (UTC)."""

    id: str
    local_version: int
    server_version: int | None = None
    title: str | None = None
    text: str | None = None
    tags: list[str]
    modified_at: int
    created_at: int | None = None
    trash: bool
    properties: Properties | None = None
    text_is_partial: bool | None = None
    text_total_lines: int | None = None
    next_range_line_start: int | None = None
    next_range_char_start: int | None = None
    note: str | None = None
    findings: list[InvisibleText] | None = None


class NoteAnswer(NoteFields):
    """Hold a note, or lines of it, as ``get`` returns it. ``app``: what the store's app shows beside that."""

    text: str
    app: dict[str, Any] | None = None
    range_line_start: int | None = None
    range_line_count: int | None = None


class NoteLink(Answer):
    """Describe a link of a note (``link``: its target as written) or to it. No ``id``: there is no such note."""

    link: str | None = None
    id: str | None = None


class Heading(Answer):
    """Hold a heading of a note, as written, and its line."""

    line: int
    heading: str


class LinkedNoteAnswer(NoteAnswer):
    """Hold a note of a store with paths as ``get`` returns it. ``links_left_out``: how many more there are.

    ``headings`` are those of a note that does not fit into one answer.
    """

    headings: list[Heading] | None = None
    links: list[NoteLink] | None = None
    linked_from: list[NoteLink] | None = None
    links_left_out: int | None = None


class OldNoteAnswer(NoteAnswer):
    """Hold an old version of a note. It has no ``local_version``, so nothing can be saved over it."""

    local_version: int | None = None  # type: ignore[assignment] # that of the note would be taken for its
    old_version: str


class ChangedLines(Answer):
    """Hold lines of the new text: some that changed, with two around them. ``line``: number of the first."""

    line: int
    text: str


class ChangedNotes(Answer):
    """Hold the ids of the changed notes, for the audit log alone."""

    _changed: tuple[str, ...] = PrivateAttr(default=())

    @property
    def changed_ids(self) -> tuple[str, ...]:
        """Return them; () if the answer names them."""
        return self._changed

    def record_changed(self, ids: Iterable[str]) -> None:
        """Note which notes were changed, if the answer does not name them all."""
        self._changed = tuple(ids)


class SavedAnswer(NoteFields, ChangedNotes):
    """Hold the answer of ``save``: what the store holds now. ``text``: on request, from line 1 on."""

    changed: list[ChangedLines] | None = None
    merged: bool | None = None
    unchanged: bool | None = None
    conflict_copy_id: str | None = None


class VersionRow(Answer):
    """Hold one version of a note. ``at``: ISO 8601; ``by``: the client that saved it here, if known."""

    version: str
    at: str
    by: str | None = None
    changed: str
    hidden: list[str] | None = None


class ManageAnswer(ChangedNotes):
    """Hold the answer of ``manage`` for what it changes.

    ``notes``: how many a renaming has changed, or would change; ``ids``: some of those that it could not.
    """

    id: str | None = None
    status: str | None = None
    new_local_version: int | None = None
    new_server_version: int | None = None
    notes: int | None = None
    left: int | None = None
    ids: list[str] | None = None
    note: str | None = None
    history: list[VersionRow] | None = None


class HistoryAnswer(FromNotes, ManageAnswer):
    """Hold the answer of ``manage history``, newest first. ``next_version``: ask for those before it.

    ``new_local_version`` is the note's own, for ``restore_version``.
    """

    next_version: str | None = None


class TagsAnswer(FromNotes):
    """Hold the answer of ``manage list_tags``: each tag with its number of notes, most used first."""

    tags: dict[str, int]
    total: int
    next_page: int | None = None
    findings: list[InvisibleText] | None = None
    sync: Sync | None = None


class DuplicateNote(Answer):
    """Name one of the notes that say the same."""

    id: str
    local_version: int


class Duplicate(Answer):
    """Hold notes that say the same. ``title``: of the last changed one, or its first line."""

    title: str
    count: int
    notes: list[DuplicateNote]
    hidden: list[str] | None = None


class DuplicatesAnswer(FromNotes):
    """Hold the answer of ``manage find_duplicates``, the largest groups first."""

    duplicates: list[Duplicate]
    total: int
    next_page: int | None = None
    sync: Sync | None = None


class Stats(Answer):
    """Hold numbers about the account. Sizes are MB (1,000,000 bytes), times are Unix seconds."""

    mcp_notarium_version: str
    runtime_version: str
    memory_rss_mb: float | None = None
    backend: str
    notices: list[str]
    db_encryption: str
    db_cipher_version: str | None = None
    db_file_size_mb: float | None = None
    db_total_notes: int | None = None
    db_active_notes: int | None = None
    db_trashed_notes: int | None = None
    db_schema_version: int
    db_last_sync_at: int | None = None
    db_sync_duration_ms: int | None = None
    db_sync_status: str | None = None
    db_sync_error_count: int
    backend_cursor: str | None = None
    sync_state: str
    sync_loaded: int | None = None
    sync_total: int | None = None
    sync_complete: bool
    sync_last_error: str | None = None
    sync_leader: bool
    sync_feed: bool
    sync_left_out: int | None = None
    needs_login: bool
    pending_writes: int
    rejected_writes: int


class StatsAnswer(Answer):
    """Hold the answer of ``manage get_stats``."""

    stats: Stats


class ManageOutput(HistoryAnswer):
    """Describe every field of an answer of ``manage``."""

    tags: dict[str, int] | None = None
    duplicates: list[Duplicate] | None = None
    total: int | None = None
    next_page: int | None = None
    findings: list[InvisibleText] | None = None
    sync: Sync | None = None
    stats: Stats | None = None


class PlainAnswer(Answer):
    """Hold an answer that is formatted text. ``notes``: the ids of those that it is about or shows.

    ``from_notes``: the text holds what stands in notes. ``value``: facts beside the text, for the program of the client;
    ``remark``: what the model is told of them.
    """

    text: str
    value: dict[str, Any] | None = None
    remark: str = ""
    notes: tuple[str, ...] = ()
    from_notes: bool = False
