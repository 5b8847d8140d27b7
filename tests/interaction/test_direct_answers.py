"""What is answered without the protocol library looks, and is recorded, as if that had answered."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from notarium_devtools.simperium.faults import Hold
from support.talker import HELLO, INITIALIZED, Talker, call, modern
from support.whole import until

pytestmark = pytest.mark.timeout(90)

COMMAND = [sys.executable, "-m", "mcp_notarium"]
ENGINE = "mcp.server.lowlevel"

CALLS = [
    ("list", {}),
    ("list", {"query": "lighthouse"}),
    ("list", {"query": "nothing-like-it"}),
    ("list", {"query": "before:2024-99-99"}),
    ("list", {"limit": 10**9}),
    ("list", {"unknown": 1}),
    ("list", {"query": "\ud83d"}),
    ("get", {"id": "diary"}),
    ("get", {"id": "diary", "range_line_start": 2}),
    ("get", {"id": "diary", "local_version": 99}),
    ("get", {"id": "nowhere"}),
    ("get", {}),
]
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
CANCEL_7 = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}


# What comes first: something only the engine can answer, and something behind which it answers all, because
# nothing is sure any more: a line too long to be looked at, near whose beginning stands the word.
FIRST = {
    "beside the engine": {"cursor": "x"},
    "by the engine": {"cursor": "initialize", "pad": "x" * 70_000},
}
# What hosts add to a call for themselves, and that they would like to hear of its progress.
META = {"progressToken": "t", "claudecode/toolUseId": "toolu_1", "vscode.requestId": "r"}


def conversation(version, *, first=None):
    """The lines; ``first``: one of ``FIRST``."""
    requests = [("x", "resources/list", FIRST[first])] if first else []
    requests += [
        (n, "tools/call", {"name": tool, "arguments": arguments})
        for n, (tool, arguments) in enumerate(CALLS)
    ]
    if version == "2026-07-28":
        return [with_meta(modern(n, method, **params)) for n, method, params in requests]
    hello = HELLO | {"id": "hello", "params": HELLO["params"] | {"protocolVersion": version}}
    plain = [
        {"jsonrpc": "2.0", "id": n, "method": method, "params": params}
        for n, method, params in requests
    ]
    return [hello, INITIALIZED, *map(with_meta, plain)]


def with_meta(request):
    """The same request with what hosts add to every other one."""
    if request["id"] == "x" or request["id"] % 2:
        return request
    meta = request["params"].get("_meta", {}) | META
    return request | {"params": request["params"] | {"_meta": meta}}


def held(account, lines, *, command=COMMAND):
    """The answers to the calls, by number, with the words drawn anew taken out."""
    with Talker(command, env=account.environment()) as talker:
        opening = [line for line in lines if not isinstance(line.get("id"), int)]
        talker.send(*opening)
        if any(line.get("id") == "x" for line in opening):
            while talker.receive()["id"] != "x":
                pass  # from here on the engine serves
        talker.send(*lines[len(opening) :])
        found = {}
        while not found.keys() >= set(range(len(CALLS))):
            answer = talker.receive()
            if isinstance(answer.get("id"), int):
                found[answer["id"]] = unworded(answer)
        talker.hang_up()
        assert talker.leave()[0] == 0
    return found


def unworded(answer):
    text = json.dumps(answer, sort_keys=True)
    for word in re.findall(r'"begin_untrusted": "([0-9a-f]{16}) ', text):
        text = text.replace(word, "WORD")
    return json.loads(text)


def recorded(account):
    """What is on record of the calls since the last start, without numbers, times and chain."""
    done = subprocess.run(
        [*COMMAND, "audit", "export"],
        env=account.environment(), capture_output=True, timeout=30, check=True,
    )  # fmt: skip
    records = [json.loads(line) for line in done.stdout.splitlines()]
    acts = [record for record in records if "act" in record]
    last = max(n for n, record in enumerate(acts) if record["act"] == "server.start")
    kept = ("act", "client", "digest", "notes", "decision", "outcome", "bytes_out")
    calls = [record for record in acts[last:] if record["act"].startswith("tool.")]
    return sorted([[record.get(name) for name in kept] for record in calls], key=str)


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_and_records_are_those_of_the_engine(account, version):
    with Talker(COMMAND, env=account.environment()) as talker:
        talker.greet()
        until(lambda: "diary" in json.dumps(talker.ask(call(os.urandom(4).hex(), "list"))))
        talker.hang_up()
        talker.leave()
    answers, records = [], []
    for first in (None, *FIRST):
        answers.append(held(account, conversation(version, first=first)))
        records.append(recorded(account))
    assert answers[0] == answers[1] == answers[2]
    assert len(records[0]) == len(CALLS)
    assert records[0] == records[1] == records[2]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_progress_is_told_as_the_engine_tells_it(account, tmp_path, version):
    told = []
    for first in (None, *FIRST):
        # The notes come only when their loading was told, however late the call is.
        hold = threading.Event()
        account.simulator.faults.add(Hold(hold), path="*/index*")
        lines = [
            line
            for line in conversation(version, first=first)
            if line.get("id") in ("hello", "x", 0)
        ]
        if version != "2026-07-28":
            lines.insert(1, INITIALIZED)
        new = account.environment(NOTARIUM_DATA_DIR=str(tmp_path / str(len(told))))
        with Talker(COMMAND, env=new) as talker:
            talker.send(*lines)
            messages = []
            while not messages or messages[-1].get("id") != 0:
                messages.append(talker.receive())
                if messages[-1].get("method") == "notifications/progress":
                    hold.set()
            talker.hang_up()
            talker.leave()
        told.append([m for m in messages if m.get("method") == "notifications/progress"])
    assert told[0] == told[1] == told[2] != []


# A server whose engine serves, and fails at every call that reaches it.
DEAF = """
import sys
from mcp_notarium.protocol import sdk_adapter as dispatch
async def call(*_):
    raise RuntimeError
dispatch.Dispatch.call = call
sys.argv = ["mcp-notarium"]
from mcp_notarium.__main__ import main
main()
"""


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("first", [None, *FIRST])
def test_what_comes_first_decides_who_answers(account, version, first):
    lines = conversation(version, first=first)
    answers = held(account, lines, command=[sys.executable, "-c", DEAF])
    failed = {n for n, answer in answers.items() if "error" in answer}
    # Half a character is the engine's in any case.
    halves = {n for n, (_, arguments) in enumerate(CALLS) if "\ud83d" in arguments.values()}
    assert failed == (set(range(len(CALLS))) if first == "by the engine" else halves)


@pytest.mark.parametrize("in_modern", [False, True])
def test_readings_do_not_pass_through_the_engine_while_it_serves(account, in_modern):
    with Talker([sys.executable, "-c", DEAF], env=account.environment()) as talker:
        if not in_modern:
            talker.greet()

        def asked(n, tool, **arguments):
            if in_modern:
                return talker.ask(modern(n, "tools/call", name=tool, arguments=arguments))
            return talker.ask(call(n, tool, **arguments))

        assert "error" in asked(1, "manage", action="get_stats")
        assert not asked(2, "get", id="diary")["result"]["isError"]
        assert not asked(2, "list")["result"]["isError"], "the id can be used again"
        talker.hang_up()
        assert talker.leave()[0] == 0


def imported(account, lines):
    done = subprocess.run(
        COMMAND,
        input="\n".join(map(json.dumps, lines)).encode(),
        env=account.environment() | {"PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    return answers, {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}


def test_reading_alone_never_loads_the_protocol_library(account):
    lines = [HELLO, INITIALIZED, call(1, "list"), call(2, "get", id="diary")]
    answers, modules = imported(account, lines)
    assert "mcp_notarium.protocol.direct_calls" in modules
    assert not {name for name in modules if name.partition(".")[0] in ("mcp", "mcp_types")}
    assert not answers[2]["result"]["isError"]
    answers, modules = imported(account, [*lines, call(3, "manage", action="get_stats")])
    assert ENGINE in modules
    assert not answers[3]["result"]["isError"]


@pytest.mark.parametrize(
    "how", [call, lambda n, tool, **a: modern(n, "tools/call", name=tool, arguments=a)]
)
def test_request_whose_id_holds_half_a_character_ends_nothing(account, how):
    with Talker(COMMAND, env=account.environment()) as talker:
        if how is call:
            talker.greet()
        talker.send(how("\ud800", "get", id="diary"))
        assert talker.receive()["id"] == "\ufffd"
        assert not talker.ask(how(8, "get", id="diary"))["result"]["isError"]
        talker.hang_up()
        assert talker.leave()[0] == 0


def test_call_that_waits_for_its_notes_can_be_called_off(account):
    account.simulator.faults.delay(30.0, path="*/index*")
    with Talker(COMMAND, env=account.environment()) as talker:
        talker.greet()
        talker.send(call(7, "list"), CANCEL_7)
        assert talker.ask(call(8, "manage", action="get_stats"))["id"] == 8
        talker.hang_up()
        assert talker.leave()[0] == 0
        assert talker.rest() == []
    assert ["tool.list", "cancelled"] in [[row[0], row[5]] for row in recorded(account)]


@contextmanager
def listing_that_waits(account):
    """A server that has been asked for a list, 7, and what lets its notes come."""
    hold = threading.Event()
    account.simulator.faults.add(Hold(hold), path="*/index*")
    with Talker(COMMAND, env=account.environment()) as talker:
        talker.greet()
        talker.send(call(7, "list"))
        yield talker, hold.set


def test_change_does_not_wait_for_a_listing_that_waits_for_its_notes(account):
    with listing_that_waits(account) as (talker, _):
        talker.send(call(8, "save", text="new\n"))
        answer = talker.receive()
        if answer["id"] == 7:
            # It waits until there is a note, which is a moment before that is told.
            assert '"text":"new"' in answer["result"]["content"][0]["text"]
            answer = talker.receive()
        assert answer["id"] == 8
        assert not answer["result"]["isError"], answer


def test_listing_can_be_called_off_also_when_the_engine_serves(account):
    with listing_that_waits(account) as (talker, release):
        talker.ask(call(8, "manage", action="get_stats"))
        talker.send(CANCEL_7)
        talker.ask(call(9, "manage", action="get_stats"))
        release()
        assert talker.ask(call(10, "list"))["result"]["structuredContent"]["total_items"]
        talker.hang_up()
        assert talker.leave()[0] == 0
        assert talker.rest() == []
    assert ["tool.list", "cancelled"] in [[row[0], row[5]] for row in recorded(account)]


def test_listing_in_hand_when_the_engine_serves_is_answered_though_the_client_leaves(account):
    with listing_that_waits(account) as (talker, release):
        talker.ask(call(8, "manage", action="get_stats"))
        release()
        talker.hang_up()
        assert [answer["id"] for answer in talker.rest()] == [7]
        assert talker.leave()[0] == 0


WAYS = pytest.mark.parametrize("way", ["without the engine", *FIRST])


def prepared(talker, way):
    """Greeted, and the engine serves where it should."""
    talker.greet()
    if way in FIRST:
        odd = {"jsonrpc": "2.0", "id": "x", "method": "resources/list", "params": FIRST[way]}
        assert "error" in talker.ask(odd)


@WAYS
def test_long_answers_are_whole_though_the_client_has_closed_its_end(account, way):
    account.simulator.put("big", content="Big\n" + "x y z\n" * 3_000)
    with Talker(COMMAND, env=account.environment()) as talker:
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
        if way in FIRST:
            odd = {"jsonrpc": "2.0", "id": "x", "method": "resources/list", "params": FIRST[way]}
            lines.append(odd)
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


@WAYS
def test_who_still_waits_when_time_is_up_is_told_and_it_is_on_record(account, way):
    hold = threading.Event()
    account.simulator.faults.add(Hold(hold), path="*/index*")
    with Talker(COMMAND, env=account.environment()) as talker:
        prepared(talker, way)
        talker.send(call(7, "list"), call(8, "list"), CANCEL_7)
        until(lambda: any(name.startswith("notarium_cache") for name in account.files()))
        time.sleep(0.5)
        talker.signal(signal.SIGTERM)
        closed = {"code": -32000, "message": "Connection closed"}
        assert talker.rest() == [{"jsonrpc": "2.0", "id": 8, "error": closed}]
        assert talker.leave()[0] == 0
        hold.set()
    assert [[row[0], row[5]] for row in recorded(account)] == [["tool.list", "cancelled"]] * 2


# A server whose house takes longer to open than anybody waits.
STUCK = """
import contextlib, sys
import anyio
from mcp_notarium.protocol import event_loop as serving
@contextlib.asynccontextmanager
async def opened(*_):
    await anyio.sleep(60)
    yield
serving._opened = opened
sys.argv = ["mcp-notarium"]
from mcp_notarium.__main__ import main
main()
"""


@pytest.mark.parametrize("late", [False, True], ids=["signal", "end, then signal"])
@WAYS
def test_who_waits_for_notes_that_do_not_open_is_told_in_time(account, way, late):
    with Talker([sys.executable, "-c", STUCK], env=account.environment()) as talker:
        prepared(talker, way)
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


@pytest.mark.parametrize("way", FIRST)
def test_nothing_is_begun_behind_a_signal(account, way):
    hold = threading.Event()
    with Talker(COMMAND, env=account.environment()) as talker:
        prepared(talker, way)
        until(lambda: "diary" in json.dumps(talker.ask(call(os.urandom(4).hex(), "list"))))
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
