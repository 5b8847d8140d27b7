"""Handle ``list``: find notes by words, tags and dates, as short rows with honest totals.

Answers from the index. Only an empty index makes it wait, at most eight seconds, for the first page of
the account. An index that stays empty is an error; ``sync`` says what is missing in another. An answer with few notes
says which part of the search no note matches, and what may be meant by it (:func:`explain`). The index has no hidden
notes: a tag or a folder that only they have is one that no note has.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.note import MARKS, Properties
from mcp_notarium.domain.policy import Field, Policy
from mcp_notarium.errors import QueryError
from mcp_notarium.search import parser
from mcp_notarium.search.query import (
    HasProperty,
    HasTags,
    HasTask,
    InFolder,
    Phrase,
    Query,
    Tagged,
    Word,
    conditions_in,
)
from mcp_notarium.tools.answers import ListAnswer, ListItem, Match, TaskRow
from mcp_notarium.tools.consent import quote_id
from mcp_notarium.tools.get import ROW_HIDDEN
from mcp_notarium.tools.properties import require_filter
from mcp_notarium.tools.requests import MOST_PREVIEW_LINES, MOST_ROWS, ListRequest
from mcp_notarium.tools.sync_notice import sync_part, wait_for_notes
from mcp_notarium.tools.tags import spell_query
from mcp_notarium.tools.tasks import day_of
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.storage.note_search import Found, Summary

DEFAULT_LIMIT = 20
MOST_TASKS = 10
"""Tasks of a note that a row shows, of those that the query means."""
LARGEST_OFFSET = 2**53
"""Bounds the offset: SQLite cannot hold larger numbers. A page beyond any account is empty."""

_MOST_UNREAD = 5
_UNREAD = (
    "{} properties at the top that cannot be read, so filters by properties do not see them ({}). To be found, a note must "
    "begin with YAML, lines `key: value` between two lines `---`; TOML (`+++`) is not read."
)
_NOT_READ = "Misspelt words and parts of words are not looked for yet: the words of all notes are still being read."


async def handle(app: App, request: ListRequest, _call: CallContext) -> ListAnswer:
    """Return one page of matching notes.

    Raises ``QueryError`` for a filter that makes no sense, ``NotPermitted`` for a filter by a hidden
    field, and what ``wait_for_notes`` raises.
    """
    status = await wait_for_notes(app)  # which properties there are shows then
    today = day_of(app.clock()) if ":" in (request.query or "") else None
    is_property = await app.library.property_names(request.query or "")
    query = query_of(request, is_property=is_property, today=today)
    query = replace(query, in_tags=not app.config.policy.hides(Field.TAGS))
    check_query(app, query)
    if query.tags or query.excluded_tags or query.terms is not None:
        query = spell_query(app, query)
    limit = app.usage_limits.limit_rows(min(request.limit or DEFAULT_LIMIT, MOST_ROWS))
    page = request.page or 1
    found = await app.library.find(
        query,
        limit=limit,
        offset=min((page - 1) * limit, LARGEST_OFFSET),
        short_page=None if request.limit else min(page, LARGEST_OFFSET // limit),
        preview_lines=min(request.preview_lines or 1, MOST_PREVIEW_LINES),
    )
    said, meant = list[str](), list[str]()
    if found.is_short:
        said, meant = await explain(app, query, request.query or "", found)
    said += _say_unread(app, query)
    return ListAnswer(
        content=_rows(app, query, found.notes),
        next_page=page + 1 if page * (found.size or limit) < found.total else None,
        total_items=found.total,
        have_all=found.have_all,
        inside_words=found.inside_words or None,
        corrected=dict(found.corrected) or None,
        suggestions=[*found.suggestions, *meant] or None,
        note=" ".join((*_bounds(request), *said, *(() if found.read else (_NOT_READ,)))) or None,
        sync=sync_part(status, now=app.clock()),
    )


def _say_unread(app: App, query: Query) -> Iterator[str]:
    """Yield which notes a filter by properties cannot judge; nothing without such a filter."""
    if not any(isinstance(one, HasProperty) for one in conditions_in(query.terms)):
        return
    count, ids = app.library.find_unread(most=_MOST_UNREAD)
    if count:
        yield _UNREAD.format(
            f"{count} notes have" if count > 1 else "1 note has",
            ", ".join(map(quote_id, ids)) + ", ..." * (count > len(ids)),
        )


def _bounds(request: ListRequest) -> Iterator[str]:
    """Yield what was asked for beyond a maximum."""
    bounds = (
        ("limit", request.limit, MOST_ROWS),
        ("preview_lines", request.preview_lines, MOST_PREVIEW_LINES),
    )
    beyond = [f"`{name}` is at most {most}" for name, asked, most in bounds if (asked or 0) > most]
    if beyond:
        yield f"{' and '.join(beyond)}; that was used."


def query_of(
    request: ListRequest, *, is_property: Callable[[str], bool], today: date | None = None
) -> Query:
    """Convert the request to a ``Query``; filters in the text win over the arguments."""
    return parser.parse(
        request.query,
        tags=tuple(request.tags or ()),
        trash=request.trash_status,
        before=request.date_before,
        after=request.date_after,
        sort_by=request.sort_by,
        sort_order=request.sort_order,
        is_property=is_property,
        today=today,
    )


def check_query(app: App, query: Query) -> None:
    """Raise ``NotPermitted`` for a search in hidden fields, and ``QueryError`` for one in folders where there are none.

    Hits would reveal what is hidden, and a search in folders would find nothing, or all.
    """
    policy, kinds = app.config.policy, set(map(type, conditions_in(query.terms)))
    if query.tags or query.excluded_tags or kinds & {Tagged, HasTags}:
        policy.require_filter(Field.TAGS)
    if kinds & {Word, Phrase, HasTask}:
        policy.require_filter(Field.TEXT)  # defence: hidden-part-not-searched
    if HasProperty in kinds:
        require_filter(app)
    in_folders = query.folders or query.excluded_folders or InFolder in kinds
    if in_folders and not app.config.store.ids.paths:
        raise QueryError(
            f"`path:` looks in ids that are paths, which {app.config.store.title} does not have.",
            resolution_hint='Look for words or tags. To search for the text itself, put it in quotes: "path:".',
        )


def _rows(app: App, query: Query, notes: Sequence[Summary]) -> list[ListItem]:
    """Return the rows, with those properties that the query names and those tasks that it means."""
    wanted = list(conditions_in(query.terms, excluded=False))
    named = [one.name for one in wanted if isinstance(one, HasProperty)]
    meant = [one for one in wanted if isinstance(one, HasTask)]
    ids = [one.id for one in notes]
    values = app.library.read_properties(ids, named) if named else {}
    tasks = app.library.find_tasks(ids, meant) if meant else {}
    rows = []
    for summary in notes:
        row, found = _row(summary, app.config.policy), tasks.get(summary.id, [])
        more: dict[str, Any] = {}
        if summary.id in values:
            more["properties"] = (row.properties or {}) | values[summary.id]
        if found:
            more["tasks"] = [TaskRow(**asdict(one)) for one in found[:MOST_TASKS]]
            more["more_tasks"] = len(found) > MOST_TASKS or None
        rows.append(row.model_copy(update=more) if more else row)
    return rows


def _row(summary: Summary, policy: Policy) -> ListItem:
    title = " ".join((summary.title or "").split())
    return ListItem(
        uuid=summary.id,
        title=None if policy.hides(Field.TEXT) or not title else shorten(title),
        text=ROW_HIDDEN if policy.hides(Field.TEXT) else summary.head,
        local_version=summary.local_version,
        tags=policy.shown_tags(summary.tags),
        modified_at=summary.modified_at,
        trash=summary.trash,
        properties=_marks(summary.properties),
        match=_match(summary, policy),
        lacks=list(summary.lacks) or None,
        by="meaning" if summary.by_meaning else None,
    )


def _marks(properties: Properties) -> dict[str, Any] | None:
    """Return the marks that are set; None if there are none."""
    if not properties:
        return None
    return dict.fromkeys((name for name in MARKS if properties.get(name) is True), True) or None


def _match(summary: Summary, policy: Policy) -> Match | None:
    if summary.match is None or policy.hides(Field.TEXT):
        return None
    return Match(line=summary.match.line, text=summary.match.text)


_MOST_EXPLAINED = 3
_MOST_COMPARED = 300
"""Tags, the most used first, of which the nearest is suggested."""
_NEAR = 0.75
_LONGEST_SHOWN = 60
_SEPARATORS = re.compile(r"[,;|()\[\]{}\"'`]+")
_QUOTED = re.compile(r'"[^"]*"')
_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}
_SPAN = re.compile(
    r"(?<![:<>=.])\b(?:today|(?P<yesterday>yesterday)|(?:last|past|this)\s+(?:(?P<count>\d{1,3})\s+)?(?P<unit>day|week|month|year)s?)\b",
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
            elif isinstance(one, HasProperty):
                said.append(f"No note has the property `{_shorten(one.name)}`{_and_value(one)}.")
            else:
                said.append(f"No note has the tag `{_shorten(one.tag)}`.")
                meant += await _near_tags(app, one.tag)
        said += _contradictions(query)
    return said, list(dict.fromkeys(meant))


def _and_value(one: HasProperty) -> str:
    if one.value is not None:
        return f" with the value `{_shorten(one.value)}`"
    return "" if one.numbers is None and one.dates is None else " within these bounds"


def _wanted(query: Query) -> Iterator[Tagged | InFolder | HasProperty]:
    yield from map(Tagged, query.tags)
    yield from map(InFolder, query.folders)
    for one in conditions_in(query.terms, excluded=False):
        if isinstance(one, Tagged | InFolder | HasProperty):
            yield one


async def _is_found(app: App, one: Tagged | InFolder | HasProperty) -> bool:
    found = await app.library.find(
        Query(terms=one, trash="any"),
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
    by_key = {tag_key(one): one for one in app.library.count_tags(limit=size, offset=0)[0]}
    near = difflib.get_close_matches(tag_key(tag), by_key, 1, _NEAR)
    return [_write(by_key[one]) for one in near]


def _write(tag: str) -> str:
    return f'tag:"{tag}"' if re.search(r"\s", tag) else f"tag:{tag}"


def _read_as_words(query: Query, typed: str, *, now: float) -> Iterator[str]:
    """Yield what was searched for as text, and may be meant otherwise."""
    known = {
        tag_key(one.name) for one in conditions_in(query.terms) if isinstance(one, HasProperty)
    }
    if names := [one for one in parser.find_unknown_filters(typed) if tag_key(one) not in known]:
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
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
