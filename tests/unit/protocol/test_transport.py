"""The transport over real pipes in one process: what is owed, what waits, when it ends."""

import json
import os
import time
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from mcp_notarium.protocol.connection import Connection
from mcp_notarium.protocol.event_loop import Outbox, ShutdownDeadline, run_transport
from mcp_notarium.protocol.sdk_server import SdkStream
from mcp_notarium.protocol.static_replies import StaticReplies, read_replies
from mcp_notarium.protocol.stdio import MOST_UNANSWERED, FlowControl, TooLong, size_of
from support.talker import HELLO, INITIALIZED

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(*first, seconds=1.5, **options):
    """A transport with so much time to end, and the descriptor a client would read.

    The connection has had its handshake, unless other lines are to come ``first``.
    """
    reading, writing = os.pipe()
    flow = FlowControl()
    connection = Connection(StaticReplies(read_replies()), flow)
    for line in first or (HELLO, INITIALIZED):
        connection.receive(json.dumps(line).encode())
    try:
        with anyio.fail_after(30 + seconds):
            async with run_transport(
                connection, Outbox(writing, flow), ShutdownDeadline(seconds), **options
            ) as transport:
                for _ in [] if first else (HELLO, INITIALIZED):
                    await transport.next()
                if not first:
                    connection.answered(HELLO["id"])
                yield transport, reading
    finally:
        for fd in (reading, writing):
            try:
                os.close(fd)
            except OSError:
                continue


def request(request_id, method="x"):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method}).encode()


def cancel(request_id):
    params = {"requestId": request_id}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return json.dumps(message).encode()


def answer(request_id, **result):
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result))


async def ended(transport):
    """Wait until the library's loop would end; gives the seconds that took."""
    began = time.monotonic()
    async for _ in SdkStream(transport):
        pass
    return time.monotonic() - began


def lines(reading):
    return [json.loads(line) for line in os.read(reading, 1 << 20).splitlines()]


async def test_messages_go_in_and_answers_come_out():
    async with connected() as (transport, reading):
        transport.feed(request(1))
        received = (await SdkStream(transport).receive()).message
        assert isinstance(received, JSONRPCRequest)
        await SdkStream(transport).send(answer(1, a=1))
        assert lines(reading) == [{"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}]


async def test_it_ends_at_once_when_nothing_is_owed():
    async with connected() as (transport, _):
        transport.stop()
        assert await ended(transport) < 1


async def test_it_waits_for_what_is_owed_and_no_longer():
    async with connected(seconds=30) as (transport, _):
        transport.feed(request(1))
        transport.feed(request("1"))
        transport.stop()
        await SdkStream(transport).send(answer(1))
        await anyio.wait_all_tasks_blocked()
        assert not transport._finished.is_set()
        await SdkStream(transport).send(answer("1"))
        assert await ended(transport) < 5


async def test_it_gives_up_on_what_takes_too_long():
    async with connected(seconds=0.1) as (transport, _):
        transport.feed(request(1))
        transport.stop()
        assert await ended(transport) < 5


@pytest.mark.parametrize(
    "lines_in",
    [
        [json.dumps({"jsonrpc": "2.0", "id": n, "method": "x"}).encode() for n in range(300)],
        [json.dumps({"jsonrpc": "2.0", "id": 0, "method": "x" * 9_000_000}).encode()] * 4,
        [b'{"jsonrpc":"2.0","method":"notifications/x"}'] * 2100,
    ],
    ids=["requests", "bytes", "notifications"],
)
async def test_the_backlog_is_full_while_too_much_is_pending(lines_in):
    async with connected(seconds=30) as (transport, _reading):
        flow = transport._outbox.flow
        for line in lines_in:
            flow.read(size_of(line))
            transport.feed(line)
        assert flow.full()
        for _ in lines_in:
            message = (await SdkStream(transport).receive()).message
            if isinstance(message, JSONRPCRequest):
                await SdkStream(transport).send(answer(message.id, n=1))
        assert not flow.full()


async def test_static_replies_count_until_they_are_written():
    async with connected(seconds=30) as (transport, reading):
        flow, ping = transport._outbox.flow, request("p", "ping")
        count = MOST_UNANSWERED // 16_000
        for _ in range(count):
            flow.read(len(ping))
            transport.feed(ping)
        assert flow.full()
        found = b""
        while found.count(b"\n") < count:
            found += await anyio.to_thread.run_sync(os.read, reading, 1 << 16)
        await anyio.wait_all_tasks_blocked()
        assert not flow.full()


async def test_one_id_used_twice_is_owed_two_answers():
    async with connected(seconds=30) as (transport, reading):
        transport.feed(request(1))
        transport.feed(request(1))
        transport.stop()
        await SdkStream(transport).send(answer(1, n=1))
        await anyio.wait_all_tasks_blocked()
        assert not transport._finished.is_set()
        await SdkStream(transport).send(answer(1, n=2))
        assert await ended(transport) < 5
        assert [line["result"]["n"] for line in lines(reading)] == [1, 2]


@pytest.mark.parametrize(("asked", "called_off"), [(1, 1), (1, "1"), ("1", 1), ("a", "a")])
async def test_cancelled_request_is_not_waited_for(asked, called_off):
    async with connected(seconds=30) as (transport, _):
        transport.feed(request(asked))
        transport.feed(cancel(called_off))
        transport.feed(cancel(True))
        transport.feed(cancel(99))
        transport.feed(cancel({"odd": 1}))
        transport.stop()
        assert await ended(transport) < 5


async def test_refusals_are_written_before_the_end():
    async with connected() as (transport, reading):
        transport.feed(b"{bad")
        transport.feed(TooLong(b'{"jsonrpc":"2.0","id":7,"method"', b"x"))
        transport.stop()
        await ended(transport)
        assert [(line.get("id"), line["error"]["code"]) for line in lines(reading)] == [
            (None, -32700),
            (7, -32600),
        ]


async def test_more_refusals_than_a_pipe_holds_are_all_written_before_the_end():
    async with connected(seconds=30) as (transport, reading):  # what is late for the end is dropped
        for _ in range(3000):
            transport.feed(b"{bad")
        transport.stop()
        found = b""

        async def read():
            nonlocal found
            while found.count(b"\n") < 3000:
                found += await anyio.to_thread.run_sync(os.read, reading, 1 << 16)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await ended(transport)
            assert found.count(b"\n") > 2000  # the rest is in the pipe
    assert found.count(b"\n") == 3000


async def test_answer_to_the_handshake_is_swallowed_once():
    async with connected(HELLO, INITIALIZED) as (transport, reading):
        await SdkStream(transport).send(answer(HELLO["id"], first=True))
        transport.feed(request(HELLO["id"]))
        await SdkStream(transport).send(answer(HELLO["id"], second=True))
        assert [line["result"] for line in lines(reading)] == [{"second": True}]
        transport.stop()
        assert await ended(transport) < 1


async def test_calls_that_wait_for_the_sdk_keep_their_order_and_can_be_cancelled():
    async with connected(HELLO, INITIALIZED, seconds=30) as (transport, _):
        for number in range(5):
            transport.feed(request(number))
        transport.feed(cancel(2))
        transport.feed(cancel("4"))
        stream = SdkStream(transport)
        found = [(await stream.receive()).message for _ in range(5)]
        assert [message.method for message in found[:2]] == [
            "initialize",
            "notifications/initialized",
        ]
        assert [message.id for message in found[2:]] == [0, 1, 3]
        transport.stop()
        for number in (HELLO["id"], 0, 1, 3):
            await SdkStream(transport).send(answer(number))
        assert await ended(transport) < 5


async def test_call_that_the_sdk_never_received_fails_with_connection_closed():
    async with connected(HELLO, seconds=0.1) as (transport, reading):
        transport.feed(request("a"))
        transport.stop()
        await transport.over.wait()
        assert lines(reading) == [
            {
                "jsonrpc": "2.0",
                "id": "a",
                "error": {"code": -32000, "message": "Connection closed"},
            }
        ]


async def test_end_of_input_waits_until_calls_can_be_answered_and_a_stop_does_not():
    can = anyio.Event()
    async with connected(seconds=0.2, ready=can.wait) as (transport, _):
        transport.feed(request(1))
        transport.end_of_input()
        with anyio.move_on_after(0.5):
            await transport.over.wait()
        assert not transport.over.is_set()
        transport.stop()
        assert await ended(transport) < 5
    can.set()
    async with connected(seconds=0.2, ready=can.wait) as (transport, _):
        transport.feed(request(1))
        transport.end_of_input()
        assert await ended(transport) < 5


async def test_nothing_is_taken_after_the_stop():
    async with connected() as (transport, _):
        transport.stop()
        transport.feed(request(1))
        assert [message async for message in SdkStream(transport)] == []


async def test_reader_that_is_gone_ends_it():
    async with connected(seconds=30) as (transport, reading):
        transport.feed(request(1))
        transport.feed(request(2))
        os.close(reading)
        await SdkStream(transport).send(answer(1))
        assert await ended(transport) < 5


async def test_large_and_small_lines_keep_their_order():
    async with connected() as (transport, reading):
        found = b""

        async def read():
            nonlocal found
            while found.count(b"\n") < 40:
                found += await anyio.to_thread.run_sync(os.read, reading, 1 << 16)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for number in range(40):
                text = "x" * (200_000 if number % 5 == 0 else 10)
                tasks.start_soon(SdkStream(transport).send, answer(number, text=text))
        assert [json.loads(line)["id"] for line in found.splitlines()] == list(range(40))


async def test_reader_that_takes_nothing_is_given_up():
    async with connected(seconds=0.1) as (transport, _), anyio.create_task_group() as tasks:
        transport.feed(request(1))
        tasks.start_soon(SdkStream(transport).send, answer(1, text="x" * 1_000_000))
        await anyio.wait_all_tasks_blocked()
        transport.stop()
        assert await ended(transport) < 5
