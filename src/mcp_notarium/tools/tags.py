"""Handle ``manage list_tags``, and spell a tag as notes have it. ``rename_tag`` is in ``bulk_changes``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.policy import Field
from mcp_notarium.search.query import And, Condition, Not, Or, Query, Tagged
from mcp_notarium.tools.answers import TagsAnswer
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.sync_notice import page_fields, wait_for_notes
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App


def spell_tag(app: App, tag: str) -> str:
    """Return the tag without ``#`` before it, unless notes have it so."""
    bare = tag.strip().lstrip("#").strip()
    marked = bare and tag.strip().startswith("#")
    return bare if marked and not app.library.find_tagged(tag.strip()) else tag


def spell_tags(app: App, tags: Iterable[str]) -> tuple[str, ...]:
    """Return each of the tags so."""
    return tuple(spell_tag(app, tag) for tag in tags)


def spell_query(app: App, query: Query) -> Query:
    """Return the query with its tags spelled so."""
    return replace(
        query,
        tags=spell_tags(app, query.tags),
        excluded_tags=spell_tags(app, query.excluded_tags),
        terms=None if query.terms is None else _spell(app, query.terms),
    )


def _spell(app: App, condition: Condition) -> Condition:
    match condition:
        case And(conditions):
            return And(tuple(_spell(app, one) for one in conditions))
        case Or(conditions):
            return Or(tuple(_spell(app, one) for one in conditions))
        case Not(inner):
            return Not(_spell(app, inner))
        case Tagged(tag):
            return Tagged(spell_tag(app, tag))
        case _:
            return condition


MOST_TAGS = 300


async def count(app: App, request: ManageRequest, _call: CallContext) -> TagsAnswer:
    """Return one page of the tags of visible notes outside the trash, most used first."""
    return await read_page(app, request.page or 1)


async def read_page(app: App, page: int = 1) -> TagsAnswer:
    """Return this page of the tags. Raises ``NotPermitted`` if the policy hides tags, and ``StillLoading``."""
    app.config.policy.require_filter(Field.TAGS)
    status = await wait_for_notes(app)
    size = app.usage_limits.limit_rows(MOST_TAGS)
    counted, total = app.library.count_tags(limit=size, offset=(page - 1) * size)
    return TagsAnswer(tags=counted, **page_fields(app, status, page=page, size=size, total=total))


def renamed(tags: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    """Return the tags with ``new`` in the place of ``old``; the note's own spelling of ``new`` stays."""
    keys = list(map(tag_key, tags))
    if tag_key(old) not in keys:
        return tuple(tags)
    others = [tag for tag, key in zip(tags, keys, strict=True) if key != tag_key(old)]
    if tag_key(new) in map(tag_key, others):
        return tuple(others)
    at = keys.index(tag_key(old))
    return (*others[:at], new, *others[at:])
