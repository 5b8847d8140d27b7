"""Apply one batch to the index: plan, fetch what is missing, commit.

It decides nothing (``pull_decisions`` does) and does not know where a batch comes from (``batch_reader``
does). Every plan is made twice: before fetching, to know what to fetch, and again when it is stored.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from mcp_notarium.errors import CacheDamaged, CacheError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.note_rows import BULK_SIZE
from mcp_notarium.storage.note_table import Counts
from mcp_notarium.stores.contract import Entry, Store, Versions
from mcp_notarium.sync.batch_commit import Batch, BatchCommitter, Tally
from mcp_notarium.sync.note_fetch import NoteFetcher
from mcp_notarium.sync.progress import SyncProgress
from mcp_notarium.sync.pull_decisions import Confirmed, Missing, Move, deduplicate
from mcp_notarium.threads import run_in_thread

_LAST_SECONDS = 1.0
"""Seconds that a cancelled load waits for the transaction that is running."""
_REST_SECONDS = 1.0
"""Time without a written note after which the full-text index is merged: each slice holds up who writes."""
_Result = TypeVar("_Result")


class BatchApplier:
    """Write what comes from the store into the note table; nothing else does.

    ``news`` counts the new, changed and removed notes so far.
    """

    def __init__(
        self, cache: Cache, store: Store, progress: SyncProgress, *, stopwatch: Callable[[], float]
    ) -> None:
        self._progress = progress
        self._fetcher = NoteFetcher(cache, store, stopwatch=stopwatch)
        self._keeps_lost = store.traits.versions is Versions.NONE
        self._committer = BatchCommitter(cache, progress, keeps_lost=self._keeps_lost)
        self._cache = cache
        self._thread = ThreadConnection(cache)
        self._stopwatch = stopwatch
        self._written: tuple[int, Counts] | None = None
        self._written_at = 0.0
        self.news = 0

    async def fetch(self, batch: Batch, tally: Tally) -> Batch:
        """Return the batch with an answer for every note that must be asked for.

        A note that the store does not give, while it serves others, stays unanswered. News waits for
        it ``ITEM_SECONDS`` at most, and not at all while it is backed off from. An error that concerns
        all notes (no connection, no login) is raised.
        """
        entries = (one for one in batch.remotes if isinstance(one, Entry))
        # Before asking for a note: the answer may have another identity already.
        self._committer.follow([*batch.seen, *((one.id, one.identity) for one in entries)])
        remotes = deduplicate(batch.remotes)
        actions = self._committer.plan(remotes)
        decided = zip(remotes, actions, strict=True)
        unknown = self._fetcher.select(
            remote for remote, action in decided if action.move is Move.FETCH
        )
        tally.fetched += len(unknown)
        answers = await self._fetcher.fetch(unknown)
        return replace(batch, remotes=tuple(answers.get(remote.id, remote) for remote in remotes))

    async def ask(self, note_ids: Iterable[str]) -> dict[str, Confirmed]:
        """Ask for notes that a listing lacks, but for those backed off from; store nothing."""
        allowed = [Missing(one) for one in note_ids if not self._fetcher.blocks(one)]
        return await self._fetcher.fetch(allowed)

    async def commit(self, batch: Batch, tally: Tally) -> None:
        """Store the batch in one transaction; many notes in a thread beside the event loop.

        Raises ``Superseded``.
        """
        if len(batch.remotes) > BULK_SIZE:
            result = await self._thread.call(
                lambda cache: BatchCommitter(
                    cache, self._progress.with_cache(cache), keeps_lost=self._keeps_lost
                ).commit(batch)
            )
        else:
            result = self._committer.commit(batch)
        tally.add(result)
        self.news += result.news

    async def tidy(self) -> bool:
        """Merge a slice of the full-text index in the thread; True if the next may follow at once.

        While notes are being written it does nothing. Of an index where nothing is due it reads one number.
        """
        if not self._cache.notes.tidy_due:
            return False
        resting = self._nobody_writes()
        more = resting and await self._thread.call(lambda cache: cache.notes.tidy())
        if not more:
            await self.close()  # or nobody would move the log meanwhile
        return more

    def _nobody_writes(self) -> bool:
        written = self._cache.notes.index_changes, self._cache.notes.counts()
        if written != self._written:
            self._written, self._written_at = written, self._stopwatch()
        return self._stopwatch() - self._written_at >= _REST_SECONDS

    async def close(self) -> None:
        """Close the thread's connection, until it is needed again."""
        await self._thread.close()

    def due_unresolved(self) -> tuple[str, ...]:
        """Return the unresolved notes to fetch now: without a pending write, and not backed off from."""
        unresolved = self._progress.unresolved()
        busy = self._committer.pending() if unresolved else set()
        return tuple(
            note_id
            for note_id in unresolved
            if note_id not in busy and not self._fetcher.blocks(note_id)
        )


class ThreadConnection:
    """Write much in a thread, through a connection of its own.

    Most of a first load is the database's work, which needs no Python: meanwhile the event loop reads
    the next page and answers tools. To SQLite the thread is one more process. The loop passes one
    transaction at a time, so that whoever waits there for the write lock comes next. The connection
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

        If it runs longer, the connection is closed when it ends, and nobody is left to checkpoint here:
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
            if in_time:
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


def release_memory() -> bool:
    """Return free heap memory to the system; True if there was any. Never fails.

    After a first load glibc keeps some 15 MB for threads that have ended. Other C libraries return
    it by themselves.
    """
    if sys.platform != "linux":
        return False
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False
