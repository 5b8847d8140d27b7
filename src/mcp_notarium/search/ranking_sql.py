"""Build the SQL that ranks notes as ``search/ranking.py`` has planned. Runs nothing.

As in ``sql_builder.py``: what a person typed goes into parameters, and the wide table is read for the rows of a page only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from mcp_notarium.search import ranking as planning
from mcp_notarium.search.folding import title_key
from mcp_notarium.search.fts_expression import in_heading
from mcp_notarium.search.query import Query
from mcp_notarium.search.ranking import WEIGHTS, Kind, Plan, Sought, strict_conditions, typed_words
from mcp_notarium.search.sql_builder import (
    IN_ORDER,
    MATCHED,
    SORTS,
    Statement,
    filters_of,
    in_scope,
    matched,
    order_of,
    select,
)

_WHOLE, ALL_IN_TITLE, IS_TITLE = 1, 2, 3
"""What puts a note before others, whatever it scores."""
_BM25 = "bm25(notes_fts, 1.0, 5.0, 3.0, 1.0)"
_TITLED = (
    "notes AS t INDEXED BY notes_titles CROSS JOIN notes AS m INDEXED BY notes_meta ON m.pk = t.pk"
)
_FACTS = ("piece", "plain", "grade", "weight", "more", "added")
_SCORE = "sum(plain * weight) + sum(more) - sum(added) * sum(plain)"
_COUNT = "(SELECT count(*) FROM notes_fts WHERE notes_fts MATCH ?)"
ROWS = """
SELECT n.id, n.local_version, n.modified_at, n.trash, n.tags, n.title, n.head, n.properties, n.pk
FROM json_each(?) AS wanted CROSS JOIN notes AS n ON n.pk = wanted.value ORDER BY wanted.key
"""
"""The columns of a listing's rows, of notes (pk) in their order."""


def frequencies(query: Query, sought: Sequence[Sought]) -> Statement:
    """Build what counts the notes of the index that have each piece, and all notes."""
    expressions = [in_scope(query, piece.expression) for one in sought for piece in one.pieces]
    counts = "".join(f"{_COUNT}, " for _ in expressions)
    return Statement(
        f"SELECT {counts}(SELECT active + trashed FROM note_counts)",  # noqa: S608 - constants only
        tuple(expressions),
    )


def counting(query: Query, expression: str) -> Statement:
    """Build what counts the notes of the index that an expression finds, those in the trash as well."""
    return Statement(f"SELECT {_COUNT}", (in_scope(query, expression),))


def titled(query: Query) -> Statement:
    """Build what finds the notes (pk) whose title is what was typed, in the order of the query."""
    filters, _ = filters_of(query, strict_conditions(query))
    columns = f"m.pk AS pk, m.{SORTS[query.sort_by]} AS sorted"
    found = select(columns, [*_titled(query), *filters])
    return Statement(f"{found.sql} ORDER BY {order_of(query)}", found.parameters)


def permitted(query: Query, pks: Sequence[int]) -> Statement:
    """Build what finds those of these notes (pk) that everything but the bare words of the query permits."""
    filters, _ = filters_of(query, strict_conditions(query))
    wanted = "json_each(?) AS wanted CROSS JOIN notes AS m INDEXED BY notes_meta"
    source = Statement(f"{wanted} ON m.pk = wanted.value", (json.dumps(list(pks)),))
    return select("m.pk", [source, *filters])


def filtered_notes(query: Query, *, most: int) -> Statement:
    """Build what finds up to ``most`` notes (pk) that everything but the bare words of the query permits."""
    filters, _ = filters_of(query, strict_conditions(query))
    found = select("m.pk", [Statement("notes AS m INDEXED BY notes_meta"), *filters])
    return Statement(f"{found.sql} LIMIT {most}", found.parameters)


def ranking(query: Query, plan: Plan, sought: Sequence[Sought]) -> Statement:
    """Build what finds the planned notes, best first.

    The columns are pk, the numbers of its pieces as bits, whether its title has all words, and the score; less is better.
    """
    arms = list(_arms(query, plan, sought))
    union = " UNION ALL ".join(arm.sql for arm in arms)
    held = sum(1 << number for number in plan.held)
    score = "sum(plain)" if _is_plain(plan) else _SCORE
    return Statement(
        f"SELECT pk, {held} + sum(piece), max(grade), {score} AS score FROM ({union}) GROUP BY pk "  # noqa: S608 - constants only
        f"ORDER BY max(grade) DESC, score, {order_of(query)}",
        tuple(value for arm in arms for value in arm.parameters),
    )


def _arms(query: Query, plan: Plan, sought: Sequence[Sought]) -> Iterator[Statement]:
    """Select the notes of each piece with its bit and its score, and those that come before others.

    FTS5 scores a note by all words of an expression. An added piece therefore scores ``more`` (``base`` and the piece
    together) less the sum of ``plain`` (``base`` alone).
    """
    filters, _ = filters_of(query, strict_conditions(query))
    columns = f"m.pk AS pk, m.{SORTS[query.sort_by]} AS sorted"
    facts = _FACTS[:3] if _is_plain(plan) else _FACTS

    def arm(source: list[Statement], **more: str | float) -> Statement:
        shown = ", ".join(f"{more.get(name, 0)} AS {name}" for name in facts)
        return select(f"{columns}, {shown}", [*source, *filters])

    def match(expression: str) -> list[Statement]:
        return matched(in_scope(query, expression))

    for number, piece in plan.scored:
        first = _WHOLE if len(sought) == 1 and piece.kind is Kind.WHOLE else 0
        weight = WEIGHTS[piece.kind]
        found = match(piece.expression)
        yield arm(found, piece=1 << number, plain=_BM25, weight=weight, grade=first)
    if plan.held and plan.newest:
        newest = _newest(query, in_scope(query, plan.base))
        shown = ", ".join(f"0 AS {name}" for name in facts)
        yield Statement(f"SELECT pk, sorted, {shown} FROM ({newest.sql})", newest.parameters)  # noqa: S608 - constants only
    elif plan.held:
        yield arm(match(plan.base), plain=_BM25, weight=1)
    for number, piece in plan.added:
        both = match(f"({plan.base} AND {piece.expression})")
        yield arm(both, piece=1 << number, more=_BM25, added=1)
    if all(one.notes for one in sought):
        titles = match(in_heading([one.whole.expression for one in sought]))
        yield arm(titles, grade=ALL_IN_TITLE)
    yield arm(_titled(query), grade=IS_TITLE)


def _titled(query: Query) -> list[Statement]:
    return [Statement(_TITLED), Statement("t.title_key = ?", (title_key(typed_words(query)),))]


def _is_plain(plan: Plan) -> bool:
    """Tell whether a note scores the sum of what its words score; a tenth of the time less than any other."""
    return not plan.added and all(piece.kind is Kind.WHOLE for _, piece in plan.scored)


def _newest(query: Query, expression: str) -> Statement:
    filters, _ = filters_of(query, strict_conditions(query))
    columns = f"m.pk AS pk, m.{SORTS[query.sort_by]} AS sorted"
    source = Statement(f"notes AS m INDEXED BY {IN_ORDER[query.sort_by]}")
    found = select(columns, [source, Statement(MATCHED, (expression,)), *filters])
    return Statement(
        f"{found.sql} ORDER BY {order_of(query)} LIMIT {planning.MOST_RANKED}", found.parameters
    )
