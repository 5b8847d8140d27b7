"""The state table, the pauses after failures, and what a failure means."""

import pytest

from mcp_notarium.errors import (
    CacheBusy,
    CursorLost,
    LoginRequired,
    RemoteVanished,
    StoreUnavailable,
)
from mcp_notarium.sync.cycle_states import (
    TRANSITIONS,
    WORKING,
    Event,
    State,
    event_of,
)


def walk(*events, start=State.IDLE):
    state = start
    for event in events:
        state = TRANSITIONS[state, event]
    return state


def test_a_cycle_with_news_passes_all_states_once_and_ends_idle():
    assert (
        walk(
            Event.DUE,
            Event.PUSHED,
            Event.PAGE,
            Event.FETCHED,
            Event.MORE,
            Event.NOTHING_NEW,
        )
        is State.IDLE
    )


def test_news_from_the_feed_are_taken_from_rest_without_asking_first():
    assert walk(Event.PAGE, Event.FETCHED, Event.MORE, Event.NOTHING_NEW) is State.IDLE


@pytest.mark.parametrize("state", [State.IDLE, *WORKING])
def test_failures_and_refused_logins_are_met_in_every_working_state(state):
    assert TRANSITIONS[state, Event.FAILED] is State.BACKING_OFF
    assert TRANSITIONS[state, Event.LOGIN_REFUSED] is State.NEEDS_AUTH


@pytest.mark.parametrize("state", [State.BACKING_OFF, State.NEEDS_AUTH, State.HALTED])
def test_a_stopped_cycle_continues_when_it_is_due_and_only_then(state):
    assert {event: TRANSITIONS.get((state, event)) for event in Event} == {
        event: State.PUSHING if event is Event.DUE else None for event in Event
    }


def test_every_state_can_be_reached_and_left():
    assert set(TRANSITIONS.values()) == set(State)
    assert {state for state, _ in TRANSITIONS} == set(State)


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (LoginRequired("x"), Event.LOGIN_REFUSED),
        (CursorLost("x"), Event.CURSOR_LOST),
        (RemoteVanished("x"), Event.VANISHED),
        (StoreUnavailable("x"), Event.FAILED),
        (CacheBusy("x"), Event.FAILED),
    ],
)
def test_each_kind_of_failure_has_its_event(error, event):
    assert event_of(error, state=State.INDEXING) is event


def test_a_failure_that_makes_no_sense_in_a_state_is_an_ordinary_failure():
    assert event_of(CursorLost("x"), state=State.FETCHING) is Event.FAILED
    assert event_of(RemoteVanished("x"), state=State.PUSHING) is Event.FAILED
