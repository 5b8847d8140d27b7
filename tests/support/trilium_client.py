"""Make clients of the simulated Trilium server: quick retries, short deadlines, tokens in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcp_notarium.secret import Secret
from mcp_notarium.stores.http import HttpSession
from mcp_notarium.stores.http_rules import RetryPolicy
from mcp_notarium.stores.trilium.store import TriliumStore
from mcp_notarium.stores.trilium.urls import Urls
from notarium_devtools.trilium import TriliumSimulator
from support.simplenote_client import MemoryTokens

QUICK = RetryPolicy(tries=3, first=0.001, longest=0.002)


def open_trilium(
    sim: TriliumSimulator,
    *,
    token: str | None = None,
    tokens: MemoryTokens | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> TriliumStore:
    """A store with the simulator's own token, unless told otherwise."""
    return TriliumStore(
        urls=Urls(sim.url),
        token=Secret(sim.token if token is None else token),
        tokens=tokens or MemoryTokens(),
        timeout=10.0,
        session=HttpSession(bases=[sim.url], timeout=10.0, retry_policy=QUICK),
        sleep=sleep,
    )
