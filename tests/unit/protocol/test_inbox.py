"""The inbox: nothing is lost or overtaken when the waiting thread becomes an event loop."""

import asyncio
import threading

import pytest

from mcp_notarium.protocol import inbox as inbox_room
from mcp_notarium.protocol.async_inbox import Arrivals
from mcp_notarium.protocol.events import Stop
from mcp_notarium.protocol.inbox import MOST_BYTES, Inbox


def test_items_put_before_and_after_the_bell_arrive_in_order():
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
        arrivals = Arrivals(inbox)
        found = []
        while len(found) < total - 1:
            found += await arrivals.next()
        thread.join()
        return found

    assert asyncio.run(asyncio.wait_for(consume(), 20)) == list(range(1, total))


def test_put_after_the_loop_has_ended_is_harmless():
    inbox = Inbox()

    async def listen():
        Arrivals(inbox)

    asyncio.run(listen())
    inbox.put("late")
    assert inbox.taken() == ["late"]


@pytest.mark.timeout(20)
def test_wait_blocks_until_something_is_put():
    inbox = Inbox()
    threading.Timer(0.05, inbox.put, ["x"]).start()
    assert inbox.wait() == "x"


def test_it_is_crowded_by_the_weight_of_lines_until_they_are_taken():
    inbox = Inbox()
    for _ in range(3):
        inbox.put(b"x" * (MOST_BYTES // 2))
    assert inbox.crowded()
    inbox.taken()
    assert not inbox.crowded()
    for _ in range(MOST_BYTES // 1000):
        inbox.put(b"{}")
    assert inbox.crowded()
    inbox.wait()
    inbox.taken()
    assert not inbox.crowded()
    inbox.behind = lambda: True
    assert inbox.crowded()


def test_a_line_that_comes_while_something_weightless_is_put_is_counted(monkeypatch):
    inbox, weigh = Inbox(), inbox_room.weight

    def weigh_while_a_line_comes(item):
        if isinstance(item, Stop):
            inbox.put(b"x" * (MOST_BYTES + 1))
        return weigh(item)

    monkeypatch.setattr(inbox_room, "weight", weigh_while_a_line_comes)
    inbox.put(Stop())
    assert inbox.crowded()
