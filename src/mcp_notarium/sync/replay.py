"""Find and claim the journal entries that have no answer; ``write_attempt`` makes each attempt, as it makes a first one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

from mcp_notarium.domain.note import Content, PendingWrite, WriteKind
from mcp_notarium.errors import (
    CacheBusy,
    CacheError,
    LoginRequired,
    NotariumError,
    OutcomeUnknown,
    RateLimited,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.backoff import ItemBackoff
from mcp_notarium.sync.head_reader import PerhapsRenamed
from mcp_notarium.sync.journal import REPLAYING, Journal
from mcp_notarium.sync.note_fetch import ITEM_SECONDS, check_store_serves
from mcp_notarium.sync.note_locks import NoteLock, NoteLocks
from mcp_notarium.sync.write_attempt import ROUNDS, WriteAttempt
from mcp_notarium.sync.write_decisions import WriteOutcome, WriteResult
from mcp_notarium.sync.write_errors import unknown_outcome

LOCK_TRIES = 50
"""Number of checks whether another process has finished with the note."""
LOCK_PAUSE = 0.1
_MOST_CREATED = 20
"""Creations that nobody has waited for and whose contents are kept."""
_PERHAPS_EVERYBODY = (StoreTimeout, StoreUnavailable, LoginRequired, RateLimited)
"""Errors that may concern every other entry as well."""
_MOST_LATE = 2
"""Most writes that go on in the background: each takes a connection to the store."""


class Replay:
    """Finish unfinished entries: those of one note, or all that nobody works on."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        journal: Journal,
        attempt: WriteAttempt,
        locks: NoteLocks,
        stopwatch: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._attempt = attempt
        self._locks = locks
        self._sleep = sleep
        self._created: dict[Content, tuple[WriteResult, str | None]] = {}
        """Maps what new notes were to be to outcome and etag, for a caller who sends the same again."""
        self._backoff = ItemBackoff(stopwatch)
        self._not_found: dict[str, str] = {}
        """Write_id to note id of entries whose note was not under its name before this cycle's listing."""
        self._late: list[NoteLock] = []
        """Locks of writes that took too long and go on; until they end their notes stay locked."""

    async def finish_all(self) -> Counter[WriteOutcome | None]:
        """Finish every unfinished entry that nobody works on; count how each ended, None if it waits.

        Raises the store's error if one fails, and a request about all notes fails as well.
        """
        writes = self._cache.journal.in_flight()
        self._backoff.keep_only({write.write_id for write in writes})
        self._not_found.clear()
        return await self._finish_each(writes, listed={})

    async def finish_not_found(self) -> Counter[WriteOutcome | None]:
        """Finish what :meth:`finish_all` has left to a full listing, which was compared since."""
        listed = self._not_found.copy()
        writes = self._cache.journal.in_flight() if listed else ()
        return await self._finish_each((w for w in writes if w.write_id in listed), listed=listed)

    async def finish_own(self) -> None:
        """Finish the entries whose answers only this process has. Raises as :meth:`finish_all`, and ``CacheBusy`` while another process writes."""
        if not (unstored := self._attempt.unstored):
            return
        # Nothing else here would run while a statement waits for the lock.
        with self._cache.database.without_waiting(), self._cache.transaction():
            writes = [one for one in self._cache.journal.in_flight() if one.write_id in unstored]
        for gone in unstored.keys() - {one.write_id for one in writes}:
            del unstored[gone]
        for write in writes:  # nobody else can, and the lease ends
            self._backoff.record_success(write.write_id)
        await self._finish_each(writes, listed={})

    async def finish_earlier(self, note_id: str, lock: NoteLock) -> None:
        """Finish the note's unanswered write, or raise ``StoreUnavailable``, before another is made."""
        try:
            await self.finish_of(note_id, lock)
        except OutcomeUnknown as error:
            raise StoreUnavailable(
                "an earlier write of this note is still unanswered; nothing was saved",
                details=error.details,
            ) from error

    async def finish_of(self, note_id: str, lock: NoteLock) -> WriteResult | None:
        """Finish the note's unanswered write, made by this process or left by another one.

        Return how that ended; None if there was none. Raises ``OutcomeUnknown`` if it stays unanswered,
        and ``CacheBusy`` if another process keeps the note.
        """
        result = None
        for _ in range(LOCK_TRIES):
            write = self._journal.in_flight(note_id)
            if write is None:
                return result
            claimed = self._journal.claim(write)
            if claimed is None:
                await self._sleep(LOCK_PAUSE)
            else:
                result = await lock.run_to_end(self._finish(claimed))
        raise CacheBusy("another process is saving this note")

    def _take_created(self, content: Content) -> WriteResult | None:
        """Return once how a creation of ``content`` in doubt was stored; None: there is none, or its note has changed since."""
        result, etag = self._created.pop(content, (None, None))
        return result if result and self._cache.notes.etag(result.note_id) == etag else None

    async def _finish(self, write: PendingWrite, *, listed: bool = False) -> WriteResult:
        """Finish the entry, in a task of its own. It remains if this raises."""
        REPLAYING.set(True)
        try:
            if self._journal.waits(write):  # defence: links-wait-for-renaming
                raise PerhapsRenamed("a note that this one links to is being renamed", write)
            for _ in range(ROUNDS):
                result = await self._attempt.repeated(write, listed=listed)
                if result.outcome is not WriteOutcome.AGAIN:
                    if result.stored and write.kind is WriteKind.CREATE and not write.copied:
                        if len(self._created) >= _MOST_CREATED:
                            del self._created[next(iter(self._created))]
                        etag = self._cache.notes.etag(result.note_id)
                        self._created[write.content] = result, etag
                    return result
                kept = self._cache.journal.get(write.write_id)
                if kept is None:  # another process has finished it
                    self._journal.release(write)
                    return WriteResult(WriteOutcome.STORED, write.note_id, merged=True)
                if kept.owner != self._journal.owner:
                    break
                write = kept
            raise unknown_outcome("the note keeps changing at the note store", write)
        except NotariumError:
            if write.write_id not in self._attempt.unstored:
                self._journal.release(write)
            raise

    async def resume_creation(self, content: Content, act: Act | None) -> WriteResult | None:
        """Finish a creation of the same content that was in doubt; None: there is none, or its note is gone.

        Raises ``OutcomeUnknown`` if it stays unanswered.
        """
        asked = replace(content, native="")
        body = self._journal.compose(None, content) if content.native else None
        same = (
            write
            for write in self._cache.journal.in_flight()
            if write.kind is WriteKind.CREATE
            and write.content == asked
            and body in (None, write.body)
        )
        write = next(filter(self._journal.is_in_doubt, same), None)
        finished = self._take_created(content) if write is None else None
        if write is None and (finished is None or not self.can_answer(finished)):
            return None
        if act is not None:
            act.begin()
        if write is None:
            return finished
        async with self._locks.lock(write.note_id) as lock:
            try:
                result = await self.finish_of(write.note_id, lock)
            except (StoreError, CacheBusy) as error:
                raise unknown_outcome("an earlier save of it is unanswered", write) from error
        result, _ = self._created.pop(write.content, (result, None))
        if result is None:  # another process has finished it
            note = self._cache.shown(write.note_id)
            if note is None:
                return None
            sent = self._store.revision_of(note.id, write.body).content
            result = WriteResult(WriteOutcome.STORED, note.id, merged=note.content != sent)
        return result if self.can_answer(result) else None

    def can_answer(self, result: WriteResult) -> bool:
        """Tell whether the caller gets the note of an earlier creation, or must not make it again."""
        hides = result.stored and self._cache.seen.notes.visibility.rules.has_rules
        return hides or self._cache.shown(result.note_id) is not None

    async def _finish_each(
        self, writes: Iterable[PendingWrite], *, listed: Mapping[str, str]
    ) -> Counter[WriteOutcome | None]:
        outcomes: Counter[WriteOutcome | None] = Counter()
        for write in writes:
            outcome = None
            self._late = [lock for lock in self._late if lock.is_busy]
            if len(self._late) < _MOST_LATE and self._is_free(write):
                async with self._locks.lock(write.note_id, beside_calls=True) as lock:
                    was_listed = listed.get(write.write_id) == write.note_id
                    outcome = await self._finish_one(write, lock, listed=was_listed)
            outcomes[outcome] += 1
        return outcomes

    def is_due(self) -> bool:
        """Tell whether there is a write that :meth:`finish_all` would try now, and :meth:`finish_own` does not."""
        writes, own = self._cache.journal.in_flight(), self._attempt.unstored
        return any(one.write_id not in own and self._is_free(one) for one in writes)

    def _is_free(self, write: PendingWrite) -> bool:
        held = self._locks.is_locked(write.note_id) or self._backoff.blocks(write.write_id)
        return not held and self._journal.can_claim(write)

    async def _finish_one(
        self, write: PendingWrite, lock: NoteLock, *, listed: bool
    ) -> WriteOutcome | None:
        claimed = self._journal.claim(write)
        if claimed is None:
            return None
        try:
            async with asyncio.timeout(ITEM_SECONDS):
                return (await lock.run_to_end(self._finish(claimed, listed=listed))).outcome
        except TimeoutError:
            self._backoff.record_failure(write.write_id)
            self._late.append(lock)
        except CacheError:
            raise
        except PerhapsRenamed:
            self._not_found[write.write_id] = write.note_id
        except NotariumError as error:
            self._backoff.record_failure(write.write_id, error)
            if isinstance(error, _PERHAPS_EVERYBODY):
                await check_store_serves(self._cache, self._store)
        return None
