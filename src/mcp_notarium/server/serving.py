"""The event loop of the server: opens the notes, answers on while the engine loads, then serves.

The parts meet here and nowhere else: arrivals, greeting, house, engine. Imports nothing of the
protocol library, which is still being loaded when this begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from mcp_notarium import __version__, log
from mcp_notarium.app import App, open_app
from mcp_notarium.audit.record import Act, Entry, Facts
from mcp_notarium.errors import LockedError, NotariumError
from mcp_notarium.server.arrivals import Event, Loaded, Stop
from mcp_notarium.server.awaiting import Arrivals
from mcp_notarium.server.ending import Ending
from mcp_notarium.server.greeting import Greeting
from mcp_notarium.server.house import House, Report
from mcp_notarium.server.inbox import Inbox
from mcp_notarium.server.traces import unexpected

if TYPE_CHECKING:
    from mcp_notarium.cache.trail import Trail
    from mcp_notarium.config import Config


def run(
    inbox: Inbox[Event], greeting: Greeting, outgoing: int, config: Config, *, report: Report
) -> int:
    """Serve until the client leaves; returns the exit code."""

    async def serve() -> int:
        log.watch_loop(asyncio.get_running_loop())
        ending = Ending()
        house = House(lambda: _opened(config, ending, house), report=report)
        ending.enforce(lambda: _exit_code(house))
        offered = config.policy.tools
        await _serve(Arrivals(inbox), greeting, outgoing, house, ending, offered=offered)
        return _exit_code(house)

    return anyio.run(serve)


def _exit_code(house: House) -> int:
    return 1 if house.locked else 0


async def _serve(
    arrivals: Arrivals,
    greeting: Greeting,
    outgoing: int,
    house: House,
    ending: Ending,
    *,
    offered: tuple[str, ...],
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.keep)
        if await _wait_for_engine(arrivals, greeting, house, ending):
            from mcp_notarium.server import engine  # noqa: PLC0415 - the loader has imported it

            await engine.serve(engine.build(house, offered), arrivals, greeting, outgoing, ending)
        ending.begin()
        await house.leave(within=ending.for_closing())
        tasks.cancel_scope.cancel()


async def _wait_for_engine(
    arrivals: Arrivals, greeting: Greeting, house: House, ending: Ending
) -> bool:
    """Answer on while it is being imported. False: the client has left, nothing is owed.

    A signal counts at once. The end of input counts when the engine comes to it, because what was
    asked before it may need the engine.
    """
    here = False
    while not here and not greeting.over:
        if greeting.front.settled:
            house.open()
        if any(isinstance(arrival, Stop) for arrival in greeting.held):
            ending.begin()
        for event in await arrivals.next():
            if isinstance(event, Loaded):
                event.demand()
                here = True
            else:
                greeting.take(event)
    return not greeting.over


@asynccontextmanager
async def _opened(config: Config, ending: Ending, house: House) -> AsyncIterator[App]:
    """The open house; whatever goes wrong on the way becomes a ``NotariumError``."""
    opening = open_app(
        config, log=log.get("app"), time_to_close=ending.for_closing, damaged=house.condemn
    )
    try:
        app = await opening.__aenter__()
    except NotariumError:
        raise
    except Exception as error:  # noqa: BLE001 - shown to the client without its text
        raise unexpected(error, while_doing="opening the cache") from None
    app.audit.note(Entry(at=app.clock(), act=Act.START, facts=started(config, app.audit)))
    app.audit.flush()
    app.audit.tidy()
    try:
        yield app
    finally:
        app.audit.note(Entry(at=app.clock(), act=Act.STOP))
        await _closed(opening)


def started(config: Config, audit: Trail) -> Facts:
    """Under which rules a server works, for the record of its start.

    The policy is named by a keyed digest: another policy has another one, and its tags stay unknown.
    """
    return {
        "version": __version__,
        "destructive": config.destructive,
        "audit_days": config.audit_days,
        "policy": audit.digest("policy", config.policy.meaning),
    }


async def _closed(opening: AbstractAsyncContextManager[App]) -> None:
    """Close the house. Nothing is lost where that fails: every write is committed already."""
    try:
        await opening.__aexit__(None, None, None)
    except LockedError:
        return  # damage met on the way out: the house knows
    except Exception as error:  # noqa: BLE001 - the process ends either way
        unexpected(error, while_doing="closing the cache")
