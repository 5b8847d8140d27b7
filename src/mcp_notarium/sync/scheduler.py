"""Elect the process that syncs, and run its cycles when something is due. The only place in sync that waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_notarium.errors import CacheBusy, CacheDamaged, CacheError, CacheFull
from mcp_notarium.files.locks import Leader
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import LET_CALLS_PASS, Changes, Store
from mcp_notarium.sync.backoff import retry_after_of
from mcp_notarium.sync.cycle_runner import CycleRunner
from mcp_notarium.sync.cycle_states import Event, State
from mcp_notarium.sync.listing_pages import reload_index
from mcp_notarium.sync.status import SyncStatus, read_status
from mcp_notarium.sync.writer import Writer

if TYPE_CHECKING:
    from mcp_notarium.logs import Logger


_Feed = asyncio.Future[Any] | None
TICK = 1.0
"""Seconds between two polls for requests of other processes, and of the leader's lock."""
FAST_TICK = 0.05
"""The same while somebody waits for an answer."""
SLOW_RETRY = 300.0
"""Seconds between attempts that only a person can make succeed."""
FILE_RETRY = 15.0
"""Seconds between attempts at most, if the store is files of this machine."""
HANDOVER_PAUSE = 3.0
"""Seconds for which a process whose login was refused does not lead again: every other one has looked at the lock by then."""
HELD_UP_PAUSE = 10.0
"""Seconds at least after a cycle that has waited for a lock, half as long: no call is answered meanwhile."""
MIN_RETRY_PAUSE = 1.0
"""Seconds after a failure during which no request starts another attempt."""
CALLS_SECONDS = 1.0
"""Longest wait of news for calls that are writing."""
ANSWER_SECONDS = 0.02
"""Time that these get for their answers."""
QUICK_ANSWER = 1.0
"""A change feed that answers an empty page faster than this is not really waiting."""
ASK_AGAIN = 5.0
"""Seconds without an answer after which a cycle is requested again."""
SILENT_SECONDS = 1800.0
SILENT_INTERVALS = 6
"""Intervals, beside as many seconds, without a cycle after which other processes say so; a leader records one in two at least."""
LEADER_SILENT = "the process that syncs stores nothing any more; is the disk full?"


class Scheduler:
    """Keep one database in step with the store, in this or another process."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        writer: Writer,
        *,
        stopwatch: Callable[[], float],
        interval: float,
        leader_lock_path: Path | None,
        log: Logger | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._cache = cache
        self._store = store
        self._writer = writer
        self._stopwatch = stopwatch
        self._started = stopwatch()
        self._interval = interval
        self._log = log
        self._sleep = sleep
        self._jitter = jitter
        self._leader = Leader(leader_lock_path)
        self.leads = self._is_alone = leader_lock_path is None
        """This process is the one that syncs."""
        self._progress = cache.progress
        self._runner = CycleRunner(cache, store, writer, stopwatch=stopwatch, log=log)
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Sync while this process leads, until it is cancelled, or the database is damaged or closed."""
        try:
            while True:
                while not self._leader.acquire():
                    self._woken.clear()
                    await self._tick(TICK, None)
                self.leads = True
                self._cache.database.set_checkpointer(True)
                if self._log:
                    self._log.info("sync.leading")
                await self._lead()
                await self._hand_over_lead()
        except CacheDamaged:
            self._runner.state = State.HALTED
        finally:
            await self._step_down()

    def wake(self) -> None:
        """Stop waiting for the next interval, because something may have changed. Never fails."""
        self._woken.set()
        if not self.leads:
            with suppress(CacheError):
                self._progress.request_cycle()

    async def sync_now(self, timeout: float) -> bool:  # noqa: ASYNC109 - a deadline across processes
        """Request a cycle that begins now, in the process that leads; True if it succeeded.

        False if it did not within ``timeout`` seconds. Requests again without an answer: on a full disk there is none. Raises ``CacheFull``, ``CacheBusy``.
        """
        number = self._progress.request_cycle()
        self._woken.set()
        asked = self._stopwatch()
        deadline = asked + timeout
        while (answer := self._progress.request_result(number)) is None:
            if self._stopwatch() >= deadline:
                return False
            if self._stopwatch() >= asked + ASK_AGAIN:
                asked = self._stopwatch()
                with suppress(CacheBusy):
                    self._progress.request_cycle()
                self._woken.set()
            await self._sleep(FAST_TICK)
        return answer

    async def reset(self, *, act: Act | None = None) -> None:
        """Empty the index and load everything again; see :func:`reload_index`."""
        await reload_index(self._cache, self._store, act)
        self.wake()

    def status(self) -> SyncStatus:
        """Return how sync stands."""
        leading = self._runner.state if self.leads else None
        status = read_status(self._cache, leading=leading, failure=self._runner.last_failure)
        return replace(status, last_error=LEADER_SILENT) if self._leader_silent(status) else status

    @property
    def feed_usable(self) -> bool:
        """Tell whether changes elsewhere show within seconds, by the change feed."""
        reports = Changes.FEED in self._store.traits.changes or self._store.traits.long_poll
        return reports and self._runner.sources.feed.usable(self._stopwatch())

    def _leader_silent(self, status: SyncStatus) -> bool:
        """Tell whether the leader has long stored nothing: on a full disk it cannot store the reason."""
        if status.leader or status.state is not State.IDLE or status.last_error:
            return False
        limit = max(SILENT_SECONDS, SILENT_INTERVALS * self._interval)
        waited = self._stopwatch() - self._started
        return min(waited, self._cache.clock() - (status.last_sync_at or 0.0)) > limit

    # Leading.

    async def _lead(self) -> None:
        """Sync until the login is refused: another process may have a login that works."""
        event = Event.DUE
        while True:
            self._woken.clear()
            state = await self._runner.work(event)
            if state is State.NEEDS_AUTH:
                return
            if state is State.IDLE:
                event = await self._listen()
            else:
                await (self._back_off() if state is State.BACKING_OFF else self._wait_halted())
                event = Event.DUE

    async def _step_down(self) -> None:
        """Let another process lead. Idempotent."""
        await self._runner.close()
        with suppress(CacheError):
            self._cache.database.set_checkpointer(False)
        self.leads = self._is_alone
        self._leader.release()

    async def _hand_over_lead(self) -> None:
        """Let others lead until a new token, a cycle that nobody runs, or five minutes."""
        before = self._cache.sync_state.login_changes()
        await self._step_down()
        await self._sleep(HANDOVER_PAUSE)
        await self._wait(SLOW_RETRY, until=lambda: self._cache.sync_state.login_changes() != before)

    async def _wait_halted(self) -> None:
        """Rest after a mass loss: until somebody asks, minutes pass, or a store that tells of changes has one."""
        await self._sleep(MIN_RETRY_PAUSE)
        sources = self._runner.sources
        listening = sources.await_other_listing() if sources.on_this_machine else None
        async with _begun(listening) as feed:
            await self._wait(max(SLOW_RETRY, self._interval), feed=feed)

    async def _back_off(self) -> None:
        asked = retry_after_of(self._runner.last_failure)
        delay = self._runner.backoff.delay(jitter=self._jitter(), retry_after=asked)
        if self._runner.sources.on_this_machine:
            delay = min(delay, FILE_RETRY)  # defence: failed-files-looked-at-soon
        if isinstance(self._runner.last_failure, CacheBusy):
            delay = max(delay, HELD_UP_PAUSE)
        # A store that asked us to wait, or has just failed, is not asked again at once, whoever requests a cycle.
        blocked = rest = delay if asked is not None else min(delay, MIN_RETRY_PAUSE)
        while rest > 0:
            await self._retry_refused()
            await self._sleep(min(TICK, rest))
            rest -= TICK
        await self._wait(delay - blocked)

    async def _listen(self) -> Event:
        """Rest until something is due, with the change feed open where there is one."""
        pause = min(self._runner.backoff.pause, self._interval)
        if pause and await self._wait(pause, until=self._runner.write_retry_due):
            return Event.DUE
        began, before = self._stopwatch(), LET_CALLS_PASS.set(self._let_calls_pass)
        opens = self._runner.sources.can_long_poll()
        async with _begun(self._runner.listen() if opens else None) as feed:
            LET_CALLS_PASS.reset(before)  # the task has copied the variable
            await self._wait(self._interval, until=self._retries_or_sweep_due, feed=feed)
            event: Event | None = feed.result() if feed is not None and feed.done() else None
        waited = self._stopwatch() - began
        if event is Event.PAGE:
            await self._let_calls_pass()
        if event is Event.NOTHING_NEW and waited < QUICK_ANSWER:
            self._runner.backoff.record_empty()
        elif event in (Event.NOTHING_NEW, None):
            self._runner.backoff.record_quiet(waited)
        return event or Event.DUE

    async def _let_calls_pass(self) -> None:
        """Wait a moment for calls that write: the news is mostly what these write, and they go first."""
        if self._writer.locks.is_called:
            with suppress(TimeoutError):
                async with asyncio.timeout(CALLS_SECONDS):
                    await self._writer.locks.await_calls()
            await self._sleep(ANSWER_SECONDS)

    def _retries_or_sweep_due(self) -> bool:
        sources = self._runner.sources
        feed_due = sources.feed.suspended and sources.feed.usable(self._stopwatch())
        return self._runner.retries_due() or sources.sweep_due() or feed_due

    async def _wait(
        self, seconds: float, *, until: Callable[[], bool] = lambda: False, feed: _Feed = None
    ) -> bool:
        """Wait, at most until something is due; True if something is."""
        deadline = self._stopwatch() + seconds
        while not (feed is not None and feed.done()):
            if self._woken.is_set():
                return True
            with suppress(CacheError):
                if self._progress.has_open_request or until():
                    return True
            left = deadline - self._stopwatch()
            if left <= 0:
                return False
            tick = FAST_TICK if await self._tidy_index() else TICK
            await self._tick(min(tick, left), feed)
        return False

    async def _tidy_index(self) -> bool:
        """Do a slice of work on the search index, if this process leads; True if the next may follow at once."""
        with suppress(CacheBusy, CacheFull):
            return self.leads and await self._runner.applier.tidy()
        return False

    async def _retry_refused(self) -> None:
        """Do what only this process can, and the disk or a lock has refused. Waits for no lock; never fails."""
        with suppress(Exception):  # it is tried again
            with self._cache.database.without_waiting():
                if self._cache.sync_state.card_moves():
                    self._writer.cards.release()
            await self._writer.replay.finish_own()

    async def _tick(self, seconds: float, feed: _Feed) -> None:
        await self._retry_refused()
        async with _begun(self._sleep(seconds)) as pause, _begun(self._woken.wait()) as woken:
            tasks = {one for one in (pause, woken, feed) if one is not None}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


@asynccontextmanager
async def _begun(work: Awaitable[Any] | None) -> AsyncIterator[_Feed]:
    """Let work go on while this is entered."""
    feed = None if work is None else asyncio.ensure_future(work)
    try:
        yield feed
    finally:
        if feed is not None:
            feed.cancel()
            await asyncio.gather(feed, return_exceptions=True)
