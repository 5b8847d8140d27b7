"""The MCP server itself: the protocol library's low-level ``Server`` with our tools and transport.

Importing this module is what takes half a second or more; the handshake, the list of tools and plain
readings do without it.
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
from mcp_notarium.protocol.app_holder import House
from mcp_notarium.protocol.async_inbox import Arrivals
from mcp_notarium.protocol.call_pipeline import Answering
from mcp_notarium.protocol.direct_calls import Direct
from mcp_notarium.protocol.events import Answered, Event, Loaded
from mcp_notarium.protocol.handshake import Greeting
from mcp_notarium.protocol.inbox import weight
from mcp_notarium.protocol.line_reader import TooLong
from mcp_notarium.protocol.outbox import Outbox
from mcp_notarium.protocol.sdk_adapter import Dispatch, guard
from mcp_notarium.protocol.shutdown import Ending
from mcp_notarium.protocol.static_replies import spoken
from mcp_notarium.protocol.transport import Transport, running
from mcp_notarium.tools.catalog import INSTRUCTIONS, TOOLS, wire_form

NAME = "mcp-notarium"
TITLE = "MCP Notarium"

_HOUR_MS = 3_600_000
_STATIC = CacheHint(ttl_ms=_HOUR_MS, scope="public")

Context = ServerRequestContext[Any, Any]


@functools.cache
def _listed(offered: tuple[str, ...]) -> types.ListToolsResult:
    """Made when the engine is asked, which is rare: the front knows the list."""
    forms = [wire_form(tool) for tool in TOOLS if tool.name in offered]
    return types.ListToolsResult(tools=[types.Tool.model_validate(form) for form in forms])


def build(
    house: House, offered: tuple[str, ...] = NAMES, *, answering: Answering | None = None
) -> Server[Any]:
    """The server for one connection over this house, with the tools that are ``offered``.

    ``answering`` is given where it has answered calls of this connection before.
    """
    dispatch = Dispatch(answering or Answering(house, offered))

    async def list_tools(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return _listed(offered)

    async def initialized(_context: Context, _params: types.NotificationParams) -> None:
        house.open()

    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title=TITLE,
        instructions=spoken(INSTRUCTIONS, set(NAMES).difference(offered)),
        on_list_tools=list_tools,
        on_call_tool=dispatch.call,
        cache_hints={"tools/list": _STATIC, "server/discover": _STATIC},
    )
    server.add_notification_handler(
        "notifications/initialized", types.NotificationParams, initialized
    )
    server.middleware[:] = [guard]  # instead of tracing, which nothing here collects
    return server


async def serve(
    server: Server[Any],
    arrivals: Arrivals,
    greeting: Greeting,
    outbox: Outbox,
    ending: Ending,
    *,
    direct: Direct,
) -> None:
    """Serve the connection to its end, beginning with what the greeting has kept.

    ``direct`` answers plain readings meanwhile, as before.
    """
    swallow = greeting.front.swallow
    async with running(outbox, ending, swallow=swallow, beside=direct.idle) as transport:
        arrivals.rest_while(lambda: outbox.backlog.full() or transport.behind())
        transport.tasks.start_soon(_pump, arrivals, greeting, transport, direct)
        await server.run(
            transport.incoming, transport.outgoing, server.create_initialization_options()
        )


async def _pump(
    arrivals: Arrivals, greeting: Greeting, transport: Transport, direct: Direct
) -> None:
    """Hand the transport everything that arrives, in order, but for readings."""
    greeting.front.hold()
    for line in greeting.front.replay:
        transport.feed(line)
    events: list[Event] = list(greeting.held)
    while True:
        for event in events:
            if isinstance(event, bytes) and (due := greeting.front.receive(event)) is not None:
                if not transport.stopping:
                    direct.do(due, weight(event))
            elif isinstance(event, bytes | TooLong):
                transport.feed(event)
            elif not isinstance(event, Loaded | Answered):
                transport.stop()
        events = await arrivals.next()
