"""When doubts and unfinished writes are looked at again."""

import pytest

from mcp_notarium.sync.retry_schedule import FIRST_DELAY, LONGEST_DELAY, Errands

A, B = frozenset({"a"}), frozenset({"b"})


def tried(errands, open_, *, now):
    errands.tried = True
    errands.pace(open_, now=now)


def due_at(errands):
    """The first tenth of a second, from 0 on, at which they are due."""
    return next(at / 10 for at in range(100_000) if errands.due(at / 10))


def test_a_new_one_is_looked_at_soon():
    errands = Errands()
    errands.pace(A, now=10.0)
    assert due_at(errands) == 10.0 + FIRST_DELAY


def test_one_that_was_looked_at_in_vain_waits_twice_as_long_each_time_up_to_a_limit():
    errands, now, waits = Errands(), 0.0, []
    errands.pace(A, now=now)
    for _ in range(12):
        now = due_at(errands)
        tried(errands, A, now=now)
        waits.append(due_at(errands) - now)
    assert waits[:4] == pytest.approx([2, 4, 8, 16])
    assert waits[-1] == pytest.approx(LONGEST_DELAY)


def test_cycles_that_look_at_none_lengthen_nothing():
    errands = Errands()
    errands.pace(A, now=0.0)
    for number in range(1, 9):
        errands.pace(A, now=number / 10)
    assert due_at(errands) == FIRST_DELAY


def test_new_ones_do_not_put_off_those_that_wait():
    errands = Errands()
    errands.pace(A, now=0.0)
    for number in range(1, 30):
        errands.pace(A | {f"new {number}"}, now=number / 10)
    assert due_at(errands) == FIRST_DELAY


def test_a_new_one_is_soon_even_beside_one_that_is_stuck():
    errands = Errands()
    errands.pace(A, now=0.0)
    for now in (1.0, 3.0, 7.0, 15.0):
        tried(errands, A, now=now)
    errands.pace(A | B, now=16.0)
    assert due_at(errands) == 16.0 + FIRST_DELAY


def test_after_all_are_done_the_next_begins_anew():
    errands = Errands()
    errands.pace(A, now=0.0)
    tried(errands, A, now=1.0)
    tried(errands, frozenset(), now=3.0)
    errands.pace(A, now=50.0)
    assert due_at(errands) == 50.0 + FIRST_DELAY
