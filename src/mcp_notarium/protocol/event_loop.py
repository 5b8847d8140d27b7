"""Run the event loop of the server: open the account, and serve the client when the SDK is imported.

The parts meet here and nowhere else: queue, connection, transport, account, SDK. Imports nothing of the SDK,
which is imported in a thread of its own meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio

from mcp_notarium import __version__, logs
from mcp_notarium.app import App, open_app
from mcp_notarium.audit.chain import ActName, AuditEntry, Facts
from mcp_notarium.errors import LockedError, NotariumError
from mcp_notarium.protocol.app_holder import AppHolder, Report
from mcp_notarium.protocol.call_pipeline import CallPipeline, report_unexpected
from mcp_notarium.protocol.stdio import Event, EventQueue
from mcp_notarium.protocol.transport import (
    Outbox,
    ShutdownDeadline,
    first_of,
    pump,
    run_transport,
)
from mcp_notarium.tools.toolsets import find_toolset

if TYPE_CHECKING:
    from mcp_notarium.config import Config
    from mcp_notarium.protocol.connection import Connection
    from mcp_notarium.protocol.stdio import FlowControl
    from mcp_notarium.storage.audit_log import AuditLog


OPENING_SECONDS: Final = 3.0
"""Seconds the account may take to open when the client has asked for notes and left."""


def run(
    queue: EventQueue,
    connection: Connection,
    outgoing: int,
    config: Config,
    *,
    flow: FlowControl,
    held: Sequence[Event],
    report: Report,
    refused: NotariumError | None = None,
) -> int:
    """Serve until the client leaves; returns the exit code.

    A ``ImportDone`` in the queue announces the SDK. ``held``: what came before. ``refused``
    has been reported: nothing is opened then.
    """

    async def serve() -> int:
        logs.watch_loop(asyncio.get_running_loop())
        deadline = ShutdownDeadline()
        holder = AppHolder(
            lambda: _open_app(config, deadline, holder), report=report, refused=refused
        )
        deadline.enforce(lambda: _exit_code(holder))
        toolset = find_toolset(config.toolset).prefixed(config.tool_prefix)
        toolset = toolset.permitted(config.policy, config.store.lacking)
        pipeline = CallPipeline(holder, toolset, flow=flow)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(holder.keep)
            holder.open()
            sdk = anyio.Event()

            async def ready() -> None:
                await sdk.wait()
                with anyio.move_on_after(OPENING_SECONDS):
                    await holder.tried()

            outbox = Outbox(outgoing, flow)
            async with run_transport(connection, outbox, deadline, ready=ready) as transport:
                tasks.start_soon(pump, queue, held, transport, sdk.set)
                await first_of(sdk.wait, transport.over.wait)
                if sdk.is_set():
                    from mcp_notarium.protocol import sdk_server  # noqa: PLC0415 - the loader has imported it

                    await sdk_server.serve(sdk_server.build(pipeline), transport)
            deadline.begin()
            await holder.leave(within=deadline.for_closing())
            tasks.cancel_scope.cancel()
        return _exit_code(holder)

    return anyio.run(serve)


def _exit_code(holder: AppHolder) -> int:
    return 1 if holder.locked else 0


@asynccontextmanager
async def _open_app(
    config: Config, deadline: ShutdownDeadline, holder: AppHolder
) -> AsyncIterator[App]:
    """Open the account; whatever goes wrong on the way becomes a ``NotariumError``."""
    opening = open_app(
        config,
        log=logs.get("app"),
        time_to_close=deadline.for_closing,
        heal=True,
        damaged=holder.reopen,
    )
    try:
        app = await opening.__aenter__()
    except NotariumError:
        raise
    except Exception as error:  # noqa: BLE001 - shown to the client without its text
        raise report_unexpected(error, while_doing="opening the cache") from None
    app.audit.buffer(
        AuditEntry(at=app.clock(), act=ActName.START, facts=record_start(config, app.audit))
    )
    app.audit.flush()
    app.audit.tidy()  # defence: server-prunes-records
    try:
        yield app
    finally:
        app.audit.buffer(AuditEntry(at=app.clock(), act=ActName.STOP))
        await _close(opening)


def record_start(config: Config, audit: AuditLog) -> Facts:
    """Return the rules a server works under, for the record of its start.

    The policy is named by a keyed digest: another policy has another one, and its tags stay unknown.
    """
    return {
        "version": __version__,
        "destructive": config.destructive,
        "audit_days": config.audit_days,
        "policy": audit.digest("policy", config.policy.meaning),
    }


async def _close(opening: AbstractAsyncContextManager[App]) -> None:
    """Close the account. Nothing is lost where that fails: every write is committed already."""
    try:
        await opening.__aexit__(None, None, None)
    except LockedError:
        return  # damage met on the way out: it is known there
    except Exception as error:  # noqa: BLE001 - the process ends either way
        report_unexpected(error, while_doing="closing the cache")
