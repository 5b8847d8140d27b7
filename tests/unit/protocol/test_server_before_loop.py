"""The time before the event loop: answers, keeps in order, and knows when nobody is left."""

import json
import os
import threading

import pytest

from mcp_notarium.protocol.connection import Connection
from mcp_notarium.protocol.server import MOST_ALONE, answer_alone
from mcp_notarium.protocol.static_replies import StaticReplies, read_replies
from mcp_notarium.protocol.stdio import (
    EndOfInput,
    EventQueue,
    FlowControl,
    ImportDone,
    Stop,
    TooLong,
)
from support.talker import HELLO, INITIALIZED, call

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    for fd in (reading, writing):
        try:
            os.close(fd)
        except OSError:
            continue


def line(message):
    return json.dumps(message).encode()


def alone(queue, outgoing, load=lambda: None, **options):
    """What is held for the event loop, None if the client has left, and the connection."""
    flow = FlowControl()
    connection = Connection(StaticReplies(read_replies()), flow)
    return answer_alone(queue, connection, outgoing, flow, load, **options), connection


def filled(*events):
    queue = EventQueue()
    for event in events:
        queue.put(event if not isinstance(event, dict) else line(event))
    return queue


def test_calls_wait_in_order_and_the_end_behind_them_is_held(pipe):
    end, loaded = EndOfInput(), ImportDone()
    queue = filled(HELLO, INITIALIZED, call(1, "save"), call(2, "list"), end, Stop(), loaded)
    held, connection = alone(queue, pipe[1])
    assert held[0] is end
    assert [type(event) for event in held] == [EndOfInput, Stop]
    waiting = [connection.next() for _ in range(4)]
    assert [message["method"] for message in waiting[:2]] == [
        "initialize",
        "notifications/initialized",
    ]
    assert [message["id"] for message in waiting[2:]] == [1, 2]
    assert len(os.read(pipe[0], 1 << 16).splitlines()) == 1


@pytest.mark.parametrize("end", [EndOfInput(), Stop()])
def test_end_with_no_call_waiting_is_the_end(pipe, end):
    assert alone(filled(HELLO, INITIALIZED, end), pipe[1])[0] is None


def test_client_that_stopped_reading_is_the_end(pipe):
    os.close(pipe[0])
    assert alone(filled(HELLO), pipe[1])[0] is None


@pytest.mark.parametrize("flood", [PING, TooLong(b"", b"")], ids=["pings", "too long"])
def test_reader_that_takes_nothing_does_not_delay_the_end(pipe, flood):
    count = 3000
    queue, found = filled(*[flood] * count, EndOfInput(), ImportDone()), []
    thread = threading.Thread(target=lambda: found.append(alone(queue, pipe[1])), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it waits for the reader"
    held, _ = found[0]
    os.set_blocking(pipe[0], False)
    written = os.read(pipe[0], 1 << 20)
    assert MOST_ALONE < len(written) < 1 << 16
    assert len(held) == count - written.count(b"\n") + 1
    assert isinstance(held[-1], EndOfInput)


def test_loader_is_started_once_and_only_for_a_client_that_stays(pipe):
    queue, started = EventQueue(), []

    def load():
        started.append(1)
        queue.put(ImportDone())

    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for message in (HELLO, INITIALIZED, listing):
        queue.put(line(message))
    assert alone(queue, pipe[1], load)[0] == []
    assert started == [1]
    assert alone(filled(HELLO, listing, PING, EndOfInput()), pipe[1], load)[0] is None
    assert started == [1]


class Patient(EventQueue):
    """Notes down how long each item was waited for, and never waits for ever."""

    def __init__(self):
        super().__init__()
        self.waited = []

    def wait(self, within=None):
        self.waited.append(within)
        if within is None:
            self._items.put(EndOfInput())
        return super().wait(within)


def never():
    raise AssertionError("nothing is loaded for nobody")


def test_a_client_that_says_nothing_in_time_counts_as_gone(pipe):
    queue = Patient()
    assert alone(queue, pipe[1], never, patience=0.01)[0] is None
    assert queue.waited == [0.01]


def test_part_of_a_line_in_time_is_enough_and_whoever_has_spoken_is_waited_for(pipe):
    queue = Patient()

    def spoken():
        queue.put(line(HELLO))
        return True

    assert alone(queue, pipe[1], never, patience=0.01, spoken=spoken)[0] is None
    assert queue.waited == [0.01, None, None]
    assert json.loads(os.read(pipe[0], 1 << 16))["id"] == HELLO["id"]


def test_process_is_protected_once_and_right_behind_the_first_answer(pipe):
    answered = []
    queue = filled(HELLO, INITIALIZED, ImportDone())
    alone(queue, pipe[1], protect=lambda: answered.append(os.read(pipe[0], 1 << 16)))
    (first,) = answered
    assert json.loads(first)["id"] == HELLO["id"]


def test_part_that_cannot_be_imported_is_not_waited_for(pipe):
    with pytest.raises(ImportError):
        alone(filled(ImportDone(ImportError("broken installation"))), pipe[1])
