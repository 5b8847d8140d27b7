"""Define what an export holds of a note, and convert it to named fields and back. Pure.

The fields are those of a JSON export and, without the text, those of the front matter of a Markdown file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.domain.file_names import avoid_device
from mcp_notarium.domain.note import LONGEST_ID, Content, Properties, Revision, Value, read_values
from mcp_notarium.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_notarium.markup.obsidian_links import Link

FILES = "files"
"""The folder of an export with the files that notes show, and the field of a note that names its own."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH).total_seconds()
_LAST = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).total_seconds()
FIELDS = frozenset({"id", "folder", "title", "created", "modified", "tags", "trash", "text", FILES})
"""Names that mean something else than a property."""
_WRITER = "notarium"
_PREFIX = "property:"
"""Stands before the name of a property that is called like one of these."""
_NOT_IN_NAMES = re.compile(r'[\\/:*?"<>|#^\[\]\s]+')
_LONGEST_NAME = 60
_MOST_BYTES = 180
_LONGEST_FOLDER = 2000
_DEEPEST = 64
TIDY_TAGS = "tags in another form: no blanks around them, no `#`, no comma, none empty or twice, at most 100"
UNREAD_TAGS = "no tags: the front matter cannot be read; it stays in the text"
_MADE = "created"
_CHANGED = "modified"


@dataclass(frozen=True, slots=True)
class NoteFile:
    """Hold a file that a note shows."""

    path: str
    """Below the export."""
    size: int | None
    """In bytes; None: the export lacks the file."""
    digest: str = ""
    """The SHA-256 of its bytes; '' where an export does not say it."""
    links: tuple[Link, ...] = ()
    """Those of the text that lead to it."""


@dataclass(frozen=True, slots=True)
class ExportedNote:
    """Hold a note as an export has it. Times are epoch seconds, to the microsecond."""

    id: str
    content: Content
    created_at: float
    modified_at: float
    folder: str = ""
    """The folder, ``/`` between the parts; '' at the top, or if notes lie in no folders."""
    dated: bool = True
    """False: the export does not say when it was made, and the times are those of its file."""
    changed: tuple[str, ...] = ()
    """Changes that reading the export has made to it, in a person's words."""
    files: tuple[NoteFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """Hold a file of an export."""

    path: str
    """Below the export, ``/`` between the parts."""
    data: bytes
    modified_at: float
    """In epoch seconds."""


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """Describe an export that is one JSON document, perhaps in a zip file."""

    name: str
    key: str
    """A key of the document that no other format has."""
    encode: Callable[[Sequence[ExportedNote]], dict[str, Any]]
    decode: Callable[[Mapping[str, Any]], Iterator[ExportedNote]]
    member: str = ""
    """The path of the document in a zip file; '' if it is a file by itself."""
    others: Callable[[Sequence[ExportedNote]], Iterator[ExportedFile]] = lambda _notes: iter(())
    """The other files of the zip file."""


def export_note(held: Revision, *, paths: bool) -> ExportedNote:
    """Return what an export has of a note; ``paths``: its id is a path."""
    folder = held.id.rpartition("/")[0] if paths else ""
    return ExportedNote(held.id, held.content, held.created_at, held.modified_at, folder)


def unreadable(what: str) -> InvalidRequest:
    """Return the error for an export that cannot be read."""
    return InvalidRequest(
        f"the export cannot be read: {what}; nothing was imported",
        resolution_hint="Export again, or correct the file.",
    )


def to_fields(note: ExportedNote) -> dict[str, Any]:
    """Return the fields of a note without its text. What is not set has no field, but for tags."""
    content = note.content
    return {
        "id": note.id,
        **({"folder": note.folder} if note.folder else {}),
        **({} if content.title is None else {"title": content.title}),
        _MADE: format_date(note.created_at),
        _CHANGED: format_date(note.modified_at),
        "tags": list(content.tags),
        **({"trash": True} if content.trash else {}),
        **property_fields(content.properties),
    }


def from_fields(fields: Mapping[str, Any], *, text: Any, where: str) -> ExportedNote:
    """Read the fields of a note; ``where`` names it in errors. Raises ``InvalidRequest``.

    The other date counts if one is missing; the note is not ``dated`` if both are. A property is any other field.
    """
    note_id = replace_surrogates(read_string(fields.get("id", ""), where, "id"))
    if len(note_id) > LONGEST_ID:
        raise unreadable(f"{where}: the id is too long")
    title = fields.get("title")
    dates = [read_date(fields[one], where, one) for one in (_MADE, _CHANGED) if fields.get(one)]
    content = Content(
        read_string(text, where, "text"),
        read_strings(fields.get("tags", []), where, "tags"),
        trash=_is_true(fields.get("trash", False)),
        title=None if title is None else read_string(title, where, "title"),
        properties=Properties(
            read_values(
                {
                    name.removeprefix(_PREFIX): one
                    for name, one in fields.items()
                    if name not in FIELDS
                }
            )
        ),
    )
    folder = replace_surrogates(read_string(fields.get("folder") or "", where, "folder"))
    created, modified = (dates or [0.0])[0], (dates or [0.0])[-1]
    files = tuple(_read_files(fields.get(FILES, []), where))
    return ExportedNote(
        note_id, content.cleaned(), created, modified, folder, bool(dates), files=files
    )


def _read_files(value: Any, where: str) -> Iterator[NoteFile]:
    """Read what a note says of its files: paths, or objects with path and digest. Raises ``InvalidRequest``."""
    for one in value if isinstance(value, list) else [None]:
        said = {"path": one} if isinstance(one, str) else one
        if not isinstance(said, dict):
            raise unreadable(f"{where}: `{FILES}` must be a list of files")
        path = read_string(said.get("path"), where, "path")
        digest = read_string(said.get("digest", ""), where, "digest")
        yield NoteFile(replace_surrogates(path), None, digest)


def property_fields(properties: Mapping[str, Value]) -> dict[str, Any]:
    """Return the fields that properties are, under names that no other field has."""
    return {
        _PREFIX + name if name in FIELDS or name.startswith((_PREFIX, _WRITER)) else name: list(one)
        if isinstance(one, tuple)
        else one
        for name, one in properties.items()
    }


def safe_folder(folder: str) -> str:
    """Return the folder of a file in an export, with a slash at its end; '' where its path would be too long."""
    parts = [_safe_name(part) for part in folder.split("/") if part]
    path = "".join(f"{part}/" for part in parts)
    return path if len(path.encode()) <= _LONGEST_FOLDER and len(parts) <= _DEEPEST else ""


def format_date(seconds: float) -> str:
    """Return an ISO date in UTC; one that no calendar has becomes the nearest."""
    return (_EPOCH + timedelta(seconds=min(max(seconds, _FIRST), _LAST))).isoformat()


def free_name(folder: str, title: str, ending: str, taken: dict[str, int]) -> str:
    """Return the path of a file named after ``title`` that is not in ``taken``, and add it there.

    Every system takes the name, also one that ignores case. ``taken`` has the last number of each name.
    """
    name = f"{folder}{_safe_name(title)}"
    path = name
    while path.casefold() in taken:
        taken[name.casefold()] += 1
        path = f"{name} {taken[name.casefold()]}"
    taken[path.casefold()] = 1
    return path + ending


def _safe_name(title: str) -> str:
    visible = "".join(
        " " if unicodedata.category(one)[0] in "CZ" else one
        for one in unicodedata.normalize("NFC", title[: 4 * _LONGEST_NAME])
    )
    words = " ".join(_NOT_IN_NAMES.sub(" ", visible).split())[:_LONGEST_NAME]
    cut = words.encode()[:_MOST_BYTES].decode(errors="ignore").strip(" .~-")
    return avoid_device(cut) or "Untitled"


def read_date(value: Any, where: str, name: str) -> float:
    """Read an ISO date, or epoch seconds. Raises ``InvalidRequest``."""
    if isinstance(value, int | float) and not isinstance(value, bool) and _FIRST <= value <= _LAST:
        return float(value)
    try:
        read = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise unreadable(f"{where}: `{name}` must be a date such as 2026-01-31T12:00:00Z") from None
    aware = read if read.tzinfo else read.replace(tzinfo=UTC)
    try:
        return (aware - _EPOCH).total_seconds()
    except OverflowError:
        raise unreadable(f"{where}: `{name}` is not a date that can be") from None


def read_string(value: Any, where: str, name: str) -> str:
    """Return a value that is a string. Raises ``InvalidRequest``."""
    if not isinstance(value, str):
        raise unreadable(f"{where}: `{name}` must be a string")
    return value


def read_strings(value: Any, where: str, name: str) -> tuple[str, ...]:
    """Return a value that is a list of strings. Raises ``InvalidRequest``."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise unreadable(f"{where}: `{name}` must be a list of strings")
    return tuple(value)


def _is_true(value: Any) -> bool:
    """Tell whether a field is set; front matter has strings only."""
    return value is True or value == "true"
