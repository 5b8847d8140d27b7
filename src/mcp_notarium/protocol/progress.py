"""Report to a client that asks for it, every second, that a long call is still at work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp_notarium.errors import NotariumError

if TYPE_CHECKING:
    from mcp_notarium.protocol.app_holder import AppHolder
    from mcp_notarium.protocol.consent import Call

SECONDS = 1.0


@asynccontextmanager
async def reporting(call: Call, holder: AppHolder) -> AsyncIterator[None]:
    """Report while the ``with`` block runs: the seconds so far, and what is waited for if that is known."""
    if not call.wants_progress:
        yield
        return
    ticking = asyncio.ensure_future(_tick(call, holder))
    try:
        yield
    finally:
        ticking.cancel()


async def _tick(call: Call, holder: AppHolder) -> None:
    while True:
        await asyncio.sleep(SECONDS)
        await call.tick(describe(holder))


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
