"""The events: nothing is lost or overtaken when the waiting thread becomes an event loop."""

import asyncio
import threading

import pytest

from mcp_notarium.protocol.stdio import EventQueue


def test_items_put_before_and_after_the_event_loop_begins_arrive_in_order():
    events = EventQueue()
    events.put(0)
    assert events.wait() == 0
    total = 2000

    def produce():
        for number in range(1, total):
            events.put(number)

    async def consume():
        thread = threading.Thread(target=produce)
        thread.start()
        found = []
        while len(found) < total - 1:
            found += await events.next()
        thread.join()
        return found

    assert asyncio.run(asyncio.wait_for(consume(), 20)) == list(range(1, total))


def test_put_after_the_loop_has_ended_is_harmless():
    events = EventQueue()

    async def listen():
        events.put("early")
        assert await events.next() == ["early"]

    asyncio.run(listen())
    events.put("late")
    assert events.wait(0) == "late"


@pytest.mark.timeout(20)
def test_wait_blocks_until_something_is_put():
    events = EventQueue()
    threading.Timer(0.05, events.put, ["x"]).start()
    assert events.wait() == "x"
