"""Take a tag with ``#`` before it, as many programs write it, for the tag that notes have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.search.query import And, Condition, Not, Or, Query, Tagged

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
