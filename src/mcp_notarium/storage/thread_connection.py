"""Write much in a thread, through a connection of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from mcp_notarium.errors import CacheDamaged, CacheError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.system import SYSTEM
from mcp_notarium.threads import run_in_thread

_LAST_SECONDS = 1.0
"""Seconds that a cancelled load waits for the transaction that is running."""
_Result = TypeVar("_Result")
release_memory = SYSTEM.release_memory


class ThreadConnection:
    """Run transactions in a thread, one at a time.

    Most of a first load is the database's work, which needs no Python: meanwhile the event loop reads
    the next page and answers tools. To SQLite the thread is one more process. The loop passes one
    transaction at a time, so that the next who waits there for the write lock gets it. The connection
    is open from the first :meth:`call` to :meth:`close`. A database in memory has none: there the loop writes.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._opened: Cache | None = None
        self._in_use = threading.Lock()
        self._task: asyncio.Task[object] | None = None

    async def call(self, work: Callable[[Cache], _Result]) -> _Result:
        """Return what ``work`` returns. After a cancel, its transaction may still be finished."""
        if self._cache.database.in_memory:
            return work(self._cache)
        try:
            if self._opened is None:
                self._opened = self._open()
            task = asyncio.create_task(
                run_in_thread(partial(_alone, work, self._opened, self._in_use))
            )
            self._task = task
            return await asyncio.shield(task)
        except CacheDamaged as damage:
            self._cache.database.mark_damaged(damage.message)
            raise

    def _open(self) -> Cache:
        opened, checkpointer = self._cache.open_another(), self._cache.database.checkpointer
        try:
            if checkpointer:
                # Never both: SQLite before 3.51.3 can lose a transaction when two checkpoint at once.
                self._cache.database.set_checkpointer(False)
                opened.database.set_checkpointer(True)
        except CacheError:
            opened.close()
            with suppress(CacheError):
                self._cache.database.set_checkpointer(checkpointer)
            raise
        return opened

    async def close(self) -> None:
        """Close the connection; wait a moment for a transaction that is running.

        A statement that runs longer closes the connection when it ends, and nobody is left to checkpoint here:
        another process may lead by then. One in use is never closed: it stays open if the event loop ends before.
        """
        opened, self._opened = self._opened, None
        task, self._task = self._task, None
        if opened is None or task is None:
            return

        def finish(ended: asyncio.Task[object]) -> None:
            if not ended.cancelled():
                ended.exception()  # the caller got it
            if self._in_use.locked():
                return  # the loop ends and has cancelled the task; the thread goes on
            opened.close()
            if in_time:  # defence: one-process-moves-the-log =True
                with suppress(CacheError):
                    self._cache.database.set_checkpointer(opened.database.checkpointer)
            release_memory()

        await asyncio.wait({task}, timeout=_LAST_SECONDS)
        in_time = task.done()
        if in_time:
            finish(task)
        else:
            task.add_done_callback(finish)


def _alone(work: Callable[[Cache], _Result], cache: Cache, in_use: threading.Lock) -> _Result:
    with in_use:
        return work(cache)
