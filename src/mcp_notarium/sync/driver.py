"""``Driver``: the only place in sync that waits. It runs the engine when something is due.

One process leads: it listens to the change feed, polls, sweeps and checkpoints. The others write
through and look at what the leader does; when it is gone, or has no login, one of them takes over.
Nothing is wiped except by :meth:`Driver.reset`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from mcp_notarium.domain.note import Revision
from mcp_notarium.domain.pending_write import WriteState
from mcp_notarium.errors import CacheBusy, CacheDamaged, CacheError, CacheFull
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.sync_state import Metrics
from mcp_notarium.stores.contract import ListingPage, Store
from mcp_notarium.sync.cycle import Effect, Event, State
from mcp_notarium.sync.engine import Engine, Log
from mcp_notarium.sync.idle_polling import Calm
from mcp_notarium.sync.leader import Leader
from mcp_notarium.sync.listing import FIRST_PAGE
from mcp_notarium.sync.memory_release import trim
from mcp_notarium.sync.progress import Ledger
from mcp_notarium.sync.status import SyncStatus, read_status
from mcp_notarium.sync.writer import Writer

TICK = 1.0
"""Seconds between two looks at what other processes want, and at the leader's lock."""
GLANCE = 0.05
"""The same for somebody who waits for an answer right now."""
SLOW_RETRY = 300.0
"""Seconds between attempts that only a person can make succeed."""
ASIDE = 3.0
"""Seconds for which a process whose login was refused leaves the lead to the others, whatever happens:
long enough for each of them to look at the lock."""
DEAF = 1.0
"""Seconds after a failure during which nobody can ask for another attempt."""
QUICK_ANSWER = 1.0
"""A change feed that has nothing to say and answers faster than this is not really waiting."""


class Driver:
    """Keeps one cache in step with the store, in this or another process.

    ``clock`` gives the epoch seconds that are written down; whatever is waited for is measured by
    ``stopwatch``, which nobody sets.
    """

    def __init__(
        self,
        cache: Cache,
        store: Store,
        writer: Writer,
        *,
        clock: Callable[[], float],
        stopwatch: Callable[[], float],
        interval: float,
        leader_lock_path: Path,
        log: Log | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._cache = cache
        self._store = store
        self._stopwatch = stopwatch
        self._interval = interval
        self._log = log
        self._sleep = sleep
        self._jitter = jitter
        self._leader = Leader(leader_lock_path)
        self._ledger = Ledger(cache, clock=clock)
        self._engine = Engine(
            cache,
            store,
            writer,
            ledger=self._ledger,
            stopwatch=stopwatch,
            log=log,
        )
        self._calm = Calm(cache.database, stopwatch=stopwatch)
        self._woken = asyncio.Event()
        self._tidying = False

    async def run(self) -> None:
        """Follow until this process leads, then sync until cancelled.

        Returns by itself only if the cache is damaged or closed; whoever opened it is told of damage.
        """
        try:
            while True:
                while not self._leader.acquire():
                    self._woken.clear()
                    await self._tick(TICK, None)
                self._cache.database.set_checkpointer(True)
                if self._log:
                    self._log.info("sync.leading")
                await self._lead()
                await self._stand_aside()
        except CacheDamaged:
            self._engine.state = State.HALTED
        finally:
            await self._step_down()

    async def cycle(self) -> State:
        """One cycle now, without waiting for anything; for a process that leads by other means."""
        await self._engine.work(Event.DUE)
        return self._engine.state

    def wake(self) -> None:
        """Something may have changed: do not wait for the next interval. Never fails."""
        self._woken.set()
        if not self._leader.held:
            with suppress(CacheError):
                self._ledger.ask()

    async def sync_now(self, timeout: float) -> bool:  # noqa: ASYNC109 - a deadline across processes
        """Have a cycle that begins now, in whichever process leads; True if it went well.

        False if it failed or did not end within ``timeout`` seconds; :meth:`status` tells more.
        """
        number = self._ledger.ask()
        self._woken.set()
        deadline = self._stopwatch() + timeout
        while (answer := self._ledger.answered(number)) is None:
            if self._stopwatch() >= deadline:
                return False
            await self._sleep(GLANCE)
        return answer

    async def wait_first_page(self, timeout: float) -> bool:  # noqa: ASYNC109 - see sync_now
        """Wait until the newest notes are here; False if they are not within ``timeout`` seconds.

        Returns at once where waiting is no use: no login, or the account looks emptied.
        """
        deadline = self._stopwatch() + timeout
        while not self._has_first_page():
            stuck = self.status().state in (State.NEEDS_AUTH, State.HALTED)
            if stuck or self._stopwatch() >= deadline:
                return False
            await self._sleep(GLANCE)
        return True

    async def reset(self) -> None:
        """Empty the cache and load everything again; unfinished writes stay.

        Raises what the store raises, with nothing emptied, if it cannot be read.
        """
        page = await self._store.list_page(
            since=None, mark=None, limit=FIRST_PAGE, with_content=True
        )
        with self._cache.transaction(durable=True):
            kept = self._bases_of_unfinished()
            self._cache.notes.clear()
            self._ledger.mark_emptied()
            # Without its base the text of an unfinished write could not be merged any more.
            self._cache.notes.apply(kept)
            self._take_first_page(page, {base.id for base in kept})
        self.wake()

    def status(self) -> SyncStatus:
        """How sync stands."""
        return read_status(
            self._cache,
            metrics=self.metrics(),
            leading=self._engine.state if self._leader.held else None,
            counted=self._engine.sources.counted,
            at_least=self._engine.sources.at_least,
            left_out=self._ledger.left_out,
            tried=self._engine.tried or not self._leader.held,
            feed=self._engine.sources.feed.usable(self._stopwatch()),
        )

    def metrics(self) -> Metrics:
        """How the last cycles went, also where that could not be stored."""
        return self._ledger.metrics()

    def _has_first_page(self) -> bool:
        progress = self._cache.sync_state.progress()
        return progress.complete or progress.anchor_cursor is not None

    def _bases_of_unfinished(self) -> list[Revision]:
        writes = self._cache.pending.all()
        unfinished = {write.note_id for write in writes if write.state is WriteState.IN_FLIGHT}
        bases = (self._cache.notes.base(note_id) for note_id in sorted(unfinished))
        return [base for base in bases if base is not None]

    def _take_first_page(self, page: ListingPage, kept: set[str]) -> None:
        revisions = [entry for entry in page.entries if isinstance(entry, Revision)]
        if len(revisions) < len(page.entries):
            return  # the first load will fetch them
        self._cache.notes.apply(revision for revision in revisions if revision.id not in kept)
        self._ledger.mark_load_began(empty=not kept)
        self._ledger.mark_left_out(page.left_out)
        if page.next_mark is None:
            self._ledger.mark_loaded(anchor=page.cursor, total=page.total)
        else:
            self._ledger.mark_loading(anchor=page.cursor, mark=page.next_mark, total=page.total)

    # Leading.

    async def _lead(self) -> None:
        """Sync until the login is refused: another process may have one that is not."""
        event = Event.DUE
        while True:
            self._woken.clear()
            effect = await self._engine.work(event)
            if effect is Effect.AWAIT_LOGIN:
                return
            event = await self._rest(effect)

    async def _step_down(self) -> None:
        """Let another process lead. Idempotent."""
        await self._engine.close()
        with suppress(CacheError):
            self._cache.database.set_checkpointer(False)
        self._leader.release()

    async def _stand_aside(self) -> None:
        """Leave the lead to others until there is a reason to try the login again.

        Such as a new token, somebody who waits for a cycle that nobody makes, or five minutes.
        """
        before = self._cache.sync_state.login_changes()
        await self._step_down()
        await self._sleep(ASIDE)
        await self._wait(SLOW_RETRY, until=lambda: self._cache.sync_state.login_changes() != before)

    async def _rest(self, effect: Effect) -> Event:
        match effect:
            case Effect.BACK_OFF:
                await self._back_off()
            case Effect.HALT:
                await self._wait(max(SLOW_RETRY, self._interval))
            case _:
                return await self._listen()
        return Event.DUE

    async def _back_off(self) -> None:
        delay = self._engine.delay(self._jitter())
        # A store that asked us to stay away, or has just failed, is not asked again at once,
        # however impatient somebody is.
        deaf = delay if self._engine.asked_delay is not None else min(delay, DEAF)
        await self._sleep(deaf)
        await self._wait(delay - deaf)

    async def _listen(self) -> Event:
        """Rest until something is due, with the change feed open where there is one."""
        pause = min(self._engine.pace.pause, self._interval)
        if pause and await self._wait(pause, until=self._engine.write_due):
            return Event.DUE
        began = self._stopwatch()
        feed = (
            asyncio.create_task(self._engine.listen()) if self._engine.sources.listens() else None
        )
        try:
            await self._wait(self._interval, until=self._errands, feed=feed)
            event = feed.result() if feed is not None and feed.done() else None
        finally:
            await _stop(feed)
        waited = self._stopwatch() - began
        if event is Event.NOTHING_NEW and waited < QUICK_ANSWER:
            self._engine.pace.vain()
        elif event in (Event.NOTHING_NEW, None):
            self._engine.pace.waited(waited)
        return event or Event.DUE

    def _errands(self) -> bool:
        sources = self._engine.sources
        feed_due = sources.feed.due(self._stopwatch())
        return self._engine.errands_due() or sources.sweep_due() or feed_due

    async def _wait(
        self,
        seconds: float,
        *,
        until: Callable[[], bool] = lambda: False,
        feed: asyncio.Task[Event] | None = None,
    ) -> bool:
        """Wait, but not longer than until somebody wants something; True if somebody does."""
        deadline = self._stopwatch() + seconds
        while not (feed is not None and feed.done()):
            if self._woken.is_set():
                return True
            calm = self._calm.lasts()
            if not calm and self._wanted(until):
                return True
            left = deadline - self._stopwatch()
            if left <= 0:
                return False
            busy = not calm and self._tidies()
            if not calm and not busy and self._nothing_waits():
                self._calm.begin()
            await self._tick(min(GLANCE if busy else TICK, left), feed)
        return False

    def _tidies(self) -> bool:
        """One slice of work on the search index, for a leader; True while there is more."""
        if not self._leader.held:
            return False
        try:
            before, self._tidying = self._tidying, self._cache.notes.tidy()
        except (CacheBusy, CacheFull):
            self._calm.disturb()
            return False
        if before and not self._tidying:
            trim()
        return self._tidying

    def _nothing_waits(self) -> bool:
        """Whether nothing is due in a moment: no unfinished write, no note in doubt, no feed given up."""
        if self._engine.sources.feed.given_up:
            return False
        with suppress(CacheError):
            return not self._ledger.doubts() and not self._cache.pending.any_in_flight()
        return False

    def _wanted(self, until: Callable[[], bool]) -> bool:
        try:
            return self._ledger.open_request or until()
        except CacheError:
            self._calm.disturb()
            return False

    async def _tick(self, seconds: float, feed: asyncio.Task[Event] | None) -> None:
        pause = asyncio.ensure_future(self._sleep(seconds))
        woken = asyncio.create_task(self._woken.wait())
        tasks = {pause, woken} | ({feed} if feed is not None else set())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pause, woken):
                task.cancel()
            await asyncio.wait({pause, woken})


async def _stop(task: asyncio.Task[Event] | None) -> None:
    if task is None:
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
