"""Connect the SDK's low-level ``Server`` to the call pipeline and to the transport.

Importing this module takes half a second or more; handshake, discover, ping and lists do without it.
One policy for errors in both eras: an error of a tool is a result with ``isError``; an unknown tool and
a malformed request are protocol errors with the same facts in ``data``. Nothing in a result can end the
process: what no encoding can carry becomes U+FFFD.
"""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import anyio
import mcp_types as types
from mcp.server.caching import CacheableMethod
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from mcp_notarium import __version__, logs
from mcp_notarium.audit.chain import Decision
from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.protocol import elicitation
from mcp_notarium.protocol.call_audit import CallResult
from mcp_notarium.protocol.call_pipeline import (
    SHOWN,
    CallPipeline,
    UnknownTool,
    report_unexpected,
    reporting,
)
from mcp_notarium.protocol.connection import INVALID_REQUEST, Refusal
from mcp_notarium.protocol.elicitation import NeedsAnswer
from mcp_notarium.protocol.event_loop import Transport
from mcp_notarium.protocol.sdk_resources import STATIC, Context, SdkResources
from mcp_notarium.tools.catalog import wire_form
from mcp_notarium.tools.tool import Tool

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.tools.question import Question


class Call:
    """Represent a call that came through the SDK: an ``IncomingCall``."""

    def __init__(self, context: Context, params: types.CallToolRequestParams) -> None:
        self.context = context
        self.params = params
        self.request_id = context.request_id
        about = context.session.client_params
        self.client = f"{about.client_info.name} {about.client_info.version}" if about else ""
        self.tool = params.name
        self.arguments = params.arguments or {}
        self.decision = Decision.ALLOWED
        self.approval = ""
        self._ticks = 0
        self._reports = False

    @property
    def wants_progress(self) -> bool:
        """Tell whether the client asked to hear of progress."""
        return "progress_token" in (self.context.meta or {})

    async def tick(self, message: str) -> None:
        """Report that a second has passed, unless the call reports its progress itself."""
        if not self._reports:
            self._ticks += 1
            await self.context.session.report_progress(self._ticks, None, message)

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report how far the call is, if the client asked for that; numbers only grow."""
        self._reports = True
        whole = None if total is None else self._ticks + total
        said = logs.scrub_for_client(message)  # defence: progress-clean scrub_for_client()
        await self.context.session.report_progress(self._ticks + done, whole, said)

    def is_answered(self, *, irreversible: bool, app: App) -> bool:
        """Tell whether it brings the answer to such a question, so that nobody is asked."""
        return elicitation.is_answered(self, irreversible=irreversible, app=app)

    async def ask(self, question: Question, *, app: App) -> bool:
        """Return whether the user agrees. Raises ``ConfirmationRequired`` if nobody can say."""
        return await elicitation.ask(self, question, app=app)


async def answer_call(
    pipeline: CallPipeline,
    context: Context,
    params: types.CallToolRequestParams,
    tool: Tool | None = None,
) -> CallResult:
    """Return the pipeline's answer to a call; see :meth:`CallPipeline.answer`."""
    call = Call(context, params)
    async with reporting(call, pipeline.holder):
        return await pipeline.answer(call, tool)


def build(pipeline: CallPipeline) -> Server[Any]:
    """Build the server for one connection, with the tools of this pipeline."""

    async def list_tools(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        forms = map(names.in_descriptions, map(wire_form, toolset.tools))
        named = [form | {"name": names.shown(form["name"])} for form in forms]
        return types.ListToolsResult(tools=[types.Tool.model_validate(form) for form in named])

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            answer = await answer_call(pipeline, context, params)
        except NeedsAnswer as needs:
            return needs.result
        except UnknownTool as unknown:
            raise _protocol_error(
                f"Unknown tool: {params.name[:SHOWN]}",
                hint="Use one of the tools in `details.known`; `tools/list` describes them.",
                code=pipeline.toolset.unknown_code,
                known=unknown.known,
            ) from None
        if answer.error_code is not None:
            raise MCPError(answer.error_code, answer.text, data=answer.value)
        return result_of(answer)

    async def list_prompts(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt.name,
                    title=prompt.title,
                    description=prompt.description,
                    arguments=[
                        types.PromptArgument(name=name, description=said, required=required)
                        for name, said, required in prompt.arguments
                    ],
                )
                for prompt in prompts.values()
            ]
        )

    async def get_prompt(
        _context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompt, given = prompts.get(params.name), params.arguments or {}
        if prompt is None:
            raise _protocol_error(
                f"Unknown prompt: {params.name[:SHOWN]}",
                hint="Use one of the prompts in `details.known`; `prompts/list` describes them.",
                known=list(prompts),
            )
        missing = [
            name
            for name, _, required in prompt.arguments
            if required and not given.get(name, "").strip()
        ]
        if missing:
            raise _protocol_error(
                f"`{prompt.name}` needs {', '.join(missing)}.",
                hint="Give the arguments in `details.missing`.",
                missing=missing,
            )
        text = replace_surrogates(prompt.write(given, names.shown))
        return types.GetPromptResult(
            description=prompt.description,
            messages=[
                types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
            ],
        )

    toolset, names = pipeline.toolset, pipeline.toolset.names
    prompts = {prompt.name: prompt for prompt in toolset.prompts}
    resources = SdkResources(pipeline, partial(answer_call, pipeline))
    server: Server[Any] = Server(
        "mcp-notarium",
        version=__version__,
        title="MCP Notarium",
        instructions=names.in_text(toolset.instructions),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_subscribe_resource=resources.subscribe,
        on_unsubscribe_resource=resources.unsubscribe,
        on_subscriptions_listen=resources.stream_changes,
        lifespan=resources.lifespan,
        cache_hints=dict.fromkeys(_NEVER_CHANGE, STATIC),
    )
    server.middleware[:] = [guard]  # instead of tracing, which nothing here collects
    return server


_NEVER_CHANGE: tuple[CacheableMethod, ...] = (
    *("tools/list", "prompts/list", "resources/templates/list", "server/discover"),
)


async def serve(server: Server[Any], transport: Transport) -> None:
    """Serve the connection to its end."""
    stream = SdkStream(transport)
    await server.run(stream, stream, server.create_initialization_options())


def result_of(answer: CallResult) -> types.CallToolResult:
    """Return the answer as the SDK wants it."""
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    if answer.is_error:
        return types.CallToolResult(content=content, is_error=True)
    if answer.mark:
        content.append(types.TextContent(type="text", text=answer.mark))
    if answer.picture[0]:
        data, kind = base64.b64encode(answer.picture[0]).decode(), answer.picture[1]
        content.append(types.ImageContent(type="image", data=data, mime_type=kind))
    return types.CallToolResult(content=content, structured_content=answer.value)


def _protocol_error(
    message: str, *, hint: str, code: int = types.INVALID_PARAMS, **details: list[str]
) -> MCPError:
    """Return an error with the same ``data`` as a tool error."""
    error = InvalidRequest(
        message, subcategory="arguments", details=dict(details), resolution_hint=hint
    )
    facts = error.to_dict(logs.scrub_for_client)  # defence: protocol-errors-scrubbed -logs
    return MCPError(code, facts["message"], data=facts)


async def guard(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Turn what is not a protocol error into one without a text: middleware around every message."""
    try:
        return await call_next(ctx)
    except MCPError:
        raise
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise _protocol_error(
            "Invalid request parameters",
            hint="Correct the parameters named in `details.fields`; nothing was done.",
            fields=[".".join(str(part) for part in at["loc"])[:SHOWN] for at in found][:20],
        ) from None
    except Exception as error:  # noqa: BLE001 - the last line before the wire
        hidden = report_unexpected(error, while_doing="a request")
        raise MCPError(types.INTERNAL_ERROR, hidden.message, data=hidden.to_dict()) from None


class SdkStream:
    """Give the SDK what it reads and take what it writes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def aclose(self) -> None:
        """Do nothing: the descriptor belongs to the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises ``EndOfStream`` at the end."""
        while True:
            message = await self._transport.next()
            try:
                return SessionMessage(
                    jsonrpc_message_adapter.validate_python(message, by_name=False)
                )
            except ValidationError:
                request_id = message.get("id")
                if "method" in message and request_id is not None:
                    refusal = Refusal(INVALID_REQUEST, "Invalid request", request_id)
                    await self._transport.send(refusal.encoded(), answers=request_id)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message."""
        message = item.message
        answers = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        await self._transport.send(encode(message), answers=answers)


def encode(message: JSONRPCMessage) -> bytes:
    """Return the message as a line."""
    if isinstance(message, JSONRPCError) and message.id is None:
        return Refusal(message.error.code, message.error.message).encoded()
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (ValueError, UnicodeError):
        form = message.model_dump(by_alias=True, exclude_unset=True)
        text = json.dumps(form, separators=(",", ":"), default=str, ensure_ascii=False)
        return replace_surrogates(text).encode() + b"\n"
