"""Run asyncio code in one thread, in an order and at a time that a schedule decides.

Handles that are ready run one by one. When none is left, one *event* happens: something outside of the
code, such as the arrival of a request. When there is no event either, time jumps to the next timer. Each waits
its turn, and the schedule lets later ones go before it. Everything belongs to the process in whose context it was made, and what belongs to
a dead process never runs.
"""

from __future__ import annotations

import asyncio
import heapq
import warnings
from asyncio import events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Protocol

EVENT_SECONDS = 0.001
"""An event takes this long, unless said otherwise."""
PAUSE_SECONDS = 0.1
"""A pause is short up to this."""
MOST_STEPS = 5_000
"""Steps without an event and without time passing, at most: more are an endless loop."""
MOST_EVENTS = 20_000
"""Events of one run, at most: more are an endless loop that lets time pass."""
MOST_WAITS = 100
"""How often a coroutine that has to end may wait once more."""


class Owner(Protocol):
    """Describe what a step belongs to."""

    name: str
    dead: bool


OWNER: ContextVar[Owner | None] = ContextVar("OWNER", default=None)


class Endless(AssertionError):
    """Steps go on and on, and no time passes."""


@dataclass(order=True, slots=True)
class Event:
    """Hold what may happen next outside of the code; ``label`` says it in words."""

    turn: int
    number: int
    label: str = field(compare=False)
    happen: Callable[[], object] = field(compare=False)
    owner: Owner | None = field(compare=False)
    context: Context = field(compare=False)
    mark: str = field(compare=False)
    """What it was made of."""
    is_off: Callable[[], bool] | None = field(compare=False, default=None)
    """Tells of the end of a pause whether nobody waits for it any more."""


class Gone(BaseException):
    """Whatever waits in a process that is gone ends here: nothing may catch this."""


def _name(context: Context) -> str:
    owner = context.get(OWNER)
    return "" if owner is None else owner.name


def _end(coroutine: Any) -> None:
    """Let a coroutine of a dead process go, whatever it waits for on its way out.

    To close it would leave the asynchronous generators that it is in, before Python 3.13.
    """
    with warnings.catch_warnings(), suppress(BaseException):
        warnings.simplefilter("ignore")
        for _ in range(MOST_WAITS):
            coroutine.throw(Gone())


class _Task(asyncio.Task[Any]):
    """A task that has its place in a set by its number, not by where memory has it."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **how: Any) -> None:
        self._place = number
        self.owner = how["context"].get(OWNER)
        super().__init__(coro, **how)

    def __hash__(self) -> int:
        return self._place


class _Future(asyncio.Future[Any]):
    """A future that knows whose it is, also when nothing but the collector has it."""

    def __init__(self, **how: Any) -> None:
        self.owner = OWNER.get()
        super().__init__(**how)


class Decider(Protocol):
    """Describe who decides what happens when."""

    def delay_event(self, label: str, *, late: bool) -> tuple[int, float]:
        """Return how many later events go before a new one, and, if ``late``, for how many seconds it cannot happen."""

    def delay_step(self, owner: str) -> int:
        """Return how many later steps go before a new one."""

    def mark(self, label: str, owner: Owner | None) -> str:
        """Return the mark of a new event."""

    def pick(self, events: list[Event]) -> int:
        """Return which of the events that could be next happens; the first is the one whose turn it is."""


class DeterministicLoop(asyncio.AbstractEventLoop):
    """See the module. ``on_step`` is called after each step, with its label if it was an event.

    ``event_seconds`` 0: time stands still while anything can happen, and the end of a short pause is an event as well.
    """

    def __init__(
        self, decider: Decider, *, now: float, event_seconds: float = EVENT_SECONDS
    ) -> None:
        self._decider = decider
        self._now = now
        self._event_seconds = event_seconds
        self._pauses = not event_seconds
        self._numbers = 0
        self._ready: list[tuple[int, int, Owner | None, events.Handle]] = []
        self._timers: list[tuple[float, int, Owner | None, events.TimerHandle]] = []
        self._events: list[Event] = []
        self._tasks: list[tuple[Context, asyncio.Task[Any]]] = []
        self._steps = self._happened = 0
        self.errors: list[BaseException] = []
        """What no task was there to take."""
        self.dropping = False
        """What is started while this is set never runs."""
        self.on_step: Callable[[str], None] = lambda _label: None

    # What asyncio asks of a loop.

    def time(self) -> float:
        """Return the seconds of the simulated stopwatch."""
        return self._now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.Handle:
        """Run the callback in one of the next steps."""
        context = context or copy_context()
        handle = events.Handle(callback, args, self, context)
        self._add_ready(context.get(OWNER), handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> events.TimerHandle:
        """Run the callback after so many simulated seconds."""
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> events.TimerHandle:
        """Run the callback at a simulated time."""
        context = context or copy_context()
        handle = events.TimerHandle(when, callback, args, self, context)
        if self._pauses and not self.dropping and when - self._now <= PAUSE_SECONDS:
            label = f"{_name(context)}: {when - self._now:g} s pass"
            self._add_event(label, handle._run, 0, context.copy(), handle.cancelled)
        elif not self.dropping:
            heapq.heappush(self._timers, (when, self.next_number(), context.get(OWNER), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return _Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_more: Any,
    ) -> asyncio.Task[Any]:
        """Start a task in one of the next steps."""
        context = context or copy_context()
        task = _Task(self.next_number(), coro, loop=self, name=name or "task", context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a killed process leaves some
        if self.dropping:
            coro.close()  # it never runs
        self._tasks.append((context, task))
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what no task took, unless its process is dead."""
        handle = context.get("handle")
        owner = OWNER.get() if handle is None else handle._context.get(OWNER)
        owner = getattr(context.get("future"), "owner", owner)
        error = context.get("exception")
        ended = owner is not None and owner.dead
        if isinstance(error, Exception) and not ended:  # a task that was killed has another
            self.errors.append(error)

    def get_debug(self) -> bool:
        """Return False: tasks keep no account of where they were made."""
        return False

    def get_task_factory(self) -> None:
        """Return None: it makes its tasks itself."""

    def is_running(self) -> bool:
        """Return whether the loop is inside :meth:`run_until`."""
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        """Return False: there is nothing to close."""
        return False

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Leave the timer where it is; it is passed over."""

    # What the schedule asks.

    def expect(self, label: str, happen: Callable[[], object], *, late: bool = True) -> None:
        """Add an event, which belongs to whose context this is called in; not ``late``: only turns delay it."""
        if self.dropping:
            return
        context = copy_context()
        turns, seconds = self._decider.delay_event(label, late=late)
        if seconds:
            self.call_later(seconds, self._add_event, label, happen, 0)
        else:
            self._add_event(label, happen, turns, context)

    def expect_after(self, turns: int, label: str, happen: Callable[[], object]) -> None:
        """Add an event that so many later ones go before."""
        self._add_event(label, happen, turns)

    def _add_event(
        self,
        label: str,
        happen: Callable[[], object],
        turns: int,
        context: Context | None = None,
        is_off: Callable[[], bool] | None = None,
    ) -> None:
        context, number = context or copy_context(), self.next_number()
        owner = context.get(OWNER)
        mark = self._decider.mark(label, owner)
        event = Event(number + turns, number, label, happen, owner, context, mark, is_off)
        heapq.heappush(self._events, event)

    async def gate(self, label: str, *, late: bool = True) -> None:
        """Wait until the schedule lets an event of this label happen."""
        passed = self.create_future()
        self.expect(label, lambda: passed.done() or passed.set_result(None), late=late)
        await passed

    def run_until(self, done: Callable[[], bool], *, deadline: float) -> bool:
        """Run steps until ``done``, asked whenever no step is ready; False if it is past the deadline, or nothing can happen."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while self._ready or not done():
                if self._now > deadline or not self._step():
                    return False
            return True
        finally:
            events._set_running_loop(before)

    def drop(self, owner: Owner | None) -> None:
        """Take away all that belongs to a dead process, without running any of it."""
        self._ready = [one for one in self._ready if one[2] is not owner]
        self._timers = [one for one in self._timers if one[2] is not owner]
        self._events = [one for one in self._events if one.owner is not owner]
        for heap in (self._ready, self._timers, self._events):
            heapq.heapify(heap)
        before = events._get_running_loop()
        events._set_running_loop(self)  # as in a step: a task ends in its own loop
        self.dropping = True
        try:
            for context, task in self._tasks:
                if context.get(OWNER) is owner and not task.done():
                    asyncio.tasks._enter_task(self, task)  # what it leaves asks which task it is
                    try:
                        context.run(_end, task.get_coro())
                    finally:
                        asyncio.tasks._leave_task(self, task)
        finally:
            self.dropping = False
            events._set_running_loop(before)
        self._tasks = [
            one for one in self._tasks if one[0].get(OWNER) is not owner and not one[1].done()
        ]

    def close_all(self) -> None:
        """Take away everything that is left, whomever it belongs to."""
        while self._tasks:
            self.drop(self._tasks[0][0].get(OWNER))

    def waiting(self) -> int:
        """Return how many tasks, timers and events there are."""
        self._tasks = [one for one in self._tasks if not one[1].done()]
        alive = sum(not handle.cancelled() for *_, handle in self._timers)
        return len(self._tasks) + alive + len(self._events) + len(self._ready)

    def next_number(self) -> int:
        """Return a number that nothing else of the run has."""
        self._numbers += 1
        return self._numbers

    def _add_ready(self, owner: Owner | None, handle: events.Handle) -> None:
        if self.dropping or (owner is not None and owner.dead):
            return
        turns = self._decider.delay_step("" if owner is None else owner.name)
        number = self.next_number()
        heapq.heappush(self._ready, (number + turns, number, owner, handle))

    def _step(self) -> bool:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise Endless(f"{MOST_STEPS} steps, and no time passed")
        if self._ready:
            handle = heapq.heappop(self._ready)[3]
            if not handle.cancelled():
                handle._run()
                self.on_step("")
            return True
        if self._pauses:
            self._events = [one for one in self._events if one.is_off is None or not one.is_off()]
        if self._events:
            self._happened, self._steps = self._happened + 1, 0
            if self._happened > MOST_EVENTS:
                raise Endless(f"{MOST_EVENTS} events, and no end")
            self._now += self._event_seconds
            event = self._next_event()
            event.context.run(event.happen)
            self.on_step(event.label)
            return True
        while self._timers and self._timers[0][3].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            return False
        self._advance()
        return True

    def _next_event(self) -> Event:
        ordered = sorted(self._events)
        event = ordered.pop(self._decider.pick(ordered))
        self._events = ordered
        return event

    def _advance(self) -> None:
        when = self._timers[0][0]
        if when > self._now:
            self._now, self._steps = when, 0
        while self._timers and self._timers[0][0] <= self._now:
            _when, _number, owner, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                self._add_ready(owner, handle)
