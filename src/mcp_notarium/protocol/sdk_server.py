"""Build the SDK's low-level ``Server`` with our tools, and let it serve a transport.

Importing this module takes half a second or more; handshake, discover, ping and lists do without it.
"""

from __future__ import annotations

import functools
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from mcp_notarium import __version__
from mcp_notarium.domain.policy import TOOLS as NAMES
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.protocol.sdk_adapter import Dispatch, guard
from mcp_notarium.protocol.sdk_streams import Incoming, Outgoing
from mcp_notarium.protocol.static_replies import instructions_without
from mcp_notarium.protocol.transport import Transport
from mcp_notarium.tools.catalog import INSTRUCTIONS, TOOLS, wire_form

NAME = "mcp-notarium"
TITLE = "MCP Notarium"

_HOUR_MS = 3_600_000
_STATIC = CacheHint(ttl_ms=_HOUR_MS, scope="public")

Context = ServerRequestContext[Any, Any]


@functools.cache
def _listed(offered: tuple[str, ...]) -> types.ListToolsResult:
    """Made when the SDK is asked, for a cursor: the list itself is a static reply."""
    forms = [wire_form(tool) for tool in TOOLS if tool.name in offered]
    return types.ListToolsResult(tools=[types.Tool.model_validate(form) for form in forms])


def build(pipeline: CallPipeline) -> Server[Any]:
    """The server for one connection, with the tools of this pipeline."""
    dispatch, offered = Dispatch(pipeline), pipeline.offered

    async def list_tools(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return _listed(offered)

    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title=TITLE,
        instructions=instructions_without(INSTRUCTIONS, set(NAMES).difference(offered)),
        on_list_tools=list_tools,
        on_call_tool=dispatch.call,
        cache_hints={"tools/list": _STATIC, "server/discover": _STATIC},
    )
    server.middleware[:] = [guard]  # instead of tracing, which nothing here collects
    return server


async def serve(server: Server[Any], transport: Transport) -> None:
    """Serve the connection to its end."""
    await server.run(
        Incoming(transport), Outgoing(transport), server.create_initialization_options()
    )
