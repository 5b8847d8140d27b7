"""``Engine``: carries out what the cycle table says, from something being due until the next rest.

It has no clock of its own and never waits; ``driver`` decides when it works. Whatever goes wrong
becomes an event of the table; nothing that was stored is ever taken back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from typing import Protocol

from mcp_notarium.errors import (
    BackendProtocolError,
    BackendUnavailable,
    CacheDamaged,
    CacheError,
    NotariumError,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.batch import Batch
from mcp_notarium.sync.batch_apply import Intake, Tally
from mcp_notarium.sync.batch_commit import Superseded
from mcp_notarium.sync.batch_sources import Batches, Sources
from mcp_notarium.sync.cycle import RESTING, Effect, Event, State, event_of, receive, retry_after_of
from mcp_notarium.sync.cycle_backoff import Pace
from mcp_notarium.sync.progress import Ledger
from mcp_notarium.sync.retry_schedule import Errands
from mcp_notarium.sync.writer import Writer


class Log(Protocol):
    """The part of a structured logger that sync uses."""

    def info(self, event: str, /, **facts: object) -> object:
        """Something happened."""

    def warning(self, event: str, /, **facts: object) -> object:
        """Something went wrong."""


class Engine:
    """The leader's work on one cache. ``tried``: one cycle has ended, well or not.

    ``pace`` tells whoever makes it work how long to wait.
    """

    def __init__(
        self,
        cache: Cache,
        store: Store,
        writer: Writer,
        *,
        ledger: Ledger,
        stopwatch: Callable[[], float],
        log: Log | None,
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._ledger = ledger
        self._stopwatch = stopwatch
        self._log = log
        self._intake = Intake(cache, store, ledger, stopwatch=stopwatch)
        self.sources = Sources(
            cache, store, intake=self._intake, ledger=ledger, stopwatch=stopwatch
        )
        self.state = State.IDLE
        self.tried = False
        self._told_left_out = 0
        self._unrecorded: str | None = None
        self._plan: Batches | None = None
        self._batch: Batch | None = None
        self._tally = Tally()
        self._began = 0.0
        self._serving = 0
        self._failure: NotariumError | None = None
        self._errands = Errands()
        self.pace = Pace()
        self._unasked = False
        self._undisturbed = False
        self._lost = False
        self._finished = 0
        self._seen: tuple[int, int] | None = None

    async def work(self, event: Event) -> Effect:
        """Go through the table from ``event`` to the next resting state; gives its effect.

        Raises ``CacheDamaged`` only.
        """
        if event is Event.DUE:
            self._begin()
            with suppress(CacheError):
                self._serving = self._ledger.asked
            self._errands.tried = True
        self._unasked = event is not Event.DUE
        # What somebody has written here since the last cycle, the feed tells us again.
        self._undisturbed = self._stamp() == self._seen
        try:
            while True:
                step = receive(self.state, event)
                self.state = step.state
                if step.state in RESTING:
                    self._end()
                    return step.effect
                event = await self._guarded(step.effect)
        finally:
            await self._drop_plan()
            await self._intake.rest()

    async def listen(self) -> Event:
        """Wait for the change feed. What it brings is taken up by :meth:`work`.

        It was asked before whoever asks for a cycle meanwhile, so that is not answered by it. Raises
        ``CacheDamaged`` only.
        """
        try:
            batches = await self.sources.listen()
        except CacheDamaged:
            raise
        except NotariumError as error:
            self._begin()
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - as in _guarded
            self._begin()
            return self._failed(_unexpected(error))
        self._begin()
        if not batches:
            return Event.NOTHING_NEW
        self._batch, self._plan = batches[0], _each(batches[1:])
        return Event.PAGE

    def errands_due(self) -> bool:
        """Whether an unfinished write or a note in doubt should be looked at again now."""
        return self._errands.due(self._stopwatch()) and bool(self._open_errands())

    def write_due(self) -> bool:
        """The same for writes alone: no store can give a reason for those."""
        return self._errands.due(self._stopwatch()) and bool(self._writer.unfinished())

    def delay(self, jitter: float) -> float:
        """Seconds to stay away after the last failure."""
        return self.pace.delay(jitter=jitter, retry_after=self.asked_delay)

    @property
    def asked_delay(self) -> float | None:
        """Seconds the store asked us to stay away, if it did."""
        return retry_after_of(self._failure) if self._failure else None

    @property
    def last_error(self) -> str | None:
        """What went wrong in the last cycle, for a person; None if it went well."""
        return self._failure.user_message if self._failure else None

    async def close(self) -> None:
        """Let go of a listing that is being read, and of its connection."""
        await self._drop_plan()
        await self._intake.close()

    def _begin(self) -> None:
        self._began = self._stopwatch()
        self._tally = Tally()
        self._serving = 0
        self._finished = 0
        self._lost = False

    async def _guarded(self, effect: Effect) -> Event:
        try:
            return await self._perform(effect)
        except Superseded:
            await self._drop_plan()
            return Event.MORE
        except CacheDamaged:
            raise
        except NotariumError as error:
            await self._drop_plan()
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - one bad answer must not end sync for good
            await self._drop_plan()
            return self._failed(_unexpected(error))

    def _failed(self, error: NotariumError) -> Event:
        self._failure = error
        event = event_of(error, state=self.state)
        if event is Event.CURSOR_LOST and self._lost:
            # It has just given this place. One sweep a cycle, or there is no end to them.
            self._failure = BackendProtocolError("the note service forgets where its news begin")
            self.sources.feed.failed(self._stopwatch())
            return Event.FAILED
        self._lost = self._lost or event is Event.CURSOR_LOST
        return event

    async def _perform(self, effect: Effect) -> Event:
        match effect:
            case Effect.REPLAY:
                return await self._replay()
            case Effect.ASK:
                return await self._ask(cursor_lost=False)
            case Effect.SWEEP:
                return await self._ask(cursor_lost=True)
            case Effect.FETCH:
                self._batch = await self._intake.fetch(self._current(), self._tally)
                return Event.FETCHED
            case Effect.COMMIT:
                await self._intake.commit(self._current(), self._tally)
                return Event.COMPLETE if self._current().last else Event.MORE
            case _:
                msg = f"{effect} is not work"
                raise AssertionError(msg)

    async def _replay(self) -> Event:
        replayed = await self._writer.replay()
        self._finished = replayed.finished + replayed.copies + replayed.rejected
        if self._log and replayed.waiting + replayed.copies + replayed.rejected:
            self._log.warning(
                "sync.replayed",
                finished=replayed.finished,
                copies=replayed.copies,
                rejected=replayed.rejected,
                waiting=replayed.waiting,
            )
        return Event.PUSHED

    async def _ask(self, *, cursor_lost: bool) -> Event:
        if self._plan is None:
            self._plan = self.sources.cycle(cursor_lost=cursor_lost)
        batch = await anext(self._plan, None)
        if batch is None:
            self._plan = None
            return Event.NOTHING_NEW
        self._batch = batch
        return Event.PAGE

    def _current(self) -> Batch:
        assert self._batch is not None, "the table gives no work on a batch before a batch"  # noqa: S101 - a defect of ours, not a case
        return self._batch

    async def _drop_plan(self) -> None:
        plan, self._plan, self._batch = self._plan, None, None
        if plan is not None:
            await plan.aclose()

    def _end(self) -> None:
        self.tried = True
        well = self.state is State.IDLE
        if not well:
            self.pace.failed()
        elif self._tally.news or self._finished:
            self.pace.news()
        elif self._undisturbed and (self._unasked or self._tally.deferred):
            self.pace.vain()
        if well:
            self._failure = None
        with suppress(CacheError):
            self._pace_errands()
        self._record()
        self._seen = self._stamp()
        if self._log is not None:
            self._tell(self._log, well=well)

    def _stamp(self) -> tuple[int, int] | None:
        """The same as before if nobody has written anything here in between."""
        with suppress(CacheError):
            return self._cache.database.stamp()
        return None

    def _record(self) -> None:
        """Store how the cycle ended. That it cannot be stored is told once, until it can."""
        unrecorded = None
        try:
            self._ledger.record_cycle(
                serving=self._serving,
                duration_ms=max(0, round((self._stopwatch() - self._began) * 1000)),
                status=self.state.value,
                error=self.last_error,
            )
        except CacheError as error:
            unrecorded = type(error).__name__
            if self._log is not None and self._unrecorded is None:
                self._log.warning("sync.not_recorded", error=unrecorded)
        self._unrecorded = unrecorded

    def _tell(self, log: Log, *, well: bool) -> None:
        tally = self._tally
        if not well:
            error = type(self._failure).__name__
            log.warning("sync.cycle_failed", state=self.state.value, error=error)
        elif self._hides:  # the other numbers count notes that nobody is to know of, too
            if tally.changed:
                log.info("sync.cycle_done", stored=tally.stored, removed=tally.removed)
        elif tally.changed or tally.deferred:
            log.info(
                "sync.cycle_done",
                stored=tally.stored,
                removed=tally.removed,
                deferred=tally.deferred,
                fetched=tally.fetched,
            )
        if not self._hides:  # whether they are seen, nobody knows
            with suppress(CacheError):
                self._tell_left_out(log, self._ledger.left_out)

    def _tell_left_out(self, log: Log, count: int) -> None:
        if count > self._told_left_out:
            self._told_left_out = count
            log.warning("sync.notes_without_usable_id", count=count)

    @property
    def _hides(self) -> bool:
        return self._cache.notes.gate.rules.hides

    def _open_errands(self) -> frozenset[str]:
        """Notes in doubt, and unfinished writes that nobody is at work on."""
        return frozenset((*self._intake.open_doubts(), *self._writer.unfinished()))

    def _pace_errands(self) -> None:
        self._errands.pace(self._open_errands(), now=self._stopwatch())


def _unexpected(error: Exception) -> NotariumError:
    return BackendUnavailable(f"sync met an unexpected {type(error).__name__}")


async def _each(batches: Iterable[Batch]) -> AsyncGenerator[Batch, None]:
    for batch in batches:
        yield batch
