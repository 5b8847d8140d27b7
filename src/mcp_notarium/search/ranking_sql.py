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
from mcp_notarium.search.ranking import (
    WEIGHTS,
    Arm,
    Grade,
    Kind,
    Plan,
    Sought,
    strict_conditions,
    typed_words,
)
from mcp_notarium.search.sql_builder import (
    IN_ORDER,
    MATCHED,
    MATCHES,
    SORTS,
    Statement,
    filters_of,
    in_scope,
    matched,
    order_of,
    select,
)

_BM25 = "bm25(notes_fts, 1.0, 5.0, 3.0, 1.0)"
_TITLED = (
    "notes AS t INDEXED BY notes_titles CROSS JOIN notes AS m INDEXED BY notes_meta ON m.pk = t.pk"
)
ROWS = """
SELECT n.id, n.local_version, n.modified_at, n.trash, n.tags, n.title, n.head, n.properties, n.pk
FROM json_each(?) AS wanted CROSS JOIN notes AS n ON n.pk = wanted.value ORDER BY wanted.key
"""
"""The columns of a listing's rows, of notes (pk) in their order."""


def frequencies(query: Query, sought: Sequence[Sought]) -> Statement:
    """Build what counts the notes of the index that have each piece, and all notes."""
    expressions = [in_scope(query, piece.expression) for one in sought for piece in one.pieces]
    counts = "".join(f"{MATCHES}, " for _ in expressions)
    return Statement(
        f"SELECT {counts}(SELECT active + trashed FROM note_counts)",  # noqa: S608 - constants only
        tuple(expressions),
    )


def counting(query: Query, expression: str) -> Statement:
    """Build what counts the notes of the index that an expression finds, those in the trash as well."""
    return Statement(f"SELECT {MATCHES}", (in_scope(query, expression),))


def titled(query: Query) -> Statement:
    """Build what finds the notes (pk) whose title is what was typed, in the order of the query."""
    filters, _ = filters_of(query, strict_conditions(query))
    found = select(_columns(query), [*_titled(query), *filters])
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


def ranking(query: Query, plan: Plan, sought: Sequence[Sought]) -> tuple[Statement, list[Arm]]:
    """Build what finds the planned notes, once in each arm that has them, and say what the arms mean.

    The columns are pk, what the query sorts by, the number of the arm, and the score. SQLite scores and Python adds up:
    a sum of groups in SQLite takes a third of the time more.
    """
    arms, parts = list[Arm](), list[Statement]()
    for number, (arm, part) in enumerate(_arms(query, plan, sought)):
        arms.append(arm)
        sql = f"SELECT pk, sorted, {number}, score FROM ({part.sql})"  # noqa: S608 - constants only
        parts.append(Statement(sql, part.parameters))
    union = " UNION ALL ".join(part.sql for part in parts)
    return Statement(union, tuple(value for part in parts for value in part.parameters)), arms


def _arms(query: Query, plan: Plan, sought: Sequence[Sought]) -> Iterator[tuple[Arm, Statement]]:
    """Yield what each arm means and its SQL: an arm of each piece, and those of notes that come before others.

    FTS5 scores a note by all words of an expression, so an added piece is scored together with ``base``.
    """
    filters, _ = filters_of(query, strict_conditions(query))
    held = sum(1 << number for number in plan.held)

    def found(source: list[Statement], score: str = "0.0") -> Statement:
        return select(f"{_columns(query)}, {score} AS score", [*source, *filters])

    def match(expression: str) -> list[Statement]:
        return matched(in_scope(query, expression))

    for number, piece in plan.scored:
        first = len(sought) == 1 and piece.kind is Kind.WHOLE
        arm = Arm(1 << number, Grade.WHOLE if first else Grade.OTHER, WEIGHTS[piece.kind])
        yield arm, found(match(piece.expression), _BM25)
    if plan.held:
        newest = plan.newest and _newest(query, in_scope(query, plan.base))
        yield Arm(held), newest or found(match(plan.base), _BM25)
    for number, piece in plan.added:
        both = match(f"({plan.base} AND {piece.expression})")
        yield Arm(held | 1 << number, adds=True), found(both, _BM25)
    if all(one.notes for one in sought):
        titles = match(in_heading([one.whole.expression for one in sought]))
        yield Arm(held, Grade.ALL_IN_TITLE), found(titles)
    yield Arm(held, Grade.IS_TITLE), found(_titled(query))


def _titled(query: Query) -> list[Statement]:
    return [Statement(_TITLED), Statement("t.title_key = ?", (title_key(typed_words(query)),))]


def _newest(query: Query, expression: str) -> Statement:
    filters, _ = filters_of(query, strict_conditions(query))
    source = Statement(f"notes AS m INDEXED BY {IN_ORDER[query.sort_by]}")
    clauses = [Statement(MATCHED, (expression,)), *filters]
    found = select(f"{_columns(query)}, 0.0 AS score", [source, *clauses])
    return Statement(
        f"{found.sql} ORDER BY {order_of(query)} LIMIT {planning.MOST_RANKED}", found.parameters
    )


def _columns(query: Query) -> str:
    return f"m.pk AS pk, m.{SORTS[query.sort_by]} AS sorted"
