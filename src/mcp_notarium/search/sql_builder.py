"""Build the SQL of a query. Runs nothing.

It composes its own constants only: what a person typed goes into parameters.

The wide table ``notes`` is read only for the rows of one page. The narrow indexes ``notes_listing``,
``notes_meta``, ``note_tags(key, pk)`` and ``notes_fts`` decide which rows these are. ``INDEXED BY``
makes SQLite refuse a statement rather than scan the wide table. The one exception are terms without
a letter, digit or picture (``++``), which no index has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_notarium.search.fts_expression import Expansions, plain_words, split
from mcp_notarium.search.query import And, Condition, Query, Word
from mcp_notarium.search.sql_conditions import (
    MATCHED,
    MATCHED_NOTES,
    TRASH,
    Clauses,
    Parameter,
    Statement,
    both,
    conditions_of,
    dated,
    metadata,
    narrowing,
)

KEPT = {
    "active": Statement("SELECT active FROM note_counts"),
    "trashed": Statement("SELECT trashed FROM note_counts"),
    "any": Statement("SELECT active + trashed FROM note_counts"),
}
"""Numbers of notes that triggers keep, by ``Query.trash``."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Hold the SQL for one page of notes, and for the number of notes on all pages.

    ``rows`` gives the columns pk, id, local_version, server_version, modified_at, created_at,
    trash, pinned, tags, head, total_lines. ``count`` gives one number. ``unranked`` gives the same
    columns in the order of a listing; None where the page is never read without ranking.
    """

    rows: Statement
    count: Statement
    unranked: Statement | None = None


_COLUMNS = (
    "n.pk, n.id, n.local_version, n.server_version, n.modified_at, n.created_at, n.trash, "
    "n.pinned, n.tags, coalesce(n.head, n.text) AS head, n.total_lines"
)
_SORTS = {"modified_at": "modified_at", "created_at": "created_at"}
_IN_ORDER = {"modified_at": "notes_listing", "created_at": "notes_created"}
_ORDERS = {"ASC": "ASC", "DESC": "DESC"}


def build(
    query: Query, *, limit: int, offset: int = 0, expansions: Expansions | None = None
) -> Statements:
    """Build the statements for one page of ``limit`` notes after the first ``offset``.

    ``expansions`` replaces words (those of ``words_of``) by index terms, any of which will do.
    """
    expression, rest = _terms(query.terms, expansions or {})
    conditions = conditions_of(query, rest)
    narrow = narrowing(conditions, expansions or {})
    if expression is None:
        page = _listing(query, narrow, limit=limit, offset=offset)
        return Statements(page, _listing_count(query, narrow))
    page = _search(query, expression, narrow, limit=limit, offset=offset)
    count = _search_count(query, expression, narrow)
    if not isinstance(query.terms, Word) or narrow.tagged:
        return Statements(page, count)
    found = Clauses([f"m.pk IN (SELECT rowid {MATCHED})", *narrow.parts])
    found.parameters = [expression, *narrow.parameters]
    return Statements(page, count, _listing(query, found, limit=limit, offset=offset))


def words_of(query: Query) -> tuple[str, ...]:
    """Return the words of the query, as typed, each once: no phrases, prefixes, exclusions, grams."""
    return tuple(dict.fromkeys(plain_words(query.terms))) if query.terms else ()


def _terms(terms: Condition | None, expansions: Expansions) -> tuple[str | None, list[Condition]]:
    if terms is None:
        return None, []
    conditions = terms.conditions if isinstance(terms, And) else (terms,)
    return split(conditions, expansions)


def _listing(query: Query, narrow: Clauses, *, limit: int, offset: int) -> Statement:
    # The index in the order of creation does not know when a note was changed.
    in_order = query.sort_by != "created_at" or not dated(query)
    if in_order and not narrow.tagged:
        walks = [_walk(query, narrow, trash) for trash in TRASH[query.trash]]
    else:
        walks = [_notes(query, "notes_meta", metadata(query), narrow)]
    return _one_page(query, walks, limit=limit, offset=offset)


def _walk(query: Query, narrow: Clauses, trash: int) -> Statement:
    """Select the notes in or out of the trash, which one index has in their order."""
    clauses = metadata(query, trash=(trash,))
    return _notes(query, _IN_ORDER[query.sort_by], clauses, narrow)


def _notes(query: Query, index: str, clauses: Clauses, narrow: Clauses) -> Statement:
    return Statement(
        f"SELECT m.pk AS pk, m.{_SORTS[query.sort_by]} AS sorted "  # noqa: S608  # constants
        f"FROM notes AS m INDEXED BY {index}{both(clauses, narrow)}",
        (*clauses.parameters, *narrow.parameters),
    )


def _one_page(query: Query, walks: Sequence[Statement], *, limit: int, offset: int) -> Statement:
    """Select a page of several walks together; SQLite merges them if each is in order."""
    page = " UNION ALL ".join(walk.sql for walk in walks)
    parameters = [value for walk in walks for value in walk.parameters]
    order = _order(query).replace("m.pk", "pk")
    return _with_rows(
        f"{page} ORDER BY {order} LIMIT ? OFFSET ?", _order(query), (*parameters, limit, offset)
    )


def _search(
    query: Query, expression: str, narrow: Clauses, *, limit: int, offset: int
) -> Statement:
    clauses = metadata(query)
    order = f"rank, {_order(query)}"
    page = (
        f"SELECT m.pk AS pk, f.rank AS rank, m.{_SORTS[query.sort_by]} AS sorted "  # noqa: S608  # constants
        f"FROM {MATCHED_NOTES}{both(clauses, narrow, ' AND ')} "
        f"ORDER BY {order} LIMIT ? OFFSET ?"
    )
    parameters = (expression, *clauses.parameters, *narrow.parameters, limit, offset)
    return _with_rows(page, order, parameters)


def _listing_count(query: Query, narrow: Clauses) -> Statement:
    """Count what the conditions find where no word is looked for."""
    if not narrow.parts and not dated(query):
        return KEPT[query.trash]
    index = "notes_meta" if narrow.parts else "notes_listing"
    clauses = metadata(query)
    return Statement(
        f"SELECT count(*) FROM notes AS m INDEXED BY {index}{both(clauses, narrow)}",  # noqa: S608  # constants
        (*clauses.parameters, *narrow.parameters),
    )


def _search_count(query: Query, expression: str, narrow: Clauses) -> Statement:
    """Count what ``expression`` and the conditions find."""
    clauses = metadata(query)
    return Statement(
        f"SELECT count(*) FROM {MATCHED_NOTES}{both(clauses, narrow, ' AND ')}",  # noqa: S608  # constants
        (expression, *clauses.parameters, *narrow.parameters),
    )


def _with_rows(page: str, order: str, parameters: tuple[Parameter, ...]) -> Statement:
    """Select the wide rows of a page of ``pk``, ``sorted`` and perhaps ``rank``, in its order."""
    return Statement(
        f"WITH page AS MATERIALIZED ({page}) SELECT {_COLUMNS} FROM page "  # noqa: S608  # constants
        f"CROSS JOIN notes AS n ON n.pk = page.pk ORDER BY {order.replace('m.pk', 'page.pk')}",
        parameters,
    )


def _order(query: Query) -> str:
    """Return the sort; equals follow by pk, so that the order is always the same.

    Ascending is exactly descending read backwards, so one index serves both.
    """
    ties = "ASC" if query.sort_order == "DESC" else "DESC"
    return f"sorted {_ORDERS[query.sort_order]}, m.pk {ties}"
