"""``Bulk``: stores many notes in a thread beside the event loop, through a connection of its own.

Most of a first load is the database's work, which needs no Python: meanwhile the loop reads the
next page and answers tools. To SQLite the thread is one more process. The loop hands over one
transaction at a time, so that whoever waits there for the write lock comes next.
"""

from __future__ import annotations

import asyncio
from functools import partial

from mcp_notarium.errors import CacheDamaged
from mcp_notarium.sync.batch import Batch
from mcp_notarium.sync.batch_commit import Stored, Storing
from mcp_notarium.sync.memory_release import trim
from mcp_notarium.threads import run_aside

_LAST_SECONDS = 1.0
"""How long a cancelled load waits for the transaction that is under way."""


class Bulk:
    """A connection for many notes at once, open from the first :meth:`commit` to :meth:`close`."""

    def __init__(self, storing: Storing) -> None:
        self._origin = storing
        self._open: Storing | None = None
        self._handed_over = False
        self._task: asyncio.Task[Stored] | None = None

    async def commit(self, batch: Batch) -> Stored:
        """See :meth:`Storing.commit`. If it is cancelled, the transaction may still be finished."""
        try:
            return await self._commit(batch)
        except CacheDamaged as damage:
            self._origin.mark_damaged(damage)
            raise

    async def _commit(self, batch: Batch) -> Stored:
        if self._open is None:
            self._open = self._origin.another()
            self._handed_over = self._origin.hand_over(self._open)
        call = partial(self._open.commit, batch)
        self._task = asyncio.create_task(run_aside(call, too_late=lambda _stored: None))
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        """Let go of the connection; waits a moment for a transaction that is under way.

        One that takes longer keeps it, and lets go when it ends: a connection in use is not closed.
        """
        storing, self._open = self._open, None
        task, self._task = self._task, None
        handed_over, self._handed_over = self._handed_over, False

        def let_go(_ended: object = None) -> None:
            if task is not None and not task.cancelled():
                task.exception()  # whoever waited for it has it
            if storing is not None:
                storing.close()
            if handed_over:
                self._origin.take_back()
            if task is not None:
                trim()

        if task is not None:
            await asyncio.wait({task}, timeout=_LAST_SECONDS)
            if not task.done():
                task.add_done_callback(let_go)
                return
        let_go()
