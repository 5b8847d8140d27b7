"""Say which part of a search no note matches, and what may be meant by it.

Every answer comes from the index, which has no hidden notes: a tag or a folder that only they have is one that no note has.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.search import parser
from mcp_notarium.search.query import (
    InFolder,
    Query,
    Tagged,
    Word,
    conditions_in,
)

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.storage.note_search import Found

_MOST_EXPLAINED = 3
_MOST_COMPARED = 300
"""Tags, the most used first, of which the nearest is suggested."""
_NEAR = 0.75
_SHOWN = 60
_SEPARATORS = re.compile(r"[,;|()\[\]{}\"'`]+")
_QUOTED = re.compile(r'"[^"]*"')
_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}
_SPAN = re.compile(
    r"\b(?:today|(?P<yesterday>yesterday)|(?:last|past|this)\s+(?:(?P<count>\d{1,3})\s+)?(?P<unit>day|week|month|year)s?)\b",
    re.IGNORECASE,
)
_SIGNS = {"AND", "OR", "NOT"}


async def explain(app: App, query: Query, typed: str, found: Found) -> tuple[list[str], list[str]]:
    """Return what to say of a search of which no note has all, and queries that may be meant."""
    said, meant = list(_read_as_words(query, typed, now=app.clock())), []
    if not found.total and app.library.status().complete:
        for one in islice(_wanted(query), _MOST_EXPLAINED):
            if await _is_found(app, one):
                continue
            if isinstance(one, InFolder):
                said.append(
                    f"No note is in `path:{_shorten(one.path)}`: write the whole path from the top, as in path:Folder/Below."
                )
            else:
                said.append(f"No note has the tag `{_shorten(one.tag)}`.")
                meant += await _near_tags(app, one.tag)
        said += _contradictions(query)
    return said, list(dict.fromkeys(meant))


def _wanted(query: Query) -> Iterator[Tagged | InFolder]:
    yield from map(Tagged, query.tags)
    yield from map(InFolder, query.folders)
    for one in conditions_in(query.terms, excluded=False):
        if isinstance(one, Tagged | InFolder):
            yield one


async def _is_found(app: App, one: Tagged | InFolder) -> bool:
    tags, folders = ((one.tag,), ()) if isinstance(one, Tagged) else ((), (one.path,))
    found = await app.library.find(
        Query(tags=tags, folders=folders, trash="any"),
        limit=1,
        offset=0,
        preview_lines=1,
        corrects=False,
    )
    return found.total > 0


async def _near_tags(app: App, tag: str) -> list[str]:
    """Return the query for the tags that are written in this one, or for the one most like it."""
    parts = [part.strip() for part in _SEPARATORS.split(tag) if part.strip()]
    known = [part for part in parts[:_MOST_EXPLAINED] if await _is_found(app, Tagged(part))]
    if known:
        return [" ".join(map(_write, known))]
    size = app.usage_limits.limit_rows(_MOST_COMPARED)
    by_key = {
        tag_key(one.tag): one.tag for one in app.library.count_tags(limit=size, offset=0).tags
    }
    near = difflib.get_close_matches(tag_key(tag), by_key, 1, _NEAR)
    return [_write(by_key[one]) for one in near]


def _write(tag: str) -> str:
    return f'tag:"{tag}"' if re.search(r"\s", tag) else f"tag:{tag}"


def _read_as_words(query: Query, typed: str, *, now: float) -> Iterator[str]:
    """Yield what was searched for as text, and may be meant otherwise."""
    if names := parser.find_unknown_filters(typed):
        named = " and ".join(f"`{name}:`" for name in names)
        yield f"{named} was searched for as text. {parser.FILTERS}"
    words = (one.text for one in conditions_in(query.terms) if isinstance(one, Word))
    for sign in dict.fromkeys(word for word in words if word in _SIGNS):
        yield f"`{sign}` has nothing on one side, so it was searched for as a word."
    if span := _SPAN.search(_QUOTED.sub('"', typed)):
        days = int(span["count"] or 1) * _DAYS[(span["unit"] or "day").lower()]
        if not span["unit"]:
            days = 1 if span["yesterday"] else 0
        day = (datetime.fromtimestamp(now, UTC) - timedelta(days=days)).date()
        yield f"`{span[0]}` was searched for as text; for notes changed since, write `after:{day}`."


def _contradictions(query: Query) -> Iterator[str]:
    """Yield what is said of dates that leave no time between them."""
    for earliest, latest in (
        (query.after, query.before),
        (query.created_after, query.created_before),
    ):
        if earliest is not None and latest is not None and earliest >= latest:
            yield "No time is between the two dates: the later one belongs to before:, the earlier one to after:."


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
