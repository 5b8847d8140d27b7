"""Turn a Query into SQL for the cache's tables; runs nothing.

Composes its own constants only: what a person typed goes into parameters.

The wide table ``notes`` is read for the rows of one page and nothing else: which rows these are
is decided on the narrow indexes ``notes_listing``, ``notes_meta``, ``note_tags(key, pk)`` and on
``notes_fts``. ``INDEXED BY`` makes SQLite refuse rather than scan the wide table one day. The one
exception are terms without a letter, digit or picture (``++``), which no index knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mcp_notarium.query.fold import tag_key
from mcp_notarium.query.match import Expansions, match_of, plain_words, split
from mcp_notarium.query.model import And, Condition, Not, Or, Phrase, Query, Tagged, Word

Parameter = str | int


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text and the values for its question marks."""

    sql: str
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Statements:
    """What finds one page of notes, and how many there are on all pages.

    ``rows`` gives the columns pk, id, local_version, server_version, modified_at, created_at,
    trash, pinned, tags, head, total_lines. ``count`` gives one number; None says that only
    ``trash`` decides, so that the kept counts are the answer.
    """

    rows: Statement
    count: Statement | None


_COLUMNS = (
    "n.pk, n.id, n.local_version, n.server_version, n.modified_at, n.created_at, n.trash, "
    "n.pinned, n.tags, coalesce(n.head, n.text) AS head, n.total_lines"
)
_TRASHED = "SELECT pk FROM notes INDEXED BY notes_listing WHERE trash = 1"
_TAGGED = "SELECT pk FROM note_tags WHERE key"
_MATCHED = "FROM notes_fts WHERE notes_fts MATCH ?"
_MATCHED_NOTES = (
    "notes_fts AS f CROSS JOIN notes AS m INDEXED BY notes_meta ON m.pk = f.rowid "
    "WHERE notes_fts MATCH ?"
)
_SORTS = {"modified_at": "modified_at", "created_at": "created_at"}
_IN_ORDER = {"modified_at": "notes_listing", "created_at": "notes_created"}
_ORDERS = {"ASC": "ASC", "DESC": "DESC"}
_LITERAL = "instr((SELECT wide.text FROM notes AS wide WHERE wide.pk = m.pk), ?) > 0"


@dataclass(slots=True)
class _Clauses:
    """Conditions on ``m.pk`` joined by AND, with their parameters in order.

    ``selective``: one of them names the few notes that are possible at all.
    """

    parts: list[str] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    selective: bool = False

    def add(self, sql: str, *parameters: Parameter) -> None:
        self.parts.append(sql)
        self.parameters += parameters

    def where(self, prefix: str = " WHERE ") -> str:
        return prefix + " AND ".join(self.parts) if self.parts else ""


def build(
    query: Query, *, limit: int, offset: int = 0, expansions: Expansions | None = None
) -> Statements:
    """The statements for one page of ``limit`` notes after the first ``offset``, and their number.

    ``expansions`` replaces words (those of ``words_of``) by index terms, any of which will do.
    """
    expression, rest = _terms(query.terms, expansions or {})
    narrow = _narrowing(query, rest, expansions or {})
    if expression is None:
        return Statements(
            rows=_listing(query, narrow, limit=limit, offset=offset),
            count=_listing_count(query, narrow),
        )
    return Statements(
        rows=_search(query, expression, narrow, limit=limit, offset=offset),
        count=_search_count(query, expression, narrow),
    )


def words_of(query: Query) -> tuple[str, ...]:
    """The words asked for, as typed, each once: no phrases, prefixes, exclusions, grams."""
    return tuple(dict.fromkeys(plain_words(query.terms))) if query.terms else ()


def _terms(terms: Condition | None, expansions: Expansions) -> tuple[str | None, list[Condition]]:
    if terms is None:
        return None, []
    conditions = terms.conditions if isinstance(terms, And) else (terms,)
    return split(conditions, expansions)


def _narrowing(query: Query, rest: Sequence[Condition], expansions: Expansions) -> _Clauses:
    """Tags and what full-text search could not say; cheap conditions first."""
    clauses = _Clauses()
    if query.any_tags:
        rest = (_any_of(query.any_tags), *rest)
    conditions = [*map(Tagged, query.tags), *rest]
    if query.excluded_tags:
        conditions.append(Not(_any_of(query.excluded_tags)))
    for condition in sorted(conditions, key=_reads_text):
        parameters: list[Parameter] = []
        clauses.add(_expression(condition, expansions, parameters), *parameters)
        clauses.selective = clauses.selective or _tags_of(condition) is not None
    return clauses


def _any_of(tags: Sequence[str]) -> Condition:
    return Or(tuple(map(Tagged, tags)))


def _reads_text(condition: Condition) -> bool:
    """Whether the wide table may be read for this; such conditions come last."""
    match condition:
        case Not(inner):
            return _reads_text(inner)
        case And(conditions) | Or(conditions):
            return any(map(_reads_text, conditions))
        case Word() | Phrase():
            return match_of(condition, {}) is None
        case Tagged():
            return False


def _tags_of(condition: Condition) -> list[str] | None:
    """The keys, if the condition is one tag or a choice of tags."""
    match condition:
        case Tagged(tag):
            return [tag_key(tag)]
        case Or(conditions):
            keys = [tag_key(item.tag) for item in conditions if isinstance(item, Tagged)]
            return list(dict.fromkeys(keys)) if len(keys) == len(conditions) else None
        case _:
            return None


def _expression(condition: Condition, expansions: Expansions, parameters: list[Parameter]) -> str:
    """The condition as a SQL expression on ``m.pk``; appends its parameters in order."""
    if expression := match_of(condition, expansions):
        parameters.append(expression)
        return f"m.pk IN (SELECT rowid {_MATCHED})"
    if keys := _tags_of(condition):
        parameters.extend(keys)
        return f"m.pk IN ({_TAGGED} IN ({', '.join('?' * len(keys))}))"
    match condition:
        case Not(inner):
            return f"NOT {_expression(inner, expansions, parameters)}"
        case And(conditions):
            return _nested(" AND ", conditions, expansions, parameters)
        case Or(conditions):
            return _nested(" OR ", conditions, expansions, parameters)
        case Word(text) | Phrase(text) | Tagged(text):
            parameters.append(text)
            return _LITERAL


def _nested(
    operator: str,
    conditions: Sequence[Condition],
    expansions: Expansions,
    parameters: list[Parameter],
) -> str:
    parts = [_expression(condition, expansions, parameters) for condition in conditions]
    return f"({operator.join(parts)})"


def _listing(query: Query, narrow: _Clauses, *, limit: int, offset: int) -> Statement:
    in_order = query.trash != "any" and not narrow.selective
    if query.sort_by == "created_at" and (query.before is not None or query.after is not None):
        in_order = False  # the index in that order does not know when a note was changed
    index = _IN_ORDER[query.sort_by] if in_order else "notes_meta"
    clauses = _metadata(query)
    page = (
        f"SELECT m.pk AS pk, m.{_SORTS[query.sort_by]} AS sorted "  # noqa: S608  # constants
        f"FROM notes AS m INDEXED BY {index}{_both(clauses, narrow)} "
        f"ORDER BY {_order(query)} LIMIT ? OFFSET ?"
    )
    parameters = (*clauses.parameters, *narrow.parameters, limit, offset)
    return _with_rows(page, _order(query), parameters)


def _listing_count(query: Query, narrow: _Clauses) -> Statement | None:
    if not narrow.parts and query.before is None and query.after is None:
        return None
    clauses = _metadata(query)
    index = "notes_meta" if narrow.parts else "notes_listing"
    return Statement(
        f"SELECT count(*) FROM notes AS m INDEXED BY {index}"  # noqa: S608  # constants
        f"{_both(clauses, narrow)}",
        (*clauses.parameters, *narrow.parameters),
    )


def _search(
    query: Query, expression: str, narrow: _Clauses, *, limit: int, offset: int
) -> Statement:
    clauses = _metadata(query)
    order = f"rank, {_order(query)}"
    page = (
        f"SELECT m.pk AS pk, f.rank AS rank, m.{_SORTS[query.sort_by]} AS sorted "  # noqa: S608  # constants
        f"FROM {_MATCHED_NOTES}{_both(clauses, narrow, ' AND ')} "
        f"ORDER BY {order} LIMIT ? OFFSET ?"
    )
    parameters = (expression, *clauses.parameters, *narrow.parameters, limit, offset)
    return _with_rows(page, order, parameters)


def _search_count(query: Query, expression: str, narrow: _Clauses) -> Statement:
    if query.before is None and query.after is None:
        clauses = _trash_by_pk(query)
        # The plus keeps SQLite from searching anew for each pk that a tag names.
        found = f"FROM (SELECT +rowid AS pk {_MATCHED}) AS m{_both(clauses, narrow)}"
    else:
        clauses = _metadata(query)
        found = f"FROM {_MATCHED_NOTES}{_both(clauses, narrow, ' AND ')}"
    parameters = (expression, *clauses.parameters, *narrow.parameters)
    return Statement(f"SELECT count(*) {found}", parameters)


def _with_rows(page: str, order: str, parameters: tuple[Parameter, ...]) -> Statement:
    """The wide rows of a page of ``pk``, ``sorted`` and perhaps ``rank``, in its order."""
    return Statement(
        f"WITH page AS MATERIALIZED ({page}) SELECT {_COLUMNS} FROM page "  # noqa: S608  # constants
        f"CROSS JOIN notes AS n ON n.pk = page.pk ORDER BY {order.replace('m.pk', 'page.pk')}",
        parameters,
    )


def _metadata(query: Query) -> _Clauses:
    """Trash and dates, as columns of the narrow indexes."""
    clauses = _Clauses()
    if query.trash != "any":
        clauses.add(f"m.trash = {int(query.trash == 'trashed')}")
    if query.after is not None:
        clauses.add("m.modified_at >= ?", query.after)
    if query.before is not None:
        clauses.add("m.modified_at < ?", query.before)
    return clauses


def _trash_by_pk(query: Query) -> _Clauses:
    """Trash for a count that needs no other column: few notes are in the trash."""
    clauses = _Clauses()
    if query.trash != "any":
        clauses.add(f"m.pk {'IN' if query.trash == 'trashed' else 'NOT IN'} ({_TRASHED})")
    return clauses


def _both(first: _Clauses, second: _Clauses, prefix: str = " WHERE ") -> str:
    return _Clauses(first.parts + second.parts).where(prefix)


def _order(query: Query) -> str:
    """The sort; equals follow by pk, so that the order is always the same.

    Ascending is exactly descending read backwards, so one index serves both.
    """
    ties = "ASC" if query.sort_order == "DESC" else "DESC"
    return f"sorted {_ORDERS[query.sort_order]}, m.pk {ties}"
