"""Test calls to the real server: order, cancellation, records, and answers at shutdown."""

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from notarium_devtools.http_faults import Hold
from support.talker import HELLO, INITIALIZED, Talker, call, modern
from support.whole import SERVE, run, until

pytestmark = pytest.mark.timeout(90)

COMMAND = [sys.executable, "-m", "mcp_notarium"]
SDK = "mcp.server.lowlevel"
CANCEL_7 = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}


def recorded(account):
    """What is on record of the calls since the last start, without numbers, times and chain."""
    done = run(account.environment(), "audit", "export")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    acts = [record for record in records if "act" in record]
    last = max(n for n, record in enumerate(acts) if record["act"] == "server.start")
    kept = ("act", "client", "digest", "notes", "decision", "outcome", "bytes_out")
    calls = [record for record in acts[last:] if record["act"].startswith("tool.")]
    return sorted([[record.get(name) for name in kept] for record in calls], key=str)


def imported(account, lines):
    """The answers by id, and the modules that the server has imported."""
    done = subprocess.run(
        COMMAND,
        input="\n".join(map(json.dumps, lines)).encode(),
        env=account.environment() | {"PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    answers = {answer.get("id"): answer for answer in map(json.loads, done.stdout.splitlines())}
    return answers, {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}


@pytest.mark.parametrize(
    "lines",
    [
        [
            HELLO,
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            call("x", "list") | {"id": 2.5},
        ],
        [modern(0, "server/discover"), modern(1, "tools/list"), modern(2, "prompts/list")],
        [call(0, "list"), call(1, "save", text="x")],
    ],
    ids=["handshake", "modern", "no era"],
)
def test_client_that_only_looks_makes_the_server_import_and_open_nothing(account, lines):
    answers, modules = imported(account, lines)
    assert {0, 1} <= answers.keys()
    assert not {name for name in modules if name.partition(".")[0] in ("mcp", "mcp_types", "anyio")}
    assert not account.files()


@pytest.mark.parametrize("in_modern", [False, True])
def test_calls_sent_with_the_first_lines_are_all_answered_though_the_client_leaves(
    account, in_modern
):
    if in_modern:
        lines = [modern(n, "tools/call", name="get", arguments={"id": "diary"}) for n in range(20)]
    else:
        lines = [HELLO | {"id": "h"}, INITIALIZED, *(call(n, "get", id="diary") for n in range(20))]
    answers, modules = imported(account, lines)
    assert SDK in modules
    texts = [answers[n]["result"]["structuredContent"]["text"] for n in range(20)]
    assert set(texts) == {texts[0]}
    assert "lighthouse" in texts[0]
    assert [[row[0], row[5]] for row in recorded(account)] == [["tool.get", "ok"]] * 20


def test_call_can_be_cancelled_before_it_is_begun(account):
    with Talker(COMMAND, env=account.environment()) as talker:
        talker.send(HELLO, INITIALIZED, call(7, "save", text="never"), CANCEL_7, call(8, "list"))
        assert [talker.receive()["id"] for _ in range(2)] == [HELLO["id"], 8]
        talker.hang_up()
        assert talker.leave()[0] == 0
        assert talker.rest() == []
    assert [row[0] for row in recorded(account)] == ["tool.list"]


@contextmanager
def listing_that_waits(account):
    """A server that has been asked for a list, 7, and what lets its notes come."""
    hold = threading.Event()
    account.simulator.faults.add(Hold(hold), path="*/index*")
    with Talker(SERVE, env=account.environment()) as talker:
        talker.greet()
        talker.send(call(7, "list"))
        yield talker, hold.set


def test_listing_in_hand_is_answered_though_the_client_leaves(account):
    with listing_that_waits(account) as (talker, release):
        talker.ask(call(8, "manage", action="get_stats"))
        release()
        talker.hang_up()
        assert [answer["id"] for answer in talker.rest()] == [7]
        assert talker.leave()[0] == 0


def test_long_answers_are_whole_though_the_client_has_closed_its_end(account):
    account.simulator.put("big", content="Big\n" + "x y z\n" * 3_000)
    with Talker(SERVE, env=account.environment()) as talker:
        talker.greet()
        until(lambda: "result" in talker.ask(call(1, "get", id="big")))
        talker.hang_up()
        talker.leave()
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=account.environment(),
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    try:
        lines = [HELLO, INITIALIZED]
        process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        process.stdin.flush()
        for _ in range(len(lines) - 1):
            process.stdout.readline()
        calls = [call(n, "get", id="big") for n in range(20)]
        process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in calls))
        process.stdin.flush()
        time.sleep(0.3)  # the pipe is full by now
        process.stdin.close()
        time.sleep(0.1)
        answers = [json.loads(line) for line in process.stdout.read().splitlines()]
        assert sorted(answer["id"] for answer in answers) == list(range(20))
        assert not any(answer["result"]["isError"] for answer in answers)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_calls_pending_at_shutdown_fail_with_connection_closed_and_are_recorded(account):
    hold = threading.Event()
    account.simulator.faults.add(Hold(hold), path="*/index*")
    with Talker(SERVE, env=account.environment()) as talker:
        talker.greet()
        talker.send(call(7, "list"), call(8, "list"))
        talker.ask(call(9, "manage", action="get_stats"))
        talker.send(CANCEL_7)
        time.sleep(0.5)
        talker.signal(signal.SIGTERM)
        closed = {"code": -32000, "message": "Connection closed"}
        assert talker.rest() == [{"jsonrpc": "2.0", "id": 8, "error": closed}]
        assert talker.leave()[0] == 0
        hold.set()
    lists = [[row[0], row[5]] for row in recorded(account) if row[0] == "tool.list"]
    assert lists == [["tool.list", "cancelled"]] * 2


# A server whose account takes longer to open than anybody waits.
STUCK = """
import contextlib, sys
import anyio
from mcp_notarium.protocol import event_loop
@contextlib.asynccontextmanager
async def opened(*_, **_more):
    await anyio.sleep(60)
    yield
event_loop.open_account = opened
sys.argv = ["mcp-notarium"]
from mcp_notarium.__main__ import main
main()
"""


@pytest.mark.parametrize("late", [False, True], ids=["signal", "end, then signal"])
def test_calls_that_wait_for_a_cache_that_does_not_open_get_an_error_in_time(account, late):
    with Talker([sys.executable, "-c", STUCK], env=account.environment()) as talker:
        talker.greet()
        talker.send(call(7, "list"))
        time.sleep(0.5)
        if late:
            talker.hang_up()
            time.sleep(0.3)
        talker.signal(signal.SIGTERM)
        assert [(answer["id"], answer["error"]["code"]) for answer in talker.rest()] == [
            (7, -32000)
        ]
        assert talker.leave()[0] == 0


def test_nothing_is_begun_behind_a_signal(account):
    hold = threading.Event()
    with Talker(SERVE, env=account.environment()) as talker:
        talker.greet()
        until(lambda: "diary" in json.dumps(talker.ask(call(time.monotonic_ns(), "list"))))
        account.simulator.faults.add(Hold(hold), method="POST")
        talker.send(call(7, "save", text="new\n"))
        time.sleep(0.3)
        talker.signal(signal.SIGTERM)
        time.sleep(0.2)
        talker.send(call(8, "get", id="diary"))
        time.sleep(0.2)
        hold.set()
        assert [answer["id"] for answer in talker.rest()] == [7]


def test_reader_that_takes_nothing_does_not_keep_the_process(account):
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=account.environment(),
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    try:
        lines = [HELLO, INITIALIZED, *(call(n, "get", id="diary") for n in range(2_000))]
        process.stdin.write("\n".join(map(json.dumps, lines)).encode())
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
