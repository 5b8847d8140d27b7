"""Ask the user for consent: through the client (MCP calls it elicitation), or at a terminal.

The server asks at once where it may send requests. Otherwise the call ends with a question and comes again with the answer.

A person decides at a terminal (``mcp-notarium approve``) if the client has no dialogue. The first call leaves the question
with what would change, and is refused with what to tell the user. The same call again finds the answer. No tool gives it.

An answer that does not come at once counts for the same client, profile, tool, arguments and question, while the notes are
at the same versions, would become the same, and the store has the same in its own form. It counts once, for ten minutes, at
a terminal also after a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mcp_notarium.audit.chain import Decision, clean_client_name
from mcp_notarium.protocol.call_audit import PassOn
from mcp_notarium.storage.approval_table import Answer, ApprovalTable, Asked
from mcp_notarium.system import SYSTEM
from mcp_notarium.tools.consent import (
    ConsentMode,
    approval_error,
    client_error,
    consent_error,
    consent_mode,
    crowded_error,
    timeout_error,
)
from mcp_notarium.tools.question import show_changes
from mcp_notarium.tools.requests import read_flag

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.protocol.sdk_server import Call
    from mcp_notarium.tools.question import Question, ShownChanges

ASKING_SECONDS: Final = 55.0
OPEN_SECONDS: Final = 600.0
"""Seconds that a question stays open whose answer comes with another call."""
MOST_OPEN: Final = 64

_QUESTION: Final = "confirm"
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Yes, do it"}},
    "required": ["confirm"],
}


_NO_PART = "confirm"
"""The argument that an answer is not bound to: it is the model's word, which counts for nothing here."""


class Questions:
    """Hold open questions. What ties an answer to its question is worth one call, and not for ever.

    ``clock`` gives seconds of a clock that only goes forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, tuple[bytes, float]] = {}

    def ask(self, meaning: bytes) -> str:
        """Return a new state for a question about ``meaning``."""
        while len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
        state = secrets.token_hex(16)
        self._open[state] = (meaning, self._clock() + OPEN_SECONDS)
        return state

    def redeem(self, state: str, meaning: bytes) -> bool:
        """Return whether this is the state of such a question, and close the question."""
        asked = self._open.get(state)
        # defence: answer-fits -compare_digest
        if asked is None or not hmac.compare_digest(asked[0], meaning):
            return False
        del self._open[state]  # defence: answer-counts-once
        return self._clock() < asked[1]


_QUESTIONS = Questions()


class NeedsAnswer(PassOn):
    """End the call here; it comes again with the user's answer."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__()
        self.result = result


def is_answered(call: Call, *, irreversible: bool, app: App) -> bool:
    """Tell whether the setting or an argument answers such a question, so that nobody is asked."""
    setting = app.config.destructive
    mode = consent_mode(setting, irreversible=irreversible, can_elicit=_can_elicit(call))
    return mode is ConsentMode.REFUSE or (mode is ConsentMode.ARGUMENT and _is_confirmed(call))


async def ask(call: Call, question: Question, *, app: App) -> bool:
    """Return whether the user agrees, and say in ``call.decision`` how. Raises ``ConfirmationRequired``: nobody can say."""
    call.decision = Decision.REFUSED  # unless somebody answers
    message = question.text
    # defence: dialogue-before-argument =True
    if _mode(question, app, can_elicit=_can_elicit(call)) is not ConsentMode.ASK:
        return await _decide_without_dialogue(call, question, app)
    if not call.context.session.can_send_request:
        return await _read_answer(call, question, app)
    try:
        with anyio.fail_after(ASKING_SECONDS):
            answer = await call.context.session.elicit_form(
                message, _FORM, related_request_id=call.context.request_id
            )
    except TimeoutError:
        call.decision = Decision.TIMED_OUT
        raise timeout_error(message) from None  # defence: silence-is-no-yes =True
    except MCPError as error:
        if error.error.code == types.METHOD_NOT_FOUND:  # defence: only-unknown-method =True
            return await _decide_without_dialogue(call, question, app)
        raise client_error(message) from None
    except ValidationError:  # what cannot be read is no agreement
        raise client_error(message) from None
    return _is_yes(call, answer)


def _mode(question: Question, app: App, *, can_elicit: bool) -> ConsentMode:
    setting = app.config.destructive
    return consent_mode(setting, irreversible=question.irreversible, can_elicit=can_elicit)


def _can_elicit(call: Call) -> bool:
    capabilities = call.context.session.client_capabilities
    asking = capabilities.elicitation if capabilities is not None else None
    return asking is not None and (asking.form is not None or asking.url is None)


def _is_yes(call: Call, answer: types.ElicitResult) -> bool:
    agreed = _agrees(answer)
    # defence: decision-recorded
    call.decision = Decision.CONFIRMED if agreed else Decision.DECLINED
    return agreed


async def _decide_without_dialogue(call: Call, question: Question, app: App) -> bool:
    """Take the caller's word that the user agreed, or a person's at a terminal, as the setting says.

    Also for a client that said it can ask and then could not. The record says whose word it is.
    """
    mode = _mode(question, app, can_elicit=False)
    if mode is ConsentMode.APPROVAL:
        return await ask_at_terminal(call, question, app)
    if mode is not ConsentMode.ARGUMENT or not _is_confirmed(call):
        has_app = not app.library.traits.in_database
        raise consent_error(mode, question.text, has_app=has_app)
    call.decision = Decision.BY_ARGUMENT
    return True


def _is_confirmed(call: Call) -> bool:
    return read_flag(call.arguments.get("confirm")) is True


async def _read_answer(call: Call, question: Question, app: App) -> bool:
    """Return the answer that came with this call, or end the call with the question."""
    shown = await show_changes(question, app.library.losses.find_forms, as_lines=False)
    asked = _binding(call, question, app, shown).encode()
    answer = (call.params.input_responses or {}).get(_QUESTION)
    if answer is not None and _QUESTIONS.redeem(call.params.request_state or "", asked):
        if isinstance(answer, types.ElicitResult):
            return _is_yes(call, answer)
        call.decision = Decision.DECLINED
        return False
    form = types.ElicitRequestFormParams(message=question.text, requested_schema=_FORM)
    call.decision = Decision.ASKED
    raise NeedsAnswer(
        types.InputRequiredResult(
            input_requests={_QUESTION: types.ElicitRequest(params=form)},
            request_state=_QUESTIONS.ask(asked),
        )
    )


def _agrees(answer: types.ElicitResult) -> bool:
    # defence: only-yes-is-yes -True
    return answer.action == "accept" and (answer.content or {}).get("confirm") is True


async def ask_at_terminal(call: Call, question: Question, app: App) -> bool:
    """Return what the person has decided, and say so in ``call.decision`` and ``call.approval``.

    Raises ``ConfirmationRequired`` while they have not.
    """
    shown = await show_changes(question, app.library.losses.find_forms)
    asked, binding = _describe(call, question, app, shown), _binding(call, question, app, shown)
    table, now = ApprovalTable(app.cache.stored.database), app.clock()
    answered = table.redeem(binding, now=now)
    if answered is not None:
        agreed = answered.answer is Answer.YES  # defence: no-at-terminal-is-no =True
        call.approval = answered.id
        call.decision = Decision.APPROVED if agreed else Decision.DECLINED
        return agreed
    waiting = table.ask(asked, binding, now=now)
    if waiting is None:
        raise crowded_error(question.text, command=_command(app))
    call.approval, call.decision = waiting.id, Decision.ASKED
    command = f"{_command(app)} {waiting.id}"
    raise approval_error(question.text, approval_id=waiting.id, command=command)


def _command(app: App) -> str:
    name = app.config.account_name
    return f"mcp-notarium{f' --account {SYSTEM.quote(name)}' if name else ''} approve"


def _describe(call: Call, question: Question, app: App, shown: ShownChanges) -> Asked:
    action = call.arguments.get("action")
    return Asked(
        client=clean_client_name(call.client),
        profile=app.config.policy.profile or None,
        tool=call.tool,
        action=action if isinstance(action, str) else "",
        note_id=question.note_id,
        question=question.text,
        diff=shown.diff,
    )


def _binding(call: Call, question: Question, app: App, shown: ShownChanges) -> str:
    """Return a digest of what an answer to the question counts for."""
    arguments = {name: value for name, value in call.arguments.items() if name != _NO_PART}
    parts = [
        clean_client_name(call.client),  # defence: approval-bound-to-client
        app.config.policy.profile or None,
        call.tool,
        arguments,  # defence: approval-bound-to-arguments
        question.text,
        [one.about for one in question.asks],  # defence: approval-bound-to-what-is-asked
        shown.digest,  # defence: approval-bound-to-notes
    ]
    bound = json.dumps(parts, sort_keys=True).encode("utf-8", "replace")
    return hashlib.sha256(bound).hexdigest()
