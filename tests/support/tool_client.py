"""Connect the client of the MCP SDK to a server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from mcp import Client

from mcp_notarium.app import App
from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.protocol.sdk_server import build
from mcp_notarium.tools.catalog import NOTARIUM, Toolset


@asynccontextmanager
async def connected(
    opener: Callable[[], AbstractAsyncContextManager[App]],
    era: str = "legacy",
    *,
    seconds: float = 10,
    toolset: Toolset = NOTARIUM,
    **options: Any,
) -> AsyncIterator[Client]:
    """Connect a client to a server of the account that ``opener`` opens."""
    holder = AppHolder(opener, report=lambda _error: None)
    with anyio.fail_after(seconds + 10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(holder.keep)
            holder.open()
            async with Client(
                build(CallPipeline(holder, toolset)),
                mode=era,
                read_timeout_seconds=seconds,
                **options,
            ) as client:
                yield client
            await holder.leave(within=1)
