"""Define what the four tools return, field for field. Answers leave out what is ``None``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.note import MARKS, Content, Note, Value
from mcp_notarium.domain.policy import Field as Hideable
from mcp_notarium.domain.policy import Policy
from mcp_notarium.domain.properties import properties_of


class Answer(BaseModel):
    """Hold what a tool returns; fields may be added later."""

    model_config = ConfigDict(frozen=True, defer_build=True)


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
    where: Literal["title", "tags", "properties"] | None = None


class Match(Answer):
    """Show where a row has the words of the query: a line (from 1) and the part of it around them."""

    line: int
    text: str


class TaskRow(Answer):
    """Describe a task of a note: its line (from 1), its words, its state, and its days."""

    line: int
    text: str
    state: Literal["open", "doing", "done", "cancelled"]
    due: str | None = None
    scheduled: str | None = None


class ListItem(Answer):
    """Hold one row of a listing; ``text`` is a preview, never empty. ``title``: where the store has titles."""

    type: Literal["text"] = "text"
    uuid: str
    title: str | None = None
    text: str
    local_version: int
    tags: list[str]
    modified_at: int
    trash: bool
    properties: dict[str, Any] | None = None
    tasks: list[TaskRow] | None = None
    more_tasks: bool | None = None
    match: Match | None = None
    lacks: list[str] | None = None
    by: Literal["meaning"] | None = None
    hidden: list[str] | None = None


class ListAnswer(FromNotes):
    """Hold the answer of ``list``."""

    content: list[ListItem]
    next_page: int | None = None
    total_items: int
    have_all: int | None = None
    inside_words: bool | None = None
    corrected: dict[str, str] | None = None
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
    properties: dict[str, Any] | None = None
    text_is_partial: bool | None = None
    text_total_lines: int | None = None
    next_range_line_start: int | None = None
    next_range_char_start: int | None = None
    note: str | None = None
    findings: list[InvisibleText] | None = None


class Heading(Answer):
    """Hold a heading of a note, with its line and its number among all headings."""

    line: int
    heading: str
    number: int


class FileRow(Answer):
    """Describe a file that a note shows or links to; ``id`` is for ``get``. ``kind``: a media type; ``size`` in bytes.

    ``name``: what the note calls it, where the id does not say it. ``lines``: those of the note's text that show it, the first few.
    Of a file that was read there is more: ``pixels`` (width and height), ``pages``, ``modified_at``.
    """

    id: str
    kind: str
    size: int | None = None
    name: str | None = None
    lines: tuple[int, ...] | None = None
    pixels: tuple[int, int] | None = None
    pages: int | None = None
    modified_at: int | None = None


class NoteAnswer(NoteFields):
    """Hold a note, or lines of it, as ``get`` returns it. ``headings``: those of a note that is not here as a whole."""

    text: str
    range_line_start: int | None = None
    range_line_count: int | None = None
    headings: list[Heading] | None = None
    files: list[FileRow] | None = None


def note_fields(note: Note, policy: Policy) -> dict[str, Any]:
    """Return these fields of a note, but for its text."""
    return {
        "id": note.id,
        "local_version": note.local_version,
        "server_version": note.server_version,
        "title": None if policy.hides(Hideable.TEXT) else note.title,
        "tags": policy.shown_tags(note.tags),
        "modified_at": note.modified_at,
        "created_at": note.created_at,
        "trash": note.trash,
        "properties": shown_properties_of(note.content, policy)
        if note.content.may_have_properties
        else None,
    }


MOST_PROPERTIES = 50
"""Properties of a note that an answer shows, and items of a list."""
LONGEST_VALUE = 500
"""Characters of a value that an answer shows."""


def shown_properties_of(content: Content, policy: Policy) -> dict[str, Any] | None:
    """Return the properties of a note on the wire, as far as they are shown; None if there are none."""
    found: Mapping[str, Value] = content.properties
    if policy.hides(Hideable.TEXT):
        found = {name: one for name, one in found.items() if name in MARKS}
    else:
        hidden = content.tags if policy.hides(Hideable.TAGS) else ()  # names of labels are tags
        found = properties_of(content).having({}, without=hidden)
    return {name: _shown(value) for name, value in [*found.items()][:MOST_PROPERTIES]} or None


def _shown(value: Value) -> Any:
    if isinstance(value, tuple):
        return [shorten(item, LONGEST_VALUE) for item in value[:MOST_PROPERTIES]]
    return shorten(value, LONGEST_VALUE) if isinstance(value, str) else value


class NoteLink(Answer):
    """Describe a link of a note (``link``: its target as written) or to it. No ``id``: there is no such note."""

    link: str | None = None
    id: str | None = None


class LinkedNoteAnswer(NoteAnswer):
    """Hold a note of a store with paths as ``get`` returns it. ``links_left_out``: how many more there are."""

    links: list[NoteLink] | None = None
    linked_from: list[NoteLink] | None = None
    links_left_out: int | None = None


class AppNoteAnswer(LinkedNoteAnswer):
    """Hold a note with what the app of its store shows beside title, text, tags and properties."""

    in_app: dict[str, Any] | None = None


class AttachmentAnswer(FromNotes):
    """Hold a file that is no note as ``get`` returns it: what it is, and the text that is read in it.

    A PDF has a heading for each page.
    """

    id: str
    files: list[FileRow]
    text: str | None = None
    text_is_partial: bool | None = None
    text_total_lines: int | None = None
    range_line_start: int | None = None
    range_line_count: int | None = None
    next_range_line_start: int | None = None
    next_range_char_start: int | None = None
    headings: list[Heading] | None = None
    note: str | None = None
    findings: list[InvisibleText] | None = None
    _picture: tuple[bytes, str] = PrivateAttr(default=(b"", ""))
    _digest: str = PrivateAttr(default="")

    @property
    def picture(self) -> tuple[bytes, str]:
        """Return the bytes of the picture that is sent beside it, and their kind; b"" if there is none."""
        return self._picture

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the file, for the audit log."""
        return self._digest

    def of(self, digest: str, picture: bytes = b"", kind: str = "") -> Self:
        """Note of which bytes it is, and which picture is sent beside it; return it."""
        self._digest, self._picture = digest, (picture, kind)
        return self


class NoteNotRead(Answer):
    """Say why a note cannot be read; ``asked``: its id as it was sent."""

    asked: str
    error: dict[str, Any]


class NotesAnswer(FromNotes):
    """Hold several notes as ``get`` returns them, in the order of ``ids``."""

    notes: list[AppNoteAnswer | NoteNotRead]


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
    """Hold the answer of ``save``: what the store holds now. ``text``: on request, from line 1 on. ``files``: the one that was kept."""

    files: list[FileRow] | None = None
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


class BulkRow(Answer):
    """Hold what became of some notes of many: the ``ids`` of all for which it is the same.

    ``names``: what was sent where there is no such note, or files and canvases. ``more``: how many others there are.
    """

    status: str
    reason: str | None = None
    ids: list[str] | None = None
    names: list[str] | None = None
    more: int | None = None


class ManageAnswer(ChangedNotes):
    """Hold the answer of ``manage`` for what it changes.

    ``notes``: how many of many were changed, or would be; ``unchanged`` were so already, ``refused`` could not be, ``left`` are
    for another call. ``results``: what became of each, the refused first.
    """

    id: str | None = None
    status: str | None = None
    new_local_version: int | None = None
    new_server_version: int | None = None
    notes: int | None = None
    unchanged: int | None = None
    refused: int | None = None
    left: int | None = None
    results: list[BulkRow] | None = None
    change_id: str | None = None
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


class PropertyRow(Answer):
    """Describe a property in use: of how many notes, of which kinds, and its commonest values with their notes."""

    name: str
    notes: int
    kinds: list[str]
    type: str | None = None
    values: dict[str, int] | None = None
    hidden: list[str] | None = None


class PropertiesAnswer(FromNotes):
    """Hold the answer of ``manage list_properties``, the most used first."""

    properties: list[PropertyRow]
    total: int
    next_page: int | None = None
    findings: list[InvisibleText] | None = None
    sync: Sync | None = None


class Folder(Answer):
    """Hold a folder: how many notes lie in it, and in it or ``below``. ``/`` is the top.

    Of notes below notes it is the id of the upper one, with the titles that lead there.
    """

    folder: str
    title: str | None = None
    notes: int
    below: int


class FoldersAnswer(FromNotes):
    """Hold the answer of ``manage list_folders``, by path. Folders without notes are not in it."""

    folders: list[Folder]
    total: int
    next_page: int | None = None
    sync: Sync | None = None


class Problem(Answer):
    """Hold what hangs loose.

    ``broken_link``: ``link`` of the note ``id``, as written in ``line``, or of the canvas ``file``, leads to no note and no file. ``no_links``: no note or
    canvas links to the note, nor it to one. ``no_tags``: it has none. ``unlinked_file``: no note or canvas links to ``file``.
    """

    kind: Literal["broken_link", "no_links", "no_tags", "unlinked_file"]
    id: str | None = None
    link: str | None = None
    line: int | None = None
    file: str | None = None


class ProblemsAnswer(FromNotes):
    """Hold the answer of ``manage find_problems``. ``totals``: how many of each kind are on all pages."""

    problems: list[Problem]
    totals: dict[str, int]
    next_page: int | None = None
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
    sync_error_subcategory: str | None = None
    sync_error_retryable: bool | None = None
    sync_error_hint: str | None = None
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
    properties: list[PropertyRow] | None = None
    duplicates: list[Duplicate] | None = None
    folders: list[Folder] | None = None
    problems: list[Problem] | None = None
    totals: dict[str, int] | None = None
    total: int | None = None
    next_page: int | None = None
    findings: list[InvisibleText] | None = None
    sync: Sync | None = None
    stats: Stats | None = None


class PlainAnswer(Answer):
    """Hold an answer that is formatted text. ``notes``: the ids of those that it is about or shows.

    ``from_notes``: the text holds what stands in notes, so it is marked as untrusted. ``value``: facts beside the text, for the program of the client;
    ``remark``: what the model is told of them.
    """

    text: str
    from_notes: bool
    value: dict[str, Any] | None = None
    remark: str = ""
    notes: tuple[str, ...] = ()
