"""``Writer``: make every change of a note, in the store first and then in the index.

A change made from an old view is merged or refused; it never overwrites somebody else's. Success is
reported only after the store has answered. A write that was sent and not answered stays in the journal
and is finished by :meth:`Writer.replay`. The writer does not read the change feed; ``driver`` does.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.pending_write import PendingWrite
from mcp_notarium.domain.text_normalization import replace_surrogates
from mcp_notarium.errors import (
    CacheError,
    LoginRequired,
    NotariumError,
    RateLimited,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.backoff import ItemBackoff
from mcp_notarium.sync.journal import Hook, Journal, process_ended
from mcp_notarium.sync.journal_replay import JournalReplay
from mcp_notarium.sync.note_edits import NoteEdits, Saved
from mcp_notarium.sync.note_fetch import ITEM_SECONDS, check_store_serves
from mcp_notarium.sync.note_locks import NoteLock, NoteLocks
from mcp_notarium.sync.push import Pusher, PushOutcome
from mcp_notarium.sync.write_context import WriteContext

__all__ = ["Replayed", "Saved", "Writer"]

_PERHAPS_EVERYBODY = (StoreTimeout, StoreUnavailable, LoginRequired, RateLimited)
"""Errors that may concern every other entry as well."""
_MOST_LATE = 2
"""Most writes that go on in the background: each takes a connection to the store."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Count what became of the unfinished entries.

    ``waiting`` are in doubt, backed off from, or leased to another process.
    """

    finished: int = 0
    copies: int = 0
    rejected: int = 0
    waiting: int = 0


class Writer:
    """Create, change and remove notes; nothing else does.

    ``owner`` names this process in journal entries and ``lease`` (seconds) is how long others leave
    them alone; ``owner_ended`` tells whether the process of such a name has ended. ``stopwatch``
    gives seconds of a clock that nobody sets.

    ``before_record`` is called before an entry is recorded, inside its transaction, so that no other
    process comes in between; if it raises, nothing is recorded. ``after_last_entry`` is called
    outside any transaction when no entry seems to be left; another process may just be recording
    one, so it looks again under the write lock. ``on_step`` is told each step of a push, so that a
    test can stop there; ``on_difference`` the id of each note that the store by itself holds
    differently from what was sent.
    """

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        clock: Callable[[], float],
        owner: str,
        lease: float,
        stopwatch: Callable[[], float] = time.monotonic,
        before_record: Hook | None = None,
        after_last_entry: Hook | None = None,
        owner_ended: Callable[[str], bool] = process_ended,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_step: Callable[[str], None] = lambda _step: None,
        on_difference: Callable[[str], None] = lambda _note_id: None,
    ) -> None:
        self._cache = cache
        self._store = store
        self._backoff = ItemBackoff(stopwatch)
        self._late: set[asyncio.Task[Any]] = set()
        self._locks = NoteLocks()
        self._journal = Journal(
            cache,
            clock=clock,
            owner=owner,
            lease=lease,
            owner_ended=owner_ended,
            before_record=before_record,
            after_last_entry=after_last_entry,
        )
        pusher = Pusher(
            store, self._journal, clock=clock, on_step=on_step, on_difference=on_difference
        )
        self._replay = JournalReplay(
            cache, store, journal=self._journal, pusher=pusher, clock=clock
        )
        context = WriteContext(
            cache=cache,
            store=store,
            locks=self._locks,
            journal=self._journal,
            pusher=pusher,
            replay=self._replay,
            clock=clock,
            new_id=new_id,
            sleep=sleep,
        )
        self._edits = NoteEdits(context)

    def call(self) -> AbstractAsyncContextManager[None]:
        """Serve one writing call at a time, in order of arrival; drafting belongs inside.

        A cancelled call keeps its place until the request that it has sent is answered.
        """
        return self._locks.call()

    async def save(self, *, note: Note | None, content: Content) -> Saved:
        """Create a note, or change ``note`` (as the caller read it) into ``content``.

        Raises ``VersionConflict`` if somebody else changed the same lines, ``NoteNotFound`` if the
        note is gone, ``OutcomeUnknown`` if the store did not answer (the write is finished later),
        or what kept the store from taking it; except for ``OutcomeUnknown`` nothing was saved.
        """
        wanted = _clean(content)
        if note is None:
            return await self._edits.create(wanted)
        return await self._edits.update(note, wanted)

    async def remove(self, note: Note) -> None:
        """Remove a note for good, as the caller read it. A note already gone is success.

        Raises ``InvalidRequest`` if it is not in the trash where the store wants that,
        ``VersionConflict`` if it has changed, otherwise as :meth:`save`.
        """
        await self._edits.remove(note)

    async def replay(self) -> Replayed:
        """Finish every unfinished entry that nobody works on. One that fails or is slow delays no other.

        An entry that failed is backed off from, longer each time. Raises the store's error if an
        entry fails and a request about all notes fails as well.
        """
        counts = dict.fromkeys(PushOutcome, 0)
        waiting = 0
        writes = self._journal.all_in_flight()
        self._backoff.keep_only({write.write_id for write in writes})
        for write in writes:
            if len(self._late) >= _MOST_LATE or not self._is_free(write):
                waiting += 1
                continue
            async with self._locks.lock(write.note_id, beside_calls=True) as lock:
                outcome = await self._replay_one(write, lock)
            if outcome is None:
                waiting += 1
            else:
                counts[outcome] += 1
        return Replayed(
            finished=counts[PushOutcome.STORED],
            copies=counts[PushOutcome.COPIED],
            rejected=counts[PushOutcome.REFUSED],
            waiting=waiting,
        )

    def unfinished(self) -> tuple[str, ...]:
        """Return the ids of the writes that :meth:`replay` would try now."""
        return tuple(
            write.write_id
            for write in self._journal.all_in_flight()
            if self._journal.claimable(write) and self._is_free(write)
        )

    async def drain(self) -> None:
        """Wait for writes whose caller has left. Call it before the database is closed."""
        await self._locks.drain()

    def _is_free(self, write: PendingWrite) -> bool:
        return not self._locks.is_locked(write.note_id) and not self._backoff.blocks(write.write_id)

    async def _replay_one(self, write: PendingWrite, lock: NoteLock) -> PushOutcome | None:
        claimed = self._journal.claim(write)
        if claimed is None:
            return None
        try:
            async with asyncio.timeout(ITEM_SECONDS) as timeout:
                return (await lock.run_to_end(self._replay.finish(claimed))).outcome
        except TimeoutError:
            if not timeout.expired():
                raise
            self._backoff.record_failure(write.write_id)
            self._continue_late(lock)
        except CacheError:
            raise
        except _PERHAPS_EVERYBODY as error:
            self._backoff.record_failure(write.write_id, error)
            await check_store_serves(self._cache, self._store)
        except NotariumError as error:
            self._backoff.record_failure(write.write_id, error)
        return None

    def _continue_late(self, lock: NoteLock) -> None:
        """Let the work that was begun go on; until it ends the note stays locked."""
        if lock.task is not None and not lock.task.done():
            self._late.add(lock.task)
            lock.task.add_done_callback(self._late.discard)


def _clean(content: Content) -> Content:
    """Return the content in a form that any store and the index can hold."""
    return Content(
        text=replace_surrogates(content.text),
        tags=tuple(replace_surrogates(tag) for tag in content.tags),
        trash=content.trash,
    )
