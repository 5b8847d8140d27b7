"""Convert notes to a JSON document with all that an export holds of them, and back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_notarium.domain.note_archive import (
    ArchivedNote,
    DocumentFormat,
    from_fields,
    to_fields,
    unreadable,
)

_VERSION = 1


def encode(notes: Sequence[ArchivedNote]) -> dict[str, Any]:
    """Return the document of these notes."""
    listed = [to_fields(note) | {"text": note.content.text} for note in notes]
    return {"format": "mcp-notarium notes", "version": _VERSION, "notes": listed}


def decode(document: Mapping[str, Any]) -> Iterator[ArchivedNote]:
    """Yield the notes of a document. Raises ``InvalidRequest``."""
    version, listed = document.get("version"), document.get("notes")
    if version != _VERSION or not isinstance(listed, list):
        raise unreadable(f"it is no list of notes of version {_VERSION}")
    for number, fields in enumerate(listed, 1):
        where = f"note {number}"
        if not isinstance(fields, dict):
            raise unreadable(f"{where} is not an object")
        yield from_fields(fields, text=fields.get("text"), where=where)


FORMAT = DocumentFormat("json", "JSON", "notes", encode, decode)
