"""Let a person decide at a terminal (``mcp-notarium approve``) about a call whose client has no dialogue.

The first call leaves the question with what would change, and is refused with what to tell the user. The same call again
finds the answer. A yes counts for the same client, profile, tool, arguments and question, while the notes are at the same
versions, would become the same, and the store has the same in its own form; once, for ten minutes, also after a restart. No tool answers such a question.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import TYPE_CHECKING

from mcp_notarium.audit.chain import Decision, clean_client_name
from mcp_notarium.storage.approval_table import Answer, ApprovalTable, Asked
from mcp_notarium.tools.consent import approval_error, crowded_error
from mcp_notarium.tools.question import show_changes

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.protocol.sdk_server import Call
    from mcp_notarium.tools.question import Question

_NO_PART = "confirm"
"""The argument that an answer is not bound to: it is the model's word, which counts for nothing here."""


async def ask(call: Call, question: Question, app: App) -> bool:
    """Return what the person has decided, and say so in ``call.decision`` and ``call.approval``.

    Raises ``ConfirmationRequired`` while they have not.
    """
    asked = await _describe(call, question, app)
    table, now = ApprovalTable(app.cache.stored.database), app.clock()
    answered = table.redeem(asked.binding, now=now)
    if answered is not None:
        agreed = answered.answer is Answer.YES  # defence: no-at-terminal-is-no =True
        call.approval = answered.id
        call.decision = Decision.APPROVED if agreed else Decision.DECLINED
        return agreed
    waiting = table.ask(asked, now=now)
    if waiting is None:
        raise crowded_error(question.text, command=_command(app))
    call.approval, call.decision = waiting.id, Decision.ASKED
    command = f"{_command(app)} {waiting.id}"
    raise approval_error(question.text, approval_id=waiting.id, command=command)


def _command(app: App) -> str:
    name = app.config.account_name
    return f"mcp-notarium{f' --account {shlex.quote(name)}' if name else ''} approve"


async def _describe(call: Call, question: Question, app: App) -> Asked:
    shown = await show_changes(question, app.library.find_forms)
    client = clean_client_name(call.client)
    profile = app.config.policy.profile or None
    arguments = {name: value for name, value in call.arguments.items() if name != _NO_PART}
    parts = [
        client,  # defence: approval-bound-to-client
        profile,
        call.tool,
        arguments,  # defence: approval-bound-to-arguments
        question.text,
        shown.digest,  # defence: approval-bound-to-notes
    ]
    bound = json.dumps(parts, sort_keys=True).encode("utf-8", "replace")
    action = call.arguments.get("action")
    return Asked(
        binding=hashlib.sha256(bound).hexdigest(),
        client=client,
        profile=profile,
        tool=call.tool,
        action=action if isinstance(action, str) else "",
        note_id=question.note_id,
        question=question.text,
        diff=shown.diff,
    )
