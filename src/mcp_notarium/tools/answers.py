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
    """The line of the text with the first one, from 1; left out where they stand elsewhere, in ``where``."""
    where: Literal["title", "tags", "properties"] | None = None


class Match(Answer):
    """Show where a row has the words of the query."""

    line: int
    """From 1."""
    text: str
    """The part of the line around them."""


class TaskRow(Answer):
    """Describe a task of a note."""

    line: int
    """From 1."""
    text: str
    state: Literal["open", "doing", "done", "cancelled"]
    due: str | None = None
    """YYYY-MM-DD; so is the next."""
    scheduled: str | None = None


class ListItem(Answer):
    """Hold one row of a listing."""

    type: Literal["text"] = "text"
    uuid: str
    title: str | None = None
    """Left out where the store has no titles."""
    text: str
    """A preview, never empty."""
    local_version: int
    tags: list[str]
    modified_at: int
    trash: bool
    properties: dict[str, Any] | None = None
    tasks: list[TaskRow] | None = None
    more_tasks: bool | None = None
    """The note has more tasks than ``tasks`` shows."""
    match: Match | None = None
    lacks: list[str] | None = None
    """The words of the query that no part of the note has."""
    by: Literal["meaning"] | None = None
    """No word finds the note."""
    hidden: list[str] | None = None
    """The kinds of invisible characters in the row."""


class ListAnswer(FromNotes):
    """Hold the answer of ``list``."""

    content: list[ListItem]
    next_page: int | None = None
    total_items: int
    have_all: int | None = None
    """Number of notes that lack no word; left out where all have them."""
    inside_words: bool | None = None
    """Words were looked for inside others, too."""
    corrected: dict[str, str] | None = None
    """A word that no note has -> what was searched for it."""
    suggestions: list[str] | None = None
    """Words that may be meant."""
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
    """Describe a file that a note shows or links to. The last three fields are of a file that was read."""

    id: str
    """For ``get``."""
    kind: str
    """A media type."""
    size: int | None = None
    """In bytes."""
    name: str | None = None
    """Name that the note gives it, where the id does not say it."""
    lines: tuple[int, ...] | None = None
    """Lines of the note's text that show it, the first few."""
    pixels: tuple[int, int] | None = None
    """Width and height."""
    pages: int | None = None
    modified_at: int | None = None


class NoteAnswer(NoteFields):
    """Hold a note, or lines of it, as ``get`` returns it."""

    text: str
    range_line_start: int | None = None
    range_line_count: int | None = None
    headings: list[Heading] | None = None
    """Those of a note that is not here as a whole."""
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
    """Describe a link of a note, or to it."""

    link: str | None = None
    """Its target as written."""
    id: str | None = None
    """Left out: there is no such note."""


class LinkedNoteAnswer(NoteAnswer):
    """Hold a note of a store with paths as ``get`` returns it."""

    links: list[NoteLink] | None = None
    linked_from: list[NoteLink] | None = None
    links_left_out: int | None = None
    """Number of links beyond these."""


class AppNoteAnswer(LinkedNoteAnswer):
    """Hold a note with what the app of its store shows besides title, text, tags and properties."""

    in_app: dict[str, Any] | None = None


class AttachmentAnswer(FromNotes):
    """Hold a file that is no note as ``get`` returns it: what it is, and its text. A PDF has a heading for each page."""

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
        """Return the bytes of the picture that is sent next to it, and their kind; b"" if there is none."""
        return self._picture

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the file, for the audit log."""
        return self._digest

    def of(self, digest: str, picture: bytes = b"", kind: str = "") -> Self:
        """Remember of which bytes it is, and which picture is sent next to it; return it."""
        self._digest, self._picture = digest, (picture, kind)
        return self


class NoteNotRead(Answer):
    """Say why a note cannot be read."""

    asked: str
    """Its id as it was sent."""
    error: dict[str, Any]


class NotesAnswer(FromNotes):
    """Hold several notes as ``get`` returns them, in the order of ``ids``."""

    notes: list[AppNoteAnswer | NoteNotRead]


class OldNoteAnswer(NoteAnswer):
    """Hold an old version of a note. It has no ``local_version``, so nothing can be saved over it."""

    local_version: int | None = None  # type: ignore[assignment] # that of the note would be taken for its
    old_version: str


class ChangedLines(Answer):
    """Hold lines of the new text: some that changed, with two around them."""

    line: int
    """The number of the first."""
    text: str


class ChangedNotes(Answer):
    """Hold the ids of the changed notes, for the audit log alone."""

    _changed: tuple[str, ...] = PrivateAttr(default=())

    @property
    def changed_ids(self) -> tuple[str, ...]:
        """Return them; () if the answer names them."""
        return self._changed

    def record_changed(self, ids: Iterable[str]) -> None:
        """Record which notes were changed: the answer may not name them all."""
        self._changed = tuple(ids)


class SavedAnswer(NoteFields, ChangedNotes):
    """Hold the answer of ``save``: what the store holds now. ``text``: on request, from line 1 on."""

    files: list[FileRow] | None = None
    """The file that was kept."""
    changed: list[ChangedLines] | None = None
    merged: bool | None = None
    unchanged: bool | None = None
    conflict_copy_id: str | None = None


class VersionRow(Answer):
    """Hold one version of a note."""

    version: str
    at: str
    """ISO 8601."""
    by: str | None = None
    """The client that saved it here, if known."""
    changed: str
    hidden: list[str] | None = None


class BulkRow(Answer):
    """Hold what became of some notes of many."""

    status: str
    reason: str | None = None
    ids: list[str] | None = None
    """All for which it is the same."""
    names: list[str] | None = None
    """Names that were sent for unknown notes, or files and canvases."""
    more: int | None = None
    """Number of others."""


class ManageAnswer(ChangedNotes):
    """Hold the answer of ``manage`` for what it changes."""

    id: str | None = None
    status: str | None = None
    new_local_version: int | None = None
    new_server_version: int | None = None
    notes: int | None = None
    """Number of notes that were changed, or would be."""
    unchanged: int | None = None
    """Number of notes that were so already."""
    refused: int | None = None
    """Number of notes that could not be."""
    left: int | None = None
    """Number of notes left for another call."""
    results: list[BulkRow] | None = None
    """Outcome of each, the refused first."""
    change_id: str | None = None
    note: str | None = None
    history: list[VersionRow] | None = None


class HistoryAnswer(FromNotes, ManageAnswer):
    """Hold the answer of ``manage history``, newest first. ``new_local_version`` is the note's own."""

    next_version: str | None = None
    """The `version` to ask for those before it."""


class PageAnswer(FromNotes):
    """Hold what every answer says that has pages."""

    total: int
    """Number of rows on all pages."""
    next_page: int | None = None
    sync: Sync | None = None


class TagsAnswer(PageAnswer):
    """Hold the answer of ``manage list_tags``: each tag with its number of notes, most used first."""

    tags: dict[str, int]
    findings: list[InvisibleText] | None = None


class PropertyRow(Answer):
    """Describe a property in use."""

    name: str
    notes: int
    """Number of notes with it."""
    kinds: list[str]
    type: str | None = None
    values: dict[str, int] | None = None
    """The commonest, with their numbers of notes."""
    hidden: list[str] | None = None


class PropertiesAnswer(PageAnswer):
    """Hold the answer of ``manage list_properties``, the most used first."""

    properties: list[PropertyRow]
    findings: list[InvisibleText] | None = None


class Folder(Answer):
    """Hold a folder, or a note with others below it."""

    folder: str
    """Its path, ``/`` at the top; the id of such a note."""
    title: str | None = None
    """The titles that lead to such a note."""
    notes: int
    """Number of notes right in it."""
    below: int
    """Number of notes in it at any depth."""


class FoldersAnswer(PageAnswer):
    """Hold the answer of ``manage list_folders``, by path. Folders without notes are not in it."""

    folders: list[Folder]


class Problem(Answer):
    """Hold what hangs loose."""

    kind: Literal["broken_link", "no_links", "no_tags", "unlinked_file"]
    """``no_links``: no note or canvas links to the note, nor it to one. ``unlinked_file``: none links to the file."""
    id: str | None = None
    """The note with the problem."""
    link: str | None = None
    """A target, as written, that leads to no note and no file."""
    line: int | None = None
    """Line of the link in the note."""
    file: str | None = None
    """The canvas with the link, or the unlinked file."""


class ProblemsAnswer(FromNotes):
    """Hold the answer of ``manage find_problems``."""

    problems: list[Problem]
    totals: dict[str, int]
    """Number of each kind on all pages."""
    next_page: int | None = None
    sync: Sync | None = None


class DuplicateNote(Answer):
    """Name one of the notes that say the same."""

    id: str
    local_version: int


class Duplicate(Answer):
    """Hold notes that say the same."""

    title: str
    """Of the last changed one, or its first line."""
    count: int
    notes: list[DuplicateNote]
    hidden: list[str] | None = None


class DuplicatesAnswer(PageAnswer):
    """Hold the answer of ``manage find_duplicates``, the largest groups first."""

    duplicates: list[Duplicate]


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
    """Hold an answer that is formatted text."""

    text: str
    from_notes: bool
    """The text holds what stands in notes, so it is marked as untrusted."""
    value: dict[str, Any] | None = None
    """Facts next to the text, for the program of the client."""
    remark: str = ""
    """Text about them for the model."""
    notes: tuple[str, ...] = ()
    """The ids of those that it is about or shows."""
