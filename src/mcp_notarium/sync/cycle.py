"""The sync cycle as a table of states: an event comes in, a state and one effect go out. Pure.

Rules of this file: every transition stands in ``TRANSITIONS`` and nowhere else; every state but the
working ones is left only when it is DUE. It performs nothing; ``driver`` carries the effects out and
turns what happened into the next event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mcp_notarium.errors import (
    CursorLost,
    LoginRequired,
    NotariumError,
    RateLimited,
    RemoteVanished,
)

FIRST_DELAY = 1.0
"""Seconds; the ceiling of the first pause after a failure. It doubles with each further one."""
SHORTEST_DELAY = 0.25
LONGEST_DELAY = 300.0
LONGEST_ASKED_DELAY = 3600.0
"""A Retry-After beyond this is not believed."""


class State(StrEnum):
    """Where the cycle stands."""

    IDLE = "idle"
    INDEXING = "indexing"
    FETCHING = "fetching"
    PUSHING = "pushing"
    COMMITTING = "committing"
    BACKING_OFF = "backing_off"
    NEEDS_AUTH = "needs_auth"
    HALTED = "halted"


class Event(StrEnum):
    """What happened."""

    DUE = "due"
    PUSHED = "pushed"
    PAGE = "page"
    NOTHING_NEW = "nothing_new"
    FETCHED = "fetched"
    MORE = "more"
    COMPLETE = "complete"
    FAILED = "failed"
    CURSOR_LOST = "cursor_lost"
    LOGIN_REFUSED = "login_refused"
    VANISHED = "vanished"


class Effect(StrEnum):
    """What the driver does next."""

    REST = "rest"
    REPLAY = "replay"
    ASK = "ask"
    SWEEP = "sweep"
    FETCH = "fetch"
    COMMIT = "commit"
    BACK_OFF = "back_off"
    AWAIT_LOGIN = "await_login"
    HALT = "halt"


class IllegalTransition(AssertionError):
    """The driver reported an event that cannot happen in this state; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Step:
    """The state to be in and the effect to carry out there."""

    state: State
    effect: Effect


WORKING = (State.PUSHING, State.INDEXING, State.FETCHING, State.COMMITTING)
RESTING = (State.IDLE, State.BACKING_OFF, State.NEEDS_AUTH, State.HALTED)

TRANSITIONS: Mapping[tuple[State, Event], Step] = {
    # Rest ends when something is due; a change feed may bring a page into it.
    **{(state, Event.DUE): Step(State.PUSHING, Effect.REPLAY) for state in RESTING},
    (State.IDLE, Event.PAGE): Step(State.FETCHING, Effect.FETCH),
    (State.IDLE, Event.NOTHING_NEW): Step(State.IDLE, Effect.REST),
    # The way of one cycle.
    (State.PUSHING, Event.PUSHED): Step(State.INDEXING, Effect.ASK),
    (State.INDEXING, Event.PAGE): Step(State.FETCHING, Effect.FETCH),
    (State.INDEXING, Event.NOTHING_NEW): Step(State.IDLE, Effect.REST),
    (State.FETCHING, Event.FETCHED): Step(State.COMMITTING, Effect.COMMIT),
    (State.COMMITTING, Event.MORE): Step(State.INDEXING, Effect.ASK),
    (State.COMMITTING, Event.COMPLETE): Step(State.IDLE, Effect.REST),
    # A cursor the store has forgotten: compare everything.
    (State.IDLE, Event.CURSOR_LOST): Step(State.INDEXING, Effect.SWEEP),
    (State.INDEXING, Event.CURSOR_LOST): Step(State.INDEXING, Effect.SWEEP),
    # Failures. Nothing is wiped by any of them.
    **{
        (state, Event.FAILED): Step(State.BACKING_OFF, Effect.BACK_OFF)
        for state in (State.IDLE, *WORKING)
    },
    **{
        (state, Event.LOGIN_REFUSED): Step(State.NEEDS_AUTH, Effect.AWAIT_LOGIN)
        for state in (State.IDLE, *WORKING)
    },
    **{
        (state, Event.VANISHED): Step(State.HALTED, Effect.HALT)
        for state in (State.INDEXING, State.FETCHING, State.COMMITTING)
    },
}


def receive(state: State, event: Event) -> Step:
    """The next step. Raises ``IllegalTransition`` for a pair that is not in the table."""
    step = TRANSITIONS.get((state, event))
    if step is None:
        raise IllegalTransition(f"{event} cannot happen while {state}")
    return step


def event_of(error: NotariumError, *, state: State) -> Event:
    """What a failure means to a cycle in ``state``; one that makes no sense there is FAILED."""
    event = Event.FAILED
    match error:
        case LoginRequired():
            event = Event.LOGIN_REFUSED
        case CursorLost():
            event = Event.CURSOR_LOST
        case RemoteVanished():
            event = Event.VANISHED
        case _:
            pass
    return event if (state, event) in TRANSITIONS else Event.FAILED


def backoff_delay(failures: int, *, jitter: float, retry_after: float | None = None) -> float:
    """Seconds to wait after ``failures`` (1 or more) failures in a row.

    ``jitter`` is uniform in [0, 1): the delay is spread over the whole range below a ceiling that
    doubles, so that many clients do not come back at once. What the store asked for is the least.
    """
    ceiling = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(max(failures, 1) - 1, 16))
    asked = min(max(retry_after or 0.0, 0.0), LONGEST_ASKED_DELAY)
    return max(SHORTEST_DELAY, ceiling * jitter, asked)


def retry_after_of(error: NotariumError) -> float | None:
    """The seconds the store asked us to stay away, if it did."""
    return error.retry_after if isinstance(error, RateLimited) else None


def state_diagram() -> str:
    """``TRANSITIONS`` as a Mermaid state diagram, for docs/sync.md."""
    lines = ["stateDiagram-v2", "    [*] --> IDLE"]
    lines += [
        f"    {state.name} --> {step.state.name}: {event.value} / {step.effect.value}"
        for (state, event), step in TRANSITIONS.items()
    ]
    return "\n".join(lines) + "\n"
