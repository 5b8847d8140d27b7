"""Commit a batch: decide about each note and store the decisions in one transaction.

A decision is made inside the write transaction that carries it out, because another task, thread or
process may have saved a moment before. ``BatchCommitter`` never waits. ``BulkCommitter`` commits many
notes in a thread beside the event loop. ``release_memory`` gives back what such a load took.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.domain.pending_write import PendingWrite, WriteState
from mcp_notarium.errors import CacheDamaged, CacheError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Entry
from mcp_notarium.sync.batch import Batch
from mcp_notarium.sync.planner import (
    Action,
    Confirmed,
    Fetch,
    Forget,
    Known,
    Local,
    Nothing,
    Remote,
    Replace,
    Resolve,
    Upsert,
    plan,
)
from mcp_notarium.sync.progress import SyncProgress
from mcp_notarium.threads import run_in_thread

_LAST_SECONDS = 1.0
"""How long a cancelled load waits for the transaction that is running."""


class Superseded(Exception):
    """The index was emptied after this batch was read; the batch was not stored."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Count the notes of one transaction; ``deferred`` could not be decided yet.

    ``news`` were new, changed or gone, including those that are not kept because the policy hides them.
    """

    stored: int = 0
    removed: int = 0
    deferred: int = 0
    news: int = 0


class BatchCommitter:
    """Commit batches through one connection."""

    def __init__(self, cache: Cache, progress: SyncProgress) -> None:
        self._cache = cache
        self._progress = progress

    def another(self) -> BatchCommitter:
        """Open a committer with a connection of its own, for another thread; the caller closes it."""
        cache = self._cache.another()
        return BatchCommitter(cache, self._progress.with_cache(cache))

    def close(self) -> None:
        """Close the connection."""
        self._cache.close()

    def mark_damaged(self, damage: CacheDamaged) -> None:
        """Stop using this connection too: another one has met damage in the file."""
        self._cache.database.mark_damaged(damage.message)

    def pass_checkpointing(self, to: BatchCommitter) -> bool:
        """Let the other connection checkpoint the WAL, if this one does; True if it did.

        Never both: SQLite before 3.51.3 can lose a transaction when two checkpoint at once.
        """
        if not self._cache.database.checkpointer:
            return False
        self._cache.database.set_checkpointer(False)
        to._cache.database.set_checkpointer(True)
        return True

    def resume_checkpointing(self) -> None:
        """Checkpoint the WAL again, after the other connection is closed."""
        with suppress(CacheError):
            self._cache.database.set_checkpointer(True)

    def commit(self, batch: Batch) -> CommitResult:
        """Store the batch in one transaction. Raises ``Superseded``."""
        with self._cache.transaction():
            if self._progress.epoch != batch.epoch:
                raise Superseded
            actions = self.plan(batch.remotes)
            applied = self._cache.notes.apply(_changes(actions))
            deferred = self._record_doubts(zip(batch.remotes, actions, strict=True))
            if batch.bookmark is not None:
                batch.bookmark(self._progress)  # INVARIANT 1 (docs/sync.md)
        news = sum(isinstance(action, Upsert | Forget) for action in actions)
        return CommitResult(applied.stored, applied.removed, deferred, news)

    def plan(self, remotes: Sequence[Remote]) -> list[Action]:
        """Decide about each note from the present state of the database."""
        ids = [remote.id for remote in remotes]
        etags, withheld = self._cache.notes.etags(ids), self._cache.notes.gate.hidden_notes(ids)
        pending = self.pending()
        actions = []
        for remote in remotes:
            write = pending.get(remote.id)
            if known := withheld.get(remote.id):
                local = Local(Known(known.etag, known.server_version), write)
            else:
                local = self._local(remote, etags.get(remote.id), write)
            actions.append(plan(local, remote))
        return actions

    def pending(self) -> dict[str, PendingWrite]:
        """Return the unfinished write of each note that has one."""
        return {
            write.note_id: write
            for write in self._cache.pending.all()
            if write.state is WriteState.IN_FLIGHT
        }

    def _local(self, remote: Remote, etag: str | None, write: PendingWrite | None) -> Local:
        if etag is None:
            return Local(None, write)
        version = content = None
        if not (isinstance(remote, Revision | Entry) and remote.etag == etag):
            note = self._cache.notes.get(remote.id)
            version = note.server_version if note else None
            content = note.content if note else None
        return Local(Known(etag, version, content), write)

    def _record_doubts(self, decided: Iterable[tuple[Remote, Action]]) -> int:
        """Record the notes that could not be decided; they are asked for again. Return how many are new.

        Only a direct answer removes a doubt: a listing may lag behind what raised it.
        """
        before = self._progress.doubts()
        after = dict.fromkeys(before)
        for remote, action in decided:
            if isinstance(action, Fetch | Resolve):
                after[action.id] = None
            elif isinstance(remote, Confirmed):
                after.pop(action.id, None)
        if tuple(after) != before:
            self._progress.mark_doubts(after)
        return len(after.keys() - set(before))


class BulkCommitter:
    """Commit many notes in a thread, through a connection of its own.

    Most of a first load is the database's work, which needs no Python: meanwhile the event loop reads
    the next page and answers tools. To SQLite the thread is one more process. The loop passes one
    transaction at a time, so that whoever waits there for the write lock comes next. The connection
    is open from the first :meth:`commit` to :meth:`close`.
    """

    def __init__(self, committer: BatchCommitter) -> None:
        self._origin = committer
        self._open: BatchCommitter | None = None
        self._passed = False
        self._task: asyncio.Task[CommitResult] | None = None

    async def commit(self, batch: Batch) -> CommitResult:
        """See :meth:`BatchCommitter.commit`. After a cancel, the transaction may still be finished."""
        try:
            return await self._commit(batch)
        except CacheDamaged as damage:
            self._origin.mark_damaged(damage)
            raise

    async def _commit(self, batch: Batch) -> CommitResult:
        if self._open is None:
            self._open = self._origin.another()
            self._passed = self._origin.pass_checkpointing(self._open)
        call = partial(self._open.commit, batch)
        self._task = asyncio.create_task(run_in_thread(call, too_late=lambda _result: None))
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        """Close the connection; wait a moment for a transaction that is running.

        If it runs longer, the connection is closed when it ends: one in use is never closed.
        """
        committer, self._open = self._open, None
        task, self._task = self._task, None
        passed, self._passed = self._passed, False

        def finish(_ended: object = None) -> None:
            if task is not None and not task.cancelled():
                task.exception()  # the caller of commit got it
            if committer is not None:
                committer.close()
            if passed:
                self._origin.resume_checkpointing()
            if task is not None:
                release_memory()

        if task is not None:
            await asyncio.wait({task}, timeout=_LAST_SECONDS)
            if not task.done():
                task.add_done_callback(finish)
                return
        finish()


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


def _changes(actions: Iterable[Action]) -> list[Revision | Tombstone]:
    changes: list[Revision | Tombstone] = []
    for action in actions:
        match action:
            case Upsert(revision=revision):
                changes.append(revision)
            case Replace(revision=revision):
                changes += [Tombstone(revision.id), revision]
            case Forget(id=note_id):
                changes.append(Tombstone(note_id))
            case Nothing() | Fetch() | Resolve():
                continue
    return changes
