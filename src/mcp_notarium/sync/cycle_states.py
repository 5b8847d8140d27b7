"""Define the sync cycle as a table of states: an event comes in, a state and one effect go out. Pure.

Rules of this file: every transition stands in ``TRANSITIONS`` and nowhere else; every state but the
working ones is left only when it is DUE. It performs nothing; ``cycle_runner`` carries the effects out and
turns what happened into the next event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mcp_notarium.errors import CursorLost, LoginRequired, NotariumError, RemoteVanished


class State(StrEnum):
    """Name the states of the cycle."""

    IDLE = "idle"
    INDEXING = "indexing"
    FETCHING = "fetching"
    PUSHING = "pushing"
    COMMITTING = "committing"
    BACKING_OFF = "backing_off"
    NEEDS_AUTH = "needs_auth"
    HALTED = "halted"


class Event(StrEnum):
    """Name the events that change the state."""

    DUE = "due"
    PUSHED = "pushed"
    PAGE = "page"
    NOTHING_NEW = "nothing_new"
    FETCHED = "fetched"
    MORE = "more"
    FAILED = "failed"
    CURSOR_LOST = "cursor_lost"
    LOGIN_REFUSED = "login_refused"
    VANISHED = "vanished"


class Effect(StrEnum):
    """Name what the cycle runner does next."""

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
    """Report an event that cannot happen in this state; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Transition:
    """Hold the new state and the effect to carry out in it."""

    state: State
    effect: Effect


WORKING = (State.PUSHING, State.INDEXING, State.FETCHING, State.COMMITTING)
RESTING = (State.IDLE, State.BACKING_OFF, State.NEEDS_AUTH, State.HALTED)

TRANSITIONS: Mapping[tuple[State, Event], Transition] = {
    # Rest ends when something is due; a change feed may bring a page into it.
    **{(state, Event.DUE): Transition(State.PUSHING, Effect.REPLAY) for state in RESTING},
    (State.IDLE, Event.PAGE): Transition(State.FETCHING, Effect.FETCH),
    (State.IDLE, Event.NOTHING_NEW): Transition(State.IDLE, Effect.REST),
    # One cycle.
    (State.PUSHING, Event.PUSHED): Transition(State.INDEXING, Effect.ASK),
    (State.INDEXING, Event.PAGE): Transition(State.FETCHING, Effect.FETCH),
    (State.INDEXING, Event.NOTHING_NEW): Transition(State.IDLE, Effect.REST),
    (State.FETCHING, Event.FETCHED): Transition(State.COMMITTING, Effect.COMMIT),
    (State.COMMITTING, Event.MORE): Transition(State.INDEXING, Effect.ASK),
    # A cursor the store has forgotten: compare everything.
    (State.IDLE, Event.CURSOR_LOST): Transition(State.INDEXING, Effect.SWEEP),
    (State.INDEXING, Event.CURSOR_LOST): Transition(State.INDEXING, Effect.SWEEP),
    # Failures. Nothing is wiped by any of them.
    **{
        (state, Event.FAILED): Transition(State.BACKING_OFF, Effect.BACK_OFF)
        for state in (State.IDLE, *WORKING)
    },
    **{
        (state, Event.LOGIN_REFUSED): Transition(State.NEEDS_AUTH, Effect.AWAIT_LOGIN)
        for state in (State.IDLE, *WORKING)
    },
    **{
        (state, Event.VANISHED): Transition(State.HALTED, Effect.HALT)
        for state in (State.INDEXING, State.FETCHING, State.COMMITTING)
    },
}


FAILURES: Mapping[type[NotariumError], Event] = {
    LoginRequired: Event.LOGIN_REFUSED,
    CursorLost: Event.CURSOR_LOST,
    RemoteVanished: Event.VANISHED,
}


def receive(state: State, event: Event) -> Transition:
    """Return the transition. Raises ``IllegalTransition`` for a pair that is not in the table."""
    transition = TRANSITIONS.get((state, event))
    if transition is None:
        raise IllegalTransition(f"{event} cannot happen while {state}")
    return transition


def event_of(error: NotariumError, *, state: State) -> Event:
    """Return the event for a failure in ``state``; FAILED if a more exact one is impossible there."""
    for kind, event in FAILURES.items():
        if isinstance(error, kind) and (state, event) in TRANSITIONS:
            return event
    return Event.FAILED
