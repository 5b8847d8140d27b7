"""Handle ``get``: return one note by its id, whole or by lines, never two versions mixed.

Raises ``NoteNotFound`` for an unknown id; it never searches. With ``local_version`` the answer is of
exactly that version, or an error names the current one. Sizes are those of the text as JSON in UTF-8,
because that is what is sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.lines import split_lines
from mcp_notarium.domain.note import Note
from mcp_notarium.domain.policy import Field, Policy
from mcp_notarium.errors import InvalidRequest, VersionConflict
from mcp_notarium.tools.call_context import CallContext
from mcp_notarium.tools.note_lookup import find_note, versions_of
from mcp_notarium.tools.schemas import GetRequest, NoteAnswer

if TYPE_CHECKING:
    from mcp_notarium.app import App


UNASKED_BYTES = 60_000
"""Largest text returned if no range was requested: about 16,000 tokens."""

ANSWER_BYTES = 1_000_000
"""Largest text returned at all. It is sent twice and escaped; some clients stop at 10 MB."""

TEXT_HIDDEN = "The text of notes is hidden by the user's policy."
CUT_LINE = "One line is larger than an answer may be; this is only its beginning."
RESERVED_BYTES = 1_000
"""Bytes reserved for the fields around a text; tags are counted separately."""


async def handle(app: App, request: GetRequest, call: CallContext) -> NoteAnswer:
    """Return the note, or the requested lines."""
    del call  # a read asks the user nothing
    note = await find_note(app, request.id)
    _check_version(note, request.local_version)
    return NoteAnswer(
        **fields_of(note, app.config.policy),
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
        "title": None if policy.hides(Field.TEXT) else note.title,
        "tags": policy.shown_tags(note.tags),
        "modified_at": note.modified_at,
        "created_at": note.created_at,
        "trash": note.trash,
    }


def text_fields(
    app: App, note: Note, *, start: int | None = None, count: int | None = None
) -> dict[str, Any]:
    """Return the text on the wire: as much of it as is requested, fits, and may be read."""
    if app.config.policy.hides(Field.TEXT):
        return {"text": "", "text_is_partial": True, "note": TEXT_HIDDEN}
    room = app.usage_limits.bytes_left
    most = ANSWER_BYTES if room is None else room - RESERVED_BYTES - json_bytes("".join(note.tags))
    part = cut_portion(note.text, start=start, count=count, most=min(most, ANSWER_BYTES))
    fields: dict[str, Any] = {
        "text": part.text,
        "text_is_partial": not part.whole,
        "text_total_lines": part.total,
        "note": part.note,
    }
    if start is not None or count is not None or not part.whole:
        fields |= {
            "range_line_start": part.start,
            "range_line_count": part.count,
            "next_range_line_start": part.next_start,
        }
    return fields


@dataclass(frozen=True, slots=True)
class Portion:
    """Hold a run of whole lines of a note. ``next_start`` is None at the end of the note."""

    text: str
    total: int
    start: int
    count: int
    next_start: int | None
    whole: bool
    note: str | None = None


def cut_portion(
    text: str, *, start: int | None, count: int | None, most: int = ANSWER_BYTES
) -> Portion:
    """Return the requested lines as far as they fit; all lines if no range was requested.

    At most ``most`` bytes, less than a line if need be. Raises ``InvalidRequest`` if ``start`` lies
    beyond the last line.
    """
    lines = split_lines(text)
    first, total = start or 1, len(lines)
    if first > max(total, 1):
        raise InvalidRequest(
            f"Line {first} is outside the note, which has {total} lines.",
            details={"total_lines": total},
            resolution_hint=f"Ask for a start between 1 and {max(total, 1)}.",
        )
    chosen = lines[first - 1 : first - 1 + count if count else total]
    usual = UNASKED_BYTES if start is None and count is None else ANSWER_BYTES
    kept, note = _leading(chosen, min(usual, most)), None
    if chosen and not kept:
        line, note = _one_line(chosen[0], most)
        kept = [line]
    end = first + len(kept) - 1
    return Portion(
        text="".join(kept),
        total=total,
        start=first,
        count=len(kept),
        next_start=end + 1 if end < total else None,
        whole=note is None and len(kept) == total,
        note=note,
    )


def _leading(lines: list[str], limit: int) -> list[str]:
    """Return as many leading lines as fit into ``limit`` bytes."""
    if json_bytes("".join(lines)) <= limit:
        return lines
    used = len('""')
    for index, line in enumerate(lines):
        used += json_bytes(line) - len('""')
        if used > limit:
            return lines[:index]
    return lines


def _one_line(line: str, most: int) -> tuple[str, str | None]:
    """Return a line that is too long for the usual portion: whole if an answer can hold it, else cut."""
    if json_bytes(line) <= most:
        return line, None
    short = line[: max(0, most)]
    while short and json_bytes(short) > most:
        short = short[: max(0, len(short) * most // json_bytes(short) - 1)]
    return short, CUT_LINE


def json_bytes(text: str) -> int:
    """Return the size of ``text`` as a JSON string in UTF-8."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))
