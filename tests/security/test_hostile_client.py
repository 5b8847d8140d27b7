"""Test the real server against a hostile client: every argument, every line, and floods."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_notarium.tools.catalog import TOOLS, wire_form
from notarium_devtools.simperium import Simulator
from support.hostile_service import peak_mib
from support.json_schema import validate
from support.long import LONG, sample
from support.talker import HELLO, INITIALIZED, call
from support.whole import SERVE, Server, environment

pytestmark = pytest.mark.timeout(600)

FORMS: dict[str, dict[str, Any]] = {tool.name: wire_form(tool) for tool in TOOLS}
CANARY = "quietlighthouse"
MOST_MIB = 400
FLOOD = 100_000 if LONG else 5_000
NEVER = (
    "sqlite",
    "sqlcipher",
    "fts5",
    "syntax error",
    "no such",
    "traceback",
    'file "',
    "pydantic",
)

ODD_TEXTS = (
    *("", "\0", "a\0b", "\ud83d", "\udc00x", "\u202e", "\ufeff", "é" * 300, "x" * 2000, "\r\n"),
    *('"', '"a', "a AND", "NOT", "NEAR(a b, 2)", "a NEAR b", "^a", "a*", "*", "col:a", "{a b}:c"),
    *(
        "-",
        "--",
        "-a",
        "OR OR",
        "(a",
        "a)",
        "+a",
        "tag:",
        "-tag:",
        "tag:\0",
        "before:",
        "after:9999",
    ),
    *(
        "before:0000-00-00",
        "trash:any trash:no",
        "'; DROP TABLE notes; --",
        "' OR '1'='1",
        "%",
        "_",
    ),
    *(
        "../../etc/passwd",
        "%2e%2e",
        "n0",
        "n1",
        "{}",
        "[]",
        "null",
        "[1,",
        "1e999",
        "NaN",
        "9" * 400,
    ),
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**30, 1.5, -0.0, 1e308]),
    st.sampled_from(ODD_TEXTS),
    st.text(st.characters(codec=None), max_size=20),
    st.lists(st.sampled_from(["a", None, 1, {}, []]), max_size=3),
    st.dictionaries(st.sampled_from(["operation", "line_number", "value", "x"]), st.integers()),
)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of the schema, and those just beyond its bounds."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "integer":
            edges = [schema[name] for name in ("minimum", "maximum") if name in schema]
            near = [edge + step for edge in [0, 1, *edges] for step in (-1, 0, 1)]
            return st.sampled_from(near) | st.integers(-3, 200)
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(fitting(schema.get("items", {})), max_size=4)
        case "object":
            return arguments(schema)
        case _:
            return st.sampled_from(["n0", "n1", "n2", "one\ntwo", "2025-01-31", *ODD_TEXTS])


def arguments(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects near the schema: fields mostly right, some wrong, some missing, some unknown."""
    fields = {
        name: st.one_of(fitting(inner), fitting(inner), fitting(inner), ODD)
        for name, inner in schema.get("properties", {}).items()
    }
    unknown = st.dictionaries(
        st.sampled_from(["x", "", "\ud83d", "__class__", "ID"]), ODD, max_size=1
    )
    needed = {name: fields[name] for name in schema.get("required", ())}
    others = {name: values for name, values in fields.items() if name not in needed}
    some = st.fixed_dictionaries(needed, optional=others)
    none = st.sampled_from([{}, {}, {}, {"x": 1}])
    lacking = st.fixed_dictionaries({}, optional=fields)
    return st.builds(dict.__or__, some, none) | st.builds(dict.__or__, some, unknown) | lacking


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    simulator = Simulator(publish_delay=None)
    for number in range(3):
        simulator.put(f"n{number}", content=f"note {number} {CANARY}\nsecond\n", tags=["a"])
    with (
        simulator.running(),
        Server(environment(simulator, tmp_path_factory.mktemp("client"))) as talking,
    ):
        talking.loaded(3)
        yield talking
        assert talking.tool("list", query=CANARY, limit=1)
        assert peak_mib(talking.process.pid) < MOST_MIB
        assert talking.leave() == 0
        errors = talking.errors()
        assert "Traceback" not in errors
        assert CANARY not in errors


def check_answer(tool: str, answer: dict[str, Any]) -> None:
    """Well-formed, and nothing of the inside."""
    if "error" in answer:
        assert answer["error"]["code"] == -32602, answer
        return
    result = answer["result"]
    if result.get("isError"):
        error = json.loads(result["content"][0]["text"])
        assert error["category"] != "INTERNAL", error
        assert error["message"]
        said = json.dumps(error).lower()
        assert not [word for word in NEVER if word in said], error
        return
    validate(result["structuredContent"], FORMS[tool]["outputSchema"])
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.parametrize("tool", list(FORMS))
def test_any_arguments_are_served_or_refused_and_never_break_anything(
    server: Server, tool: str
) -> None:
    @settings(
        max_examples=5000 if LONG else 100,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(arguments(FORMS[tool]["inputSchema"]))
    def fuzz(given_arguments: dict[str, Any]) -> None:
        params = {"name": tool, "arguments": given_arguments}
        check_answer(tool, server.ask(call("fuzz", tool) | {"params": params}))

    fuzz()


@pytest.mark.parametrize(
    "text", ["x", "a ", '"', "(", "tag:x ", "-a ", "a OR ", "é", "汉", "\u202e"]
)
def test_a_query_or_text_of_a_megabyte_is_answered(server: Server, text: str) -> None:
    large = text * (1_000_000 // len(text.encode()))
    for name, given_arguments in (
        ("list", {"query": large}),
        ("list", {"tags": [large]}),
        ("list", {"date_before": large}),
        ("get", {"id": large}),
        ("save", {"text": "x", "tags": [large]}),
        ("save", {"id": "n0", "local_version": 1, "text_patch": large}),
        ("manage", {"action": large}),
    ):
        check_answer(name, server.ask(call("large", name, **given_arguments)))


@pytest.mark.parametrize(
    "deep", ["[" * 900 + "]" * 900, "[" * 100_000, '{"a":' * 400 + "1" + "}" * 400]
)
def test_deep_arguments_are_refused(server: Server, deep: str) -> None:
    for name in ("query", "tags"):
        head = '{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":{"name":"list","arguments":'
        server.raw(f'{head}{{"{name}":{deep}}}}}}}\n'.encode())
        answer = server.receive()
        assert "error" in answer or answer["result"]["isError"]
        check_answer("list", server.ask(call("text", "list", tags=deep)))


def test_one_id_for_many_requests_gets_as_many_answers(server: Server) -> None:
    server.send(*[call("same", "list", limit=1)] * 200)
    assert {server.receive()["id"] for _ in range(200)} == {"same"}
    assert server.ask(call("after", "list"))["result"]


def while_any_is_taken(flooding: threading.Thread, sent: list[int]) -> None:
    """Wait until the server has taken all, or takes no more and lets the client wait."""
    before = -1
    while flooding.is_alive() and len(sent) != before:
        before = len(sent)
        flooding.join(2.0)


def call_line(*of: str, **arguments: object) -> bytes:
    return json.dumps(call(*of, **arguments)).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "count"),
    sample(
        "floods",
        [
            pytest.param(call_line("f", "list", limit=1), FLOOD, id="calls"),
            pytest.param(b"{bad" + b"x" * 100 + b"\n", FLOOD, id="no messages"),
            pytest.param(
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}\n',
                FLOOD,
                id="notifications",
            ),
            pytest.param(call_line("f", "list", query="x" * 8_000_000), 60, id="lines of 8 MB"),
        ],
        2,
    ),
)
@pytest.mark.slow("thousands of calls")
def test_flood_whose_answers_nobody_reads_stays_bounded_and_is_served_afterwards(
    tmp_path: Path, line: bytes, count: int
) -> None:
    simulator = Simulator(publish_delay=None)
    parts = min(count, 100)
    block = line * (count // parts)
    with (
        simulator.running(),
        subprocess.Popen(
            SERVE,
            env=environment(simulator, tmp_path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        sent: list[int] = []

        def flood() -> None:
            with suppress(OSError):
                for _ in range(parts):
                    process.stdin.write(block)
                    sent.append(1)
                process.stdin.write(json.dumps(call("last", "list")).encode() + b"\n")
                process.stdin.flush()

        for message in (HELLO, INITIALIZED):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == HELLO["id"]
        flooding = threading.Thread(target=flood, daemon=True)
        flooding.start()
        while_any_is_taken(flooding, sent)
        assert peak_mib(process.pid) < MOST_MIB
        if LONG or b"list" not in line:
            while json.loads(process.stdout.readline()).get("id") != "last":
                pass
            flooding.join()
            assert len(sent) == parts
            assert peak_mib(process.pid) < MOST_MIB
        process.terminate()
        process.stdout.read()
        flooding.join()
        with suppress(OSError):  # what the flood has left in the buffer has no reader any more
            process.stdin.close()
        assert process.wait(60) == 0
