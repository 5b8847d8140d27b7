"""The event loop of the server: opens the notes, lets them be read, and serves when the engine is there.

The parts meet here and nowhere else: arrivals, greeting, house, direct readings, engine. Imports nothing
of the protocol library, which is loaded when something needs it, or when a note has been read: then it may
soon be changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio

from mcp_notarium import __version__, logs
from mcp_notarium.app import App, open_app
from mcp_notarium.audit.record import Act, Entry, Facts
from mcp_notarium.errors import CacheError, LockedError, NotariumError
from mcp_notarium.protocol.app_holder import House, Report
from mcp_notarium.protocol.async_inbox import Arrivals
from mcp_notarium.protocol.call_pipeline import Answering
from mcp_notarium.protocol.direct_calls import Direct
from mcp_notarium.protocol.events import Answered, Event, Loaded, Stop
from mcp_notarium.protocol.handshake import Greeting
from mcp_notarium.protocol.inbox import Inbox, weight
from mcp_notarium.protocol.outbox import Outbox
from mcp_notarium.protocol.shutdown import Ending
from mcp_notarium.protocol.unexpected_errors import unexpected

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from mcp_notarium.account.early_unlock import EarlyUnlock
    from mcp_notarium.config import Config
    from mcp_notarium.storage.audit_log import AuditLog


OPENING_SECONDS: Final = 3.0
"""How long the house may take to open when the client has asked for notes and left."""
LAST_WORDS_SECONDS: Final = 0.05
"""How long writing may take that some calls have no answer."""


def run(
    inbox: Inbox,
    greeting: Greeting,
    outgoing: int,
    config: Config,
    *,
    report: Report,
    want_engine: Callable[[], None],
    ahead: EarlyUnlock,
    refused: NotariumError | None = None,
) -> int:
    """Serve until the client leaves; returns the exit code.

    ``want_engine`` has the engine imported; it tells by a ``Loaded`` in the inbox. ``ahead`` has
    begun to unlock the key file. ``refused`` has been reported: nothing is opened then.
    """

    async def serve() -> int:
        logs.watch_loop(asyncio.get_running_loop())
        ending = Ending()
        house = House(lambda: _opened(config, ending, house, ahead), report=report, refused=refused)
        ending.enforce(lambda: _exit_code(house))
        offered = config.policy.tools
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.keep)
            visit = _Visit(inbox, greeting, house, ending, want_engine)
            await visit.serve(Outbox(outgoing), tuple(offered), tasks)
            ending.begin()
            await house.leave(within=ending.for_closing())
            tasks.cancel_scope.cancel()
        return _exit_code(house)

    return anyio.run(serve)


def _exit_code(house: House) -> int:
    return 1 if house.locked else 0


class _Visit:
    """One client, from the first thing the event loop hears of it to its leaving."""

    def __init__(
        self,
        inbox: Inbox,
        greeting: Greeting,
        house: House,
        ending: Ending,
        want_engine: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._arrivals = Arrivals(inbox)
        self._greeting = greeting
        self._house = house
        self._ending = ending
        self._want_engine = want_engine
        self._engine_here = False
        self._engine_serves = False
        self._opening: anyio.CancelScope | None = None

    async def serve(self, outbox: Outbox, offered: tuple[str, ...], tasks: TaskGroup) -> None:
        """Serve to the end."""
        answering = Answering(self._house, offered, backlog=outbox.backlog)
        direct = Direct(answering, outbox, tasks, tell=self._told)
        self._arrivals.rest_while(lambda: outbox.backlog.full() or self._greeting.behind())
        if await self._without_engine(direct):
            from mcp_notarium.protocol import sdk_server  # noqa: PLC0415 - the loader has imported it

            self._engine_serves = True
            server = sdk_server.build(self._house, offered, answering=answering)
            await sdk_server.serve(
                server, self._arrivals, self._greeting, outbox, self._ending, direct=direct
            )
        else:
            tasks.start_soon(self._hear_signals)
        await self._finish(direct, outbox)

    async def _without_engine(self, direct: Direct) -> bool:
        """Answer what can be answered until the engine takes over. False: the client has left.

        It does as soon as something waits for it: a change never waits for a reading. A signal counts at
        once. The end of input counts when what was asked before it is answered.
        """
        for due, size in self._greeting.hand_over():
            direct.do(due, size)
        while not self._greeting.left:
            if self._greeting.front.settled:
                self._house.open()
            if self._greeting.held:
                self._want_engine()
            self._heed_signals()
            if self._engine_here and (self._greeting.held or not direct.busy):
                return True
            for event in await self._arrivals.next():
                self._hear(event, direct)
        return False

    def _hear(self, event: Event, direct: Direct) -> None:
        if isinstance(event, Loaded):
            event.demand()
            self._engine_here = True
        elif isinstance(event, Answered):
            if event.tool == "get" and not self._loading():
                self._want_engine()
        else:
            direct.do(self._greeting.take(event), weight(event))

    def _told(self, event: Event) -> None:
        """Something has become of a reading, or of the client."""
        if isinstance(event, Answered):
            self._greeting.front.over(event.request_id)
            if self._engine_serves:
                return  # nothing depends on it any more
        self._inbox.put(event)

    def _loading(self) -> bool:
        """Whether notes are being loaded for the first time, which needs the processor more."""
        app = self._house.opened
        if app is None:
            return False
        try:
            return not app.driver.status().complete
        except CacheError:
            return False

    def _heed_signals(self) -> None:
        if any(isinstance(arrival, Stop) for arrival in self._greeting.held):
            self._ending.begin()

    async def _finish(self, direct: Direct, outbox: Outbox) -> None:
        """What was asked is answered in the time there is for it; opening the house has its own.

        Whoever has no answer then is told that the connection ends.
        """
        if direct.busy:
            with anyio.move_on_after(OPENING_SECONDS) as self._opening:
                self._hurry()
                await self._house.tried()
        self._ending.begin()
        with anyio.move_on_after(self._ending.for_answers()):
            await direct.idle()
        outbox.abandon_if_stuck()
        direct.break_off()
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await direct.idle()
        outbox.abandon_if_stuck()

    def _hurry(self) -> None:
        """Once the time for the end runs, the house opens in the part of it for answers or not at all."""
        if self._opening is not None and self._ending.begun:
            last = anyio.current_time() + self._ending.for_answers()
            self._opening.deadline = min(self._opening.deadline, last)

    async def _hear_signals(self) -> None:
        """Once the input has ended, a signal is all that can still come."""
        self._heed_signals()
        self._hurry()
        while True:
            if any(isinstance(event, Stop) for event in await self._arrivals.next()):
                self._ending.begin()
                self._hurry()


@asynccontextmanager
async def _opened(
    config: Config, ending: Ending, house: House, ahead: EarlyUnlock
) -> AsyncIterator[App]:
    """The open house; whatever goes wrong on the way becomes a ``NotariumError``."""
    opening = open_app(
        config,
        log=logs.get("app"),
        time_to_close=ending.for_closing,
        unlock=ahead.unlock,
        damaged=house.mark_damaged,
    )
    try:
        app = await opening.__aenter__()
    except NotariumError:
        raise
    except Exception as error:  # noqa: BLE001 - shown to the client without its text
        raise unexpected(error, while_doing="opening the cache") from None
    finally:
        ahead.forget()
    app.audit.note(Entry(at=app.clock(), act=Act.START, facts=started(config, app.audit)))
    app.audit.flush()
    app.audit.tidy()
    try:
        yield app
    finally:
        app.audit.note(Entry(at=app.clock(), act=Act.STOP))
        await _closed(opening)


def started(config: Config, audit: AuditLog) -> Facts:
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
