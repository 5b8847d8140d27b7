"""Decode a bucket's listing (``/index``): JSON to a page of entries. Pure.

A page is read whole or not at all. A single note that is no object, is nested too deeply or has no
version number becomes an entry without content, so it neither hides nor spoils its neighbours. One
without an id, or with one that no URL can hold (other clients make such notes by mistake), is left out
and counted.
"""

from __future__ import annotations

from typing import Any

from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import StoreProtocolError
from mcp_notarium.stores.contract import Entry, ListingPage
from mcp_notarium.stores.json_answers import DEEPEST, deeper_than
from mcp_notarium.stores.simplenote.note_codec import etag_of, revision_from
from mcp_notarium.stores.simplenote.urls import is_possible_id

LONGEST_PLACE = 1024
"""Most characters of a cursor or mark; those of the service have some 24."""


def page_from(answer: Any, *, mark: str | None, with_content: bool) -> ListingPage:
    """Decode the page in ``answer``; ``mark`` is the one it was requested with.

    A missing, empty or repeated mark ends the listing. Raises ``StoreProtocolError``.
    """
    if not isinstance(answer, dict) or not isinstance(answer.get("index"), list):
        raise _invalid("no list of notes")
    cursor = _opaque(answer.get("current"))
    if not cursor:
        raise _invalid("no place in the stream of changes")
    following = _opaque(answer.get("mark"))
    listed = [item for item in answer["index"] if has_address(item)]
    if not listed and not all(map(_named, answer["index"])):
        raise _invalid("no entry that is one")
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
    if with_content and isinstance(fields, dict) and not deeper_than(fields, DEEPEST):
        return revision_from(note_id, fields, version=version)
    return Entry(note_id, etag_of(version), version)


def has_address(item: Any) -> bool:
    """Tell whether this is about a note that can be asked for."""
    return _named(item) and is_possible_id(item["id"])


def version_from(value: Any) -> int | None:
    """Return the version number in an answer; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**18:
        return None
    return value


def _named(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str)


def _opaque(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    if len(str(value)) > LONGEST_PLACE:
        raise _invalid("a place too long to be kept")
    return str(value)


def _invalid(what: str) -> StoreProtocolError:
    return StoreProtocolError(f"Simplenote answered a listing with {what}")
