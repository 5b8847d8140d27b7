"""The backlog: no more answers are made than the client reads, and nobody overtakes who waits."""

import asyncio

from mcp_notarium.protocol.backlog import MOST_UNREAD, Backlog

HALF = MOST_UNREAD // 2 + 1


def test_room_is_given_to_one_after_another_in_the_order_they_came():
    backlog, made = Backlog(), []

    async def call(number):
        await backlog.room()
        made.append(number)
        backlog.wait(HALF)

    async def settled():
        for _ in range(50):
            await asyncio.sleep(0)
        return len(made)

    async def scenario():
        calls = [asyncio.create_task(call(number)) for number in range(5)]
        assert await settled() == 2
        assert backlog.full()
        backlog.written(HALF)
        calls.append(asyncio.create_task(call("late")))
        assert await settled() == 3
        calls[3].cancel()  # who gives up leaves the room to the next one
        for most in (4, 5, 5):
            backlog.written(HALF)
            assert await settled() == most
        await asyncio.wait(calls)

    asyncio.run(scenario())
    assert made == [0, 1, 2, 4, "late"]
    assert backlog.has_room


def test_who_finds_room_does_not_wait():
    async def scenario():
        room = Backlog().room()
        try:
            room.send(None)
        except StopIteration:
            return
        raise AssertionError("it waited")

    asyncio.run(scenario())
