"""Convert Simplenote's note objects to revisions and back. Pure.

It never fails on what a note holds, only on what is not an object: old accounts have notes with
missing fields, dates in milliseconds, ``deleted`` as a number and fields of other programs. A value
that it does not understand reads as empty and stays untouched in ``raw``:

* ``content`` that is no string reads as empty text, ``tags`` that is no list as no tags, and an
  item of ``tags`` that is no string is left out;
* dates above 1e11 are milliseconds; a missing modification date is the creation date, else 0;
* lone surrogates read as U+FFFD.

It knows no listing; see ``listing`` and ``change_feed``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import StoreProtocolError
from mcp_notarium.stores.json_answers import to_json

Fields = dict[str, Any]
"""A note as Simplenote stores it. Treated as immutable; edits make a new one."""

_LARGEST_SECONDS = 1e11
_LONGEST_VERSION = 18


def revision_from(note_id: str, fields: Fields, *, version: int | None) -> Revision:
    """Read a stored object as a revision; ``version`` None gives the etag ''."""
    created = _seconds(fields.get("creationDate"))
    modified = _seconds(fields.get("modificationDate"))
    marks = _strings(fields.get("systemTags"))
    return Revision(
        id=note_id,
        etag="" if version is None else etag_of(version),
        content=_content(fields),
        created_at=created if created is not None else modified or 0.0,
        modified_at=modified if modified is not None else created or 0.0,
        raw=to_json(fields),
        server_version=version,
        pinned="pinned" in marks,
        markdown="markdown" in marks,
    )


def fields_from(value: Any) -> Fields:
    """Return ``value`` as a note object. Raises ``StoreProtocolError`` if it is none."""
    if not isinstance(value, dict):
        raise StoreProtocolError("Simplenote answered a note that is not an object")
    return value


def fields_of(revision: Revision) -> Fields:
    """Return the whole object behind a revision."""
    return fields_from(json.loads(revision.raw))


def compose_fields(base: Fields | None, content: Content, *, now: float) -> Fields:
    """Compose the whole object to post: ``base`` with the edits, or a complete new one.

    Only keys that differ change, so that what the service or another device set meanwhile stays.
    Content equal to the base's gives the base itself, old modification date included. ``now`` is
    epoch seconds.
    """
    wanted = content.cleaned()
    if base is None:
        return _new_fields(wanted, now=float(now))
    seen = _content(base)
    if wanted == seen:
        return base
    edits: Fields = {"modificationDate": float(now)}
    if wanted.text != seen.text:
        edits["content"] = wanted.text
    if wanted.tags != seen.tags:
        edits["tags"] = list(wanted.tags)
    if wanted.trash != seen.trash:
        edits["deleted"] = _like(base.get("deleted"), wanted.trash)
    return base | edits


def etag_of(version: int) -> str:
    """Return the etag of a version number."""
    return str(version)


def version_of(etag: str) -> int | None:
    """Return the version number an etag was made from; None if it was not made here."""
    made_here = etag.isascii() and etag.isdecimal() and len(etag) <= _LONGEST_VERSION
    return int(etag) if made_here else None


def _new_fields(content: Content, *, now: float) -> Fields:
    # The service refuses a new note that lacks any of these.
    return {
        "content": content.text,
        "tags": list(content.tags),
        "systemTags": [],
        "creationDate": now,
        "modificationDate": now,
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
    )


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(replace_surrogates(item) for item in value if isinstance(item, str))


def _flag(value: Any) -> bool:
    return isinstance(value, bool | int | float) and bool(value)


def _like(old: Any, flag: bool) -> bool | int:  # noqa: FBT001 - the flag is what is converted
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
