"""Finish the journal entries that nobody works on: at the beginning of a cycle, and after its listing.

``JournalReplay`` backs off from entries that fail and waits for slow ones; ``entry_replay`` finishes them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from mcp_notarium.domain.note import PendingWrite
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
from mcp_notarium.sync.entry_replay import EntryReplay, PerhapsRenamed
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.note_fetch import ITEM_SECONDS, check_store_serves
from mcp_notarium.sync.note_locks import NoteLock, NoteLocks
from mcp_notarium.sync.push_decisions import PushOutcome

_PERHAPS_EVERYBODY = (StoreTimeout, StoreUnavailable, LoginRequired, RateLimited)
"""Errors that may concern every other entry as well."""
_MOST_LATE = 2
"""Most writes that go on in the background: each takes a connection to the store."""


class JournalReplay:
    """Finish all entries that nobody works on."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        journal: Journal,
        entries: EntryReplay,
        locks: NoteLocks,
        stopwatch: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._entries = entries
        self._locks = locks
        self._backoff = ItemBackoff(stopwatch)
        self._not_found: set[tuple[str, str]] = set()
        """Write_id and note id of entries whose note was not under its name before this cycle's listing."""
        self._late: list[NoteLock] = []
        """Locks of writes that took too long and go on; until they end their notes stay locked."""

    async def finish_all(self) -> Counter[PushOutcome | None]:
        """Finish every unfinished entry that nobody works on. One that fails or is slow delays no other.

        Count how each ended; None: it waits (it failed, or another process works on it). An entry that
        failed is backed off from, longer each time. Raises the store's error if an entry fails and a
        request about all notes fails as well.
        """
        writes = self._cache.journal.in_flight()
        self._backoff.keep_only({write.write_id for write in writes})
        self._not_found.clear()
        return await self._finish_each(writes)

    async def finish_not_found(self) -> Counter[PushOutcome | None]:
        """Finish what :meth:`finish_all` has left to a full listing, which was compared since."""
        listed, left = self._not_found.copy(), {write_id for write_id, _ in self._not_found}
        writes = self._cache.journal.in_flight() if left else ()
        return await self._finish_each((w for w in writes if w.write_id in left), listed=listed)

    async def _finish_each(
        self,
        writes: Iterable[PendingWrite],
        *,
        listed: AbstractSet[tuple[str, str]] = frozenset(),
    ) -> Counter[PushOutcome | None]:
        outcomes: Counter[PushOutcome | None] = Counter()
        for write in writes:
            outcome = None
            self._late = [lock for lock in self._late if lock.is_busy]
            if len(self._late) < _MOST_LATE and self._is_free(write):
                async with self._locks.lock(write.note_id, beside_calls=True) as lock:
                    was_listed = (write.write_id, write.note_id) in listed
                    outcome = await self._finish_one(write, lock, listed=was_listed)
            outcomes[outcome] += 1
        return outcomes

    def unfinished(self) -> tuple[str, ...]:
        """Return the ids of the writes that :meth:`finish_all` would try now."""
        return tuple(
            write.write_id
            for write in self._cache.journal.in_flight()
            if self._journal.can_claim(write) and self._is_free(write)
        )

    def _is_free(self, write: PendingWrite) -> bool:
        return not self._locks.is_locked(write.note_id) and not self._backoff.blocks(write.write_id)

    async def _finish_one(
        self, write: PendingWrite, lock: NoteLock, *, listed: bool
    ) -> PushOutcome | None:
        claimed = self._journal.claim(write)
        if claimed is None:
            return None
        try:
            async with asyncio.timeout(ITEM_SECONDS):
                work = self._entries.finish(claimed, listed=listed)
                return (await lock.run_to_end(work)).outcome
        except TimeoutError:
            self._backoff.record_failure(write.write_id)
            self._late.append(lock)
        except CacheError:
            raise
        except PerhapsRenamed:
            self._not_found.add((write.write_id, write.note_id))
        except _PERHAPS_EVERYBODY as error:
            self._backoff.record_failure(write.write_id, error)
            await check_store_serves(self._cache, self._store)
        except NotariumError as error:
            self._backoff.record_failure(write.write_id, error)
        return None
