"""Run a floor: the smallest server of the MCP SDK, with one tool that echoes its argument."""

from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    """One tool."""
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=SCHEMA)])


async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    """The same text."""
    text = str((params.arguments or {}).get("text", ""))
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def made() -> Server[Any]:
    """The server."""
    return Server("floor", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    """Serve standard input to its end."""
    server = made()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
