"""Convert Simplenote's note objects to revisions and back, and its listings to pages. Pure.

It fails on what is no note (no object, or no text in it: Simplenote takes no note without one), never on the
rest: old accounts have notes with missing fields, dates in milliseconds, ``deleted`` as a number and fields of
other programs. A value that it does not understand reads as empty and stays untouched in ``raw``:

* ``tags`` that is no list reads as no tags, and an item of ``tags`` that is no string is left out;
* dates above 1e11 are milliseconds; a missing modification date is the creation date, else 0;
* lone surrogates read as U+FFFD.

``raw`` is the object as JSON, without ``content`` where that is the revision's text. An object that
stays whole is wrapped in a list.

A page of a listing is read whole or not at all. What is no note in it, is nested too deeply or has no version number
becomes an entry without content, and spoils no neighbour. One without a usable id is left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.domain.note import Content, Properties, Revision, flags
from mcp_notarium.errors import StoreProtocolError, UnfitContent
from mcp_notarium.stores.contract import Entry, ListingPage
from mcp_notarium.stores.json_answers import DEEPEST, deeper_than, to_json
from mcp_notarium.stores.simplenote.kind import FIELDS, PROPERTIES, is_possible_id

VERSION = 2
"""One more with every change in what :func:`revision_from` makes of the same object, ``raw`` included."""
Fields = dict[str, Any]
"""A note as Simplenote stores it. Treated as immutable; edits make a new one."""

LONGEST_PLACE = 1024
"""Most characters of a cursor or mark; those of the service have some 24."""
SAME_SECOND = 1.0
"""Dates that differ by less may be one date, in other units."""
_LARGEST_SECONDS = 1e11
_SHOWN = PROPERTIES.union(FIELDS)
_LONGEST_VERSION = 18


def revision_from(note_id: str, fields: Fields, *, version: int | None) -> Revision:
    """Read a stored object as a revision; ``version`` None gives the etag ''."""
    created = _seconds(fields.get("creationDate"))
    modified = _seconds(fields.get("modificationDate"))
    content = _content(fields)
    return Revision(
        id=note_id,
        etag="" if version is None else etag_of(version),
        content=content,
        created_at=created if created is not None else modified or 0.0,
        modified_at=modified if modified is not None else created or 0.0,
        raw=to_json(_without_text(fields, content.text)),
        server_version=version,
        tags_understood=_all_strings(fields.get("tags", [])),  # defence: odd-tags-not-understood
    )


def fields_from(value: Any) -> Fields:
    """Return ``value`` as a note object. Raises ``StoreProtocolError`` if it is none."""
    if not is_note(value):  # defence: note-needs-a-text
        raise StoreProtocolError("Simplenote answered a note that is no object with a text")
    found: Fields = value
    return found


def is_note(value: Any) -> bool:
    """Tell whether ``value`` is an object with a text."""
    return isinstance(value, dict) and isinstance(value.get("content"), str)


def fields_of(revision: Revision) -> Fields:
    """Return the whole object behind a revision."""
    stored = json.loads(revision.raw)
    whole: Fields = stored[0] if isinstance(stored, list) else stored
    return {"content": revision.content.text} | whole


def compose_fields(base: Fields | None, content: Content, *, now: float) -> Fields:
    """Compose the whole object to post: ``base`` with the edits, or a complete new one.

    Only keys that differ change, so that what the service or another device set meanwhile stays.
    Content equal to the base's gives the base itself, old modification date included. ``now`` is
    epoch seconds. Raises ``UnfitContent`` for other tags in the place of what is not understood.
    """
    wanted = content.cleaned()
    created, modified = wanted.dates or (now, now)
    if base is None:
        # The service takes no date before 1970.
        return _new_fields(
            wanted, created=max(0.0, float(created)), modified=max(0.0, float(modified))
        )
    seen = _content(base)
    if wanted == seen:
        return base
    edits: Fields = {"modificationDate": max(0.0, float(modified))}
    if wanted.text != seen.text:
        edits["content"] = wanted.text
    if wanted.tags != seen.tags:
        _require_known_tags(base.get("tags"))
        edits["tags"] = list(wanted.tags)
    if wanted.properties != seen.properties:
        edits["systemTags"] = _system_tags(base.get("systemTags"), wanted.properties)
    if wanted.trash != seen.trash:
        edits["deleted"] = _as_type_of(base.get("deleted"), wanted.trash)
    return base | edits


def etag_of(version: int) -> str:
    """Return the etag of a version number."""
    return str(version)


def version_of(etag: str) -> int | None:
    """Return the version number an etag was made from; None if it was not made here."""
    made_here = etag.isascii() and etag.isdecimal() and len(etag) <= _LONGEST_VERSION
    return int(etag) if made_here else None


def _new_fields(content: Content, *, created: float, modified: float) -> Fields:
    # The service refuses a new note that lacks any of these.
    return {
        "content": content.text,
        "tags": list(content.tags),
        "systemTags": sorted(PROPERTIES & content.properties.keys()),
        "creationDate": created,
        "modificationDate": modified,
        "deleted": content.trash,
        "shareURL": "",
        "publishURL": "",
    }


def _content(fields: Mapping[str, Any]) -> Content:
    text = fields.get("content")
    return Content(
        text=replace_surrogates(text) if isinstance(text, str) else "",
        tags=_strings(fields.get("tags")),
        trash=_flag(fields.get("deleted")),
        properties=flags(*_SHOWN.intersection(_strings(fields.get("systemTags")))),
    )


def _require_known_tags(old: Any) -> None:
    """Raise ``UnfitContent`` for tags that others would take the place of, and that are not known here."""
    if old is None or _all_strings(old):  # defence: odd-tags-stay =True
        return
    raise UnfitContent(
        "the tags of this note are in a form that is not known here; nothing was saved",
        subcategory="tags",
        resolution_hint="Save without `tags`; the user can change them in Simplenote.",
    )


def _system_tags(old: Any, properties: Properties) -> list[Any]:
    """Return the system tags with these of ``PROPERTIES``; the others keep their order, whatever they are."""
    kept = [
        mark
        for mark in (old if isinstance(old, list) else [])
        if not isinstance(mark, str) or mark not in PROPERTIES or mark in properties
    ]
    return kept + sorted(PROPERTIES & properties.keys() - {*_strings(kept)})


def _without_text(fields: Fields, text: str) -> Fields | list[Fields]:
    if fields.get("content") != text:
        return [fields]
    return {key: value for key, value in fields.items() if key != "content"}


def _all_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(replace_surrogates(item) for item in value if isinstance(item, str))


def _flag(value: Any) -> bool:
    return isinstance(value, bool | int | float) and bool(value)


def _as_type_of(old: Any, flag: bool) -> bool | int:  # noqa: FBT001 - the flag is what is converted
    if isinstance(old, int) and not isinstance(old, bool):
        return int(flag)
    return flag


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    while seconds > _LARGEST_SECONDS:
        seconds /= 1000
    return max(0.0, seconds)


def page_from(answer: Any, *, mark: str | None, with_content: bool) -> ListingPage:
    """Decode the page in ``answer``; ``mark`` is the one it was requested with.

    A missing, empty or repeated mark ends the listing. Raises ``StoreProtocolError``.
    """
    if not isinstance(answer, dict) or not isinstance(answer.get("index"), list):
        raise _invalid_error("no list of notes")
    cursor = _read_place(answer.get("current"))
    if not cursor:
        raise _invalid_error("no cursor")
    following = _read_place(answer.get("mark"))
    listed = [item for item in answer["index"] if has_address(item)]
    if not listed and not all(map(_has_id, answer["index"])):
        raise _invalid_error("no entry that is one")
    return ListingPage(
        entries=tuple(_entry(item, with_content=with_content) for item in listed),
        cursor=cursor,
        next_mark=None if following in ("", mark) else following,
        total=_total(answer.get("count"), listed=len(answer["index"]), more=following != ""),
        left_out=len(answer["index"]) - len(listed),
    )


def _total(count: Any, *, listed: int, more: bool) -> int | None:
    """Return the size of the whole listing, where ``count`` can mean that.

    It is not documented whether it counts the account or the page; a count that equals a page
    which is not the last one counts the page.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 10**9:
        return None
    return count if count > listed or (count == listed and not more) else None


def _entry(item: Any, *, with_content: bool) -> Revision | Entry:
    note_id, version = item["id"], version_from(item.get("v"))
    if version is None:
        return Entry(note_id, "")  # it will be fetched: that answer has a version of its own
    fields = item.get("d")
    if with_content and is_note(fields) and not deeper_than(fields, DEEPEST):
        return revision_from(note_id, fields, version=version)
    return Entry(note_id, etag_of(version), version)


def has_address(item: Any) -> bool:
    """Tell whether this is about a note that can be asked for."""
    return _has_id(item) and is_possible_id(item["id"])


def version_from(value: Any) -> int | None:
    """Return the version number in an answer; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**18:
        return None
    return value


def _has_id(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str)


def _read_place(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    if len(str(value)) > LONGEST_PLACE:
        raise _invalid_error("a cursor or mark that is too long")
    return str(value)


def _invalid_error(what: str) -> StoreProtocolError:
    return StoreProtocolError(f"Simplenote answered a listing with {what}")
