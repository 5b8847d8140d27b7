"""Handle ``get``: return one note by its id, whole or by lines, never two versions mixed.

Raises ``NoteNotFound`` for an unknown id; it never searches. With ``local_version`` the answer is of
exactly that version, or an error names the current one. Sizes are those of the text as JSON in UTF-8,
because that is what is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.lines import LF, count_lines, split_lines, start_of
from mcp_notarium.domain.note import Note
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import InvalidRequest, VersionConflict
from mcp_notarium.markup.headings import find_headings
from mcp_notarium.tools.answers import (
    AppNoteAnswer,
    Heading,
    NoteAnswer,
    NoteLink,
    OldNoteAnswer,
    note_fields,
)
from mcp_notarium.tools.note_lookup import find_note, versions_of
from mcp_notarium.tools.requests import GetRequest
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.sync.history import Version


ANSWER_BYTES = 30_000  # defence: answer-bytes =1000000
"""Largest text of one answer: 7,000 tokens of prose, 12,000 of dates and numbers, so that no client cuts it."""

TEXT_HIDDEN = "The text of notes is hidden by the user's policy."
ROW_HIDDEN = "(hidden by the user's policy)"
"""Stands for the preview of a row, which is never empty."""
OLD = "This is an old version, not what the note says now; action `restore_version` brings its text back."
OLD_TAGS = "The tags of that time are not kept."
CUT_LINE = (
    "The last line here is longer than an answer may be and goes on: "
    "give both `next_…` fields as `range_line_start` and `range_char_start`."
)
MOST_LINKS = 50
"""Links of a note, and links to it, that an answer names."""
RESERVED_BYTES = 1_000
"""Bytes reserved for the fields around a text; tags are counted separately."""


async def handle(app: App, request: GetRequest, call: CallContext) -> NoteAnswer:
    """Return the note, or the requested lines."""
    del call  # a read asks the user nothing
    note = await find_note(app, request.id)
    if request.version is not None:
        found = await app.library.history.read(note.id, request.version)
        if not found.present:
            return _old_answer(app, note, found, request)
    _check_version(note, request.local_version)
    beside = _link_fields(app, note) | _app_fields(app, note)
    part = _part(app, note, request, beside)
    asked = (request.range_line_start, request.range_line_count, request.range_char_start)
    if part["text_is_partial"] and asked == (None, None, None):
        beside |= _heading_fields(app, note)
        part = _part(app, note, request, beside)
    return AppNoteAnswer(**note_fields(note, app.config.policy), **beside, **part)


def _part(
    app: App, note: Note, request: GetRequest, beside: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the requested part of the text, as far as it fits beside these fields."""
    return text_fields(
        app,
        note,
        start=request.range_line_start,
        count=request.range_line_count,
        character=request.range_char_start,
        beside=beside,
    )


def _heading_fields(app: App, note: Note) -> dict[str, Any]:
    """Return the headings of a note that does not fit into the answer: they tell which lines to ask for."""
    if not app.config.store.ids.paths or app.config.policy.hides(Field.TEXT):
        return {}
    found = [Heading(line=line, heading=words) for line, words in find_headings(note.text)]
    return {"headings": found} if found else {}


def _link_fields(app: App, note: Note) -> dict[str, Any]:
    """Return the links of a note and those to it, as many as an answer may name, if the store has any."""
    if not app.config.store.ids.paths or app.config.policy.hides(Field.TEXT):
        return {}
    found = app.library.find_links(note.id)
    rows = {
        "links": [NoteLink(link=target, id=to) for target, to in found.links[:MOST_LINKS]],
        "linked_from": [NoteLink(id=source) for source in found.linked_from[:MOST_LINKS]],
    }
    left_out = max(0, len(found.links) - MOST_LINKS) + max(0, len(found.linked_from) - MOST_LINKS)
    return {
        **{name: each for name, each in rows.items() if each},
        "links_left_out": left_out or None,
    }


def _app_fields(app: App, note: Note) -> dict[str, Any]:
    """Return what the app of the notes shows beside a note, such as a reminder."""
    found = {} if app.config.policy.hides(Field.TEXT) else app.library.shown_beside(note)
    return {"in_app": found} if found else {}


def _old_answer(app: App, note: Note, found: Version, request: GetRequest) -> OldNoteAnswer:
    """Return a version in the place of the note, marked as old."""
    then = found.content
    old = replace(
        note,
        text=then.text,
        title=then.title,
        tags=then.tags,
        trash=then.trash,
        properties=then.properties,
        modified_at=int(found.modified_at),
    )
    fields = note_fields(old, app.config.policy) | {"local_version": None, "server_version": None}
    fields |= _part(app, old, request)
    fields["note"] = " ".join(
        filter(None, (OLD, None if found.tags_known else OLD_TAGS, fields.get("note")))
    )
    return OldNoteAnswer(**fields, old_version=found.name)


def _check_version(note: Note, version: int | None) -> None:
    if version is not None and version != note.local_version:
        raise VersionConflict(
            f"The note has changed: it is at local_version {note.local_version}, not {version}.",
            subcategory="version_changed",
            details=versions_of(note),
            resolution_hint="Read it again from its first line; lines read before are out of date.",
        )


def text_fields(
    app: App,
    note: Note,
    *,
    start: int | None = None,
    count: int | None = None,
    character: int | None = None,
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the text on the wire: as much of it as is requested, fits ``beside`` that, and may be read."""
    if app.config.policy.hides(Field.TEXT):
        return {"text": "", "text_is_partial": True, "note": TEXT_HIDDEN}
    room = app.usage_limits.bytes_left
    used = RESERVED_BYTES + json_bytes("".join(note.tags)) + json_bytes(repr(beside))
    most = ANSWER_BYTES if room is None else room - used
    part = cut_portion(
        note.text, start=start, count=count, character=character, most=min(most, ANSWER_BYTES)
    )
    fields: dict[str, Any] = {
        "text": part.text,
        "text_is_partial": not part.whole,
        "text_total_lines": part.total,
    }
    if (start, count, character) != (None, None, None) or not part.whole:
        fields |= {
            "range_line_start": part.start,
            "range_line_count": part.count,
            "next_range_line_start": part.next_start,
            "next_range_char_start": part.next_character,
            "note": CUT_LINE if part.next_character else None,
        }
    return fields


@dataclass(frozen=True, slots=True)
class Portion:
    """Hold a run of lines of a note; only the first may lack its beginning, and only the last its end.

    ``next_start`` is the line to go on with, None at the end of the note; ``next_character`` (from 1) the
    character of it, None for the first.
    """

    text: str
    total: int
    start: int
    count: int
    next_start: int | None
    whole: bool
    next_character: int | None = None


def cut_portion(
    text: str,
    *,
    start: int | None,
    count: int | None,
    character: int | None = None,
    most: int = ANSWER_BYTES,
) -> Portion:
    """Return the requested lines as far as they fit; all lines if no range was requested.

    At most ``most`` bytes in whole lines, less than a line if it does not fit alone, but at least one
    character if ``most`` allows any. Raises ``InvalidRequest`` if ``start`` lies beyond the last line or ``character`` beyond
    the end of that line.
    """
    first, total = start or 1, count_lines(text)
    _check_place("Line", first, total, "lines", of="the note")
    place = begin = start_of(text, first)
    if skipped := (character or 1) - 1:
        ends = text.find(LF, begin) + 1 or len(text)
        _check_place("Character", skipped + 1, ends - begin, "characters", of=f"line {first}")
        begin += skipped
    # No character takes less than a byte: what lies further on does not fit, nor does a line that is cut there.
    near = split_lines(text[begin : begin + max(0, most) + 1])
    chosen = near[:count] if count else near
    kept, rest = _leading(chosen, most), None
    if chosen and not kept:
        kept = [_beginning(chosen[0], most)]
        end = skipped + len(kept[0])
        ends = text.find(LF, place) + 1 or len(text)
        rest = end + 1 if place + end < ends else None
    follows = first + len(kept) - (rest is not None)
    return Portion(
        text="".join(kept),
        total=total,
        start=first,
        count=len(kept),
        next_start=follows if follows <= total else None,
        next_character=rest,
        whole=not skipped and rest is None and len(kept) == total,
    )


def _check_place(what: str, wanted: int, last: int, unit: str, *, of: str) -> None:
    if wanted > max(last, 1):
        raise InvalidRequest(
            f"{what} {wanted} is outside {of}, which has {last} {unit}.",
            details={f"total_{unit}": last},
            resolution_hint=f"Ask for a start between 1 and {max(last, 1)}.",
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


def _beginning(line: str, most: int) -> str:
    """Return as much of a line as fits into ``most`` bytes, at least one character unless that is 0."""
    short = line[: max(0, most)]
    while len(short) > 1 and json_bytes(short) > most:
        short = short[: max(1, len(short) * most // json_bytes(short) - 1)]
    return short


def json_bytes(text: str) -> int:
    """Return the size of ``text`` as a JSON string in UTF-8."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))
