"""Test that our stdio transport has none of the known faults of the SDK's own.

Real processes, raw lines. The server is the fixture: our session, transport and guard around tools
that misbehave.
"""

import json
import os
import signal
import subprocess
import sys

import pytest

from support.long import sample
from support.talker import FIXTURE, HELLO, INITIALIZED, Talker, call

pytestmark = pytest.mark.timeout(60)

DRAIN = 1.5
SLACK = 6.0
"""Other tests share the machine; what is measured is that nothing waits for ever."""


@pytest.fixture(scope="module")
def server():
    with Talker(FIXTURE) as talker:
        talker.greet()
        yield talker


def test_a_server_whose_standard_error_is_closed_serves_all_the_same(account):
    command = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "mcp_notarium"]
    with Talker(command, env=account.environment()) as talker:
        talker.greet()
        answer = talker.ask(call(1, "get", id="diary"))
        assert "lighthouse" in answer["result"]["structuredContent"]["text"]
        talker.hang_up()
        assert talker.leave()[0] == 0


def alive(server):
    return server.ask(call("alive", "echo", text="yes"))["result"]["content"][0]["text"] == "yes"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"{bad", {"code": -32700}),
        (b"[]", {"code": -32600}),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', {"code": -32600}),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', {"code": -32600, "id": 1}),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', {"code": -32600}),
        (b'{"jsonrpc":"2.0","id":2.5,"method":"ping"}', {"code": -32600}),
        (
            b'{"jsonrpc":"2.0","id":3,"method":"x","params":{"a":"\\ud83d"}}',
            {"code": -32601, "id": 3},
        ),
        (
            b'{"jsonrpc":"2.0","id":4,"method":"x","params":' + b"[" * 200_000,
            {"code": -32700, "id": 4},
        ),
        (b'{"jsonrpc":"2.0","id":5,"method":"x","params":"no"}', {"code": -32600, "id": 5}),
        (b'{"jsonrpc":"2.0","id":6,"method":"no/such"}', {"code": -32601, "id": 6}),
    ],
)
def test_every_line_that_is_no_request_is_answered(server, line, reply):
    server.raw(line + b"\n")
    answer = server.receive()
    assert answer["error"]["code"] == reply["code"]
    assert answer.get("id", "none") == reply.get("id", "none")
    assert alive(server)


def test_line_over_the_limit_is_refused_with_its_id_and_the_next_is_served(server):
    head = b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"echo","text":"'
    server.raw(head + b"x" * (9 * 1024 * 1024) + b'"}}\n')
    answer = server.receive()
    assert (answer["id"], answer["error"]["code"]) == (77, -32600)
    assert alive(server)


def test_invalid_utf8_is_served(server):
    line = json.dumps(call(8, "echo", text="a?b")).encode().replace(b"?", b"\xff")
    server.raw(line + b"\n")
    assert server.receive()["result"]["content"][0]["text"] == "a\ufffdb"


def test_lone_surrogate_in_a_result_does_not_end_the_process(server):
    assert server.ask(call(9, "surrogate"))["result"]["content"][0]["text"] == "a\ufffdb"
    assert alive(server)


def test_prints_and_children_never_reach_the_protocol(server):
    answer = server.ask(call(10, "noisy"))
    assert answer["result"]["content"][0]["text"] == ""
    assert server.said("written")
    assert server.said("from a child")


def test_unexpected_exception_says_nothing_about_itself(server):
    error = server.ask(call(11, "broken"))["error"]
    assert error["code"] == -32603
    assert "secret" not in json.dumps(error)
    assert server.said(error["data"]["details"]["trace_id"])


def test_large_result_arrives_whole_and_in_order(server):
    server.send(call(12, "large"), call(13, "echo", text="after"))
    answers = {answer["id"]: answer for answer in (server.receive(), server.receive())}
    assert len(answers[12]["result"]["content"][0]["text"]) == 2_000_000
    assert answers[13]["result"]["content"][0]["text"] == "after"


def test_end_of_input_lets_calls_in_hand_finish(tmp_path):
    with Talker([*FIXTURE, str(tmp_path / "notes")]) as talker:
        talker.greet()
        talker.ask(call(1, "echo"))
        talker.send(call(2, "slow", text="done"), call(3, "stuck"))
        talker.hang_up()
        code, seconds = talker.leave()
        answers = talker.rest()
    assert code == 0
    assert seconds < DRAIN + SLACK
    assert next(a for a in answers if a["id"] == 2)["result"]["content"][0]["text"] == "done"
    assert "result" not in next((a for a in answers if a["id"] == 3), {})
    assert (tmp_path / "notes").read_text() == "closed\n"


@pytest.mark.parametrize("number", sample("signals", [signal.SIGINT, signal.SIGTERM], 1))
def test_signal_lets_calls_in_hand_finish_and_cleans_up(tmp_path, number):
    with Talker([*FIXTURE, str(tmp_path / "notes")]) as talker:
        talker.greet()
        talker.ask(call(1, "echo"))
        talker.send(call(2, "slow", text="done"))
        talker.ask(call(3, "echo"))  # so the slow one has begun
        talker.signal(number)
        code, seconds = talker.leave()
        assert talker.rest()[0]["result"]["content"][0]["text"] == "done"
        assert "Traceback" not in talker.errors()
    assert code == 0
    assert seconds < SLACK
    assert (tmp_path / "notes").read_text() == "closed\n"


def test_client_that_stops_reading_ends_the_server_cleanly(tmp_path):
    reading, writing = os.pipe()
    command = [*FIXTURE, str(tmp_path / "notes")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        send = process.stdin.write
        send(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        assert b"result" in os.read(reading, 65536)
        os.close(reading)
        send(
            json.dumps(INITIALIZED).encode() + b"\n" + json.dumps(call(1, "echo")).encode() + b"\n"
        )
        process.stdin.flush()
        assert process.wait(20) == 0
        assert b"Traceback" not in process.stderr.read()
    assert (tmp_path / "notes").read_text() == "closed\n"


def test_client_that_neither_reads_nor_closes_cannot_keep_the_server_alive(tmp_path):
    reading, writing = os.pipe()
    command = [*FIXTURE, str(tmp_path / "notes")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writing) as process:
        os.close(writing)
        lines = [HELLO, INITIALIZED, *(call(n, "large") for n in range(1, 4))]
        process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        process.stdin.write(b"{bad\n" * 5000)
        process.stdin.close()
        assert process.wait(20) == 0
        os.close(reading)
    assert (tmp_path / "notes").read_text() == "closed\n"


def test_parameters_that_are_no_call_are_answered_with_what_to_do(server):
    server.send({"jsonrpc": "2.0", "id": "p", "method": "tools/call", "params": {"name": 5}})
    error = server.receive()["error"]
    assert error["code"] == -32602
    assert error["data"]["category"] == "VALIDATION"
    assert error["data"]["details"]["fields"]
    assert error["data"]["resolution_hint"]
