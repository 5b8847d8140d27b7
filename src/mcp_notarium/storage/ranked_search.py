"""Find the notes that have any of the bare words of a query, best first, and say what each lacks.

``search/ranking.py`` decides what is looked for, ``search/ranking_sql.py`` builds the statements; this module runs them
on one state of the database. A word that few notes have is looked for inside other words as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_notarium.search import ranking as planning
from mcp_notarium.search.query import Query, Word
from mcp_notarium.search.ranking import (
    Grade,
    Kind,
    Scored,
    Sought,
    choose,
    counted,
    fuse,
    in_order,
    is_inside,
    missing_words,
    significant_words,
    strict_conditions,
)
from mcp_notarium.search.ranking_sql import (
    counting,
    filtered_notes,
    frequencies,
    permitted,
    ranking,
    titled,
)
from mcp_notarium.search.sql_builder import Statement, build_newest, count_of, filters_of, in_scope
from mcp_notarium.storage.database import Database

MOST_BY_MEANING = 10
"""Notes without any of the words that are shown because of what they mean."""
_MORE_BY_MEANING = 2
MOST_LACKING = 5
"""Notes of a short page that lack a word, at most."""
_FEWEST = 3
_MOST_QUICK = 20
_MOST_READ = 30_000
"""Pieces, and notes that have them, whose hits are found in some 10 ms; more are looked for in a thread."""
_MOST_FILTERED = 5000
_CLOSE = 0.65
"""A short page ends before a note that scores less than this part of the best score."""


@dataclass(frozen=True, slots=True)
class Page:
    """Ask for ``limit`` notes behind the first ``offset``."""

    limit: int
    offset: int = 0
    short: int | None = None
    """For a page of this number, from 1, instead; its notes score nearly as much as the best."""
    every: bool = False
    """All notes are wanted, with the size of a page."""

    def begin(self, size: int) -> int:
        """Return how many notes stand before it, if it has this size."""
        return self.offset if self.short is None else (self.short - 1) * size


@dataclass(frozen=True, slots=True)
class Hit:
    """Hold a note (pk), the words it lacks, and whether it has one inside another word only."""

    pk: int
    lacks: tuple[str, ...] = ()
    inside: bool = False
    by_meaning: bool = False
    """No word finds it."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Hold a part of what was found."""

    notes: list[Hit]
    total: int
    """Number of notes found in all."""
    have_all: int
    """Number of notes that lack no word."""
    size: int
    """Notes on a page."""
    near: int = 0
    """Notes that no word finds."""


def count_words(database: Database, query: Query, words: Sequence[Word]) -> list[Sought]:
    """Return what is looked for, with the number of notes that have each whole word."""
    sought = significant_words(words)
    *counts, notes = _counts(
        database, query, [replace(one, pieces=one.pieces[:1]) for one in sought]
    )
    return counted(sought, counts, notes)


def is_long(sought: Sequence[Sought]) -> bool:
    """Tell whether finding the hits may take longer than the event loop should wait."""
    pieces = [piece for one in sought for piece in one.pieces]
    return len(pieces) > _MOST_QUICK or sum(piece.notes for piece in pieces) > _MOST_READ


def find_hits(
    database: Database,
    query: Query,
    sought: Sequence[Sought],
    *,
    page: Page,
    near: Sequence[int] = (),
) -> Hits:
    """Return the hits of one page. The pieces besides whole words are counted here.

    ``near``: notes (pk) that mean what is asked for, the nearest first; they are ranked among those with the words.
    """
    sought = [one if one.notes < planning.FEW else _without_parts(one) for one in sought]
    if any(one.pieces[1:] for one in sought):
        taken = iter(_counts(database, query, sought))
        sought = [
            replace(one, pieces=tuple(replace(piece, notes=next(taken)) for piece in one.pieces))
            for one in sought
        ]
    plan = choose(
        sought,
        filtered=is_filtered(query),
        count=lambda expression: _count(database, query, expression),
    )
    if plan.newest and not plan.added:
        lacks = missing_words(sought, sum(1 << number for number in plan.held))
        hits = _newest(database, query, plan.base, page, lacks=lacks)
        if hits is not None:
            return hits
        plan = replace(plan, newest=False)
    statement, arms = ranking(query, plan, sought)
    rows = database.rows(statement.sql, statement.parameters)
    scored = in_order(rows, arms, newest_first=query.sort_order == "DESC")
    found = _hits(scored, sought, page if not near else replace(page, every=True))
    return _fuse(scored, found, _permitted(database, query, near), page) if near else found


def is_filtered(query: Query) -> bool:
    """Tell whether a query leaves out more than the trash, whatever its bare words are."""
    return filters_of(query, strict_conditions(query))[1]


def find_permitted(database: Database, query: Query) -> list[int] | None:
    """Return the notes (pk) that the filters of a query leave; None if they are too many to list."""
    statement = filtered_notes(query, most=_MOST_FILTERED + 1)
    found = [row[0] for row in database.rows(statement.sql, statement.parameters)]
    return found if len(found) <= _MOST_FILTERED else None


def _permitted(database: Database, query: Query, near: Sequence[int]) -> list[int]:
    statement = permitted(query, near)
    shown = {row[0] for row in database.rows(statement.sql, statement.parameters)}
    return [pk for pk in near if pk in shown]


def _fuse(scored: Sequence[Scored], found: Hits, near: Sequence[int], page: Page) -> Hits:
    """Return a page of both rankings in one; a note with this very title stays before others."""
    by_words = {hit.pk: hit for hit in found.notes}
    only_near = [pk for pk in near if pk not in by_words][:MOST_BY_MEANING]
    ranked = [pk for pk in near if pk in by_words or pk in only_near]
    titled_first = [one.pk for one in scored if one.grade is Grade.IS_TITLE]
    order = list(dict.fromkeys([*titled_first, *fuse(list(by_words), ranked)]))
    size = page.limit
    if page.short:
        size = min(size, max(found.size, _FEWEST + _MORE_BY_MEANING))
    offset = page.begin(size)
    shown = order[offset : offset + size]
    notes = [by_words.get(pk) or Hit(pk, by_meaning=True) for pk in shown]
    return replace(found, notes=notes, total=len(order), size=size, near=len(only_near))


def _without_parts(one: Sought) -> Sought:
    whole = (piece for piece in one.pieces if piece.kind in (Kind.WHOLE, Kind.CORRECTED))
    return replace(one, pieces=tuple(whole))


def _hits(scored: Sequence[Scored], sought: Sequence[Sought], page: Page) -> Hits:
    missing = {has: missing_words(sought, has) for has in {one.has for one in scored}}
    lacks = [() if one.grade >= Grade.ALL_IN_TITLE else missing[one.has] for one in scored]
    have_all = lacks.count(())
    size = page.limit
    if page.short and have_all < len(scored):
        size = min(size, _count_close([one.score for one in scored[:size]], lacks))
    offset = page.begin(size)
    wanted = slice(None) if page.every else slice(offset, offset + size)
    notes = [
        Hit(one.pk, words, inside=is_inside(sought, one.has))
        for one, words in zip(scored[wanted], lacks[wanted], strict=True)
    ]
    return Hits(notes, len(scored), have_all, size)


def _count_close(scores: Sequence[float], lacks: Sequence[Sequence[str]]) -> int:
    least, lacking = min(scores) * _CLOSE, 0
    for count, (score, words) in enumerate(zip(scores, lacks, strict=False)):
        lacking += bool(words)
        if count >= _FEWEST and (score > least or lacking > MOST_LACKING):
            return count
    return len(scores)


def _newest(
    database: Database, query: Query, base: str, page: Page, *, lacks: tuple[str, ...]
) -> Hits | None:
    """List what ``base`` finds, those with this title first, then by the sort; None if it can be ranked.

    ``lacks``: words that none of these notes has.
    """
    strict = strict_conditions(query)
    asked = titled(query)
    first = [row[0] for row in database.rows(asked.sql, asked.parameters)]
    _, count = build_newest(query, base, strict, without=(), limit=0, offset=0)
    total = _number(database, count)
    if total <= planning.MOST_RANKED:
        return None
    limit, offset = page.limit, page.begin(page.limit)
    pks = first[offset : offset + limit]
    left, after = limit - len(pks), max(0, offset - len(first))
    rows, _ = build_newest(query, base, strict, without=first, limit=left, offset=after)
    found = database.rows(rows.sql, rows.parameters) if left else []
    hits = [Hit(pk, lacks) for pk in (*pks, *(row[0] for row in found))]
    return Hits(hits, total, 0 if lacks else total, limit)


def _counts(database: Database, query: Query, sought: Sequence[Sought]) -> list[int]:
    statement = frequencies(query, sought)
    row = database.row(statement.sql, statement.parameters)
    return list(row or ())


def _count(database: Database, query: Query, expression: str) -> int:
    """Count the notes that an expression finds, without the trash unless all together are too few."""
    found = _number(database, counting(query, expression))
    if found < planning.FEWEST:
        return found
    return _number(database, count_of(query, in_scope(query, expression), ()))


def _number(database: Database, statement: Statement) -> int:
    return database.number(statement.sql, statement.parameters)
