"""Handle ``get``: return one note by its id, whole or by lines, never two versions mixed.

Raises ``NoteNotFound`` for an unknown id; it never searches. With ``local_version`` the answer is of
exactly that version, or an error names the current one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.note import Note
from mcp_notarium.domain.policy import Field, Policy
from mcp_notarium.errors import VersionConflict
from mcp_notarium.tools.call_context import CallContext
from mcp_notarium.tools.hidden_fields import shown_tags, without_text
from mcp_notarium.tools.note_lookup import find_note, versions_of
from mcp_notarium.tools.paging import ANSWER_BYTES, Portion, cut_portion, json_bytes
from mcp_notarium.tools.schemas import GetRequest, NoteAnswer

if TYPE_CHECKING:
    from mcp_notarium.app import App

RESERVED_BYTES = 1_000
"""Bytes reserved for the fields around a text; tags are counted separately."""


async def handle(app: App, request: GetRequest, call: CallContext) -> NoteAnswer:
    """Return the note, or the requested lines."""
    del call  # a read asks the person nothing
    note = await find_note(app, request.id)
    _check_version(note, request.local_version)
    return NoteAnswer(
        **fields_of(note, app.policy),
        **text_fields(app, note, start=request.range_line_start, count=request.range_line_count),
    )


def _check_version(note: Note, version: int | None) -> None:
    if version is not None and version != note.local_version:
        raise VersionConflict(
            f"The note has changed: it is at local_version {note.local_version}, not {version}.",
            subcategory="version_changed",
            details=versions_of(note),
            resolution_hint="Read it again from its first line; lines read before are out of date.",
        )


def fields_of(note: Note, policy: Policy) -> dict[str, Any]:
    """Return the fields of a note on the wire, without its text."""
    return {
        "id": note.id,
        "local_version": note.local_version,
        "server_version": note.server_version,
        "tags": shown_tags(policy, note.tags),
        "modified_at": note.modified_at,
        "created_at": note.created_at,
        "trash": note.trash,
    }


def text_fields(
    app: App, note: Note, *, start: int | None = None, count: int | None = None
) -> dict[str, Any]:
    """Return the text on the wire: as much of it as is requested, fits, and may be read."""
    if app.policy.hides(Field.TEXT):
        return without_text()
    room = app.budget.bytes_left
    most = ANSWER_BYTES if room is None else room - RESERVED_BYTES - json_bytes("".join(note.tags))
    part = cut_portion(note.text, start=start, count=count, most=min(most, ANSWER_BYTES))
    return fields_of_portion(part, asked=start is not None or count is not None)


def fields_of_portion(part: Portion, *, asked: bool) -> dict[str, Any]:
    """Return the text on the wire, with its range if there is one."""
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
