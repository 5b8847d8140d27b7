"""Run one sync cycle: do the work of each state of the table until one rests.

``CycleRunner`` has no clock of its own and never waits; ``scheduler`` decides when it works. Every failure
becomes an event of the table; nothing that was stored is ever taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from mcp_notarium.errors import (
    CacheBusy,
    CacheDamaged,
    CacheError,
    NotariumError,
    StoreProtocolError,
    StoreUnavailable,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.backoff import FIRST_DELAY, CycleBackoff
from mcp_notarium.sync.batch_apply import Batch, BatchApplier, Superseded, Tally
from mcp_notarium.sync.batch_reader import Batches, BatchReader
from mcp_notarium.sync.cycle_states import RESTING, TRANSITIONS, Event, State, event_of
from mcp_notarium.sync.write_decisions import WriteOutcome
from mcp_notarium.sync.writer import Writer

if TYPE_CHECKING:
    from mcp_notarium.logs import Logger


class CycleRunner:
    """Do the leader's work on one database. ``backoff`` tells the scheduler how long to wait."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        writer: Writer,
        *,
        stopwatch: Callable[[], float],
        log: Logger | None,
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._progress = cache.progress
        self._stopwatch = stopwatch
        self._log = log
        self.applier = BatchApplier(cache, store, stopwatch=stopwatch)
        self.sources = BatchReader(cache, store, applier=self.applier, stopwatch=stopwatch)
        self.state = State.IDLE
        self._logged_left_out = 0
        self._plan: Batches | None = None
        self._batch = Batch((), 0)
        self._failure: NotariumError | None = None
        self.last_failure: NotariumError | None = None
        """The error of the last cycle; None: it succeeded."""
        self._retry_at = 0.0
        self.backoff = CycleBackoff()
        self._began_by_feed = self._unwritten_since = False
        self._begin()
        self._stamp_at_end: tuple[int, int] | None = None
        self._recorded = True

    async def work(self, event: Event) -> State:
        """Follow the table from ``event`` to the next resting state, and return that. Raises ``CacheDamaged`` only."""
        if event is Event.DUE:
            self._begin()
            with suppress(CacheError):
                self._last_request = self._progress.last_request
        self._began_by_feed = event is not Event.DUE
        # The feed repeats what was written here since the last cycle.
        self._unwritten_since = self._stamp() == self._stamp_at_end
        try:
            while True:
                self.state = TRANSITIONS[self.state, event]
                if self.state in RESTING:
                    self._end()
                    return self.state
                event = await self._perform_guarded()
        finally:
            await self.close()

    async def listen(self) -> Event:
        """Wait for the change feed; :meth:`work` stores what it brings. Raises ``CacheDamaged`` only.

        The request was sent before any cycle that is requested meanwhile, so it does not answer that one.
        """
        try:
            batches = await self.sources.listen()
        except Exception as error:  # noqa: BLE001 - as in _perform_guarded
            self._begin()
            return self._event_of_failure(error)
        self._begin()
        if not batches:
            return Event.NOTHING_NEW
        self._batch, self._plan = batches[0], _iterate(batches[1:])
        return Event.PAGE

    def retries_due(self) -> bool:
        """Tell whether an unfinished write or an unresolved note should be tried again now."""
        return self.write_retry_due() or (
            self._stopwatch() >= self._retry_at and bool(self.applier.due_unresolved())
        )

    def write_retry_due(self) -> bool:
        """Tell the same for writes alone, whose retries never depend on what the store reports."""
        return self._stopwatch() >= self._retry_at and self._writer.replay.is_due()

    async def close(self) -> None:
        """Close a listing that is being read, and its connection."""
        await self._drop_plan()
        await self.applier.close()

    def _begin(self) -> None:
        self._began = self._stopwatch()
        self._tally = Tally()
        self._last_request = self._finished_writes = 0
        self._cursor_lost = False

    async def _perform_guarded(self) -> Event:
        try:
            return await self._perform()
        except Superseded:
            await self._drop_plan()
            return Event.MORE
        except Exception as error:  # noqa: BLE001 - one bad answer must not end sync for good
            await self._drop_plan()
            return self._event_of_failure(error)

    def _event_of_failure(self, error: Exception) -> Event:
        if isinstance(error, CacheDamaged):
            raise error
        if not isinstance(error, NotariumError):
            error = StoreUnavailable(f"sync met an unexpected {type(error).__name__}")
        self._failure = error
        event = event_of(error, state=self.state)
        if event is Event.CURSOR_LOST and self._cursor_lost:  # defence: one-sweep-a-cycle
            # It has just given this cursor. One sweep a cycle, or sweeps never end.
            self._failure = StoreProtocolError(
                "the note store rejects the cursor it has just given"
            )
            self.sources.feed.record_failure(self._stopwatch())
            return Event.FAILED
        self._cursor_lost = self._cursor_lost or event is Event.CURSOR_LOST
        return event

    async def _perform(self) -> Event:
        if self.state is State.PUSHING:
            return await self._finish(self._writer.replay.finish_all(), Event.PUSHED)
        if self.state is State.INDEXING:
            return await self._ask()
        if self.state is State.FETCHING:
            self._batch = await self.applier.fetch(self._batch, self._tally)
            return Event.FETCHED
        await self.applier.commit(self._batch, self._tally)
        return Event.MORE

    async def _finish(self, writes: Awaitable[Counter[WriteOutcome | None]], then: Event) -> Event:
        outcomes = await writes
        self._finished_writes += outcomes.total() - outcomes[None]
        if self._log and outcomes.total() > outcomes[WriteOutcome.STORED]:
            self._log.warning(
                "sync.replayed",
                finished=outcomes[WriteOutcome.STORED],
                copies=outcomes[WriteOutcome.COPIED],
                rejected=outcomes[WriteOutcome.REFUSED],
                waiting=outcomes[None] + outcomes[WriteOutcome.WAITING],
            )
        if self._cache.sync_state.card_moves():
            await self._writer.cards.finish()
        return then

    async def _ask(self) -> Event:
        if self._plan is None:
            self._plan = self.sources.cycle(cursor_lost=self._cursor_lost)
        batch = await anext(self._plan, None)
        if batch is None:
            self._plan = None
            return await self._finish(self._writer.replay.finish_not_found(), Event.NOTHING_NEW)
        self._batch = batch
        return Event.PAGE

    async def _drop_plan(self) -> None:
        plan, self._plan = self._plan, None
        if plan is not None:
            await plan.aclose()

    def _end(self) -> None:
        succeeded = self.state is State.IDLE
        if not succeeded:
            self.backoff.record_failure()
        elif self._tally.news or self._finished_writes:
            self.backoff.reset()
        elif not self._unwritten_since:
            self.backoff.record_write()
        elif self._began_by_feed or self._tally.deferred:
            self.backoff.record_empty()  # defence: empty-success-slows-down
        self.last_failure = None if succeeded else self._failure
        if not self._began_by_feed or self._tally.deferred:
            self._retry_at = self._stopwatch() + FIRST_DELAY
        self._record()
        self._stamp_at_end = self._stamp()
        if self._log is not None:
            self._log_end(self._log, succeeded=succeeded)

    def _stamp(self) -> tuple[int, int] | None:
        """Return a value that is the same if nothing was written to the database in between."""
        with suppress(CacheError):
            return self._cache.database.stamp()
        return None

    def _record(self) -> None:
        """Store how the cycle ended; one that has waited for a lock waits no more."""
        waits = not isinstance(self.last_failure, CacheBusy)
        try:
            with nullcontext() if waits else self._cache.database.without_waiting():
                self._progress.record_cycle(
                    serving=self._last_request,
                    duration_ms=max(0, round((self._stopwatch() - self._began) * 1000)),
                    status=self.state.value,
                    error=self.last_failure,
                )
        except CacheError as error:
            if self._log and self._recorded:
                self._log.warning("sync.not_recorded", error=type(error).__name__)
            self._recorded = False
        else:
            self._recorded = True

    def _log_end(self, log: Logger, *, succeeded: bool) -> None:
        tally, hides = self._tally, self._cache.notes.visibility.rules.has_rules
        if not succeeded:
            error = type(self._failure).__name__
            log.warning("sync.cycle_failed", state=self.state.value, error=error)
        elif tally.stored or tally.removed or (tally.deferred and not hides):
            # These numbers would count hidden notes, too.
            more = {} if hides else {"deferred": tally.deferred, "fetched": tally.fetched}
            log.info("sync.cycle_done", stored=tally.stored, removed=tally.removed, **more)
        if not hides:  # nobody can tell whether the policy shows them
            with suppress(CacheError):
                if (count := self._progress.left_out) > self._logged_left_out:
                    self._logged_left_out = count
                    log.warning("sync.notes_left_out", count=count)


async def _iterate(batches: Iterable[Batch]) -> AsyncGenerator[Batch, None]:
    for batch in batches:
        yield batch
