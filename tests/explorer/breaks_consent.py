"""Break on purpose what a person is asked and what is recorded of it; each has to be found, and told in words."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from explorer.loop import OWNER
from mcp_notarium.audit.chain import OK, AuditEntry, Decision
from mcp_notarium.domain.note import Content
from mcp_notarium.protocol import elicitation
from mcp_notarium.protocol.call_audit import Recording
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.storage.hidden_notes import VisibilityFilter
from mcp_notarium.tools import consent, history, save
from mcp_notarium.tools.question import Question


def _anything_is_as_agreed(set_attribute: Set) -> None:
    async def require(_app: Any, _draft: Any, _agreed: Any, *, exact: bool) -> None:
        del exact

    set_attribute(save, "_require_as_agreed", require)


def _agreed_to_what_is_there_by_then(set_attribute: Set) -> None:
    ask = save._ask

    async def asked(app: Any, drafting: Any, call: Any, draft: Any, **how: Any) -> Any:
        agreed = await ask(app, drafting, call, draft, **how)
        return await save._draft_in_step(app, drafting, call) if agreed.asks else agreed

    set_attribute(save, "_ask", asked)


def _any_answer_agrees(set_attribute: Set) -> None:
    set_attribute(elicitation, "_agrees", lambda _answer: True)


def _agreed_once_for_all(set_attribute: Set) -> None:
    confirm, agreed = Recording.confirm, set[tuple[object, str]]()

    async def confirmed(self: Recording, question: Question) -> bool:
        about = (OWNER.get(), question.note_id)
        if about in agreed:
            return True
        if await confirm(self, question):
            agreed.add(about)
            return True
        return False

    set_attribute(Recording, "confirm", confirmed)


def _names_what_is_hidden(set_attribute: Set) -> None:
    find_rule, name_note = VisibilityFilter.find_rule_of, consent.name_note
    hidden: dict[object, str] = {}

    def found(self: VisibilityFilter, note_id: str, content: Content, **how: Any) -> Any:
        rule = find_rule(self, note_id, content, **how)
        if rule:
            hidden[OWNER.get()] = " ".join(reversed(content.text.split()))
        return rule

    def named(app: Any, text: str, **how: Any) -> str:
        return name_note(app, hidden.get(OWNER.get()) or text, **how)

    set_attribute(VisibilityFilter, "find_rule_of", found)
    for asking in (consent, history):
        set_attribute(asking, "name_note", named)


def _nobody_has_decided(set_attribute: Set) -> None:
    set_attribute(Recording, "_decided", lambda _self: Decision.ALLOWED)


def _mixed_up_beside_others(set_attribute: Set) -> None:
    enter, leave = Recording.__enter__, Recording.__exit__
    record, beside = AuditLog.record_outcome, defaultdict[object, int](int)

    def entered(self: Recording) -> Recording:
        beside[OWNER.get()] += 1
        return enter(self)

    def left(self: Recording, *how: Any) -> None:
        try:
            leave(self, *how)
        finally:
            beside[OWNER.get()] -= 1

    def recorded(self: AuditLog, entry: AuditEntry, **how: bool) -> None:
        mixed_up = beside[OWNER.get()] > 1 and entry.outcome == OK
        record(self, replace(entry, outcome="conflict") if mixed_up else entry, **how)

    set_attribute(Recording, "__enter__", entered)
    set_attribute(Recording, "__exit__", left)
    set_attribute(AuditLog, "record_outcome", recorded)


BREAKS: dict[str, Break] = {
    "what is saved need not be what was agreed to": Break(
        "simplenote, asked", _anything_is_as_agreed, ("than was agreed to",)
    ),
    "a person agrees to what the note is by then": Break(
        "simplenote, asked", _agreed_to_what_is_there_by_then, ("than was agreed to",)
    ),
    "any answer of a person agrees": Break("simplenote", _any_answer_agrees, ("counts as one",)),
    "a person agrees once for all changes of a note": Break(
        "simplenote", _agreed_once_for_all, ("nobody agreed to",)
    ),
    "a question names what is hidden": Break(
        "simplenote, hidden", _names_what_is_hidden, ("asks a person with",)
    ),
    "what a person has decided is not recorded": Break(
        "simplenote", _nobody_has_decided, ("audit chain",)
    ),
    "ends of calls beside each other are mixed up": Break(
        "simplenote", _mixed_up_beside_others, ("audit chain",)
    ),
}
"""By what is broken."""
