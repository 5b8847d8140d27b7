"""Hide the note fields that the policy hides: what an answer shows instead, what may not be asked.

A field that may not be read may not be searched either: the hits would reveal it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.policy import Field, Policy, raise_refusal
from mcp_notarium.search.query import And, Condition, Not, Or, Phrase, Query, Tagged, Word

if TYPE_CHECKING:
    from mcp_notarium.tools.schemas import SaveRequest

TEXT_HIDDEN = "The text of notes is hidden by the user's policy."


def check_query(policy: Policy, query: Query) -> None:
    """Raise ``NotPermitted`` for a search in hidden fields."""
    if query.tags or query.excluded_tags or any(_asked(query.terms, Tagged)):
        raise_refusal(policy.refuse_filter(Field.TAGS))
    if any(_asked(query.terms, Word | Phrase)):
        raise_refusal(policy.refuse_filter(Field.TEXT))


def _asked(condition: Condition | None, kind: Any) -> Iterator[bool]:
    match condition:
        case And(conditions) | Or(conditions):
            for one in conditions:
                yield from _asked(one, kind)
        case Not(inner):
            yield from _asked(inner, kind)
        case None:
            return
        case _:
            yield isinstance(condition, kind)


def check_change(policy: Policy, request: SaveRequest) -> None:
    """Raise ``NotPermitted`` for overwriting what the agent cannot have read."""
    if request.id is None:
        return
    if request.text is not None or request.text_patch is not None:
        raise_refusal(policy.refuse_edit(Field.TEXT))
    if request.tags is not None:
        raise_refusal(policy.refuse_edit(Field.TAGS))


def without_text() -> dict[str, Any]:
    """Return the fields that replace a hidden text on the wire."""
    return {"text": "", "text_is_partial": True, "note": TEXT_HIDDEN}


def shown_tags(policy: Policy, tags: tuple[str, ...]) -> list[str]:
    """Return the tags that may be seen."""
    return [] if policy.hides(Field.TAGS) else list(tags)
