"""Build the SQL of a query. Runs nothing.

It composes its own constants only: what a person typed goes into parameters.

The wide table ``notes`` is read only for the rows of one page. The narrow indexes ``notes_listing``, ``notes_meta``,
``note_tags(key, pk)``, ``note_names(kind, key, pk)`` and ``notes_fts`` decide which rows these are. ``INDEXED BY``
makes SQLite refuse a statement rather than scan the wide table. The one exception are terms without
a letter, digit or picture (``++``), which no index has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mcp_notarium.domain.characters import path_key, tag_key
from mcp_notarium.search.fts_expression import build_match, plain_words, split, without_tags
from mcp_notarium.search.property_filter import value_key
from mcp_notarium.search.query import (
    And,
    Condition,
    HasProperty,
    HasTags,
    HasTask,
    InFolder,
    Narrow,
    Not,
    Or,
    Phrase,
    Query,
    Ranked,
    Tagged,
    Word,
)

Parameter = str | int | float


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold SQL text, or a part of one, and the values for its question marks."""

    sql: str
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Statements:
    """Hold the SQL for one page of notes, and for the number of notes on all pages."""

    rows: Statement
    """Gives the columns id, local_version, modified_at, trash, tags, title, head, properties, pk; the best match first."""
    count: Statement
    """Gives one number."""


_KEPT_COUNTS = {
    "active": Statement("SELECT active FROM note_counts"),
    "trashed": Statement("SELECT trashed FROM note_counts"),
    "any": Statement("SELECT active + trashed FROM note_counts"),
}
"""Numbers of notes that triggers keep, by ``Query.trash``."""
_TRASH = {"active": (0,), "trashed": (1,), "any": (0, 1)}
SORTS = {"modified_at": "modified_at", "created_at": "created_at"}
IN_ORDER = {"modified_at": "notes_listing", "created_at": "notes_created"}
_ORDERS = {"ASC": "ASC", "DESC": "DESC"}
_TAGGED = "m.pk IN (SELECT pk FROM note_tags WHERE"
_TAG = "key = ? OR (key > ? AND key < ?)"
"""A tag, and those that are nested in it: ``a/b`` in ``a``."""
_IN_FOLDER = (
    "m.pk IN (SELECT pk FROM note_names WHERE kind = 'path' AND (key = ? OR (key > ? AND key < ?)))"
)
MATCHED = "m.pk IN (SELECT rowid FROM notes_fts WHERE notes_fts MATCH ?)"
_FOUND = "notes_fts AS f CROSS JOIN notes AS m INDEXED BY notes_meta ON m.pk = f.rowid"
MATCHES = "(SELECT count(*) FROM notes_fts WHERE notes_fts MATCH ?)"
_TRASHED_MATCHES = (
    f"(SELECT count(*) FROM notes AS m INDEXED BY notes_listing WHERE m.trash = 1 AND {MATCHED})"  # noqa: S608 - constants only
)
_MATCH_COUNTS = {
    "active": f"SELECT {MATCHES} - {_TRASHED_MATCHES}",
    "trashed": f"SELECT {_TRASHED_MATCHES}",
    "any": f"SELECT {MATCHES}",
}
"""Numbers of notes that full-text search finds, by ``Query.trash``: eight times as fast as asking each
note whether it is in the trash (10,000 hits of 50,000 notes)."""
_LITERAL = (
    "instr((SELECT coalesce(wide.title || char(10), char(10)) || wide.text FROM notes AS wide "
    "WHERE wide.pk = m.pk), ?) > 0"
)


def build(query: Query, *, limit: int, offset: int = 0) -> Statements:
    """Build the statements for one page of ``limit`` notes after the first ``offset``.

    Bare words are any of them here; ``ranking_sql.py`` ranks by them.
    """
    terms = query.terms.conditions if isinstance(query.terms, And) else (query.terms,)
    typed = [term for term in terms if term]
    expression, rest = split(typed) if typed else (None, [])
    conditions = sorted(_conditions(query, rest), key=_reads_text)
    narrow = [_clause(condition, query) for condition in conditions]
    if expression is None:
        few = any(map(_is_narrow, conditions))
        found = _listing(query, narrow, few=few)
        rows = _page(found, order_of(query), limit, offset)
        return Statements(rows, _listing_count(query, narrow))
    expression = in_scope(query, expression)
    return Statements(
        _rank(query, expression, narrow, limit, offset), count_of(query, expression, narrow)
    )


def count_of(query: Query, expression: str, narrow: Sequence[Statement]) -> Statement:
    """Count the notes within the limits that an expression finds; ``narrow``: clauses besides dates and trash."""
    if not narrow and not _has_dates(query):
        sql = _MATCH_COUNTS[query.trash]
        return Statement(sql, (expression,) * sql.count("?"))
    clauses = [*_metadata(query, _TRASH[query.trash]), *narrow]
    return select("count(*)", [*matched(expression), *clauses])


def build_newest(
    query: Query,
    expression: str,
    strict: Sequence[Condition],
    *,
    without: Sequence[int],
    limit: int,
    offset: int,
) -> tuple[Statement, Statement]:
    """Build what lists the notes (pk) that an expression finds by the sort alone, ``without`` some, and counts all of them."""
    conditions = sorted(_conditions(query, strict), key=_reads_text)
    narrow = [_clause(condition, query) for condition in conditions]
    few = any(map(_is_narrow, conditions))
    expression = in_scope(query, expression)
    found = [Statement(MATCHED, (expression,)), *narrow]
    if without:
        found.append(Statement(f"m.pk NOT IN ({', '.join('?' * len(without))})", tuple(without)))
    listed = _listing(query, found, few=few)
    return (
        _cut(listed, order_of(query), limit, offset),
        count_of(query, expression, narrow),
    )


def build_some(query: Query, expression: str, *, most: int) -> Statement:
    """Build what counts the notes within the limits that an expression finds, up to ``most``, and names two (pk)."""
    filters, _ = filters_of(query, ())
    found = select("m.pk", [*matched(in_scope(query, expression)), *filters])
    return Statement(
        f"SELECT count(*), max(pk), min(pk) FROM ({found.sql} LIMIT ?)",  # noqa: S608 - constants only
        (*found.parameters, most),
    )


def filters_of(query: Query, strict: Sequence[Condition]) -> tuple[list[Statement], bool]:
    """Return the clauses of everything but the bare words, and whether they leave out more than the trash."""
    narrow = [
        _clause(condition, query)
        for condition in sorted(_conditions(query, strict), key=_reads_text)
    ]
    filtered = bool(narrow) or _has_dates(query) or query.trash == "trashed"
    return [*_metadata(query, _TRASH[query.trash]), *narrow], filtered


def in_scope(query: Query, expression: str) -> str:
    """Narrow an expression to where the query may look."""
    return expression if query.in_tags else without_tags(expression)


def words_of(query: Query) -> tuple[str, ...]:
    """Return the words of the query, as typed, each once: no phrases, prefixes, exclusions, grams."""
    return tuple(dict.fromkeys(plain_words(query.terms))) if query.terms else ()


def _conditions(query: Query, rest: Sequence[Condition]) -> list[Condition]:
    """Return the conditions on tags and folders, and those that full-text search cannot express."""
    conditions = [*map(Tagged, query.tags), *map(InFolder, query.folders), *rest]
    if query.excluded_tags:
        conditions.append(Not(Or(tuple(map(Tagged, query.excluded_tags)))))
    conditions += (Not(InFolder(folder)) for folder in query.excluded_folders)
    return conditions


def _reads_text(condition: Condition) -> bool:
    """Tell whether the condition may read the wide table; such conditions come last."""
    match condition:
        case Not(inner):
            return _reads_text(inner)
        case And(conditions) | Or(conditions):
            return any(map(_reads_text, conditions))
        case Ranked(words):
            return not any(build_match(word) for word in words)
        case Word() | Phrase():
            return build_match(condition) is None
        case Tagged() | InFolder() | HasProperty() | HasTags() | HasTask():
            return False


def _tags_of(condition: Condition) -> list[str] | None:
    match condition:
        case Tagged(tag):
            return [tag_key(tag)]
        case Or(conditions):
            keys = [tag_key(item.tag) for item in conditions if isinstance(item, Tagged)]
            return list(dict.fromkeys(keys)) if len(keys) == len(conditions) else None
        case _:
            return None


def _is_narrow(condition: Condition) -> bool:
    """Tell whether an index of its own finds the notes of the condition."""
    return isinstance(condition, Narrow) or _tags_of(condition) is not None


def _clause(condition: Condition, query: Query) -> Statement:
    if expression := build_match(condition):
        return Statement(MATCHED, (in_scope(query, expression),))
    if keys := _tags_of(condition):
        places = tuple(place for key in keys for place in (key, f"{key}/", f"{key}0"))
        return Statement(f"{_TAGGED} {' OR '.join([_TAG] * len(keys))})", places)
    match condition:
        case InFolder() | HasProperty() | HasTags() | HasTask():
            return _narrow_clause(condition)
        case Not(inner):
            clause = _clause(inner, query)
            return Statement(f"NOT {clause.sql}", clause.parameters)
        case Ranked(conditions) | And(conditions) | Or(conditions):
            operator = " AND " if isinstance(condition, And) else " OR "
            clauses = [_clause(item, query) for item in conditions]
            sql = operator.join(clause.sql for clause in clauses)
            return Statement(f"({sql})", _parameters(clauses))
        case Word(text) | Phrase(text) | Tagged(text):
            return Statement(_LITERAL, (text,))


def _narrow_clause(condition: Narrow) -> Statement:
    if isinstance(condition, HasTags):
        return Statement("m.pk IN (SELECT pk FROM note_tags)")
    if isinstance(condition, HasTask):
        task = _task_clause(condition)
        return Statement(
            f"m.pk IN (SELECT t.pk FROM note_tasks AS t WHERE {task.sql})",  # noqa: S608 - constants only
            task.parameters,
        )
    if isinstance(condition, InFolder):
        key = path_key(condition.path)
        return Statement(_IN_FOLDER, (key, f"{key}/", f"{key}0"))
    ways: list[Statement] = []
    if condition.value is not None:
        ways.append(Statement("value_key = ?", (value_key(condition.value),)))
    for kind, bounds in (("kind <> 'date'", condition.numbers), ("kind = 'date'", condition.dates)):
        if bounds is not None:
            ends = [("number >= ?", bounds.least), ("number < ?", bounds.below)]
            given = [(sql, end) for sql, end in ends if end is not None]
            sql = " AND ".join([kind, *(sql for sql, _ in given)])
            ways.append(Statement(f"({sql})", tuple(end for _, end in given)))
    either = f" AND ({' OR '.join(way.sql for way in ways)})" if ways else ""
    return Statement(
        f"m.pk IN (SELECT pk FROM note_properties WHERE key = ?{either})",  # noqa: S608 - constants only
        (tag_key(condition.name), *_parameters(ways)),
    )


def build_tasks(note_ids: Sequence[str], wanted: Sequence[HasTask]) -> Statement:
    """Build what lists the tasks of these notes that any of the conditions means, by note and line."""
    clauses = [_task_clause(one) for one in wanted]
    return Statement(
        f"{_TASKS} AND ({' OR '.join(one.sql for one in clauses)}) ORDER BY t.pk, t.line",
        (json.dumps(list(note_ids)), *_parameters(clauses)),
    )


_TASKS = """
SELECT n.id, t.line, t.words, t.state, t.due, t.scheduled
FROM json_each(?) AS wanted CROSS JOIN notes n ON n.id = wanted.value
CROSS JOIN note_tasks AS t ON t.pk = n.pk
WHERE 1
"""


def _task_clause(condition: HasTask) -> Statement:
    ways: list[tuple[str, Parameter | None]] = [
        ("t.is_open = ?", None if condition.is_open is None else int(condition.is_open)),
        ("t.state = ?", condition.state),
    ]
    for column, bounds in (("due", condition.due), ("scheduled", condition.scheduled)):
        if bounds is not None:
            ways += [(f"t.{column} >= ?", bounds.least), (f"t.{column} < ?", bounds.below)]
    given = [(sql, value) for sql, value in ways if value is not None]
    sql = " AND ".join(sql for sql, _ in given) or "1"
    return Statement(f"({sql})", tuple(value for _, value in given))


def _metadata(query: Query, trash: Sequence[int]) -> list[Statement]:
    clauses = [Statement(f"m.trash = {trash[0]}")] if len(trash) == 1 else []
    if query.after is not None:
        clauses.append(Statement("m.modified_at >= ?", (query.after,)))
    if query.before is not None:
        clauses.append(Statement("m.modified_at < ?", (query.before,)))
    if query.created_after is not None:
        clauses.append(Statement("m.created_at >= ?", (query.created_after,)))
    if query.created_before is not None:
        clauses.append(Statement("m.created_at < ?", (query.created_before,)))
    return clauses


def _has_dates(query: Query) -> bool:
    return (query.before, query.after) != (None, None) or _has_created(query)


def _has_created(query: Query) -> bool:
    return (query.created_before, query.created_after) != (None, None)


def _listing(query: Query, narrow: Sequence[Statement], *, few: bool) -> Statement:
    """Select what is sorted by the order of the query; SQLite merges both sides of the trash."""
    sides: list[tuple[int, ...]] = [(trash,) for trash in _TRASH[query.trash]]
    index = IN_ORDER[query.sort_by]
    if few or (_has_dates(query) and (index == "notes_created" or _has_created(query))):
        # A tag or folder names few notes; the indexes in an order know one time of a note.
        sides, index = [_TRASH[query.trash]], "notes_meta"
    columns = f"m.pk AS pk, m.{SORTS[query.sort_by]} AS sorted"
    notes = Statement(f"notes AS m INDEXED BY {index}")
    walks = [select(columns, [notes, *_metadata(query, side), *narrow]) for side in sides]
    return Statement(" UNION ALL ".join(walk.sql for walk in walks), _parameters(walks))


def _rank(
    query: Query, expression: str, narrow: Sequence[Statement], limit: int, offset: int
) -> Statement:
    columns = f"m.pk AS pk, f.rank AS rank, m.{SORTS[query.sort_by]} AS sorted"
    clauses = [*_metadata(query, _TRASH[query.trash]), *narrow]
    found = select(columns, [*matched(expression), *clauses])
    return _page(found, f"rank, {order_of(query)}", limit, offset)


def _listing_count(query: Query, narrow: Sequence[Statement]) -> Statement:
    if not narrow and not _has_dates(query):
        return _KEPT_COUNTS[query.trash]
    index = "notes_meta" if narrow or _has_created(query) else "notes_listing"
    notes = Statement(f"notes AS m INDEXED BY {index}")
    return select("count(*)", [notes, *_metadata(query, _TRASH[query.trash]), *narrow])


def matched(expression: str) -> list[Statement]:
    """Return the source and the clause for the notes that an expression finds."""
    return [Statement(_FOUND), Statement("notes_fts MATCH ?", (expression,))]


def select(columns: str, parts: Sequence[Statement]) -> Statement:
    """Select from the first part under the other ones."""
    source, *clauses = (part.sql for part in parts)
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    return Statement(f"SELECT {columns} FROM {source}{where}", _parameters(parts))  # noqa: S608 - constants only


def _page(found: Statement, order: str, limit: int, offset: int) -> Statement:
    """Select the wide rows of one page of what was found: ``pk``, ``sorted``, perhaps ``rank``."""
    return wide_rows(_cut(found, order, limit, offset), order)


def _cut(found: Statement, order: str, limit: int, offset: int) -> Statement:
    sql = f"{found.sql} ORDER BY {order} LIMIT ? OFFSET ?"
    return Statement(sql, (*found.parameters, limit, offset))


def wide_rows(page: Statement, order: str) -> Statement:
    """Select the wide rows of a page in its order."""
    sql = (
        f"WITH page AS MATERIALIZED ({page.sql}) "  # noqa: S608 - constants only
        "SELECT n.id, n.local_version, n.modified_at, n.trash, n.tags, n.title, n.head, "
        "n.properties, n.pk AS pk "
        f"FROM page CROSS JOIN notes AS n ON n.pk = page.pk ORDER BY {order}"
    )
    return Statement(sql, page.parameters)


def _parameters(parts: Iterable[Statement]) -> tuple[Parameter, ...]:
    return tuple(value for part in parts for value in part.parameters)


def order_of(query: Query) -> str:
    """Return the sort; equals follow by pk, so that the order is always the same.

    Ascending is exactly descending read backwards, so one index serves both.
    """
    ties = "ASC" if query.sort_order == "DESC" else "DESC"
    return f"sorted {_ORDERS[query.sort_order]}, pk {ties}"
