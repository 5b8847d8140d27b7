"""Handle ``list``: find notes by words, tags and dates, as short rows with honest totals.

Answers from the index. Only an empty index makes it wait, at most eight seconds, for the first page of
the account. An index that stays empty is an error; ``sync`` says what is missing in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.policy import Field, Policy
from mcp_notarium.errors import QueryError
from mcp_notarium.search import parser
from mcp_notarium.search.query import (
    InFolder,
    Phrase,
    Query,
    Tagged,
    Word,
    conditions_in,
)
from mcp_notarium.tools.answers import ListAnswer, ListItem, Match
from mcp_notarium.tools.get import ROW_HIDDEN
from mcp_notarium.tools.list_hints import explain
from mcp_notarium.tools.requests import MOST_PREVIEW_LINES, MOST_ROWS, ListRequest, shown_properties
from mcp_notarium.tools.sync_notice import sync_part, wait_for_notes
from mcp_notarium.tools.tags import spell_query
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.storage.note_search import Summary

DEFAULT_LIMIT = 20
LARGEST_OFFSET = 2**53
"""Bounds the offset: SQLite cannot hold larger numbers. A page beyond any account is empty."""

_NOT_READ = "Misspelt words and parts of words are not looked for yet: the words of all notes are still being read."


async def handle(app: App, request: ListRequest, call: CallContext) -> ListAnswer:
    """Return one page of matching notes.

    Raises ``QueryError`` for a filter that makes no sense, ``NotPermitted`` for a filter by a hidden
    field, and what ``wait_for_notes`` raises.
    """
    del call  # a read asks the user nothing
    query = replace(query_of(request), in_tags=not app.config.policy.hides(Field.TAGS))
    check_query(app.config.policy, query)
    check_folders(app, query)
    if query.tags or query.excluded_tags or query.terms is not None:
        query = spell_query(app, query)
    status = await wait_for_notes(app)
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
    return ListAnswer(
        content=[_row(summary, app.config.policy) for summary in found.notes],
        next_page=page + 1 if page * (found.size or limit) < found.total else None,
        total_items=found.total,
        have_all=found.have_all,
        inside_words=found.inside_words or None,
        corrected=dict(found.corrected) or None,
        suggestions=[*found.suggestions, *meant] or None,
        note=" ".join((*_bounds(request), *said, *(() if found.read else (_NOT_READ,)))) or None,
        sync=sync_part(status, now=app.clock()),
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


def check_folders(app: App, query: Query) -> None:
    """Raise ``QueryError`` for a search in folders where there are none: it would find nothing, or all."""
    named = query.folders or query.excluded_folders
    if app.config.store.ids.paths:
        return
    if named or any(isinstance(one, InFolder) for one in conditions_in(query.terms)):
        raise QueryError(
            f"`path:` looks in folders, and {app.config.store.title} has none.",
            resolution_hint='Look for words or tags. To search for the text itself, put it in quotes: "path:".',
        )


def query_of(request: ListRequest) -> Query:
    """Convert the request to a ``Query``; filters in the text win over the arguments."""
    return parser.parse(
        request.query,
        tags=tuple(request.tags or ()),
        trash=request.trash_status,
        before=request.date_before,
        after=request.date_after,
        sort_by=request.sort_by,
        sort_order=request.sort_order,
    )


def check_query(policy: Policy, query: Query) -> None:
    """Raise ``NotPermitted`` for a search in hidden fields: the hits would reveal them."""
    kinds = set(map(type, conditions_in(query.terms)))
    if query.tags or query.excluded_tags or Tagged in kinds:
        policy.require_filter(Field.TAGS)
    if kinds & {Word, Phrase}:
        policy.require_filter(Field.TEXT)  # defence: hidden-part-not-searched


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
        properties=shown_properties(summary.properties),
        match=_match(summary, policy),
        lacks=list(summary.lacks) or None,
        by="meaning" if summary.by_meaning else None,
    )


def _match(summary: Summary, policy: Policy) -> Match | None:
    if summary.match is None or policy.hides(Field.TEXT):
        return None
    return Match(line=summary.match.line, text=summary.match.text)
