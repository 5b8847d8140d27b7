"""Convert notes to the zip file that Simplenote's app exports, and back. Pure.

``source/notes.json`` lists the notes in two lists, and each note is a text file as well. The app ends lines by
CRLF there; a file of ours, which has ``writtenBy``, keeps the line ends of the notes, and what the app has no field
for: a folder, a title, which is also the first line of the text, properties of other stores, and dates finer than a
millisecond. The app's importers read ``notes.json`` alone; those of the phones know dates with three decimals only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from mcp_notarium.domain.exported_note import (
    DocumentFormat,
    ExportedFile,
    ExportedNote,
    format_date,
    free_name,
    from_fields,
    property_fields,
    read_string,
    read_strings,
    unreadable,
)
from mcp_notarium.domain.lines import first_line
from mcp_notarium.domain.note import Content
from mcp_notarium.stores.simplenote.kind import PROPERTIES

_LISTS = {"activeNotes": False, "trashedNotes": True}
_OURS = "mcp-notarium"


def encode(notes: Sequence[ExportedNote]) -> dict[str, Any]:
    """Return the document ``notes.json``, the notes changed last first."""
    ordered = sorted(notes, key=lambda note: -note.modified_at)
    lists = {
        name: [_encode_note(note) for note in ordered if note.content.trash is trash]
        for name, trash in _LISTS.items()
    }
    return {**lists, "writtenBy": _OURS}


def _encode_note(note: ExportedNote) -> dict[str, Any]:
    content = note.content
    marks = {name for name in PROPERTIES if content.properties.get(name) is True}
    others = property_fields(content.properties.having({}, without=marks))
    exact = [format_date(note.created_at), format_date(note.modified_at)]
    return {
        "id": note.id,
        **({"folder": note.folder} if note.folder else {}),
        "content": _titled(content),
        "creationDate": _date(exact[0]),
        "lastModified": _date(exact[1]),
        **dict.fromkeys(sorted(marks, reverse=True), True),
        **({"tags": list(content.tags)} if content.tags else {}),
        **({} if content.title is None else {"title": content.title}),
        **({"properties": others} if others else {}),
        "dates": exact,
    }


def _titled(content: Content) -> str:
    return content.text if content.title is None else f"{content.title}\n{content.text}"


def _date(exact: str) -> str:
    at = datetime.fromisoformat(exact)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decode(document: Mapping[str, Any]) -> Iterator[ExportedNote]:
    """Yield the notes of ``notes.json``. Raises ``InvalidRequest``."""
    ours = document.get("writtenBy") == _OURS
    for name, trash in _LISTS.items():
        listed = document.get(name, [])
        if not isinstance(listed, list):
            raise unreadable(f"`{name}` must be a list")
        for number, fields in enumerate(listed, 1):
            where = f"note {number} of `{name}`"
            if not isinstance(fields, dict):
                raise unreadable(f"{where} is not an object")
            yield _decode_note(fields, where, trash=trash, ours=ours)


def _decode_note(fields: Mapping[str, Any], where: str, *, trash: bool, ours: bool) -> ExportedNote:
    text = read_string(fields.get("content"), where, "content")
    tags = read_strings(fields.get("tags", []), where, "tags")
    shared = read_strings(fields.get("collaboratorEmails", []), where, "collaboratorEmails")
    known: dict[str, Any] = {
        "id": fields.get("id", ""),
        "created": fields.get("creationDate"),
        "modified": fields.get("lastModified"),
        "tags": [*tags, *(one for one in shared if one not in tags)],
        "trash": trash,
    } | {name: True for name in PROPERTIES if fields.get(name) is True}
    if not ours:
        return from_fields(known, text=text.replace("\r\n", "\n"), where=where)
    others = fields.get("properties", {})
    exact = read_strings(fields.get("dates", []), where, "dates")
    known |= dict(zip(("created", "modified"), exact, strict=False))
    if (title := fields.get("title")) is not None:
        text = text.removeprefix(read_string(title, where, "title") + "\n")
    known |= {"title": title, "folder": fields.get("folder")}
    return from_fields((others if isinstance(others, dict) else {}) | known, text=text, where=where)


def list_texts(notes: Sequence[ExportedNote]) -> Iterator[ExportedFile]:
    """Yield a text file for each note, with its tags at the end, as the app writes them."""
    taken: dict[str, int] = {}
    for note in notes:
        content = note.content
        tags = f"\n\nTags:\n  {', '.join(content.tags)}" if content.tags else ""
        folder = "trash/" if content.trash else ""
        path = free_name(folder, content.title or first_line(content.text), ".txt", taken)
        yield ExportedFile(path, f"{_titled(content)}{tags}".encode(), note.modified_at)


FORMAT = DocumentFormat(
    "simplenote",
    "activeNotes",
    encode,
    decode,
    member="source/notes.json",
    others=list_texts,
)
