"""The flow: no more answers are made than the client reads, and nobody overtakes who waits."""

import asyncio

import pytest

from mcp_notarium.protocol.stdio import (
    CALL_BYTES,
    LINE_BYTES,
    MOST_UNANSWERED,
    MOST_UNREAD,
    FlowControl,
)

HALF = MOST_UNREAD // 2 + 1


def test_room_is_given_to_one_after_another_in_the_order_they_came():
    flow, made = FlowControl(), []

    async def call(number):
        await flow.wait_for_room()
        made.append(number)
        flow.add_unwritten(HALF)

    async def settled():
        for _ in range(50):
            await asyncio.sleep(0)
        return len(made)

    async def scenario():
        calls = [asyncio.create_task(call(number)) for number in range(5)]
        assert await settled() == 2
        assert flow.full()
        flow.written(HALF)
        calls.append(asyncio.create_task(call("late")))
        assert await settled() == 3
        calls[3].cancel()  # who gives up leaves the room to the next one
        for most in (4, 5, 5):
            flow.written(HALF)
            assert await settled() == most
        await asyncio.wait(calls)

    asyncio.run(scenario())
    assert made == [0, 1, 2, 4, "late"]
    assert flow.has_room


def test_a_call_that_finds_capacity_does_not_wait():
    async def scenario():
        room = FlowControl().wait_for_room()
        try:
            room.send(None)
        except StopIteration:
            return
        raise AssertionError("it waited")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("most", "size"),
    [
        (MOST_UNANSWERED // LINE_BYTES, 0),
        (4, MOST_UNANSWERED // 4 - LINE_BYTES),
    ],
    ids=["lines", "bytes"],
)
def test_it_is_full_while_too_much_was_read_that_has_no_answer(most, size):
    flow = FlowControl()
    for _ in range(most):
        flow.read(size)
    assert not flow.full()
    flow.read(size)
    assert flow.full()
    flow.done(size)
    assert not flow.full()


@pytest.mark.parametrize(
    ("most", "size"),
    [
        (MOST_UNANSWERED // (CALL_BYTES + LINE_BYTES), 0),
        (4, MOST_UNANSWERED // 4 - LINE_BYTES - CALL_BYTES),
    ],
    ids=["calls", "bytes"],
)
def test_a_call_counts_more_than_a_line_until_it_is_answered(most, size):
    flow = FlowControl()
    for _ in range(most):
        flow.read(size)
        flow.begin_call()
    assert not flow.full()
    flow.read(size)
    flow.begin_call()
    assert flow.full()
    flow.end_call(size)
    assert not flow.full()


def test_it_is_full_while_what_was_written_is_not_taken():
    flow = FlowControl()
    flow.add_unwritten(MOST_UNREAD - LINE_BYTES)
    assert not flow.full()
    flow.add_unwritten(1)
    assert flow.full()
    flow.written(1)
    assert not flow.full()


def test_many_short_answers_fill_it_by_what_waits_with_each_of_them():
    flow = FlowControl()
    for _ in range(MOST_UNREAD // LINE_BYTES):
        flow.add_unwritten(100)
    assert flow.full()
