"""Answer a tool call: open the account, validate, ask the policy, run the handler, report that it is at work, record.

Does without the SDK and is the same in both eras of the protocol. What the agent can act on is an answer
with the error as JSON text and no value, because widespread clients check a value against the output schema
and then hide the error. The text of an unexpected exception never leaves the process.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from mcp_notarium import logs
from mcp_notarium.domain.characters import has_lone_surrogate, replace_surrogates
from mcp_notarium.domain.policy import LOOKING
from mcp_notarium.errors import (
    LONGEST_REFUSAL,
    CacheError,
    ConfirmationRequired,
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    PolicyChanged,
)
from mcp_notarium.protocol.call_audit import (
    CallResult,
    IncomingCall,
    PassOn,
    Recorder,
    Recording,
    notes_in,
)
from mcp_notarium.protocol.connection import INTERNAL_ERROR
from mcp_notarium.protocol.stdio import FlowControl
from mcp_notarium.tools.answers import AttachmentAnswer, ChangedNotes, FromNotes, PlainAnswer
from mcp_notarium.tools.catalog import NOTARIUM, Toolset, describe_arguments
from mcp_notarium.tools.day_notes import with_days
from mcp_notarium.tools.note_lookup import with_ids
from mcp_notarium.tools.requests import is_day, named_notes
from mcp_notarium.tools.tool import Tool, ToolNames
from mcp_notarium.tools.untrusted_text import (
    QUOTE,
    add_boundaries,
    add_findings,
    enclose,
    is_foreign,
    mark_plain,
    names_notes,
    write_json,
)

if TYPE_CHECKING:
    from mcp_notarium.protocol.app_holder import AppHolder
    from mcp_notarium.protocol.sdk_server import Call


Json = dict[str, Any]

SHOWN = 64
"""Characters of a name that was sent, at most, which an error repeats."""


class UnknownTool(PassOn):
    """Refuse a tool that there is not; ``known`` are those that there are."""

    def __init__(self, known: list[str]) -> None:
        super().__init__()
        self.known = known


class CallPipeline:
    """Answer the calls of one connection with its tools."""

    def __init__(
        self,
        holder: AppHolder,
        toolset: Toolset = NOTARIUM,
        *,
        flow: FlowControl | None = None,
    ) -> None:
        self.holder = holder
        self._flow = flow or FlowControl()
        self.toolset = toolset
        self._tools = toolset.by_name()
        self._names = toolset.names
        self.recorder = Recorder(holder)

    async def answer(self, call: IncomingCall, tool: Tool | None = None) -> CallResult:
        """Return the answer to one call, of a tool or of what no client can call by a name.

        Raises ``PassOn`` only: an unknown tool, or what asking brings in.
        """
        tool = tool or self._tools.get(call.tool)
        with Recording(self.recorder, call, tool) as record:
            if tool is None:
                raise UnknownTool(sorted(self._tools))
            answer = record.answered(await self._answer(tool, call.arguments, record))
        if record.flush_due and self.holder.opened is not None:
            with suppress(CacheError):  # the change is made, and an error would have it made again
                await self.holder.opened.cache.flush()  # defence: save-flushed-before-answer
        return answer

    async def _answer(self, tool: Tool, arguments: Json, record: Recording) -> CallResult:
        try:
            return await self._run(tool, arguments, record)
        except PassOn:
            raise
        except PolicyChanged as error:
            self.holder.lock(error)
            return self._failure_of(tool, record.failed(error))
        except NotariumError as error:
            answer = self._failure_of(tool, record.failed(self.holder.answer(error)))
            if error.tells_text and self.holder.opened is not None:
                self.holder.opened.usage_limits.record_read(answer.size)
            return answer
        except Exception as error:  # noqa: BLE001 - the last line before the wire
            failed = record.failed(report_unexpected(error, while_doing=tool.name))
            return self._failure_of(tool, failed)

    async def _run(self, tool: Tool, arguments: Json, record: Recording) -> CallResult:
        app = (
            self.holder.opened or await self.holder.app()
        )  # first, so that whatever comes of the call is on record
        await self._flow.wait_for_room()
        request = _request(tool, arguments)
        app.cache.follow()
        if named := named_notes(request):
            if any(map(is_day, named.values())):
                request, named = await with_days(app, request, named)
            request = with_ids(app, request, named)
        rule, action = tool.rule
        # defence: policy-before-each-call
        app.config.policy.require_use(rule, action or getattr(request, "action", None))
        reads = tool.read_only or getattr(request, "action", None) in LOOKING
        record.allow(app, request, changes=not reads)
        made = await tool.handle(app, request, record)
        if reads and not self._flow.has_room:
            await self._flow.wait_for_room()  # it has waited for the network
        answer = success(made, self._names)
        if reads:
            app.usage_limits.charge_read(answer.size)
        else:  # an answer that tells of a change is never taken back
            app.usage_limits.record_read(answer.size)
        return answer

    def _failure_of(self, tool: Tool, error: NotariumError) -> CallResult:
        answer = failure(error, self._names)
        if not tool.protocol_errors:
            return answer
        code = INTERNAL_ERROR
        if isinstance(error, InvalidRequest | NoteNotFound):
            code = tool.missing_code if isinstance(error, NoteNotFound) else tool.wrong_code
        return as_protocol_error(answer, code, sign=tool.failure_sign)


def _request(tool: Tool, arguments: Json) -> BaseModel:
    """Return the request. Raises ``InvalidRequest``, also for half a surrogate pair: that is no text."""
    halved = [name for name, value in arguments.items() if has_lone_surrogate([name, value])]
    if halved:  # defence: half-character-refused
        named = ", ".join(f"`{replace_surrogates(name)[:SHOWN]}`" for name in halved[:5])
        raise InvalidRequest(
            f"{named} holds half a character (a lone surrogate).",
            subcategory="arguments",
            resolution_hint="Send the whole character, as it is or as both halves; nothing was done.",
        )
    try:
        return tool.request.model_validate(arguments)
    except ValidationError as error:
        raise _invalid(tool, error) from None


_PROBLEMS = {
    "extra_forbidden": "Unknown argument",
    "model_type": "Input should be an object",
    "dict_type": "Input should be an object",
    "literal_error": "Not one of its values",
    "list_type": 'Input should be a list, as in ["one","two"] or [{...}]',
}
"""Messages for the model where pydantic speaks to programmers, by pydantic's name of the error."""


_MISSING = "Field required"
_THE_ID = "Give the `id` of a note: the `uuid` of a row of `list`."


def _invalid(tool: Tool, error: ValidationError) -> InvalidRequest:
    """Say which arguments are wrong and why, without repeating what was sent."""
    problems = [
        {
            "field": ".".join(str(part) for part in at["loc"])[:SHOWN],
            "problem": _PROBLEMS.get(at["type"], at["msg"]),
        }
        for at in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    wrong = dict.fromkeys(problem["field"].partition(".")[0] for problem in problems)
    missing = [problem["field"] for problem in problems if problem["problem"] == _MISSING]
    no_id = missing == ["id"] or {at["type"] for at in error.errors(include_input=False)} == {
        "note_id"
    }
    named = "; ".join(
        ": ".join(filter(None, (problem["field"], problem["problem"]))) for problem in problems[:5]
    )
    described = describe_arguments(tool, wrong)
    refusal = "refuses" if wrong.keys() - {""} else "refuses this call:"
    message = f"`{tool.name}` {refusal} {named}"
    is_id = (no_id or list(wrong) == ["id"]) and not tool.stands_for
    takes = f"`{tool.name}` takes{described and ':'} {described or 'no arguments'}."
    return InvalidRequest(
        message,
        subcategory="arguments",
        details={"problems": problems[:20]},
        resolution_hint=_THE_ID if is_id else _fit(takes, LONGEST_REFUSAL - 1 - len(message)),
    )


def _fit(listed: str, room: int) -> str:
    """Return a list of arguments without its end, if what was wrong would have no room with it."""
    if len(listed) <= room or room < LONGEST_REFUSAL // 2:
        return listed
    return f"{listed[: room - 3].rpartition(', ')[0]}, …"


def success(answer: BaseModel, names: ToolNames) -> CallResult:
    """Return the same facts as JSON value and as JSON text: some clients show only one of them.

    A plain answer is its text. Only ``note`` is a text of ours that may name a tool.
    """
    if isinstance(answer, PlainAnswer):
        text = replace_surrogates(answer.text)
        marked = answer.from_notes or _repeats_ids(answer)
        mark = mark_plain(text) if marked else ""  # defence: plain-text-marked =False
        mark = " ".join(filter(None, (mark, names.in_text(answer.remark))))
        size = len((text + mark).encode())
        value = answer.value
        if value is not None and marked:
            value = _marked(value)
        return CallResult(text, size, value, mark=mark, notes=answer.notes)
    value = answer.model_dump(exclude_none=True)
    if "note" in value:
        value["note"] = names.in_text(value["note"])
    # defence: names-are-bounded -names_notes
    if isinstance(answer, FromNotes) or names_notes(value):
        value = _marked(value)
    text = write_json(value)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        text = replace_surrogates(text)
        value = json.loads(text)
        size = len(text.encode())
    changed = answer.changed_ids if isinstance(answer, ChangedNotes) else ()
    made = CallResult(text, size, value, notes=(*changed, *notes_in(value)))
    if isinstance(answer, AttachmentAnswer):
        size += 4 * len(answer.picture[0]) // 3  # as base64
        return replace(made, size=size, picture=answer.picture, file_digest=answer.digest)
    return made


def _repeats_ids(answer: PlainAnswer) -> bool:
    """Tell whether a plain answer shows an id that may say something."""
    shown = answer.text + ("" if answer.value is None else write_json(answer.value))
    foreign = filter(is_foreign, answer.notes)
    return any(one in shown or write_json(one)[1:-1] in shown for one in foreign)


def _marked(value: Json) -> Json:
    """Return the fields of an answer with texts or names of notes, marked as such."""
    # defence: invisible-told add_findings()
    return add_boundaries(add_findings(value))  # defence: text-is-bounded add_boundaries()


def failure(error: NotariumError, names: ToolNames) -> CallResult:
    """Return an error the agent sees and can act on."""
    value = error.to_dict(logs.scrub_for_client)  # defence: client-errors-scrubbed -logs
    asks = isinstance(error, ConfirmationRequired)
    for said in ("resolution_hint",) if asks else ("message", "resolution_hint"):
        if said in value:
            value[said] = names.in_text(value[said])
    if error.tells_text or names_notes(value):  # defence: refusals-are-bounded -names_notes
        value = add_boundaries(value)
    text = replace_surrogates(write_json(value))
    tells_names = error.tells_text or QUOTE in value["message"]
    return CallResult(text, len(text.encode()), is_error=True, tells_names=tells_names)


def as_protocol_error(answer: CallResult, code: int, *, sign: str) -> CallResult:
    """Return the error as one of the protocol: a sentence as its message, the same and all facts in its data.

    A message that ends with the ``sign`` of a failure is complete; others get what to do, and the sign. One that
    repeats names stands between the boundaries, since it stands alone.
    """
    value = json.loads(answer.text)
    said = value["message"]
    if sign and said.endswith(sign):
        said, more = said.removesuffix(sign).rstrip(), f" {sign}"
    else:
        said += "" if said.endswith((".", "?")) else "."
        more = "".join(f" {one}" for one in (value.get("resolution_hint"), sign) if one)
    if (
        value.get("subcategory") != ConfirmationRequired.subcategory
        and len(said + more) >= LONGEST_REFUSAL
    ):
        said = said[: LONGEST_REFUSAL - 2 - len(more)] + "…"
    value["message"] = said + more
    alone = enclose(said, value) if answer.tells_names else said
    return CallResult(alone + more, answer.size, value, is_error=True, error_code=code)


def report_unexpected(error: BaseException, *, while_doing: str) -> NotariumError:
    """Log an exception nobody planned, and return an error for the client that says nothing of it.

    Its text may hold note text, so the log shows its type and place only. The two share a random id.
    """
    trace = secrets.token_hex(4)
    logs.get("server").error("server.unexpected", exc=error, phase=while_doing, id=trace)
    return NotariumError(
        "Something went wrong inside MCP Notarium.",
        details={"trace_id": trace},
        resolution_hint="Try once more. If it happens again, tell the user to look for this "
        "trace_id in the server's log.",
    )


PROGRESS_SECONDS = 1.0


@asynccontextmanager
async def reporting(call: Call, holder: AppHolder) -> AsyncIterator[None]:
    """Report while the ``with`` block runs: the seconds so far, and what is waited for if that is known."""
    if not call.wants_progress:
        yield
        return
    ticking: list[asyncio.Future[None]] = []

    def begin() -> None:
        ticking.append(asyncio.ensure_future(_tick(call, holder)))

    # Nearly every call ends before, and a task costs more than a timer.
    beginning = asyncio.get_running_loop().call_later(PROGRESS_SECONDS, begin)
    try:
        yield
    finally:
        beginning.cancel()
        for one in ticking:
            one.cancel()


async def _tick(call: Call, holder: AppHolder) -> None:
    while True:
        await call.tick(describe(holder))
        await asyncio.sleep(PROGRESS_SECONDS)


def describe(holder: AppHolder) -> str:
    """Return what most calls would wait for now. Numbers would tell of hidden notes, if rules hide some."""
    app = holder.opened
    if app is None:
        return "Opening the notes"
    try:
        status = app.library.status()
    except NotariumError:  # the call meets it as well
        return "Working"
    if status.complete:
        return "Working"
    if app.config.policy.visibility.has_rules:
        return "Loading the notes"
    of = "" if status.total is None else f" of {status.total}"
    return f"Loading the notes: {status.loaded}{of}"
