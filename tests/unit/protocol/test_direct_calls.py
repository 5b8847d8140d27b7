"""Readings without the engine: called off at a word, and no more of them than can be held."""

import json
import os
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp_types import CONNECTION_CLOSED

from mcp_notarium.protocol.app_holder import House
from mcp_notarium.protocol.backlog import CALL_BYTES, MOST_REQUESTS, MOST_UNREAD
from mcp_notarium.protocol.call_pipeline import Answering
from mcp_notarium.protocol.direct_calls import CLOSED, Direct
from mcp_notarium.protocol.outbox import Outbox
from mcp_notarium.protocol.server import surface
from mcp_notarium.protocol.static_replies import Cancel, Read
from support.tooling import Desk

pytestmark = pytest.mark.anyio

FORMS = surface()["calls"]["2025-11-25"]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def desk(tmp_path):
    made = Desk(tmp_path)
    made.store.put("plain", "x\n")
    await made.sync()
    yield made
    made.close()


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


@asynccontextmanager
async def waiting(desk, outgoing):
    """Direct readings, and the gate before the notes they wait for."""
    gate = anyio.Event()

    @asynccontextmanager
    async def opened():
        await gate.wait()
        yield desk.app

    house = House(opened, report=lambda _error: None)
    outbox = Outbox(outgoing)
    answering = Answering(house, backlog=outbox.backlog)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.keep)
            yield Direct(answering, outbox, tasks, tell=lambda _event: None), gate, outbox.backlog
            gate.set()
            await house.leave(within=1)


def read(request_id):
    return Read(request_id, "get", {"id": "plain"}, "a client 1", FORMS)


def told(fd):
    return [json.loads(line)["id"] for line in os.read(fd, 1 << 16).splitlines()]


async def test_a_reading_that_is_called_off_has_no_answer_and_the_others_have_theirs(desk, pipe):
    async with waiting(desk, pipe[1]) as (direct, gate, _):
        for request_id in (1, 2, "3"):
            direct.do(read(request_id), 100)
        await anyio.wait_all_tasks_blocked()
        direct.do(Cancel(1), 50)
        direct.do(Cancel(1), 50)
        direct.do(Cancel(3), 50)
        direct.do(Cancel("nobody asked this"), 50)
        gate.set()
        await direct.idle()
    assert told(pipe[0]) == [2]


@pytest.mark.parametrize(
    ("most", "size"),
    [(MOST_REQUESTS // CALL_BYTES, 0), (4, MOST_REQUESTS // 4 - CALL_BYTES)],
    ids=["calls", "bytes"],
)
async def test_the_backlog_is_full_while_too_much_is_in_hand(desk, pipe, most, size):
    async with waiting(desk, pipe[1]) as (direct, _, backlog):
        for request_id in range(most):
            direct.do(read(request_id), size)
        assert not backlog.full()
        direct.do(read("one more"), size)
        assert backlog.full()
        await anyio.wait_all_tasks_blocked()
        for request_id in range(most):
            direct.do(Cancel(request_id), 50)
        await anyio.wait_all_tasks_blocked()
        assert not backlog.full()
        direct.do(Cancel("one more"), 50)
        await direct.idle()
        assert not direct.busy


async def test_the_backlog_is_full_while_replies_are_not_taken(desk):
    reading, writing = os.pipe()
    try:
        async with waiting(desk, writing) as (direct, _, backlog):
            direct.do(b"x" * MOST_UNREAD, 0)  # more than a pipe takes
            await anyio.wait_all_tasks_blocked()
            assert not backlog.full()
            direct.do(b"x\n", 0)
            await anyio.wait_all_tasks_blocked()
            assert backlog.full()
            with anyio.move_on_after(0.05) as waited:
                await direct.idle()
            assert waited.cancelled_caught
            os.close(reading)
            reading = None
            await direct.idle()
            await backlog.room()
            assert not backlog.full()
    finally:
        os.close(writing)
        if reading is not None:
            os.close(reading)


async def test_a_reading_that_waited_for_the_network_is_not_answered_above_the_bound(
    tmp_path, pipe
):
    desk, come = Desk(tmp_path), anyio.Event()
    desk.store.put("plain", "x\n")
    get, asked = desk.remote.get, []

    async def late(*args, **options):
        asked.append(args)
        await come.wait()
        return await get(*args, **options)

    desk.remote.get = late
    try:
        async with waiting(desk, pipe[1]) as (direct, gate, backlog):
            gate.set()
            direct.do(read(1), 100)
            await anyio.wait_all_tasks_blocked()
            assert asked
            backlog.wait(MOST_UNREAD + 1)
            come.set()
            direct.do(b"x\n", 10)
            await anyio.wait_all_tasks_blocked()
            assert direct.busy
            assert os.read(pipe[0], 1 << 16) == b"x\n"
            backlog.written(MOST_UNREAD + 1)
            await direct.idle()
    finally:
        desk.close()
    assert told(pipe[0]) == [1]


async def test_who_waits_at_the_end_of_the_connection_is_told_of_it(desk, pipe):
    async with waiting(desk, pipe[1]) as (direct, _, _):
        for request_id in (1, 2):
            direct.do(read(request_id), 100)
        await anyio.wait_all_tasks_blocked()
        direct.do(Cancel(1), 50)
        direct.break_off()
        await direct.idle()
    (answer,) = map(json.loads, os.read(pipe[0], 1 << 16).splitlines())
    assert answer == {"jsonrpc": "2.0", "id": 2, "error": CLOSED}
    assert CLOSED["code"] == CONNECTION_CLOSED
