"""Let a person answer whom a server asks, and hold each call to what they have said.

They agree at once, or think first, and others act meanwhile. They say no, close the question, or answer too late, or their client
fails.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcp_notarium.audit.chain import OK, OPEN, AuditEntry, Decision, Record
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.errors import NotariumError, OutcomeUnknown
from mcp_notarium.protocol import elicitation
from mcp_notarium.protocol.elicitation import ASKING_SECONDS
from mcp_notarium.tools.question import NoteChange, Question, change_lines

if TYPE_CHECKING:
    from explorer.server import Server
    from mcp_notarium.app import App
    from mcp_notarium.protocol.call_audit import IncomingCall

_YES: dict[str, Any] = {"action": "accept", "content": {"confirm": True}}
_AGREES, _LATE, _FAILS = "agrees", "agrees too late", "has a client that fails"
_REPLIES: dict[str, dict[str, Any]] = {
    _AGREES: _YES,
    "declines": {"action": "decline"},
    "says no": {"action": "accept", "content": {"confirm": False}},
    "closes the question": {"action": "cancel"},
    _FAILS: {},
    _LATE: _YES,
}
"""By what a person does; the calm one first."""
ANSWERS = (*_REPLIES,)
ERROR = {"code": -32603, "message": "simulated"}
_THINKS = (0.0, 5.0, 50.0)
"""Seconds: less than news take, more, and nearly too long."""
_ALWAYS_ASKED = (
    *("delete_permanently", "undo", "restore_version"),
    *("change", "rename_tag", "move_folder"),
)
"""Actions that a person is asked about whatever they do (see ``tools/consent``)."""

TALK: ContextVar[Talk | None] = ContextVar("TALK", default=None)
"""The call which is being answered."""


@dataclass(eq=False)
class Talk:
    """Hold a call, what a person was asked about it, and what they have said."""

    server: Server
    tool: str
    arguments: dict[str, Any]
    digest: str
    question: Question | None = None
    answer: str = ""
    """What the person does about the question."""
    thinks: bool = False
    """They do not do it at once."""
    said: dict[str, Any] | None = None
    """What their client has sent in time; {}: an error."""
    agreed_to: list[NoteChange] = field(default_factory=list)
    """What would become of notes, if a question was about one alone."""
    begun: int = 0
    """The number of the record that its act begins with; 0: it has begun none."""
    writes: set[str] = field(default_factory=set)
    """Ids of the writes that it has begun."""
    decided: Decision = Decision.ALLOWED
    """What was decided when its act began."""
    outcome: str = ""
    """What it was answered."""
    may_go: bool = False
    """The disk has refused to record that."""
    _asked_at: float = 0.0

    # What a server asks.

    def watch(self, call: IncomingCall) -> None:
        """Look at what the call asks before a person does."""
        ask = call.ask

        async def asked(question: Question, *, app: App) -> bool:
            server, world = self.server, self.server.world
            self.question, self.said = question, None
            self.answer, self.thinks = world.chooser.answer(server.name, ANSWERS)
            world.note(f"{server.name} asks: {question.text}")
            await self._look(question)
            self._asked_at = world.loop.time()
            if by_protocol := not isinstance(call, Asked):
                server.talks.append(self)
            try:
                agreed = await ask(question, app=app)
            finally:
                if by_protocol and self in server.talks:
                    server.talks.remove(self)
            if agreed and self.said != _YES:
                raise world.oracle.breaks(f"no yes counts as one: the person {self.answer}")
            return agreed

        call.ask = asked  # type: ignore[method-assign]

    async def _look(self, question: Question) -> None:
        """Look for hidden words in a question, and in what it shows of notes.

        Of many notes only where time passes in any case: they may be read from the store.
        """
        shown: list[NoteChange] = []
        if question.note_id or self.thinks:
            with suppress(NotariumError):
                shown = [one async for one in question.changes()]
        if question.note_id:
            self.agreed_to += shown
        lines = [line for one in shown for line in change_lines(one, ({}, {}))]
        self.server.world.oracle.require_unhidden(self, "\n".join((question.text, *lines)))

    # What the person does.

    async def reply(self) -> dict[str, Any]:
        """Return what the person's client sends; {}: an error."""
        world, late = self.server.world, self.answer == _LATE
        if self.thinks:
            await self._think(ASKING_SECONDS + 5.0 if late else 0.0)
        reply = _REPLIES[self.answer]
        if world.loop.time() - self._asked_at < ASKING_SECONDS:
            self.said = reply
        return reply

    async def _think(self, seconds: float) -> None:
        """Let others act while the person thinks: another device, the same client, and whoever has an event."""
        world, name = self.server.world, self.server.name
        about = self.question.note_id if self.question else ""
        world.act_before(f"the person answers {name}", about or str(self.arguments.get("id", "")))
        await world.act_meanwhile(self.server)
        label, said = f"the person whom {name} asks thinks for", [f"{one:g} s" for one in _THINKS]
        seconds = seconds or _THINKS[world.chooser.choose(label, len(said), rate=0.5, said=said)]
        if seconds:
            await asyncio.sleep(seconds)
        await world.loop.gate(f"the person answers {name}")

    # What must hold.

    @property
    def agreed(self) -> bool:
        """Tell whether the person has agreed, or need not be asked."""
        if self.question is None:
            return self.tool != "manage" or self.arguments.get("action") not in _ALWAYS_ASKED
        return self.said == _YES

    @property
    def decision(self) -> Decision:
        """Return what the record of the call has to say; ``ALLOWED`` also stands for a refusal of ours."""
        if self.question is None:
            return Decision.ALLOWED
        if self.said is None:
            return Decision.TIMED_OUT
        if not self.said:
            return Decision.REFUSED
        return Decision.CONFIRMED if self.said == _YES else Decision.DECLINED

    def begin(self, number: int) -> None:
        """Learn that its act begins: a person must have agreed to it by then, or need not be asked."""
        self.begun, self.decided = number, self.decision
        self.require_agreed()

    def require_agreed(self, note: Note | None = None, content: Content | None = None) -> None:
        """Demand that the person has agreed, and to this change if one is given."""
        oracle, does = self.server.world.oracle, f"{self.tool} {self.arguments.get('action', '')}"
        if not self.agreed:
            said = f"the person {self.answer}" if self.question else "nobody was asked"
            raise oracle.breaks(
                f"something is done that nobody agreed to: {does} of {self.server.name}; {said}"
            )
        if not self.agreed_to or (note is None and content is None):
            return
        if not any(_is_same(one, note, content) for one in self.agreed_to):
            raise oracle.breaks(
                f"something else is done than was agreed to: {does} of {self.server.name} makes {content} of {note}, "
                f"and was to make {self.agreed_to}"
            )

    def fits(self, record: Record | AuditEntry) -> bool:
        """Tell whether a record may be that of its end."""
        decides = record.decision == self.decision
        if self.question is None and self.outcome != OK:
            decides = record.decision in (Decision.ALLOWED, Decision.REFUSED)
        # Of what is in doubt the record may say more than an answer does.
        ends = self.outcome in (record.outcome, OutcomeUnknown.subcategory)
        named = (record.digest, record.client) == (self.digest, self.server.name)
        return decides and ends and named and record.outcome != OPEN

    def judge_answer(self, answer: dict[str, Any], *, ok: bool) -> None:
        """Demand that whoever has not agreed is told so, and that nothing was done."""
        self.outcome = "ok" if ok else answer.get("subcategory") or answer["category"].lower()
        if self.question is None or self.said == _YES:
            return
        told = "declined" if self.said else "confirmation_required"
        if self.outcome != told:
            raise self.server.world.oracle.breaks(
                f"a person is not obeyed: {self.tool} of {self.server.name} is answered {self.outcome}, not {told}"
            )


def _is_same(agreed: NoteChange, note: Note | None, content: Content | None) -> bool:
    if (agreed.note is None, agreed.content is None) != (note is None, content is None):
        return False
    same = note is None or agreed.note is None or agreed.note.content == note.content
    named = note is None or agreed.note is None or agreed.note.id == note.id
    return same and named and (agreed.content is None or agreed.content == content)


def see_begun(known: set[str], write_id: str) -> None:
    """Learn that a write is in a journal: the call which is being answered has begun it, unless it was known before."""
    talk = TALK.get()
    if talk is not None and write_id not in known:
        talk.writes.add(write_id)
    known.add(write_id)


class _Session:
    """Stand for the session of a client that can ask."""

    can_send_request = True
    client_capabilities = types.ClientCapabilities(
        elicitation=types.ElicitationCapability(form=types.FormElicitationCapability())
    )

    async def elicit_form(self, message: str, _form: Any, **_more: Any) -> types.ElicitResult:
        """Ask the person."""
        talk = TALK.get()
        assert talk is not None
        assert talk.question is not None
        assert talk.question.text == message
        reply = await talk.reply()
        if not reply:
            raise MCPError(ERROR["code"], ERROR["message"])
        return types.ElicitResult.model_validate(reply)


class _Context:
    session = _Session()
    request_id = None


@dataclass
class Asked:
    """A call as it came from a client that can ask a person."""

    client: str
    tool: str
    arguments: dict[str, Any]
    decision: Decision = Decision.ALLOWED
    approval: str = ""
    request_id: None = None
    context = _Context()

    def is_answered(self, *, irreversible: bool, app: App) -> bool:
        """Wait to be asked."""
        return elicitation.is_answered(self, irreversible=irreversible, app=app)  # type: ignore[arg-type]

    async def ask(self, question: Question, *, app: App) -> bool:
        """Ask the person."""
        return await elicitation.ask(self, question, app=app)  # type: ignore[arg-type]

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Listen to nothing."""
