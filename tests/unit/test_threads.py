"""One blocking call beside the loop: its result reaches exactly one taker."""

import asyncio
import subprocess
import sys
import threading
import time
from contextvars import ContextVar

import pytest

from mcp_notarium.threads import run_in_thread


def never(_result):
    pytest.fail("nobody was late")


def test_the_loop_continues_while_the_call_blocks():
    blocked = threading.Event()

    async def scenario():
        running = asyncio.create_task(run_in_thread(lambda: blocked.wait(10), too_late=never))
        await asyncio.sleep(0.01)
        assert not running.done()
        blocked.set()
        return await running

    assert asyncio.run(scenario()) is True


def test_the_call_has_a_large_stack_and_other_threads_the_usual_one(monkeypatch):
    given, start = [], threading.Thread.start

    def noting(thread):
        given.append((thread.name, threading.stack_size()))
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noting)
    usual = threading.stack_size()
    asyncio.run(run_in_thread(lambda: None, too_late=never))
    assert given == [("worker", 16 << 20)]
    assert threading.stack_size() == usual


def test_the_call_has_the_variables_of_the_caller():
    name = ContextVar("name", default="nobody")

    async def scenario():
        name.set("caller")
        return await run_in_thread(name.get)

    assert asyncio.run(scenario()) == "caller"


def test_what_the_call_raises_is_raised():
    async def scenario():
        await run_in_thread(lambda: 1 / 0, too_late=never)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(scenario())


def test_a_result_that_comes_after_the_caller_has_gone_is_given_away():
    go_on, late = threading.Event(), []
    ended = threading.Event()

    def call():
        go_on.wait(10)
        return "opened"

    def too_late(result):
        late.append(result)
        ended.set()

    async def scenario():
        running = asyncio.create_task(run_in_thread(call, too_late=too_late))
        await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    assert late == []
    go_on.set()
    assert ended.wait(10)
    assert late == ["opened"]


def test_a_result_that_comes_together_with_the_cancelling_is_given_away_once():
    late = []

    async def scenario():
        running = asyncio.create_task(run_in_thread(lambda: "opened", too_late=late.append))
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 - the thread is ready before the loop looks again
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    assert late == ["opened"]


def ended(seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program that ends while a call of so many seconds blocks."""
    code = (
        "import asyncio, time\n"
        "from mcp_notarium.threads import run_in_thread\n"
        "def call():\n"
        f"    time.sleep({seconds})\n"
        "    print('made')\n"
        "async def main():\n"
        "    asyncio.create_task(run_in_thread(call))\n"
        "    await asyncio.sleep(0.05)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, timeout=20, check=True, capture_output=True, text=True)


def test_a_call_that_still_blocks_does_not_hold_the_process_up():
    assert ended(60).stdout == ""


def test_a_call_that_is_nearly_done_is_not_cut_off_by_the_end_of_the_process():
    assert ended(0.2).stdout == "made\n"
