"""Readings without the engine: called off at a word, and no more of them than can be held."""

import json
import os
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp_types import CONNECTION_CLOSED

from mcp_notarium.server.answering import Answering
from mcp_notarium.server.direct import CLOSED, MOST_BYTES, MOST_CALLS, Direct
from mcp_notarium.server.front import Cancel, Read
from mcp_notarium.server.house import House
from mcp_notarium.server.outbox import Outbox
from mcp_notarium.server.run import surface
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
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.keep)
            yield (
                Direct(Answering(house), Outbox(outgoing), tasks, tell=lambda _event: None),
                gate,
            )
            gate.set()
            await house.leave(within=1)


def read(request_id):
    return Read(request_id, "get", {"id": "plain"}, "a client 1", FORMS)


def told(fd):
    return [json.loads(line)["id"] for line in os.read(fd, 1 << 16).splitlines()]


async def test_a_reading_that_is_called_off_has_no_answer_and_the_others_have_theirs(desk, pipe):
    async with waiting(desk, pipe[1]) as (direct, gate):
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
    [(MOST_CALLS, 100), (4, MOST_BYTES // 4)],
    ids=["calls", "bytes"],
)
async def test_it_is_behind_while_too_much_is_in_hand(desk, pipe, most, size):
    async with waiting(desk, pipe[1]) as (direct, _):
        for request_id in range(most):
            direct.do(read(request_id), size)
        assert not direct.behind()
        direct.do(read("one more"), size)
        assert direct.behind()
        await anyio.wait_all_tasks_blocked()
        for request_id in range(most):
            direct.do(Cancel(request_id), 50)
        await anyio.wait_all_tasks_blocked()
        assert not direct.behind()
        direct.do(Cancel("one more"), 50)
        await direct.idle()
        assert not direct.busy


async def test_it_is_behind_while_replies_are_not_taken(desk):
    reading, writing = os.pipe()
    try:
        async with waiting(desk, writing) as (direct, _):
            direct.do(b"x" * (1 << 20), 10)  # more than a pipe takes
            for _ in range(MOST_CALLS - 1):
                direct.do(b"x\n", 10)
            await anyio.wait_all_tasks_blocked()
            assert not direct.behind()
            direct.do(b"x\n", 10)
            assert direct.behind()
            with anyio.move_on_after(0.05) as waited:
                await direct.idle()
            assert waited.cancelled_caught
            os.close(reading)
            reading = None
            await direct.idle()
            assert not direct.behind()
    finally:
        os.close(writing)
        if reading is not None:
            os.close(reading)


async def test_who_waits_at_the_end_of_the_connection_is_told_of_it(desk, pipe):
    async with waiting(desk, pipe[1]) as (direct, _):
        for request_id in (1, 2):
            direct.do(read(request_id), 100)
        await anyio.wait_all_tasks_blocked()
        direct.do(Cancel(1), 50)
        direct.break_off()
        await direct.idle()
    (answer,) = map(json.loads, os.read(pipe[0], 1 << 16).splitlines())
    assert answer == {"jsonrpc": "2.0", "id": 2, "error": CLOSED}
    assert CLOSED["code"] == CONNECTION_CLOSED
