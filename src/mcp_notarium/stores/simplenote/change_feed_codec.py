"""Decode the change feed (``/changes``): JSON to what happened, each note at most once. Pure.

The feed repeats entries, may change their order, joins several versions into one entry and also reports our
own writes. It carries Simperium's ``jsondiff`` differences. Changes of text and replaced values are
applied, exactly, to the very object they were made from; then the note comes out whole. Everything else (a
list changed in part, what does not fit or looks like broken text) comes out as an ``Entry``, which means:
fetch it. A guess would be a note that silently differs from the service's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.errors import RemoteVanished, StoreProtocolError
from mcp_notarium.stores.contract import BaseLookup, ChangePage, Entry
from mcp_notarium.stores.json_answers import DEEPEST, deeper_than
from mcp_notarium.stores.simplenote.note_codec import (
    LONGEST_PLACE,
    Fields,
    etag_of,
    fields_of,
    has_address,
    is_note,
    revision_from,
    version_from,
)

_REPLACEMENT = "\ufffd"
_BUCKET_GONE = frozenset({"EMPTY", "DROP"})
MOST_STEPS = 100
"""Most changes of one note that are applied one after the other; a fetch costs less than more."""


class DoesNotFit(Exception):
    """Report a difference that cannot be applied with certainty."""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """Hold one element of the feed."""

    note_id: str
    removed: bool
    before: int | None
    """None: the note did not exist."""
    after: int | None
    """None after a removal."""
    operations: Any
    """None if these or the version numbers cannot be read: the note is fetched then."""


def changes_from(answer: Any, *, cursor: str, base_of: BaseLookup) -> ChangePage:
    """Decode what ``answer`` says happened after ``cursor``.

    Raises ``RemoteVanished`` if the whole bucket was emptied, ``StoreProtocolError`` for
    anything that is not a feed.
    """
    if not isinstance(answer, list):
        raise _invalid_error("no list of changes")
    if not answer:
        return ChangePage((), cursor)
    by_note: dict[str, list[FeedEntry]] = {}
    readable = [entry for entry in map(_feed_entry, answer) if entry is not None]
    for entry in readable:
        # Last mention last: the order of the page is that of the newest change of each note.
        steps = by_note.pop(entry.note_id, [])
        steps.append(entry)
        by_note[entry.note_id] = steps
    changes = [_combine(note_id, steps, base_of(note_id)) for note_id, steps in by_note.items()]
    return ChangePage(tuple(changes), _next_cursor(answer[-1]), len(answer) - len(readable))


def _feed_entry(item: Any) -> FeedEntry | None:
    """Decode one element; None if it is about no note, or about one that cannot be asked for."""
    kind = item.get("o") if isinstance(item, dict) else None
    if isinstance(kind, str) and kind in _BUCKET_GONE:
        raise RemoteVanished("Simplenote says that all notes were removed at once")
    if not has_address(item):
        return None
    before, after = item.get("sv"), item.get("ev")
    numbered = all(found is None or version_from(found) is not None for found in (before, after))
    return FeedEntry(
        note_id=item["id"],
        removed=kind == "-",
        before=version_from(before),
        after=version_from(after),
        operations=_limit_depth(item.get("v")) if kind == "M" and numbered else None,
    )


def _limit_depth(operations: Any) -> Any:
    """Return the operations; None if they are nested too deeply: then the note is fetched."""
    return None if deeper_than(operations, DEEPEST) else operations


def _combine(
    note_id: str, steps: Sequence[FeedEntry], base: Revision | None
) -> Revision | Tombstone | Entry:
    newest = max((step.after or 0) for step in steps)
    made = any(step.before is None and not step.removed for step in steps)
    # Of a note that was made and removed the order of the feed does not tell which came last: its number does, or the note.
    if steps[-1].removed and (not made or (steps[-1].before or 0) >= newest):
        return Tombstone(note_id)
    if any(step.removed for step in steps):
        return _recreated_entry(note_id, newest, base)
    try:
        return _apply_steps(note_id, steps, base, newest)
    except DoesNotFit:
        if base is not None and any(step.before is None for step in steps):
            return _recreated_entry(note_id, newest, base)
        return Entry(note_id, etag_of(newest), newest)


def _apply_steps(
    note_id: str, steps: Sequence[FeedEntry], base: Revision | None, newest: int
) -> Revision:
    """Apply every step after the base. Raises ``DoesNotFit`` if they do not lead to the newest version."""
    if len(steps) > MOST_STEPS:
        raise DoesNotFit
    version = base.server_version if base else None
    fields: Fields = fields_of(base) if base else {}
    for step in sorted(steps, key=lambda one: one.after or 0):
        if version is not None and step.after is not None and step.after <= version:
            continue  # repeated, or our own write, which we hold already
        if step.before != version or step.after is None:
            raise DoesNotFit
        fields = apply_to_object(fields, step.operations)
        version = step.after
    if version is None or version != newest or not is_note(fields):
        raise DoesNotFit
    return revision_from(note_id, fields, version=version)


def _recreated_entry(note_id: str, version: int, base: Revision | None) -> Entry:
    """Return an entry for a note that may have been removed and made again.

    Its version count may have begun again, so the number tells nothing about newer or older, and
    the same number may be another note.
    """
    etag = etag_of(version)
    if base is not None and base.etag == etag:
        etag += "*"
    return Entry(note_id, etag)


def _next_cursor(last: Any) -> str:
    cursor = last.get("cv") if isinstance(last, dict) else None
    if not isinstance(cursor, str) or not 0 < len(cursor) <= LONGEST_PLACE:
        raise _invalid_error("no cursor")
    return cursor


def _invalid_error(what: str) -> StoreProtocolError:
    return StoreProtocolError(f"Simplenote answered a change feed with {what}")


def apply_to_object(before: Mapping[str, Any], operations: Any) -> dict[str, Any]:
    """Apply ``operations`` (key to operation) to a copy of ``before``. Raises ``DoesNotFit``."""
    after = dict(before)
    for key, operation in _mapping(operations).items():
        _apply_to_key(after, key, _mapping(operation))
    return after


def _apply_to_key(after: dict[str, Any], key: str, operation: Mapping[str, Any]) -> None:
    kind = operation.get("o")
    if kind == "+":
        after[key] = _value(operation)
        return
    if key not in after:
        raise DoesNotFit
    if kind == "-":
        del after[key]
    else:
        after[key] = _apply_operation(after[key], operation)


def _apply_operation(old: Any, operation: Mapping[str, Any]) -> Any:
    """Apply a replacement or a change of text; any other kind is left to a fetch of the note."""
    match operation.get("o"):
        case "r":
            return _value(operation)
        case "d":
            return _apply_delta(old, _value(operation))
        case _:
            raise DoesNotFit


def _apply_delta(old: Any, delta: Any) -> str:
    """Apply a diff-match-patch delta; its lengths count UTF-16 units and must add up."""
    if not isinstance(old, str) or not isinstance(delta, str):
        raise DoesNotFit
    from diff_match_patch import diff_match_patch  # noqa: PLC0415 - only texts need it

    engine = diff_match_patch()
    try:
        new = str(engine.diff_text2(engine.diff_fromDelta(old, delta)))
    except (ValueError, IndexError):  # UnicodeError is a ValueError
        raise DoesNotFit from None
    # Half a surrogate pair in the delta comes out of the library as a replacement character.
    if new.count(_REPLACEMENT) > old.count(_REPLACEMENT):
        raise DoesNotFit
    return new


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DoesNotFit
    return value


def _value(operation: Mapping[str, Any]) -> Any:
    if "v" not in operation:
        raise DoesNotFit
    return operation["v"]
