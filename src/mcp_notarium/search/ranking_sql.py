"""Build the SQL that ranks notes as ``search/ranking.py`` has planned. Runs nothing.

As in ``sql_builder.py``: what a person typed goes into parameters, and the wide table is read for the rows of a page only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mcp_notarium.search.folding import title_key
from mcp_notarium.search.fts_expression import in_heading
from mcp_notarium.search.query import Query
from mcp_notarium.search.ranking import (
    MOST_RANKED,
    WEIGHTS,
    Kind,
    Piece,
    Plan,
    Sought,
    strict_conditions,
    typed_words,
)
from mcp_notarium.search.sql_builder import (
    IN_ORDER,
    MATCHED,
    SORTS,
    Parameter,
    Statement,
    filters_of,
    in_scope,
    order_of,
)

_WHOLE, _ALL_IN_TITLE, _IS_TITLE = 1, 2, 3
"""What puts a note before others, whatever it scores."""
_BM25 = "bm25(notes_fts, 1.0, 5.0, 3.0, 1.0)"
_MATCH = (
    "notes_fts AS f CROSS JOIN notes AS m INDEXED BY notes_meta ON m.pk = f.rowid "
    "WHERE notes_fts MATCH ?"
)
_TITLED = (
    "notes AS t INDEXED BY notes_titles CROSS JOIN notes AS m INDEXED BY notes_meta ON m.pk = t.pk "
    "WHERE t.title_key = ?"
)
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
        f"SELECT {counts}(SELECT active + trashed FROM note_counts)", tuple(expressions)
    )


def counting(query: Query, expression: str) -> Statement:
    """Build what counts the notes of the index that an expression finds."""
    return Statement(f"SELECT {_COUNT}", (in_scope(query, expression),))


def titled(query: Query) -> Statement:
    """Build what finds the notes (pk) whose title is what was typed, in the order of the query."""
    filters, _ = filters_of(query, strict_conditions(query))
    columns = f"m.pk AS pk, m.{SORTS[query.sort_by]} AS sorted"
    found = _select(columns, Statement(_TITLED, (title_key(typed_words(query)),)), filters)
    return Statement(f"{found.sql} ORDER BY {order_of(query)}", found.parameters)


def ranking(query: Query, plan: Plan, sought: Sequence[Sought], *, notes: int) -> Statement:
    """Build what finds the planned notes, best first.

    The columns are pk, the numbers of its pieces as bits, and whether its title has all words.
    """
    arms = list(_arms(query, plan, sought, notes))
    union = " UNION ALL ".join(arm.sql for arm in arms)
    held = sum(1 << number for number in plan.held)
    return Statement(
        f"SELECT pk, {held} + sum(piece), max(grade) >= {_ALL_IN_TITLE} FROM ({union}) GROUP BY pk "  # noqa: S608 - constants only
        f"ORDER BY max(grade) DESC, sum(score), {order_of(query)}",
        tuple(value for arm in arms for value in arm.parameters),
    )


def _arms(query: Query, plan: Plan, sought: Sequence[Sought], notes: int) -> Iterator[Statement]:
    filters, _ = filters_of(query, strict_conditions(query))
    columns = f"m.pk AS pk, m.{SORTS[query.sort_by]} AS sorted"
    alone = len(sought) == 1

    def arm(piece: int, score: str, grade: int, source: str, *values: Parameter) -> Statement:
        shown = f"{columns}, {piece} AS piece, {score} AS score, {grade} AS grade"
        return _select(shown, Statement(source, values), filters)

    def grade(piece: Piece) -> int:
        return _WHOLE if alone and piece.kind is Kind.WHOLE else 0

    for number, piece in plan.scored:
        score = f"{_BM25} * {WEIGHTS[piece.kind]}"
        expression = in_scope(query, piece.expression)
        yield arm(1 << number, score, grade(piece), _MATCH, expression)
    if plan.held and plan.newest:
        newest = _newest(query, in_scope(query, plan.base))
        shown = "pk, sorted, 0 AS piece, 0 AS score, 0 AS grade"
        yield Statement(f"SELECT {shown} FROM ({newest.sql})", newest.parameters)  # noqa: S608 - constants only
    elif plan.held:
        yield arm(0, _BM25, grade(sought[0].whole), _MATCH, in_scope(query, plan.base))
    for number, piece in plan.added:
        score = f"{-_rarity(piece, notes) * WEIGHTS[piece.kind]:.4f}"
        expression = f"({plan.base} AND {piece.expression})"
        yield arm(1 << number, score, 0, _MATCH, in_scope(query, expression))
    wholes = [one.whole.expression for one in sought]
    if all(one.notes for one in sought):
        yield arm(0, "0", _ALL_IN_TITLE, _MATCH, in_heading(wholes))
    yield arm(0, "0", _IS_TITLE, _TITLED, title_key(typed_words(query)))


def _newest(query: Query, expression: str) -> Statement:
    """Select the newest notes that an expression finds; the index in their order is walked until there are enough."""
    filters, _ = filters_of(query, strict_conditions(query))
    columns = f"m.pk AS pk, m.{SORTS[query.sort_by]} AS sorted"
    source = f"notes AS m INDEXED BY {IN_ORDER[query.sort_by]} WHERE {MATCHED}"
    found = _select(columns, Statement(source, (expression,)), filters)
    return Statement(
        f"{found.sql} ORDER BY {order_of(query)} LIMIT {MOST_RANKED}", found.parameters
    )


def _rarity(piece: Piece, notes: int) -> float:
    """Return what bm25 gives a word that occurs once in a note of common length."""
    return max(math.log((notes - piece.notes + 0.5) / (piece.notes + 0.5)), 1e-6)


def _select(columns: str, source: Statement, filters: Sequence[Statement]) -> Statement:
    clauses = "".join(f" AND {one.sql}" for one in filters)
    values = tuple(value for one in filters for value in one.parameters)
    return Statement(
        f"SELECT {columns} FROM {source.sql}{clauses}",  # noqa: S608 - constants only
        (*source.parameters, *values),
    )
