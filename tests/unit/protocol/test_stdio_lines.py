"""The line buffer: cuts, drops blank lines, and never holds more than its limit."""

import os
import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.protocol import stdio
from mcp_notarium.protocol.stdio import EndOfInput, EventQueue, FlowControl, LineBuffer, TooLong


def cut(*chunks, limit=100):
    buffer = LineBuffer(limit)
    items = [item for chunk in chunks for item in buffer.feed(chunk)]
    return items + buffer.end()


@given(
    st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=8),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_lines_come_out_the_same_however_they_arrive(lines, places):
    stream = b"\n".join(lines)
    edges = [0, *sorted(min(p, len(stream)) for p in places), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    assert cut(*chunks) == [line for line in lines if line.strip()]


@pytest.mark.parametrize("content", [b"{", b"\n", b"{}\n"])
def test_it_knows_whether_anything_has_come_at_all(content):
    buffer = LineBuffer()
    assert not buffer.fed
    buffer.feed(content)
    assert buffer.fed


def test_last_line_needs_no_end():
    assert cut(b"one\ntw", b"o") == [b"one", b"two"]


def test_too_long_line_is_reported_by_its_ends_and_the_next_one_is_whole():
    first, long, last = cut(b"a\n", b'{"id":7,' + b"x" * 900, b"y" * 900 + b'"end"}\nb\n')
    assert (first, last) == (b"a", b"b")
    assert isinstance(long, TooLong)
    assert long.head.startswith(b'{"id":7,')
    assert long.tail.endswith(b'y"end"}')


def test_too_long_line_in_one_piece_is_reported_too():
    (long,) = cut(b"x" * 101 + b"\n")
    assert isinstance(long, TooLong)


def test_line_of_exactly_the_limit_is_served():
    assert cut(b"x" * 100 + b"\n") == [b"x" * 100]


def test_too_long_line_without_end_is_reported_at_the_end_of_input():
    (long,) = cut(b"x" * 101, b"y" * 50)
    assert isinstance(long, TooLong)
    assert long.tail.endswith(b"y" * 50)


def test_buffer_never_holds_much_more_than_its_limit():
    buffer = LineBuffer(1000)
    for _ in range(100):
        buffer.feed(b"x" * 400)
        assert len(buffer._held) <= 1400


@pytest.mark.timeout(20)
def test_reader_hands_over_every_line_and_then_the_end():
    reading, writing = os.pipe()
    queue = EventQueue()
    os.write(writing, b"one\n\n \ntwo")
    os.close(writing)
    stdio.read_lines(reading, queue, FlowControl(), LineBuffer()).join(10)
    os.close(reading)
    assert [queue.wait(0), queue.wait(0)] == [b"one", b"two"]
    assert isinstance(queue.wait(0), EndOfInput)


class FullFlow(FlowControl):
    def __init__(self):
        super().__init__()
        self.asked = threading.Event()

    def full(self):
        self.asked.set()
        return True


def test_nothing_is_read_while_the_flow_is_full_but_the_end_is_always_met():
    reading, writing = os.pipe()
    os.write(writing, b"one\n")
    queue, flow = EventQueue(), FullFlow()
    stdio.read_lines(reading, queue, flow, LineBuffer())
    assert flow.asked.wait(10)
    assert queue.wait(0.01) is None
    os.close(writing)
    assert queue.wait(10) == b"one"
    assert isinstance(queue.wait(10), EndOfInput)
    os.close(reading)
