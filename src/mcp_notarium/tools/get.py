"""``get``: one note by its id, whole or by lines, never two versions mixed.

Raises ``NoteNotFound`` for an unknown id; it never searches. With ``local_version`` the answer is of
exactly that version or an error that names the current one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_notarium.errors import VersionConflict
from mcp_notarium.notes.note import Note
from mcp_notarium.tools.context import CallContext
from mcp_notarium.tools.lookup import find_note, versions_of
from mcp_notarium.tools.portion import Portion, portion
from mcp_notarium.tools.schemas import GetRequest, NoteAnswer

if TYPE_CHECKING:
    from mcp_notarium.app import App


async def handle(app: App, request: GetRequest, call: CallContext) -> NoteAnswer:
    """The note, or the lines asked for."""
    del call  # nothing to ask: reading changes nothing
    note = await find_note(app, request.id)
    _check_version(note, request.local_version)
    asked = request.range_line_start is not None or request.range_line_count is not None
    part = portion(note.text, start=request.range_line_start, count=request.range_line_count)
    return NoteAnswer(**fields_of(note), **fields_of_portion(part, asked=asked))


def _check_version(note: Note, version: int | None) -> None:
    if version is not None and version != note.local_version:
        raise VersionConflict(
            f"The note has changed: it is at local_version {note.local_version}, not {version}.",
            subcategory="version_changed",
            details=versions_of(note),
            resolution_hint="Read it again from its first line; lines read before are out of date.",
        )


def fields_of(note: Note) -> dict[str, Any]:
    """The fields of a note on the wire, without its text."""
    return {
        "id": note.id,
        "local_version": note.local_version,
        "server_version": note.server_version,
        "tags": list(note.tags),
        "modified_at": note.modified_at,
        "created_at": note.created_at,
        "trash": note.trash,
    }


def fields_of_portion(part: Portion, *, asked: bool) -> dict[str, Any]:
    """The text on the wire; the range is told where there is one."""
    fields: dict[str, Any] = {
        "text": part.text,
        "text_is_partial": not part.whole,
        "text_total_lines": part.total,
        "note": part.note,
    }
    if asked or not part.whole:
        fields |= {
            "range_line_start": part.start,
            "range_line_count": part.count,
            "next_range_line_start": part.next_start,
        }
    return fields
