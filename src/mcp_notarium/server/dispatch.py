"""Calls of tools: validate, open the house, ask the policy, run the handler, make the wire form.

One policy for errors in both eras. What the agent can act on is a *tool error*: ``isError`` and the
error's ``to_dict()`` as JSON text, without ``structuredContent``, because widespread clients check
that against the output schema and then hide the error. An unknown tool is a protocol error. The text
of an unexpected exception never leaves the process.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent
from pydantic import BaseModel, ValidationError

from mcp_notarium.errors import ConfirmationRequired, InvalidRequest, NotariumError, PolicyChanged
from mcp_notarium.notes.clean import replace_surrogates
from mcp_notarium.policy.model import TOOLS, demand
from mcp_notarium.server.calls import Call, NeedsAnswer
from mcp_notarium.server.house import House
from mcp_notarium.server.recording import Recorder, Recording
from mcp_notarium.server.traces import unexpected
from mcp_notarium.server.wire import has_lone_surrogate
from mcp_notarium.tools.catalogue import Tool, by_name
from mcp_notarium.tools.schemas import FromNotes
from mcp_notarium.tools.untrusted import marked, reported

if TYPE_CHECKING:
    from mcp_notarium.app import App

_SHOWN = 64

Context = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult


class Dispatch:
    """Serves ``tools/call`` for one connection."""

    def __init__(self, house: House, offered: Collection[str] = TOOLS) -> None:
        self._house = house
        self._tools = {name: tool for name, tool in by_name().items() if name in offered}
        self._writing = anyio.Lock()
        self._recorder = Recorder(house)

    async def call(self, context: Context, params: types.CallToolRequestParams) -> Result:
        """The result of one call. Raises ``MCPError`` for an unknown tool only."""
        tool = self._tools.get(params.name)
        with self._recorder.recording(context, params, tool) as record:
            if tool is None:
                raise _protocol_error(
                    f"Unknown tool: {params.name[:_SHOWN]}",
                    hint="Use one of the tools in `details.known`; `tools/list` describes them.",
                    known=sorted(self._tools),
                )
            return record.answered(await self._answer(tool, context, params, record))

    async def _answer(
        self, tool: Tool, context: Context, params: types.CallToolRequestParams, record: Recording
    ) -> Result:
        try:
            return await self._run(tool, context, params, record)
        except NeedsAnswer as needs:
            return needs.result
        except PolicyChanged as error:
            self._house.condemn(error)
            return failure(record.failed(error))
        except NotariumError as error:
            return failure(record.failed(self._house.answer(error)))
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - the last line before the wire
            return failure(record.failed(unexpected(error, while_doing=tool.name)))

    async def _run(
        self, tool: Tool, context: Context, params: types.CallToolRequestParams, record: Recording
    ) -> types.CallToolResult:
        request = _request(tool, params.arguments or {})
        app = await self._house.app()
        app.cache.notes.gate.demand()
        demand(app.policy.may(tool.name, getattr(request, "action", None)))
        call = Call(
            context,
            params,
            writing=self._writing,
            setting=app.config.destructive,
            confirmed=getattr(request, "confirm", None) is True,
        )
        record.begin(app.audit, request, call)
        result = success(await tool.handle(app, request, call))
        _count(app, tool, result)
        return result


def _count(app: App, tool: Tool, result: types.CallToolResult) -> None:
    """Take the answer from what may be read. One that tells of a change is never taken back."""
    size = sum(len(part.text.encode()) for part in result.content if isinstance(part, TextContent))
    if tool.annotations.read_only:
        app.allowance.give(size)
    else:
        app.allowance.note(size)


def _request(tool: Tool, arguments: dict[str, Any]) -> BaseModel:
    halved = [name for name, value in arguments.items() if has_lone_surrogate([name, value])]
    if halved:
        raise _half_a_character(halved)
    try:
        return tool.request.model_validate(arguments)
    except ValidationError as error:
        raise _invalid(tool, error) from None


def _half_a_character(names: list[str]) -> InvalidRequest:
    """Half a surrogate pair is no text; storing something else instead would change a note."""
    named = ", ".join(f"`{replace_surrogates(name)[:_SHOWN]}`" for name in names[:5])
    return InvalidRequest(
        f"{named} holds half a character (a lone surrogate).",
        subcategory="arguments",
        resolution_hint="Send the whole character, as it is or as both halves; nothing was done.",
    )


def _invalid(tool: Tool, error: ValidationError) -> InvalidRequest:
    """Which arguments are wrong and why, without repeating what was sent."""
    problems = [
        {"field": ".".join(str(part) for part in at["loc"])[:_SHOWN], "problem": at["msg"]}
        for at in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    named = "; ".join(f"{problem['field']}: {problem['problem']}" for problem in problems[:5])
    return InvalidRequest(
        f"`{tool.name}` cannot take these arguments: {named}",
        subcategory="arguments",
        details={"problems": problems[:20]},
        resolution_hint=f"`{tool.name}` takes: {', '.join(tool.request.model_fields)}.",
    )


def success(answer: BaseModel) -> types.CallToolResult:
    """The same facts as JSON value and as JSON text: some clients show only one of them."""
    value = answer.model_dump(exclude_none=True)
    if isinstance(answer, FromNotes):
        value = marked(reported(value))
    text = _json(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = replace_surrogates(text)
        value = json.loads(text)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=value
    )


def failure(error: NotariumError) -> types.CallToolResult:
    """An error the agent sees and can act on. A question nobody has answered names a note."""
    value = error.to_dict()
    if isinstance(error, ConfirmationRequired):
        value = marked(value)
    text = replace_surrogates(_json(value))
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _protocol_error(message: str, *, hint: str, **details: list[str]) -> MCPError:
    """-32602 with the same ``data`` as a tool error."""
    error = InvalidRequest(
        message, subcategory="arguments", details=dict(details), resolution_hint=hint
    )
    return MCPError(types.INVALID_PARAMS, message, data=error.to_dict())


async def guard(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware around every message: what is not a protocol error becomes one without a text."""
    try:
        return await call_next(ctx)
    except MCPError:
        raise
    except ValidationError as error:
        raise _protocol_error(
            "Invalid request parameters",
            hint="Correct the parameters named in `details.fields`; nothing was done.",
            fields=_fields(error),
        ) from None
    except Exception as error:  # noqa: BLE001 - the last line before the wire
        hidden = unexpected(error, while_doing="a request")
        raise MCPError(types.INTERNAL_ERROR, hidden.message, data=hidden.to_dict()) from None


def _fields(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [".".join(str(part) for part in at["loc"])[:_SHOWN] for at in found][:20]
