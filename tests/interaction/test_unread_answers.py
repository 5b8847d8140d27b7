"""Test a client that sends requests and reads no answers: the backlog is bounded, and nothing is lost."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.long import sample
from support.talker import HELLO, INITIALIZED, call, modern

pytestmark = pytest.mark.timeout(180)

COMMAND = [sys.executable, "-m", "mcp_notarium"]
TEXT = "".join(f"line {number:05}, and so on\n" for number in range(1_200))
MANY = 300
LINE = 200
"""Bytes of a request. The answers of all together fill the bound; eight times as many are 130 MB."""
MOST_MB = 160
"""The server with 16 MiB of lines that wait, what they are made of, and a few calls in progress."""


class Client:
    """A process that is spoken to, and read from only when the test does so."""

    def __init__(self, account):
        self.process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=account.environment(),
        )  # fmt: skip
        self._sending = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for thread in self._sending:
            thread.join(20)
        self.process.stdout.close()
        with suppress(OSError):
            self.process.stdin.close()

    def send(self, *messages, width=0):
        """Send in a thread: the server may not take it for a while."""
        content = b"".join(json.dumps(each).encode().ljust(width - 1) + b"\n" for each in messages)

        def write():
            with suppress(OSError):
                self.process.stdin.write(content)
                self.process.stdin.flush()

        self._sending.append(threading.Thread(target=write, daemon=True))
        self._sending[-1].start()

    def receive(self):
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), line[-100:]
        return json.loads(line)

    def ask(self, message):
        self.send(message)
        answer = self.receive()
        assert answer["id"] == message["id"], answer
        return answer

    def peak_mb(self):
        """The most memory it has had at one time."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def settle(self):
        """Wait until it has nothing to do any more: it uses no processor for a while."""
        used = -1.0
        while used != (used := self._seconds()):
            time.sleep(1.5)

    def _seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return ticks // (os.sysconf("SC_CLK_TCK") // 5)  # waiting for room costs a little, too


def by_handshake(client):
    client.ask(HELLO)
    client.send(INITIALIZED)
    return call


def by_envelope(client):
    client.ask(modern("d", "server/discover"))
    return lambda request_id, tool, **arguments: modern(
        request_id, "tools/call", name=tool, arguments=arguments
    )


WAYS = pytest.mark.parametrize("way", sample("eras", [by_handshake, by_envelope], 1))


@pytest.fixture
def client(account):
    account.simulator.put("big", content=TEXT, tags=[])
    with Client(account) as made:
        yield made


def all_here(client, calling):
    rows = {"total_items": 0}
    while rows["total_items"] < 3:
        rows = client.ask(calling("rows", "list"))["result"]["structuredContent"]


def big(calling, number):
    return calling(number, "get", id="big", range_line_start=1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to look at")
@WAYS
def test_memory_stays_bounded_and_every_answer_comes_whole(client, way):
    calling = way(client)
    all_here(client, calling)
    client.ask(big(calling, "first"))
    client.send(*(big(calling, number) for number in range(8 * MANY)), width=LINE)
    client.settle()
    assert client.peak_mb() < MOST_MB
    missing = set(range(8 * MANY))
    while missing:
        answer = client.receive()
        missing.remove(answer["id"])
        assert answer["result"]["structuredContent"]["text"] == TEXT
    assert client.peak_mb() < MOST_MB
    assert client.ask(calling("more", "list"))["result"]["structuredContent"]["total_items"] == 3


@WAYS
def test_calls_that_wait_for_room_can_be_cancelled(client, way):
    calling = way(client)
    all_here(client, calling)
    off = [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        for number in range(1, MANY)
    ]
    client.send(*(big(calling, number) for number in range(MANY)), *off, calling("z", "list"))
    client.settle()
    seen = []
    while not seen or seen[-1] != "z":
        seen.append(client.receive()["id"])
    assert seen[0] == 0
    assert len(seen) < MANY - 20


@WAYS
def test_end_of_input_ends_a_server_whose_answers_nobody_reads(client, way):
    calling = way(client)
    all_here(client, calling)
    client.send(*(big(calling, number) for number in range(MANY)))
    client.settle()
    client.process.stdin.close()
    assert client.process.wait(20) == 0
