"""Handle ``get``: return one note by its id, whole, by lines or by a section, never two versions mixed; or several notes.

Several notes share the room of one answer: short ones are whole, and long ones get equal parts. Which of them cannot be read is
said in their place. Raises ``NoteNotFound`` for an unknown id; it never searches. With ``local_version`` the answer is of
exactly that version, or an error names the current one. Sizes are those of the text as JSON in UTF-8,
because that is what is sent.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mcp_notarium import logs
from mcp_notarium.domain.lines import LF, count_lines, split_lines, start_of
from mcp_notarium.domain.note import Note
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import (
    InvalidRequest,
    NoteNotFound,
    StillLoading,
    StoreError,
    VersionConflict,
)
from mcp_notarium.markup.section_names import find_part
from mcp_notarium.markup.sections import outline
from mcp_notarium.tools import attachments
from mcp_notarium.tools.answers import (
    Answer,
    AppNoteAnswer,
    AttachmentAnswer,
    Heading,
    NoteAnswer,
    NoteLink,
    NoteNotRead,
    NotesAnswer,
    OldNoteAnswer,
    note_fields,
)
from mcp_notarium.tools.note_lookup import find_id, find_note, versions_of
from mcp_notarium.tools.requests import GetRequest
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.library.history import Version


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
FEWER_FILES = "`files` are not all of them: `get` this note alone for the rest."
MOST_LINKS = 50
"""Links of a note, and links to it, that an answer names."""
RESERVED_BYTES = 1_000
"""Bytes reserved for the fields around a text; tags are counted separately."""
_HEADING_FRAME, _HEADING_BYTES = 45, 75
"""Bytes of a row of an outline without its words, and with usual ones."""
_ROW_BYTES = 400
"""Bytes of what says that a text is a part."""


async def handle(
    app: App, request: GetRequest, _call: CallContext
) -> NoteAnswer | OldNoteAnswer | NotesAnswer | AttachmentAnswer:
    """Return the note, or the requested lines; or several notes, or a file that notes show."""
    if request.ids is not None:
        return await read_notes(app, request.ids)
    try:
        note = await find_note(app, request.id or "")
    except NoteNotFound:
        file = await attachments.read(app, request, partial(_part, app))
        if file is None:
            raise
        return file
    if request.version is not None:
        found = await app.library.history.read(note.id, request.version)
        if not found.present:
            return _old_answer(app, note, found, request)
    _check_version(note, request.local_version)
    beside = _link_fields(app, note) | _app_fields(app, note)
    if app.library.shows_files:
        beside |= await attachments.list_rows(app, note)
    part = _part(app, note, request, beside)
    part["note"] = " ".join(filter(None, (beside.pop("note", None), part.get("note")))) or None
    return AppNoteAnswer(**note_fields(note, app.config.policy), **beside, **part)


def _part(
    app: App, note: Note, request: GetRequest, beside: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the requested part of the text, as far as it fits with these fields, with the outline of the note."""
    start, count = request.range_line_start, request.range_line_count
    character, end = request.range_char_start, None
    if request.section is not None and not app.config.policy.hides(Field.TEXT):
        start, count, end = _within(note.text, request.section, request)
    part = text_fields(app, note, start=start, count=count, character=character, beside=beside)
    if end is not None and not part.get("next_range_char_start"):
        if not count:  # the section has no lines
            part |= {"text": "", "range_line_count": 0, "next_range_line_start": None}
        elif (part.get("next_range_line_start") or end) >= end:
            part["next_range_line_start"] = None
    return part


def _within(text: str, section: str, request: GetRequest) -> tuple[int, int, int]:
    """Return from which line on, and how many lines of the section, are asked for, and where it ends."""
    found = find_part(text, section)
    start = request.range_line_start or found.line
    if not found.line <= start < max(found.end, found.line + 1):
        raise InvalidRequest(
            f"Line {start} is not in the section, which has the lines {found.line} to {found.end - 1}.",
            details={"line": found.line, "lines": found.end - found.line},
            resolution_hint="Leave out `range_line_start` for the beginning of the section.",
        )
    left = found.end - start
    return start, min(request.range_line_count or left, left), found.end


def _link_fields(app: App, note: Note) -> dict[str, Any]:
    """Return the links of a note and those to it, as many as an answer may name, if the store has any."""
    if not app.config.store.ids.paths or app.config.policy.hides(Field.TEXT):
        return {}
    found = app.library.paths.find_links(note.id)
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
    """Return what the app of the notes shows with a note, such as a reminder."""
    found = {} if app.config.policy.hides(Field.TEXT) else app.library.shown_beside(note)
    return {"in_app": found} if found else {}


async def read_notes(app: App, asked: Sequence[str]) -> NotesAnswer:
    """Return these notes, in this order, within the room of one answer."""
    names = list(dict.fromkeys(asked))
    most = app.usage_limits.limit_rows(len(names))
    found = [await _find(app, name) for name in names[:most]]
    found += [NoteNotRead(asked=name, error=_too_many(most)) for name in names[most:]]
    notes = [one for one in found if isinstance(one, Note)]
    left = app.usage_limits.bytes_left
    room = min(ANSWER_BYTES, ANSWER_BYTES if left is None else left - RESERVED_BYTES)
    beside = [_link_fields(app, note) | _app_fields(app, note) for note in notes]
    if app.library.shows_files:
        files = await asyncio.gather(*(attachments.list_rows(app, note) for note in notes))
        beside = [one | more for one, more in zip(beside, files, strict=True)]
    if json_bytes(repr(beside)) * 2 > room:
        beside = [_without_links(one) for one in beside]
        shares = share_out([_files_bytes(one) for one in beside], room // 2)
        beside = [_fewer_files(one, most) for one, most in zip(beside, shares, strict=True)]
    rows = [
        AppNoteAnswer(**note_fields(note, app.config.policy), **fields, text="")
        for note, fields in zip(notes, beside, strict=True)
    ]
    frames = [_size(row) + _ROW_BYTES // 4 for row in rows]
    room -= sum(frames) + sum(_size(one) for one in found if isinstance(one, NoteNotRead))
    room_of = iter(share_out([json_bytes(note.text) for note in notes], room))
    filled = iter(
        row.model_copy(update=_joined(row, _portion(app, note, most=next(room_of))))
        for note, row in zip(notes, rows, strict=True)
    )
    return NotesAnswer(notes=[next(filled) if isinstance(one, Note) else one for one in found])


async def _find(app: App, name: str) -> Note | NoteNotRead:
    try:
        return await find_note(app, find_id(app, name))
    except (NoteNotFound, StillLoading, StoreError) as error:
        said = error.to_dict(logs.scrub_for_client)
        kept = ("category", "subcategory", "message", "resolution_hint", "retryable")
        return NoteNotRead(asked=name, error={key: said[key] for key in kept if key in said})


def _too_many(most: int) -> dict[str, Any]:
    return {
        "category": "VALIDATION",
        "subcategory": "policy",
        "message": f"The user's policy permits {most} notes in one answer.",
        "retryable": True,
    }


def _without_links(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the number of links only."""
    rows = [fields.get(name) or [] for name in ("links", "linked_from")]
    count = sum(map(len, rows)) + (fields.get("links_left_out") or 0)
    kept = {name: one for name, one in fields.items() if name not in ("links", "linked_from")}
    return kept | {"links_left_out": count or None}


def _files_bytes(fields: Mapping[str, Any]) -> int:
    return sum(map(_size, fields.get("files", ())))


def _fewer_files(fields: dict[str, Any], most: int) -> dict[str, Any]:
    """Return the fields with as many of the files as fit into so many bytes."""
    if _files_bytes(fields) <= most:
        return fields
    ends = accumulate(map(_size, fields["files"]))
    kept = fields["files"][: sum(end <= most for end in ends)]
    return fields | {"files": kept or None, "note": FEWER_FILES}


def _joined(row: NoteAnswer, part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a text with what is said of it and of the row."""
    return part | {"note": " ".join(filter(None, (row.note, part.get("note")))) or None}


def _size(row: Answer) -> int:
    return len(row.model_dump_json(exclude_none=True).encode("utf-8", "replace"))


def _portion(app: App, note: Note, *, most: int) -> dict[str, Any]:
    """Return the text if it fits into so many bytes, else its beginning."""
    if json_bytes(note.text) > most:
        most = max(0, most - _ROW_BYTES)
    return text_fields(app, note, most=most)


def share_out(needs: Sequence[int], room: int) -> list[int]:
    """Return how much of the room each gets: what it needs, or as much as any other that needs more."""
    shares, left = [0] * len(needs), max(0, room)
    order = sorted(range(len(needs)), key=needs.__getitem__)
    for done, at in enumerate(order):
        shares[at] = min(needs[at], left // (len(needs) - done))
        left -= shares[at]
    return shares


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
    most: int = ANSWER_BYTES,
    outlined: bool = True,
) -> dict[str, Any]:
    """Return the text on the wire: as much of it as is requested, fits ``beside`` that, and may be read.

    ``outlined``: with the outline of the note, if that is not the whole text.
    """
    if app.config.policy.hides(Field.TEXT):
        return {"text": "", "text_is_partial": True, "note": TEXT_HIDDEN}
    room = app.usage_limits.bytes_left
    used = RESERVED_BYTES + json_bytes("".join(note.tags)) + json_bytes(repr(beside))
    most = most if room is None else min(room - used, most)
    lines = {"start": start, "count": count, "character": character}
    part = cut_portion(note.text, **lines, most=most)
    headings = [] if part.whole or not outlined else _headings(note.text, most)
    if headings:
        size = json_bytes("".join(one.heading for one in headings))
        part = cut_portion(note.text, **lines, most=most - size - _HEADING_FRAME * len(headings))
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
    return fields | ({"headings": headings} if headings else {})


def _headings(text: str, most: int) -> list[Heading]:
    """Return the outline of the note, which may take a third of so many bytes."""
    return [Heading(**row._asdict()) for row in outline(text, most=most // 3 // _HEADING_BYTES)]


@dataclass(frozen=True, slots=True)
class Portion:
    """Hold a run of lines of a note; only the first may lack its beginning, and only the last its end."""

    text: str
    total: int
    start: int
    count: int
    next_start: int | None
    """The line to go on with, None at the end of the note."""
    whole: bool
    next_character: int | None = None
    """The character of it, from 1; None for the first."""


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
    counts = range(len(lines) + 1)
    fit = bisect_right(counts, limit, key=lambda count: json_bytes("".join(lines[:count])))
    return lines[: max(0, fit - 1)]


def _beginning(line: str, most: int) -> str:
    """Return as much of a line as fits into ``most`` bytes, at least one character unless that is 0."""
    short = line[: max(0, most)]
    while len(short) > 1 and json_bytes(short) > most:
        short = short[: max(1, len(short) * most // json_bytes(short) - 1)]
    return short


def json_bytes(text: str) -> int:
    """Return the size of ``text`` as a JSON string in UTF-8."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))
