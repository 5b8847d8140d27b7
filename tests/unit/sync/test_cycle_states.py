"""The state table, the pauses after failures, and what a failure means."""

from itertools import product

import pytest

from mcp_notarium.errors import (
    CacheBusy,
    CursorLost,
    LoginRequired,
    RemoteVanished,
    StoreUnavailable,
)
from mcp_notarium.sync.cycle_states import (
    RESTING,
    TRANSITIONS,
    WORKING,
    Effect,
    Event,
    IllegalTransition,
    State,
    Transition,
    event_of,
    receive,
)


def walk(*events, start=State.IDLE):
    state = start
    for event in events:
        state = receive(state, event).state
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
    assert receive(State.IDLE, Event.PAGE) == Transition(State.FETCHING, Effect.FETCH)
    assert walk(Event.PAGE, Event.FETCHED, Event.MORE, Event.NOTHING_NEW) is State.IDLE


def test_a_lost_cursor_leads_to_a_sweep_from_rest_and_from_work():
    for state in (State.IDLE, State.INDEXING):
        assert receive(state, Event.CURSOR_LOST).effect is Effect.SWEEP


@pytest.mark.parametrize("state", [State.IDLE, *WORKING])
def test_failures_and_refused_logins_are_met_in_every_working_state(state):
    assert receive(state, Event.FAILED).state is State.BACKING_OFF
    assert receive(state, Event.LOGIN_REFUSED).state is State.NEEDS_AUTH


@pytest.mark.parametrize("state", [State.BACKING_OFF, State.NEEDS_AUTH, State.HALTED])
def test_a_stopped_cycle_continues_when_it_is_due_and_only_then(state):
    assert receive(state, Event.DUE) == Transition(State.PUSHING, Effect.REPLAY)
    for event in set(Event) - {Event.DUE}:
        with pytest.raises(IllegalTransition):
            receive(state, event)


def test_what_is_not_in_the_table_raises_and_changes_nothing():
    before = dict(TRANSITIONS)
    illegal = [pair for pair in product(State, Event) if pair not in TRANSITIONS]
    assert illegal
    for state, event in illegal:
        with pytest.raises(IllegalTransition):
            receive(state, event)
    assert before == TRANSITIONS


def test_every_state_can_be_reached_and_left():
    assert {step.state for step in TRANSITIONS.values()} == set(State)
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert {step.effect for step in TRANSITIONS.values()} == set(Effect)


def test_effects_of_rest_stand_with_resting_states_only():
    resting = {Effect.REST, Effect.BACK_OFF, Effect.AWAIT_LOGIN, Effect.HALT}
    for step in TRANSITIONS.values():
        assert (step.effect in resting) == (step.state in RESTING)


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
