"""Turn a Query into SQL for the cache's tables; runs nothing.

Composes its own constants only: what a person typed goes into parameters.

The wide table ``notes`` is read for the rows of one page and nothing else: which rows these are
is decided on the narrow indexes ``notes_listing``, ``notes_meta``, ``note_tags(key, pk)`` and on
``notes_fts``. ``INDEXED BY`` makes SQLite refuse rather than scan the wide table one day. The one
exception are terms without a letter, digit or picture (``++``), which no index knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from mcp_notarium.search.sql_counts import (
    HITS,
    HITS_IN_TRASH,
    KEPT,
    all_but,
    listing_count,
    only_words,
    search_count,
    tagged_count,
)


@dataclass(frozen=True, slots=True)
class Place:
    """The note at ``offset`` of a listing: the time it is sorted by, in Unix epoch seconds, and its key."""

    offset: int
    sorted: int
    pk: int


@dataclass(frozen=True, slots=True)
class Statements:
    """What finds one page of notes, and how many there are on all pages.

    ``rows`` gives the columns pk, id, local_version, server_version, modified_at, created_at,
    trash, pinned, tags, head, total_lines. ``count`` gives one number; None says that only
    ``trash`` decides, so that ``KEPT`` is the answer. ``hits`` is there where ranking can be left out:
    it counts the notes that would be ranked, cheaply. Where there is ``hits_in_trash``, ``count`` is what
    ``hits`` has more than it. ``walked``: the page is reached along an index,
    so that one can begin at a place that is known. ``named``: the notes are some of those that tags name, which it
    counts, looked up one by one and sorted; ``build`` can have an index walked instead (``most_passed``). A
    page that is not full then is to be had by ``otherwise``.
    """

    rows: Statement
    count: Statement | None
    hits: Statement | None = None
    hits_in_trash: Statement | None = None
    walked: bool = False
    named: Statement | None = None
    otherwise: Statement | None = None


_COLUMNS = (
    "n.pk, n.id, n.local_version, n.server_version, n.modified_at, n.created_at, n.trash, "
    "n.pinned, n.tags, coalesce(n.head, n.text) AS head, n.total_lines"
)
_SORTS = {"modified_at": "modified_at", "created_at": "created_at"}
_IN_ORDER = {"modified_at": "notes_listing", "created_at": "notes_created"}
_ORDERS = {"ASC": "ASC", "DESC": "DESC"}


def build(
    query: Query,
    *,
    limit: int,
    offset: int = 0,
    expansions: Expansions | None = None,
    ranked: bool = True,
    from_end: bool = False,
    place: Place | None = None,
    most_passed: int | None = None,
) -> Statements:
    """The statements for one page of ``limit`` notes after the first ``offset``, and their number.

    ``expansions`` replaces words (those of ``words_of``) by index terms, any of which will do. Not
    ``ranked``: in the order of a listing. ``from_end``: where only ``trash`` decides, the index is
    walked from its other end to the same page. ``place``: one of this listing at or before ``offset``,
    from which it is walked where it is ``walked`` at all. ``most_passed``: where the notes are ``named``,
    the index is walked, past no more of all notes than these.
    """
    expression, rest = _terms(query.terms, expansions or {})
    conditions = conditions_of(query, rest)
    narrow = narrowing(conditions, expansions or {})
    if expression is None:
        count = all_but(query, conditions) or listing_count(query, narrow)
        if from_end and count is None:
            return Statements(_from_end(query, limit=limit, offset=offset), None, walked=True)
        return _listing(
            query, narrow, count, limit=limit, offset=offset, place=place, most_passed=most_passed
        )
    count = search_count(query, expression, narrow)
    if not ranked:
        found = Clauses([f"m.pk IN (SELECT rowid {MATCHED})", *narrow.parts])
        found.parameters = [expression, *narrow.parameters]
        return _listing(query, found, count, limit=limit, offset=offset, place=place)
    page = _search(query, expression, narrow, limit=limit, offset=offset)
    if not isinstance(query.terms, Word) or narrow.tagged:
        return Statements(page, count)
    plain = only_words(query, narrow)
    hits_in_trash = Statement(HITS_IN_TRASH, (expression,)) if plain else None
    return Statements(page, count, Statement(HITS, (expression,)), hits_in_trash)


def words_of(query: Query) -> tuple[str, ...]:
    """The words asked for, as typed, each once: no phrases, prefixes, exclusions, grams."""
    return tuple(dict.fromkeys(plain_words(query.terms))) if query.terms else ()


def _terms(terms: Condition | None, expansions: Expansions) -> tuple[str | None, list[Condition]]:
    if terms is None:
        return None, []
    conditions = terms.conditions if isinstance(terms, And) else (terms,)
    return split(conditions, expansions)


def _listing(
    query: Query,
    narrow: Clauses,
    count: Statement | None,
    *,
    limit: int,
    offset: int,
    place: Place | None,
    most_passed: int | None = None,
) -> Statements:
    # The index in the order of creation does not know when a note was changed.
    in_order = query.sort_by != "created_at" or not dated(query)
    ahead = offset - (place.offset if place else 0)
    if in_order and not narrow.tagged:
        walks = [_walk(query, narrow, trash, place) for trash in TRASH[query.trash]]
        return Statements(_one_page(query, walks, limit=limit, offset=ahead), count, walked=True)
    looked_up = _notes(query, "notes_meta", metadata(query), narrow)
    found = _one_page(query, [looked_up], limit=limit, offset=offset)
    walkable = narrow.tagged and in_order and query.trash != "any"
    if not walkable or most_passed is None:
        return Statements(found, count, named=tagged_count(narrow) if walkable else None)
    some = _walk_some(query, narrow, place, most_passed)
    walked = _one_page(query, [some], limit=limit, offset=ahead)
    return Statements(walked, count, walked=True, otherwise=found)


def _walk(query: Query, narrow: Clauses, trash: int, place: Place | None = None) -> Statement:
    """The notes in or out of the trash, from ``place`` on, which one index has in their order."""
    clauses = metadata(query, trash=(trash,))
    if place is not None:
        column = f"m.{_SORTS[query.sort_by]}"
        onwards, before = ("<=", "<") if query.sort_order == "DESC" else (">=", ">")
        clauses.add(f"{column} {onwards} ?", place.sorted)
        clauses.add(f"NOT ({column} = ? AND m.pk {before} ?)", place.sorted, place.pk)
    return _notes(query, _IN_ORDER[query.sort_by], clauses, narrow)


def _walk_some(query: Query, narrow: Clauses, place: Place | None, most: int) -> Statement:
    """Those of the next ``most`` notes along the index that the narrow conditions mean."""
    passed = _walk(query, Clauses(), TRASH[query.trash][0], place)
    return Statement(
        f"SELECT m.pk AS pk, m.sorted AS sorted "  # noqa: S608  # constants
        f"FROM ({passed.sql} ORDER BY {_order(query)} LIMIT ?) AS m{narrow.where()}",
        (*passed.parameters, most, *narrow.parameters),
    )


def _notes(query: Query, index: str, clauses: Clauses, narrow: Clauses) -> Statement:
    return Statement(
        f"SELECT m.pk AS pk, m.{_SORTS[query.sort_by]} AS sorted "  # noqa: S608  # constants
        f"FROM notes AS m INDEXED BY {index}{both(clauses, narrow)}",
        (*clauses.parameters, *narrow.parameters),
    )


def _one_page(query: Query, walks: Sequence[Statement], *, limit: int, offset: int) -> Statement:
    """A page of several walks together; SQLite merges them if each is in order."""
    page = " UNION ALL ".join(walk.sql for walk in walks)
    parameters = [value for walk in walks for value in walk.parameters]
    order = _order(query).replace("m.pk", "pk")
    return _with_rows(
        f"{page} ORDER BY {order} LIMIT ? OFFSET ?", _order(query), (*parameters, limit, offset)
    )


def _from_end(query: Query, *, limit: int, offset: int) -> Statement:
    """The same page, the index walked backwards; how far is told by the kept count, at that moment."""
    backwards = replace(query, sort_order="ASC" if query.sort_order == "DESC" else "DESC")
    walks = [_walk(query, Clauses(), trash) for trash in TRASH[query.trash]]
    page = " UNION ALL ".join(walk.sql for walk in walks)
    left = f"(({KEPT[query.trash]}) - ?)"
    return _with_rows(
        f"{page} ORDER BY {_order(backwards).replace('m.pk', 'pk')} "
        f"LIMIT max(0, min(?, {left})) OFFSET max(0, {left} - ?)",
        _order(query),
        (limit, offset, offset, limit),
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


def _with_rows(page: str, order: str, parameters: tuple[Parameter, ...]) -> Statement:
    """The wide rows of a page of ``pk``, ``sorted`` and perhaps ``rank``, in its order."""
    return Statement(
        f"WITH page AS MATERIALIZED ({page}) SELECT {_COLUMNS} FROM page "  # noqa: S608  # constants
        f"CROSS JOIN notes AS n ON n.pk = page.pk ORDER BY {order.replace('m.pk', 'page.pk')}",
        parameters,
    )


def _order(query: Query) -> str:
    """The sort; equals follow by pk, so that the order is always the same.

    Ascending is exactly descending read backwards, so one index serves both.
    """
    ties = "ASC" if query.sort_order == "DESC" else "DESC"
    return f"sorted {_ORDERS[query.sort_order]}, m.pk {ties}"
