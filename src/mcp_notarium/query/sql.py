"""Turn a Query into SQL for the cache's tables; runs nothing.

Composes its own constants only: what a person typed goes into parameters.

The wide table ``notes`` is read for the rows of one page and nothing else: which rows these are
is decided on the narrow indexes ``notes_listing``, ``notes_meta``, ``note_tags(key, pk)`` and on
``notes_fts``. ``INDEXED BY`` makes SQLite refuse rather than scan the wide table one day. The one
exception are terms without a letter, digit or picture (``++``), which no index knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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
    so that one can begin at a place that is known.
    """

    rows: Statement
    count: Statement | None
    hits: Statement | None = None
    hits_in_trash: Statement | None = None
    walked: bool = False


KEPT = {
    "active": "SELECT active FROM note_counts",
    "trashed": "SELECT trashed FROM note_counts",
    "any": "SELECT active + trashed FROM note_counts",
}
"""How many notes there are, by ``Query.trash``."""

_COLUMNS = (
    "n.pk, n.id, n.local_version, n.server_version, n.modified_at, n.created_at, n.trash, "
    "n.pinned, n.tags, coalesce(n.head, n.text) AS head, n.total_lines"
)
_TRASHED = "SELECT pk FROM notes INDEXED BY notes_listing WHERE trash = 1"
_TAGGED = "SELECT pk FROM note_tags WHERE key"
_MATCHED = "FROM notes_fts WHERE notes_fts MATCH ?"
_HITS = f"SELECT count(*) {_MATCHED}"
_HITS_IN_TRASH = f"{_HITS} AND +rowid IN ({_TRASHED})"
_MATCHED_NOTES = (
    "notes_fts AS f CROSS JOIN notes AS m INDEXED BY notes_meta ON m.pk = f.rowid "
    "WHERE notes_fts MATCH ?"
)
_SORTS = {"modified_at": "modified_at", "created_at": "created_at"}
_IN_ORDER = {"modified_at": "notes_listing", "created_at": "notes_created"}
_TRASH = {"active": (0,), "trashed": (1,), "any": (0, 1)}
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
    query: Query,
    *,
    limit: int,
    offset: int = 0,
    expansions: Expansions | None = None,
    ranked: bool = True,
    from_end: bool = False,
    place: Place | None = None,
) -> Statements:
    """The statements for one page of ``limit`` notes after the first ``offset``, and their number.

    ``expansions`` replaces words (those of ``words_of``) by index terms, any of which will do. Not
    ``ranked``: in the order of a listing. ``from_end``: where only ``trash`` decides, the index is
    walked from its other end to the same page. ``place``: one of this listing at or before ``offset``,
    from which it is walked where it is ``walked`` at all.
    """
    expression, rest = _terms(query.terms, expansions or {})
    conditions = _conditions(query, rest)
    narrow = _narrowing(conditions, expansions or {})
    if expression is None:
        count = _all_but(query, conditions) or _listing_count(query, narrow)
        if from_end and count is None:
            return Statements(_from_end(query, limit=limit, offset=offset), None, walked=True)
        return _listing(query, narrow, count, limit=limit, offset=offset, place=place)
    count = _search_count(query, expression, narrow)
    if not ranked:
        found = _Clauses([f"m.pk IN (SELECT rowid {_MATCHED})", *narrow.parts])
        found.parameters = [expression, *narrow.parameters]
        return _listing(query, found, count, limit=limit, offset=offset, place=place)
    page = _search(query, expression, narrow, limit=limit, offset=offset)
    if not isinstance(query.terms, Word) or narrow.selective:
        return Statements(page, count)
    plain = _only_words(query, narrow)
    hits_in_trash = Statement(_HITS_IN_TRASH, (expression,)) if plain else None
    return Statements(page, count, Statement(_HITS, (expression,)), hits_in_trash)


def words_of(query: Query) -> tuple[str, ...]:
    """The words asked for, as typed, each once: no phrases, prefixes, exclusions, grams."""
    return tuple(dict.fromkeys(plain_words(query.terms))) if query.terms else ()


def _terms(terms: Condition | None, expansions: Expansions) -> tuple[str | None, list[Condition]]:
    if terms is None:
        return None, []
    conditions = terms.conditions if isinstance(terms, And) else (terms,)
    return split(conditions, expansions)


def _conditions(query: Query, rest: Sequence[Condition]) -> list[Condition]:
    """Tags and what full-text search could not say."""
    if query.any_tags:
        rest = (_any_of(query.any_tags), *rest)
    conditions = [*map(Tagged, query.tags), *rest]
    if query.excluded_tags:
        conditions.append(Not(_any_of(query.excluded_tags)))
    return conditions


def _narrowing(conditions: Sequence[Condition], expansions: Expansions) -> _Clauses:
    """The conditions as clauses, cheap ones first."""
    clauses = _Clauses()
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


def _listing(
    query: Query,
    narrow: _Clauses,
    count: Statement | None,
    *,
    limit: int,
    offset: int,
    place: Place | None,
) -> Statements:
    in_order = not narrow.selective
    if query.sort_by == "created_at" and _dated(query):
        in_order = False  # the index in that order does not know when a note was changed
    if not in_order:
        walks = [_notes(query, "notes_meta", _metadata(query), narrow)]
        return Statements(_one_page(query, walks, limit=limit, offset=offset), count)
    walks = [_walk(query, narrow, trash, place) for trash in _TRASH[query.trash]]
    ahead = offset - (place.offset if place else 0)
    return Statements(_one_page(query, walks, limit=limit, offset=ahead), count, walked=True)


def _walk(query: Query, narrow: _Clauses, trash: int, place: Place | None = None) -> Statement:
    """The notes in or out of the trash, from ``place`` on, which one index has in their order."""
    clauses = _metadata(query, trash=(trash,))
    if place is not None:
        column = f"m.{_SORTS[query.sort_by]}"
        onwards, before = ("<=", "<") if query.sort_order == "DESC" else (">=", ">")
        clauses.add(f"{column} {onwards} ?", place.sorted)
        clauses.add(f"NOT ({column} = ? AND m.pk {before} ?)", place.sorted, place.pk)
    return _notes(query, _IN_ORDER[query.sort_by], clauses, narrow)


def _notes(query: Query, index: str, clauses: _Clauses, narrow: _Clauses) -> Statement:
    return Statement(
        f"SELECT m.pk AS pk, m.{_SORTS[query.sort_by]} AS sorted "  # noqa: S608  # constants
        f"FROM notes AS m INDEXED BY {index}{_both(clauses, narrow)}",
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
    walks = [_walk(query, _Clauses(), trash) for trash in _TRASH[query.trash]]
    page = " UNION ALL ".join(walk.sql for walk in walks)
    left = f"(({KEPT[query.trash]}) - ?)"
    return _with_rows(
        f"{page} ORDER BY {_order(backwards).replace('m.pk', 'pk')} "
        f"LIMIT max(0, min(?, {left})) OFFSET max(0, {left} - ?)",
        _order(query),
        (limit, offset, offset, limit),
    )


def _all_but(query: Query, conditions: Sequence[Condition]) -> Statement | None:
    """The count where words or tags are left out and nothing else decides: all notes less those."""
    excluded = [one.condition for one in conditions if isinstance(one, Not)]
    if not excluded or len(excluded) < len(conditions) or _dated(query):
        return None
    tags = [_tags_of(condition) for condition in excluded]
    keys = tuple(dict.fromkeys(key for found in tags if found for key in found))
    if all(tags):
        left_out = (
            f"SELECT count(DISTINCT pk) FROM note_tags WHERE key IN ({', '.join('?' * len(keys))})"  # noqa: S608  # constants
        )
        in_trash = f"{left_out} AND pk IN ({_TRASHED})"
    elif expression := match_of(Or(tuple(excluded)), {}):
        keys, left_out, in_trash = (expression,), _HITS, _HITS_IN_TRASH
    else:
        return None
    less = {
        "active": f"({left_out}) - ({in_trash})",
        "trashed": f"({in_trash})",
        "any": f"({left_out})",
    }[query.trash]
    both = 2 if query.trash == "active" else 1
    return Statement(f"SELECT ({KEPT[query.trash]}) - ({less})", keys * both)


def _listing_count(query: Query, narrow: _Clauses) -> Statement | None:
    if not narrow.parts and not _dated(query):
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


def _only_words(query: Query, narrow: _Clauses) -> bool:
    """Whether words alone decide, the trash left out."""
    return not narrow.parts and not _dated(query) and query.trash == "active"


def _dated(query: Query) -> bool:
    return query.before is not None or query.after is not None


def _search_count(query: Query, expression: str, narrow: _Clauses) -> Statement:
    if _only_words(query, narrow):
        # Few notes are in the trash; leaving them out one by one takes twice as long.
        return Statement(f"SELECT ({_HITS}) - ({_HITS_IN_TRASH})", (expression, expression))
    if not _dated(query):
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


def _metadata(query: Query, *, trash: Sequence[int] | None = None) -> _Clauses:
    """Trash and dates, as columns of the narrow indexes; ``trash`` instead of what the query says."""
    clauses = _Clauses()
    wanted = _TRASH[query.trash] if trash is None else trash
    if len(wanted) == 1:
        clauses.add(f"m.trash = {wanted[0]}")
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
