"""Find the notes that have any of the bare words of a query, best first, and say what each lacks.

``search/ranking.py`` decides what is looked for, ``search/ranking_sql.py`` builds the statements; this module runs them
on one state of the database. A word that few notes have is looked for inside other words as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mcp_notarium.search.query import Query, Word
from mcp_notarium.search.ranking import (
    FEW,
    MOST_RANKED,
    Kind,
    Sought,
    choose,
    is_inside,
    missing_words,
    significant_words,
    strict_conditions,
    without_common_words,
)
from mcp_notarium.search.ranking_sql import counting, frequencies, ranking, titled
from mcp_notarium.search.sql_builder import build_newest, filters_of
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.statement_texts import Row


Page = Callable[[int], tuple[int, int]]
"""Tell limit and offset from how many notes lack no word."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Hold a note (pk), the words it lacks, and whether it has one inside another word only."""

    pk: int
    lacks: tuple[str, ...] = ()
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """Hold a part of what was found.

    ``total`` counts all of it, ``with_all`` the notes that lack no word. ``unknown``: words that no note has.
    """

    notes: list[Hit]
    total: int
    with_all: int
    unknown: tuple[str, ...] = ()


def count_words(database: Database, query: Query, words: Sequence[Word]) -> list[Sought]:
    """Return what is looked for, with the number of notes that have each whole word."""
    sought = significant_words(words)
    *counts, notes = _counts(
        database, query, [replace(one, pieces=one.pieces[:1]) for one in sought]
    )
    counted = [
        replace(one, pieces=(replace(one.whole, notes=count), *one.pieces[1:]))
        for one, count in zip(sought, counts, strict=True)
    ]
    return without_common_words(counted, notes)


def find_hits(
    database: Database,
    query: Query,
    sought: Sequence[Sought],
    *,
    page: Page,
) -> Hits:
    """Return the hits of one page; ``page`` tells limit and offset from how many notes lack no word.

    The pieces besides whole words are counted here.
    """
    sought = [one if one.notes < FEW else _without_parts(one) for one in sought]
    if any(one.pieces[1:] for one in sought):
        taken = iter(_counts(database, query, sought))
        sought = [
            replace(one, pieces=tuple(replace(piece, notes=next(taken)) for piece in one.pieces))
            for one in sought
        ]
    _, filtered = filters_of(query, strict_conditions(query))
    plan = choose(
        sought,
        filtered=filtered,
        count=lambda expression: _count(database, query, expression),
    )
    if plan.newest and not plan.added:
        hits = _newest(database, query, plan.base, page)
        if hits is not None:
            return hits
        plan = replace(plan, newest=False)
    statement = ranking(query, plan, sought)
    rows = database.rows(statement.sql, statement.parameters)
    return _hits(rows, sought, page)


def _without_parts(one: Sought) -> Sought:
    whole = (piece for piece in one.pieces if piece.kind in (Kind.WHOLE, Kind.CORRECTED))
    return replace(one, pieces=tuple(whole))


def _hits(rows: Sequence[Row], sought: Sequence[Sought], page: Page) -> Hits:
    lacking = {has: missing_words(sought, has) for has in {has for _, has, _ in rows}}
    with_all = sum(1 for _, has, entitled in rows if entitled or not lacking[has])
    limit, offset = page(with_all)
    notes = [
        Hit(pk, () if entitled else lacking[has], inside=is_inside(sought, has))
        for pk, has, entitled in rows[offset : offset + limit]
    ]
    unknown = tuple(one.text for one in sought if not any(piece.notes for piece in one.pieces))
    return Hits(notes, len(rows), with_all, unknown)


def _newest(database: Database, query: Query, base: str, page: Page) -> Hits | None:
    """List the notes that have all words, those with this title first, then by the sort; None if they can be ranked."""
    strict = strict_conditions(query)
    asked = titled(query)
    first = [row[0] for row in database.rows(asked.sql, asked.parameters)]
    _, count = build_newest(query, base, strict, without=(), limit=0, offset=0)
    total = database.number(count.sql, count.parameters)
    if total <= MOST_RANKED:
        return None
    limit, offset = page(total)
    pks = first[offset : offset + limit]
    rows, _ = build_newest(
        query,
        base,
        strict,
        without=first,
        limit=limit - len(pks),
        offset=max(0, offset - len(first)),
    )
    found = database.rows(rows.sql, rows.parameters) if len(pks) < limit else []
    return Hits([Hit(pk) for pk in (*pks, *(row[-1] for row in found))], total, total)


def _counts(database: Database, query: Query, sought: Sequence[Sought]) -> list[int]:
    statement = frequencies(query, sought)
    row = database.row(statement.sql, statement.parameters)
    return list(row or ())


def _count(database: Database, query: Query, expression: str) -> int:
    statement = counting(query, expression)
    return database.number(statement.sql, statement.parameters)
