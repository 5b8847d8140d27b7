"""Connect the SDK to the call pipeline: its requests in, results and errors out.

One policy for errors in both eras: an error of a tool is a result with ``isError``; an unknown tool and
a malformed request are protocol errors with the same facts in ``data``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mcp_notarium import logs
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.protocol.call_audit import Answer, Asked
from mcp_notarium.protocol.call_pipeline import SHOWN, CallPipeline, UnknownTool
from mcp_notarium.protocol.consent import Call, NeedsAnswer
from mcp_notarium.protocol.unexpected_errors import unexpected

Context = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult


class Dispatch:
    """Serves ``tools/call`` for one connection."""

    def __init__(self, pipeline: CallPipeline) -> None:
        self._pipeline = pipeline

    async def call(self, context: Context, params: types.CallToolRequestParams) -> Result:
        """The result of one call. Raises ``MCPError`` for an unknown tool only."""
        asked = Asked(client_of(context), params.name, params.arguments or {})
        try:
            return result_of(await self._pipeline.answer(asked, partial(Call, context, params)))
        except NeedsAnswer as needs:
            return needs.result
        except UnknownTool as unknown:
            raise _protocol_error(
                f"Unknown tool: {params.name[:SHOWN]}",
                hint="Use one of the tools in `details.known`; `tools/list` describes them.",
                known=unknown.known,
            ) from None


def client_of(context: Context) -> str:
    """Name and version of the client program, '' if it did not say."""
    known = context.session.client_params
    return f"{known.client_info.name} {known.client_info.version}" if known is not None else ""


def result_of(answer: Answer) -> types.CallToolResult:
    """The answer as the SDK wants it."""
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    if answer.is_error:
        return types.CallToolResult(content=content, is_error=True)
    return types.CallToolResult(content=content, structured_content=answer.value)


def _protocol_error(message: str, *, hint: str, **details: list[str]) -> MCPError:
    """-32602 with the same ``data`` as a tool error."""
    error = InvalidRequest(
        message, subcategory="arguments", details=dict(details), resolution_hint=hint
    )
    told = logs.scrub_for_client(error.to_dict())
    return MCPError(types.INVALID_PARAMS, told["message"], data=told)


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
    return [".".join(str(part) for part in at["loc"])[:SHOWN] for at in found][:20]
