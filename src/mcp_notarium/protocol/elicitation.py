"""Ask the user for consent through the client (MCP calls it elicitation), in both versions of the protocol.

The server asks at once where it may send requests. Otherwise the call ends with a question and
comes again with the answer, which counts only for the same tool, arguments and question, and once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mcp_notarium import logs
from mcp_notarium.audit.chain import Decision
from mcp_notarium.protocol.call_audit import PassOn
from mcp_notarium.tools.consent import (
    ConsentMode,
    client_error,
    consent_error,
    consent_mode,
    timeout_error,
)
from mcp_notarium.tools.requests import read_flag

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


class Call:
    """Represent a call that came through the SDK: an ``IncomingCall``."""

    def __init__(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> None:
        self._context = context
        self._params = params
        about = context.session.client_params
        self.client = f"{about.client_info.name} {about.client_info.version}" if about else ""
        self.tool = params.name
        self.arguments = params.arguments or {}
        self.decision = Decision.ALLOWED
        self._ticks = 0
        self._reports = False

    @property
    def wants_progress(self) -> bool:
        """Tell whether the client asked to hear of progress."""
        return "progress_token" in (self._context.meta or {})

    async def tick(self, message: str) -> None:
        """Report that a second has passed, unless the call reports its progress itself."""
        if not self._reports:
            self._ticks += 1
            await self._context.session.report_progress(self._ticks, None, message)

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report how far the call is, if the client asked for that; numbers only grow."""
        self._reports = True
        whole = None if total is None else self._ticks + total
        said = logs.scrub_for_client(message)  # defence: progress-clean scrub_for_client()
        await self._context.session.report_progress(self._ticks + done, whole, said)

    async def ask(self, message: str, *, setting: str) -> bool:
        """Return whether the user agrees. Raises ``ConfirmationRequired`` if nobody can say."""
        self.decision = Decision.REFUSED  # unless somebody answers
        # defence: dialogue-before-argument =True
        if consent_mode(setting, can_elicit=self._can_elicit()) is not ConsentMode.ASK:
            return self._decide_without_dialogue(message, setting)
        if not self._context.session.can_send_request:
            return self._read_answer(message)
        try:
            with anyio.fail_after(ASKING_SECONDS):
                answer = await self._context.session.elicit_form(
                    message, _FORM, related_request_id=self._context.request_id
                )
        except TimeoutError:
            self.decision = Decision.TIMED_OUT
            raise timeout_error(message) from None  # defence: silence-is-no-yes =True
        except MCPError as error:
            if error.error.code == types.METHOD_NOT_FOUND:  # defence: only-unknown-method =True
                return self._decide_without_dialogue(message, setting)
            raise client_error(message) from None
        except ValidationError:  # what cannot be read is no agreement
            raise client_error(message) from None
        return self._is_yes(answer)

    def _can_elicit(self) -> bool:
        capabilities = self._context.session.client_capabilities
        asking = capabilities.elicitation if capabilities is not None else None
        return asking is not None and (asking.form is not None or asking.url is None)

    def _is_yes(self, answer: types.ElicitResult) -> bool:
        agreed = _agrees(answer)
        # defence: decision-recorded
        self.decision = Decision.CONFIRMED if agreed else Decision.DECLINED
        return agreed

    def _decide_without_dialogue(self, message: str, setting: str) -> bool:
        """Take the caller's word that the user agreed, where the setting permits that.

        Also for a client that said it can ask and then could not. The record says that it is not the
        person's word.
        """
        by_argument = consent_mode(setting, can_elicit=False) is ConsentMode.ARGUMENT
        if not by_argument or read_flag(self.arguments.get("confirm")) is not True:
            raise consent_error(setting, message)
        self.decision = Decision.BY_ARGUMENT
        return True

    def _read_answer(self, message: str) -> bool:
        """Return the answer that came with this call, or end the call with the question."""
        asked = _meaning(self._params, message)
        answer = (self._params.input_responses or {}).get(_QUESTION)
        if answer is not None and _QUESTIONS.redeem(self._params.request_state or "", asked):
            if isinstance(answer, types.ElicitResult):
                return self._is_yes(answer)
            self.decision = Decision.DECLINED
            return False
        question = types.ElicitRequest(
            params=types.ElicitRequestFormParams(message=message, requested_schema=_FORM)
        )
        self.decision = Decision.ASKED
        raise NeedsAnswer(
            types.InputRequiredResult(
                input_requests={_QUESTION: question}, request_state=_QUESTIONS.ask(asked)
            )
        )


def _meaning(params: types.CallToolRequestParams, message: str) -> bytes:
    """Return a digest of what a question is about: tool, arguments and wording."""
    asked = json.dumps([params.name, params.arguments, message], sort_keys=True)
    return hashlib.sha256(asked.encode("utf-8", "replace")).digest()


def _agrees(answer: types.ElicitResult) -> bool:
    # defence: only-yes-is-yes -True
    return answer.action == "accept" and (answer.content or {}).get("confirm") is True
