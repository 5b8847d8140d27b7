"""Arrivals as an event loop takes them: woken by the inbox's bell, in order, none lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcp_notarium.protocol.events import Event
from mcp_notarium.protocol.inbox import Inbox


class Arrivals:
    """What arrives, for the event loop."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._bell = asyncio.Event()
        loop = asyncio.get_running_loop()
        inbox.ring(lambda: loop.call_soon_threadsafe(self._bell.set))

    def rest_while(self, behind: Callable[[], bool]) -> None:
        """Let no more lines come while this holds; it is asked from another thread."""
        self._inbox.behind = behind

    async def next(self) -> list[Event]:
        """Everything new; waits until there is something."""
        while not (events := self._inbox.taken()):
            await self._bell.wait()
            self._bell.clear()
        return events
