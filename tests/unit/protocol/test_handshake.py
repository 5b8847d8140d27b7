"""The greeting: answers, keeps in order, and knows when nobody is left."""

import json
import os

import pytest

from mcp_notarium.protocol.events import Loaded, Stop
from mcp_notarium.protocol.handshake import Greeting
from mcp_notarium.protocol.inbox import Inbox
from mcp_notarium.protocol.line_reader import EndOfInput, TooLong
from mcp_notarium.protocol.server import greet, surface
from mcp_notarium.protocol.static_replies import Front
from support.talker import HELLO, INITIALIZED, call


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


def test_what_it_cannot_answer_is_kept_in_order_with_all_that_follows(pipe):
    greeting = Greeting(Front(surface()), pipe[1])
    later = [line(call(1, "save")), TooLong(b"", b""), line(HELLO), EndOfInput()]
    for arrival in [line(HELLO), line(INITIALIZED), *later]:
        greeting.answer(arrival)
    assert greeting.held == later
    assert not greeting.over
    assert len(os.read(pipe[0], 1 << 16).splitlines()) == 1


@pytest.mark.parametrize("end", [EndOfInput(), Stop()])
def test_end_with_nothing_kept_is_the_end(pipe, end):
    greeting = Greeting(Front(surface()), pipe[1])
    greeting.answer(line(HELLO))
    greeting.answer(end)
    assert greeting.over


def test_client_that_stopped_reading_is_the_end(pipe):
    greeting = Greeting(Front(surface()), pipe[1])
    os.close(pipe[0])
    greeting.answer(line(HELLO))
    assert greeting.over


def test_loader_is_started_once_and_only_for_a_client_that_stays(pipe):
    inbox, started = Inbox(), []

    def load():
        started.append(1)
        inbox.put(Loaded("serving"))

    greeting = Greeting(Front(surface()), pipe[1])
    inbox.put(line(HELLO))
    inbox.put(line(INITIALIZED))
    inbox.put(line({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
    assert greet(inbox, greeting, load)
    assert started == [1]

    inbox.put(line(HELLO))
    inbox.put(EndOfInput())
    assert not greet(inbox, Greeting(Front(surface()), pipe[1]), load)
    assert started == [1]


class Patient(Inbox):
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


def test_whoever_says_nothing_in_time_counts_as_gone(pipe):
    inbox = Patient()
    assert not greet(inbox, Greeting(Front(surface()), pipe[1]), never, timeouts=0.01)
    assert inbox.waited == [0.01]


def test_part_of_a_line_in_time_is_enough_and_whoever_has_spoken_is_waited_for(pipe):
    inbox = Patient()

    def spoken():
        inbox.put(line(HELLO))
        return True

    greeting = Greeting(Front(surface()), pipe[1])
    assert not greet(inbox, greeting, never, timeouts=0.01, spoken=spoken)
    assert inbox.waited == [0.01, None, None]
    assert json.loads(os.read(pipe[0], 1 << 16))["id"] == HELLO["id"]


def test_process_is_protected_once_and_right_behind_the_first_answer(pipe):
    inbox, answered = Inbox(), []
    for message in (line(HELLO), line(INITIALIZED), Loaded("serving")):
        inbox.put(message)
    greeting = Greeting(Front(surface()), pipe[1])
    greet(inbox, greeting, lambda: None, protect=lambda: answered.append(os.read(pipe[0], 1 << 16)))
    (first,) = answered
    assert json.loads(first)["id"] == HELLO["id"]


def test_engine_that_cannot_be_loaded_is_not_waited_for(pipe):
    inbox = Inbox()
    inbox.put(Loaded("", ImportError("broken installation")))
    with pytest.raises(ImportError):
        greet(inbox, Greeting(Front(surface()), pipe[1]), lambda: None)
