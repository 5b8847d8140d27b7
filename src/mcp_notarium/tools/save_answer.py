"""Show what a save has changed, or where it met another change: cut parts of the note, never all of a long one.

Both show no more than the policy lets an agent read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.characters import find_invisible, find_invisible_kinds
from mcp_notarium.domain.diff import Change, find_changes
from mcp_notarium.domain.lines import (
    LF,
    content_of,
    count_lines,
    end_of,
    longest,
    shared_ends,
    shorten,
    split_lines,
)
from mcp_notarium.domain.merge import fields_clash, find_overlaps
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import VersionConflict
from mcp_notarium.tools.answers import ChangedLines, SavedAnswer, note_fields
from mcp_notarium.tools.get import RESERVED_BYTES, TEXT_HIDDEN, json_bytes, text_fields

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.sync.writer import Saved
    from mcp_notarium.tools.save import Draft


AROUND = 2
"""Lines shown before and after a change."""
LONGEST_LINE = 500
"""Characters of one line that are shown, from a little before its change; the others are cut off."""
_BEFORE = 100
_COMPARED = 20
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Hold lines of a text; ``line`` is the number of the first, from 1."""

    line: int
    text: str
    whole: bool = True
    """Nothing is cut off."""


def changed_lines(old: str, new: str, *, most: int) -> tuple[list[Excerpt], bool]:
    """Return the changed lines of ``new`` with two around them, and whether that is all of them.

    Where lines were only removed it is the lines around. At most ``most`` characters, and a mark where a
    line is cut.
    """
    start, ends = _differing(old, new)
    before, lines = (
        split_lines(text[start:end]) for text, end in zip((old, new), ends, strict=True)
    )
    first, room, excerpts = new.count(LF, 0, start) + 1, most, []
    places = _places(before, lines)
    for place in places:
        was = before[place.low : place.high]
        part = cut(lines[place.start : place.stop], line=first + place.start, most=room, other=was)
        if part.text:
            excerpts.append(part)
        if room <= 0:
            break
        room -= len(part.text)
    return excerpts, len(excerpts) == len(places) and all(one.whole for one in excerpts)


def _differing(old: str, new: str) -> tuple[int, tuple[int, int]]:
    """Return from where, and to where in each, two texts differ: whole lines, with those to show around.

    Splitting all lines of a text of millions takes a hundred times as long.
    """
    if old == new:
        return 0, (0, 0)
    head, tail = shared_ends(old, new)
    start, end = head, len(new) - tail
    for _ in range(AROUND):
        start = new.rfind(LF, 0, max(0, start - 1)) + 1
        end = new.find(LF, end) + 1 or len(new)
    return start, (end + len(old) - len(new), end)


def cut(lines: Sequence[str], *, line: int, most: int, other: Sequence[str]) -> Excerpt:
    """Return the leading lines that fit into ``most`` characters; a long line is cut, with marks.

    ``other``: what stood there before, or stands there on the other side. Where a long line begins to differ
    from that is shown.
    """
    shown: list[str] = []
    whole = True
    for each in lines:
        short = each if len(each) <= LONGEST_LINE else _shorten(each, other)
        if len(short) > most:
            whole = False
            break
        whole &= short == each
        most -= len(short)
        shown.append(short)
    return Excerpt(line, "".join(shown), whole)


def _shorten(line: str, other: Sequence[str]) -> str:
    content = content_of(line)
    equal = [] if line in other else [_equal_start(content, each) for each in other[:_COMPARED]]
    start = max(0, min(max(equal, default=0) - _BEFORE, len(content) - LONGEST_LINE))
    shown = content[start : start + LONGEST_LINE]
    ends = start + LONGEST_LINE >= len(content)
    return f"{_CUT if start else ''}{shown}{'' if ends else _CUT}{end_of(line)}"


def _equal_start(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    return longest(lambda size: one.startswith(other[:size]), min(len(one), len(other)))


def _places(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """Return the ranges of ``new`` to show: every change and the lines around it; none touch."""
    places: list[Change] = []
    for change in find_changes(old, new):
        low, start = change.low, max(0, change.start - AROUND)
        if places and start <= places[-1].stop:
            low, start = places[-1].low, places.pop().start
        places.append(Change(low, change.high, start, min(len(new), change.stop + AROUND)))
    return [place for place in places if place.start < place.stop]


MOST_SHOWN = 4_000
"""Characters of changed lines in one answer: about 1,000 tokens."""
MOST_OVERLAPS = 5
NOT_ALL_SHOWN = "Not all changed lines are shown, or not whole; `get` reads them."
_BYTES_OF_ONE = 6
"""A character has at most as many bytes in JSON."""
_COLLIDED = "Your change collided with one made elsewhere; the copy keeps your text too."
_IMAGE_LINKED = "An image of another host was stored as a link: the note server would fetch the image, and that host learns of it."
_FOREIGN_IMAGE = re.compile(r"!\[[^\]\n]*\]\(<?(https?:)?//[^)\s]+", re.IGNORECASE)
_SERVICE_CHANGED_IT = (
    "The note store changed that. The answer is what it holds; it would change it again."
)
_OVERLAP_HINT = (
    "`overlaps` has the lines that both changed, as you and as they wrote them, with their line number now. "
    "Decide what they should say, and `save` that with `current_local_version`."
)


def make_answer(
    app: App, draft: Draft, note: Note, saved: Saved | None, *, whole: bool, said: str = ""
) -> SavedAnswer:
    """Return what became of a draft; ``saved`` None: nothing changed.

    ``whole``: with the whole text instead of what changed in it. ``said``: what else to say.
    """
    policy = app.config.policy
    if whole:
        fields = text_fields(app, note, outlined=False)
    elif policy.hides(Field.TEXT):
        fields = {"note": TEXT_HIDDEN}
    else:
        fields = _changed_fields(app, note, draft.note if saved else None)
    if saved is not None:
        notes = (
            f"stored differently: {saved.differs}. {_SERVICE_CHANGED_IT}" if saved.differs else "",
            _COLLIDED if saved.copy_id else fields.get("note"),
            said,
            _IMAGE_LINKED if _has_linked_image(draft.content.text, note.text) else "",
        )
        fields["note"] = " ".join(filter(None, notes)) or None
    answer = SavedAnswer(
        **note_fields(note, policy),
        **fields,
        merged=(saved is not None and saved.merged) or None,
        unchanged=saved is None or _is_same(draft.note, note) or None,
        conflict_copy_id=saved.copy_id if saved else None,
    )
    answer.record_changed((*saved.relinked, *saved.waiting) if saved else ())
    return answer


def _is_same(before: Note | None, note: Note) -> bool:
    """Tell whether the store has left a note as it was, as it does with a block of properties that only `text` lacks."""
    return before is not None and (before.id, before.local_version) == (note.id, note.local_version)


def _has_linked_image(sent: str, stored: str) -> bool:
    """Tell whether an image of another host was given and is none in the note."""
    return any(found[0] not in stored for found in _FOREIGN_IMAGE.finditer(sent))


def _changed_fields(app: App, note: Note, before: Note | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "text_total_lines": count_lines(note.text),
        "findings": [
            {"kind": each.kind, "count": each.count, "first_line": each.first_line}
            for each in find_invisible(note.text)
        ]
        or None,
    }
    if before is not None and before.text != note.text:
        room = _room(app, note)
        parts, complete = changed_lines(before.text, note.text, most=room)
        fields["changed"] = [ChangedLines(line=part.line, text=part.text) for part in parts] or None
        fields["note"] = None if complete else NOT_ALL_SHOWN
    return fields


def _room(app: App, note: Note) -> int:
    """Return how many characters of the note may be shown."""
    left = app.usage_limits.bytes_left
    if left is None:
        return MOST_SHOWN
    free = left - RESERVED_BYTES - json_bytes("".join(note.tags))
    return max(0, min(MOST_SHOWN, free // _BYTES_OF_ONE))


def add_overlaps(app: App, error: VersionConflict, *, base: Note, mine: Content) -> VersionConflict:
    """Add to a conflict what both sides have in the lines that both changed. ``base``: the note as the caller read it."""
    theirs = app.library.get(base.id)
    if theirs is None or app.config.policy.hides(Field.TEXT):
        return error
    room = _room(app, theirs)
    shown: list[dict[str, Any]] = []
    found = find_overlaps(base.text, mine.text, theirs.text)
    for each in found[:MOST_OVERLAPS]:
        both = [split_lines(side) for side in (each.mine, each.theirs)]
        sides = [
            cut(side, line=each.line, most=room // 2, other=other)
            for side, other in zip(both, both[::-1], strict=True)
        ]
        room -= sum(len(side.text) for side in sides)
        yours, now = sides
        cut_off = {} if yours.whole and now.whole else {"cut_off": True}
        shown.append({"line": each.line, "yours": yours.text, "theirs": now.text} | cut_off)
    if shown:
        error.details |= {"overlaps": shown}
        if len(found) > len(shown):
            error.details["more_overlaps"] = len(found) - len(shown)
        error.resolution_hint = _OVERLAP_HINT
    if fields_clash(base.content, mine, theirs.content):
        error.details["current_title"] = shorten(theirs.title or "")
    texts = [each[side] for each in shown for side in ("yours", "theirs")]
    if hidden := find_invisible_kinds([*texts, error.details.get("current_title", "")]):
        error.details["hidden"] = list(hidden)
    error.tells_text = True  # defence: conflict-text-marked
    return error
