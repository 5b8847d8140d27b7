"""The inbox: nothing is lost or overtaken when the waiting thread becomes an event loop."""

import asyncio
import threading

import pytest

from mcp_notarium.protocol.inbox import Inbox


def test_items_put_before_and_after_the_event_loop_begins_arrive_in_order():
    inbox = Inbox()
    inbox.put(0)
    assert inbox.wait() == 0
    total = 2000

    def produce():
        for number in range(1, total):
            inbox.put(number)

    async def consume():
        thread = threading.Thread(target=produce)
        thread.start()
        found = []
        while len(found) < total - 1:
            found += await inbox.next()
        thread.join()
        return found

    assert asyncio.run(asyncio.wait_for(consume(), 20)) == list(range(1, total))


def test_put_after_the_loop_has_ended_is_harmless():
    inbox = Inbox()

    async def listen():
        inbox.put("early")
        assert await inbox.next() == ["early"]

    asyncio.run(listen())
    inbox.put("late")
    assert inbox.wait(0) == "late"


@pytest.mark.timeout(20)
def test_wait_blocks_until_something_is_put():
    inbox = Inbox()
    threading.Timer(0.05, inbox.put, ["x"]).start()
    assert inbox.wait() == "x"
