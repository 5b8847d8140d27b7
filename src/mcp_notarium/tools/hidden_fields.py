"""Parts of every note that the policy hides: what an answer shows instead, what may not be asked.

A part that may not be read may not be searched for either: the hits would tell what it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.policy import Field, Policy, raise_refusal
from mcp_notarium.search.query import And, Condition, Not, Or, Phrase, Query, Tagged, Word
from mcp_notarium.tools.prompts import named

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.tools.schemas import SaveRequest

TEXT_HIDDEN = "The text of notes is hidden by the user's policy."


def check_query(policy: Policy, query: Query) -> None:
    """Refuse a search for what is hidden."""
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
    """Refuse to overwrite what the agent cannot have read."""
    if request.id is None:
        return
    if request.text is not None or request.text_patch is not None:
        raise_refusal(policy.refuse_edit(Field.TEXT))
    if request.tags is not None:
        raise_refusal(policy.refuse_edit(Field.TAGS))


def without_text() -> dict[str, Any]:
    """What stands on the wire where a text is hidden."""
    return {"text": "", "text_is_partial": True, "note": TEXT_HIDDEN}


def shown_tags(policy: Policy, tags: tuple[str, ...]) -> list[str]:
    """The tags, as far as they may be seen."""
    return [] if policy.hides(Field.TAGS) else list(tags)


def name_of(app: App, text: str, *, note_id: str | None) -> str:
    """A note's name in a question. The agent reads a question that cannot be asked.

    So a note of which no more may be read is named by its id alone.
    """
    if note_id is not None and (app.policy.hides(Field.TEXT) or app.allowance.room == 0):
        return named("", note_id=note_id).replace(" without text", "")
    return named(text, note_id=note_id)
