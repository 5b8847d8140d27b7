"""Build the SQL conditions of a query on the narrow tables and indexes. Runs nothing.

It composes its own constants only: what a person typed goes into parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mcp_notarium.search.folding import tag_key
from mcp_notarium.search.fts_expression import Expansions, match_of
from mcp_notarium.search.query import And, Condition, Not, Or, Phrase, Query, Tagged, Word

Parameter = str | int


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold SQL text and the values for its question marks."""

    sql: str
    parameters: tuple[Parameter, ...] = ()


_TAGGED = "SELECT pk FROM note_tags WHERE key"
MATCHED = "FROM notes_fts WHERE notes_fts MATCH ?"
MATCHED_NOTES = (
    "notes_fts AS f CROSS JOIN notes AS m INDEXED BY notes_meta ON m.pk = f.rowid "
    "WHERE notes_fts MATCH ?"
)
TRASH = {"active": (0,), "trashed": (1,), "any": (0, 1)}
_LITERAL = "instr((SELECT wide.text FROM notes AS wide WHERE wide.pk = m.pk), ?) > 0"


@dataclass(slots=True)
class Clauses:
    """Hold conditions on ``m.pk`` joined by AND, with their parameters in order.

    ``tagged``: a tag among them names the few notes that are possible at all.
    """

    parts: list[str] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    tagged: bool = False

    def add(self, sql: str, *parameters: Parameter) -> None:
        """Add a condition."""
        self.parts.append(sql)
        self.parameters += parameters

    def where(self, prefix: str = " WHERE ") -> str:
        """Return all of them after ``prefix``; an empty text if there are none."""
        return prefix + " AND ".join(self.parts) if self.parts else ""


def conditions_of(query: Query, rest: Sequence[Condition]) -> list[Condition]:
    """Return the conditions on tags, and those that full-text search cannot express."""
    if query.any_tags:
        rest = (_any_of(query.any_tags), *rest)
    conditions = [*map(Tagged, query.tags), *rest]
    if query.excluded_tags:
        conditions.append(Not(_any_of(query.excluded_tags)))
    return conditions


def narrowing(conditions: Sequence[Condition], expansions: Expansions) -> Clauses:
    """Return the conditions as clauses, cheap ones first."""
    clauses = Clauses()
    for condition in sorted(conditions, key=_reads_text):
        parameters: list[Parameter] = []
        clauses.add(_expression(condition, expansions, parameters), *parameters)
        clauses.tagged = clauses.tagged or bool(_tags_of(condition))
    return clauses


def _any_of(tags: Sequence[str]) -> Condition:
    return Or(tuple(map(Tagged, tags)))


def _reads_text(condition: Condition) -> bool:
    """Tell whether the condition may read the wide table; such conditions come last."""
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
    """Return the keys if the condition is one tag or a choice of tags."""
    match condition:
        case Tagged(tag):
            return [tag_key(tag)]
        case Or(conditions):
            keys = [tag_key(item.tag) for item in conditions if isinstance(item, Tagged)]
            return list(dict.fromkeys(keys)) if len(keys) == len(conditions) else None
        case _:
            return None


def _expression(condition: Condition, expansions: Expansions, parameters: list[Parameter]) -> str:
    """Return the condition as an SQL expression on ``m.pk``; append its parameters in order."""
    if expression := match_of(condition, expansions):
        parameters.append(expression)
        return f"m.pk IN (SELECT rowid {MATCHED})"
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


def metadata(query: Query, *, trash: Sequence[int] | None = None) -> Clauses:
    """Return the clauses for trash and dates; ``trash`` replaces that of the query."""
    clauses = Clauses()
    wanted = TRASH[query.trash] if trash is None else trash
    if len(wanted) == 1:
        clauses.add(f"m.trash = {wanted[0]}")
    if query.after is not None:
        clauses.add("m.modified_at >= ?", query.after)
    if query.before is not None:
        clauses.add("m.modified_at < ?", query.before)
    return clauses


def both(first: Clauses, second: Clauses, prefix: str = " WHERE ") -> str:
    """Join both after ``prefix``; their parameters follow in the same order."""
    return Clauses(first.parts + second.parts).where(prefix)


def dated(query: Query) -> bool:
    """Tell whether the query limits when a note was changed."""
    return query.before is not None or query.after is not None
