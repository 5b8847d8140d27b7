"""Test calls in raw lines through connection, transport, SDK and pipeline, in this process, on a memory store."""

import asyncio
import json
import os
from contextlib import asynccontextmanager

import anyio
import pytest

from mcp_notarium.protocol import call_pipeline, sdk_resources, sdk_server
from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.protocol.connection import Connection
from mcp_notarium.protocol.event_loop import Outbox, ShutdownDeadline, run_transport
from mcp_notarium.protocol.static_replies import StaticReplies, read_replies
from mcp_notarium.protocol.stdio import FlowControl, LineBuffer
from support.talker import HELLO, INITIALIZED, call, modern
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio

CANCEL_7 = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
# What hosts add to a call for themselves, and that they would like to hear of its progress.
META = {"progressToken": "t", "claudecode/toolUseId": "toolu_1", "vscode.requestId": "r"}


@pytest.fixture
def harness(tmp_path):
    made = ToolHarness(tmp_path)
    made.store.put("diary", "Diary\nToday I saw a lighthouse.\n")
    yield made
    made.close()


class Client:
    """The client's end: lines in, messages out."""

    def __init__(self, transport, reading):
        self._transport = transport
        self._reading = reading
        self._buffer = LineBuffer()
        self._messages = []

    def send(self, *messages):
        for message in messages:
            self._transport.feed(json.dumps(message).encode())

    async def receive(self):
        while not self._messages:
            await anyio.wait_readable(self._reading)
            self._messages += map(json.loads, self._buffer.feed(os.read(self._reading, 1 << 16)))
        return self._messages.pop(0)

    async def ask(self, message):
        self.send(message)
        return await self.receive()

    async def end(self):
        """Close the input; the messages that come then."""
        self._transport.end_of_input()
        await self._transport.over.wait()
        os.set_blocking(self._reading, False)
        try:
            rest = self._buffer.feed(os.read(self._reading, 1 << 16))
        except BlockingIOError:
            rest = []
        return [*self._messages, *map(json.loads, rest)]


@asynccontextmanager
async def connected(harness, *, handshake=HELLO):
    """Connect to a server that has the account of ``harness`` open; None for ``handshake`` sends none."""

    reading, writing = os.pipe()
    flow = FlowControl()
    connection = Connection(StaticReplies(read_replies()), flow)
    holder = AppHolder(harness.opened, report=lambda _error: None)
    server = sdk_server.build(CallPipeline(holder, flow=flow))
    try:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(holder.keep)
                async with run_transport(
                    connection, Outbox(writing, flow), ShutdownDeadline()
                ) as transport:
                    tasks.start_soon(sdk_server.serve, server, transport)
                    client = Client(transport, reading)
                    if handshake is not None:
                        await client.ask(handshake)
                        client.send(INITIALIZED)
                    yield client
                await holder.leave(within=1)
                tasks.cancel_scope.cancel()
    finally:
        os.close(reading)
        os.close(writing)


@asynccontextmanager
async def notes_that_wait(harness):
    """Sync at work, whose first page comes only when the event is set."""
    come, list_page = asyncio.Event(), harness.remote.list_page

    async def late(*args, **options):
        await come.wait()
        return await list_page(*args, **options)

    harness.remote.list_page = late
    async with harness.syncing():
        yield come


def recorded(harness):
    harness.app.audit.flush(wait=True)
    return [(record.act, record.outcome) for record in harness.app.audit.table.records()]


@pytest.mark.parametrize("in_modern", [False, True])
async def test_long_call_tells_a_client_that_asks_for_it_what_is_waited_for(
    harness, in_modern, monkeypatch
):
    monkeypatch.setattr(call_pipeline, "PROGRESS_SECONDS", 0.05)
    asked = modern(0, "tools/call", name="list", arguments={}) if in_modern else call(1, "list")
    silent = json.loads(json.dumps(asked | {"id": 9}))
    asked["params"]["_meta"] = asked["params"].get("_meta", {}) | META
    async with (
        notes_that_wait(harness) as come,
        connected(harness, handshake=None if in_modern else HELLO) as client,
    ):
        client.send(silent, asked)
        told, answered = [], set()
        while len(answered) < 2:
            message = await client.receive()
            if "id" in message:
                answered.add(message["id"])
                assert "error" not in message
                continue
            told.append(message["params"])
            if len(told) == 3:
                come.set()
        assert await client.end() == []
    assert {params["progressToken"] for params in told} == {"t"}
    assert [params["progress"] for params in told][:3] == [1, 2, 3]
    assert told[2]["message"].startswith("Loading the notes: 0")


@pytest.mark.parametrize("end", ["close", "cancel"])
async def test_stream_of_changes_delays_nothing_and_ends_with_its_client(harness, monkeypatch, end):
    monkeypatch.setattr(sdk_resources, "CHANGE_SECONDS", 0.02)
    wanted = {"resourceSubscriptions": ["note://diary"]}
    await harness.sync()
    async with connected(harness, handshake=None) as client:
        ack = await client.ask(modern(7, "subscriptions/listen", notifications=wanted))
        assert ack["method"] == "notifications/subscriptions/acknowledged"
        assert ack["params"]["notifications"] == wanted
        harness.store.put("diary", "changed")
        await harness.sync()
        changed = await client.receive()
        assert changed["params"]["uri"] == "note://diary"
        assert changed["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 7}
        if end == "cancel":
            client.send(CANCEL_7)
            asked = modern(8, "resources/read", uri="note://diary")
            text = (await client.ask(asked))["result"]["contents"][0]["text"]
            assert json.loads(text)["text"] == "changed"
            harness.store.put("diary", "again")
            await harness.sync()
            await anyio.sleep(0.1)
        with anyio.fail_after(0.5):
            assert [message for message in await client.end() if "method" in message] == []


async def test_handshake_era_knows_subscriptions_of_its_own_only(harness):
    await harness.sync()
    async with connected(harness) as client:
        stream = {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "subscriptions/listen",
            "params": {"notifications": {}},
        }
        assert (await client.ask(stream))["error"]["code"] == -32601
    async with connected(harness, handshake=None) as client:
        asked = modern(4, "resources/subscribe", uri="note://diary")
        assert (await client.ask(asked))["error"]["code"] == -32601


@pytest.mark.parametrize("in_modern", [False, True])
async def test_request_whose_id_holds_half_a_character_ends_nothing(harness, in_modern):
    def get(number):
        if in_modern:
            return modern(number, "tools/call", name="get", arguments={"id": "diary"})
        return call(number, "get", id="diary")

    await harness.sync()
    async with connected(harness, handshake=None if in_modern else HELLO) as client:
        assert (await client.ask(get("\ud800")))["id"] == "\ufffd"
        assert not (await client.ask(get(8)))["result"]["isError"]


async def test_listing_that_waits_can_be_cancelled_while_others_are_answered(harness):
    async with notes_that_wait(harness) as come, connected(harness) as client:
        client.send(call(7, "list"))
        assert (await client.ask(call(8, "manage", action="get_stats")))["id"] == 8
        client.send(CANCEL_7)
        assert (await client.ask(call(9, "manage", action="get_stats")))["id"] == 9
        come.set()
        listed = await client.ask(call(10, "list"))
        assert listed["result"]["structuredContent"]["total_items"] == 1
        assert await client.end() == []
    assert ("tool.list", "cancelled") in recorded(harness)


async def test_change_does_not_wait_for_a_listing_that_waits_for_its_notes(harness):
    async with notes_that_wait(harness), connected(harness) as client:
        client.send(call(7, "list"))
        answer = await client.ask(call(8, "save", text="new\n"))
        if answer["id"] == 7:
            # It waits until there is a note, which is a moment before that is told.
            assert '"text":"new"' in answer["result"]["content"][0]["text"]
            answer = await client.receive()
        assert answer["id"] == 8
        assert not answer["result"]["isError"], answer


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"action": "ACCEPT", "content": {"confirm": True}},
        {"action": "accept", "content": {"confirm": [True]}},
        {"action": "accept", "content": [True]},
    ],
)
async def test_an_answer_that_makes_no_sense_is_a_missing_confirmation(harness, odd):
    able = HELLO | {"params": HELLO["params"] | {"capabilities": {"elicitation": {}}}}
    async with connected(harness, handshake=able) as client:
        question = await client.ask(call(1, "manage", action="reset_cache", confirm=True))
        assert question["method"] == "elicitation/create"
        answer = await client.ask({"jsonrpc": "2.0", "id": question["id"], "result": odd})
    refused = json.loads(answer["result"]["content"][0]["text"])
    assert (refused["subcategory"], refused["http_status_code"]) == ("confirmation_required", 403)
