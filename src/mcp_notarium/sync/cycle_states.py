"""Define the sync cycle as a table: state and event give the next state. Pure.

Every transition stands in ``TRANSITIONS``; every state but the working ones is left only when it is DUE. ``cycle_runner``
does the work of a state and turns what happened into the next event.
"""

from __future__ import annotations

from collections.abc import Mapping
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


WORKING = (State.PUSHING, State.INDEXING, State.FETCHING, State.COMMITTING)
RESTING = (State.IDLE, State.BACKING_OFF, State.NEEDS_AUTH, State.HALTED)

TRANSITIONS: Mapping[tuple[State, Event], State] = {
    # Rest ends when something is due; a change feed may bring a page into it.
    **{(state, Event.DUE): State.PUSHING for state in RESTING},
    (State.IDLE, Event.PAGE): State.FETCHING,
    (State.IDLE, Event.NOTHING_NEW): State.IDLE,
    (State.PUSHING, Event.PUSHED): State.INDEXING,
    (State.INDEXING, Event.PAGE): State.FETCHING,
    (State.INDEXING, Event.NOTHING_NEW): State.IDLE,
    (State.FETCHING, Event.FETCHED): State.COMMITTING,
    (State.COMMITTING, Event.MORE): State.INDEXING,
    # A cursor the store has forgotten: compare everything.
    (State.IDLE, Event.CURSOR_LOST): State.INDEXING,
    (State.INDEXING, Event.CURSOR_LOST): State.INDEXING,
    # Failures. Nothing is wiped by any of them.
    **{(state, Event.FAILED): State.BACKING_OFF for state in (State.IDLE, *WORKING)},
    **{(state, Event.LOGIN_REFUSED): State.NEEDS_AUTH for state in (State.IDLE, *WORKING)},
    **{(state, Event.VANISHED): State.HALTED for state in WORKING if state is not State.PUSHING},
}
"""Any pair that is not listed cannot occur."""

FAILURES: Mapping[type[NotariumError], Event] = {
    LoginRequired: Event.LOGIN_REFUSED,
    CursorLost: Event.CURSOR_LOST,
    RemoteVanished: Event.VANISHED,
}


def event_of(error: NotariumError, *, state: State) -> Event:
    """Return the event for a failure in ``state``; FAILED if a more exact one is impossible there."""
    for kind, event in FAILURES.items():
        if isinstance(error, kind) and (state, event) in TRANSITIONS:
            return event
    return Event.FAILED
