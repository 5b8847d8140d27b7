"""How many notes a query has, as SQL; the cheapest way that its conditions leave. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_notarium.search.fts_expression import match_of
from mcp_notarium.search.query import Condition, Not, Or, Query
from mcp_notarium.search.sql_conditions import (
    MATCHED,
    MATCHED_NOTES,
    TRASHED,
    Clauses,
    Statement,
    both,
    dated,
    metadata,
    tags_of,
)

KEPT = {
    "active": "SELECT active FROM note_counts",
    "trashed": "SELECT trashed FROM note_counts",
    "any": "SELECT active + trashed FROM note_counts",
}
"""How many notes there are, by ``Query.trash``."""

HITS = f"SELECT count(*) {MATCHED}"
HITS_IN_TRASH = f"{HITS} AND +rowid IN ({TRASHED})"


def all_but(query: Query, conditions: Sequence[Condition]) -> Statement | None:
    """The count where words or tags are left out and nothing else decides: all notes less those."""
    excluded = [one.condition for one in conditions if isinstance(one, Not)]
    if not excluded or len(excluded) < len(conditions) or dated(query):
        return None
    tags = [tags_of(condition) for condition in excluded]
    keys = tuple(dict.fromkeys(key for found in tags if found for key in found))
    if all(tags):
        left_out = (
            f"SELECT count(DISTINCT pk) FROM note_tags WHERE key IN ({', '.join('?' * len(keys))})"  # noqa: S608  # constants
        )
        in_trash = f"{left_out} AND pk IN ({TRASHED})"
    elif expression := match_of(Or(tuple(excluded)), {}):
        keys, left_out, in_trash = (expression,), HITS, HITS_IN_TRASH
    else:
        return None
    less = {
        "active": f"({left_out}) - ({in_trash})",
        "trashed": f"({in_trash})",
        "any": f"({left_out})",
    }[query.trash]
    times = 2 if query.trash == "active" else 1
    return Statement(f"SELECT ({KEPT[query.trash]}) - ({less})", keys * times)


def listing_count(query: Query, narrow: Clauses) -> Statement | None:
    """The count without words to be found; None: only ``trash`` decides, see ``KEPT``."""
    if not narrow.parts and not dated(query):
        return None
    clauses = metadata(query)
    index = "notes_meta" if narrow.parts else "notes_listing"
    return Statement(
        f"SELECT count(*) FROM notes AS m INDEXED BY {index}"  # noqa: S608  # constants
        f"{both(clauses, narrow)}",
        (*clauses.parameters, *narrow.parameters),
    )


def tagged_count(narrow: Clauses) -> Statement:
    """How often the tags that name notes are there: as many as notes, or more."""
    marks = ", ".join("?" * len(narrow.tagged))
    sql = f"SELECT count(*) FROM note_tags WHERE key IN ({marks})"  # noqa: S608  # constants
    return Statement(sql, narrow.tagged)


def only_words(query: Query, narrow: Clauses) -> bool:
    """Whether words alone decide, the trash left out."""
    return not narrow.parts and not dated(query) and query.trash == "active"


def search_count(query: Query, expression: str, narrow: Clauses) -> Statement:
    """The count of what matches ``expression`` and the conditions."""
    if only_words(query, narrow):
        # Few notes are in the trash; leaving them out one by one takes twice as long.
        return Statement(f"SELECT ({HITS}) - ({HITS_IN_TRASH})", (expression, expression))
    if not dated(query):
        clauses = _trash_by_pk(query)
        # The plus keeps SQLite from searching anew for each pk that a tag names.
        found = f"FROM (SELECT +rowid AS pk {MATCHED}) AS m{both(clauses, narrow)}"
    else:
        clauses = metadata(query)
        found = f"FROM {MATCHED_NOTES}{both(clauses, narrow, ' AND ')}"
    parameters = (expression, *clauses.parameters, *narrow.parameters)
    return Statement(f"SELECT count(*) {found}", parameters)


def _trash_by_pk(query: Query) -> Clauses:
    """Trash for a count that needs no other column: few notes are in the trash."""
    clauses = Clauses()
    if query.trash != "any":
        clauses.add(f"m.pk {'IN' if query.trash == 'trashed' else 'NOT IN'} ({TRASHED})")
    return clauses
