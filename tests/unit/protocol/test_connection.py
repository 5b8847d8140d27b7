"""The connection: answers what is static for ever, queues the rest in order, owns ids and era."""

import json

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import InitializeRequestParams, jsonrpc_message_adapter
from mcp_types import methods as sdk_methods

from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.protocol.connection import Connection
from mcp_notarium.protocol.sdk_server import build
from mcp_notarium.protocol.static_replies import StaticReplies, read_replies
from mcp_notarium.protocol.stdio import LINE_BYTES, FlowControl, TooLong, size_of
from support.talker import ENVELOPE, HELLO, INITIALIZED, call, modern

STORED = read_replies()
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
LISTS = ["prompts/list", "resources/list", "resources/templates/list"]
INVALID_REQUEST, INVALID_PARAMS, UNSUPPORTED, NO_METHOD = -32600, -32602, -32022, -32601


def opened(*lines):
    connection = Connection(StaticReplies(STORED), FlowControl())
    for message in lines:
        reply_to(connection, message)
    return connection


def shaken(version="2025-11-25"):
    return opened(hello(protocolVersion=version), INITIALIZED)


def reply_to(connection, message):
    """Return the reply, or None."""
    reply = connection.receive(json.dumps(message).encode())
    return json.loads(reply) if reply else None


def waiting(connection):
    """Return the messages queued for the SDK."""
    found = []
    while (message := connection.next()) is not None:
        found.append(message)
    return found


def calls(connection):
    return [message["id"] for message in waiting(connection) if message["method"] == "tools/call"]


def ask(method, request_id=5, **params):
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def said(content, request_id=5):
    return {"jsonrpc": "2.0", "id": request_id} | content


def hello(**params):
    return HELLO | {"params": HELLO["params"] | params}


def cancel(request_id):
    params = {"requestId": request_id}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def modern_call(request_id, tool="list", **arguments):
    return modern(request_id, "tools/call", name=tool, arguments=arguments)


def refused(connection, message):
    """The code of the refusal; nothing reaches the SDK."""
    before = len(connection._waiting)
    reply = reply_to(connection, message)
    assert len(connection._waiting) == before
    assert reply["id"] == message["id"]
    return reply["error"]["code"]


@pytest.mark.parametrize("version", VERSIONS)
def test_handshake_ping_and_lists_are_answered_in_every_version_for_the_whole_session(version):
    connection = opened()
    handshake = reply_to(connection, hello(protocolVersion=version))
    assert handshake == {
        "jsonrpc": "2.0",
        "id": 0,
        "result": STORED["initialize"] | {"protocolVersion": version},
    }
    listed = STORED["lists"][STORED["list_of"][version]]
    for message in (None, INITIALIZED, call(1, "save", text="x")):
        if message is not None:
            assert reply_to(connection, message) is None
        assert reply_to(connection, ask("tools/list"))["result"] == listed
        assert reply_to(connection, ask("ping"))["result"] == {}
        for method in LISTS:
            assert reply_to(connection, ask(method)) == said(STORED["handshake"][method])
        error = {"code": NO_METHOD, "message": "Method not found", "data": "server/discover"}
        assert reply_to(connection, ask("server/discover")) == said({"error": error})
    assert [message["method"] for message in waiting(connection)] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]


def test_client_stays_once_its_handshake_has_ended_or_it_asks_for_more():
    connection = opened(HELLO)
    for method in ("tools/list", "ping", "prompts/list"):
        reply_to(connection, ask(method))
    assert not connection.stays
    reply_to(connection, INITIALIZED)
    assert connection.stays
    early = opened(HELLO, call(1, "list"))
    assert early.stays
    assert early.has_open_calls


def test_the_modern_era_needs_the_sdk_from_its_first_call_only():
    connection = opened()
    discovered = reply_to(connection, modern(1, "server/discover"))["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]
    assert len(reply_to(connection, modern(2, "tools/list"))["result"]["tools"]) == 4
    assert reply_to(connection, modern(3, "ping"))["error"]["code"] == NO_METHOD
    for method in LISTS:
        assert reply_to(connection, modern(5, method)) == said(
            STORED["modern"]["2026-07-28"][method]
        )
    assert not connection.stays
    assert reply_to(connection, modern_call(4)) is None
    assert connection.stays
    assert calls(connection) == [4]
    assert reply_to(connection, modern(5, "tools/list"))["result"]["ttlMs"] == 3_600_000


@pytest.mark.parametrize("asked", [[], ["server/discover", "tools/list", *LISTS]])
def test_client_may_still_shake_hands_after_looking_for_the_modern_era(asked):
    connection = opened(*(modern(1, method) for method in asked), ask("ping"))
    assert reply_to(connection, HELLO)["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("method", ["tools/call", "tools/list", "server/discover", "no/such"])
def test_request_without_an_envelope_is_refused_while_the_era_is_unknown(method):
    connection = opened()
    assert refused(connection, ask(method)) == INVALID_PARAMS
    assert not connection.stays
    assert reply_to(connection, ask("ping"))["result"] == {}
    assert "result" in reply_to(connection, modern(1, "server/discover"))
    assert "result" in reply_to(connection, HELLO)
    settled = opened(modern_call(1))
    assert refused(settled, ask(method)) == INVALID_PARAMS
    assert refused(settled, ask("ping")) == INVALID_PARAMS


@pytest.mark.parametrize(
    "meta",
    [
        {"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
        ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": 7},
    ],
)
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_half_an_envelope_is_refused(method, meta):
    assert refused(opened(), ask(method, _meta=meta)) == INVALID_PARAMS


@pytest.mark.parametrize("method", ["tools/call", "tools/list", "server/discover", "ping"])
@pytest.mark.parametrize("version", ["1", "2031-01-01", "2025-11-25", 7, None])
def test_envelope_of_another_version_is_refused_with_those_that_are_served(method, version):
    meta = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": version}
    connection = opened()
    error = reply_to(connection, ask(method, _meta=meta))["error"]
    assert error["code"] == UNSUPPORTED
    assert error["data"] == {"supported": ["2026-07-28"], "requested": version}
    assert not waiting(connection)


def test_the_eras_do_not_mix():
    connection = shaken()
    for message in (modern(1, "tools/list"), modern_call(2), HELLO | {"id": 9}):
        assert refused(connection, message) == INVALID_REQUEST
    assert refused(opened(modern_call(1)), HELLO) == UNSUPPORTED


@pytest.mark.parametrize(
    "params",
    [
        {},
        HELLO["params"] | {"capabilities": 7},
        HELLO["params"] | {"clientInfo": {"name": "x"}},
        HELLO["params"] | {"clientInfo": {"name": "x", "version": 1}},
        HELLO["params"] | {"protocolVersion": 7},
    ],
)
def test_handshake_that_says_too_little_is_refused_and_may_be_said_again(params):
    connection = opened()
    assert refused(connection, HELLO | {"params": params}) == INVALID_PARAMS
    assert reply_to(connection, HELLO)["result"]


def test_lists_with_a_cursor_and_what_is_not_known_are_the_sdks():
    for connection, wrap in ((shaken(), ask), (opened(), lambda m, n, **p: modern(n, m, **p))):
        messages = [
            wrap("tools/list", 1, cursor="x"),
            wrap("prompts/list", 2, cursor="x"),
            wrap("subscriptions/listen", 3),
            wrap("no/such", 4),
        ]
        assert [reply_to(connection, message) for message in messages] == [None] * 4
        assert [m["id"] for m in waiting(connection) if m.get("id")] == [1, 2, 3, 4]


def test_what_waits_keeps_its_order_and_a_cancelled_call_is_dropped():
    connection = shaken()
    for number in (1, 2, "3", 4):
        reply_to(connection, call(number, "list"))
    for number in (2, 3, 99, "nobody asked this", True, {"odd": 1}):
        reply_to(connection, cancel(number))
    assert calls(connection) == [1, 4]
    assert connection.has_open_calls
    reply_to(connection, cancel(1))
    assert connection.answered(4)
    assert not connection.has_open_calls
    assert [m["method"] for m in waiting(connection)] == ["notifications/cancelled"]


def test_answer_to_the_handshake_is_swallowed_once():
    connection = shaken()
    reply_to(connection, call(HELLO["id"], "list"))
    assert not connection.answered(HELLO["id"])
    assert connection.has_open_calls
    assert connection.answered(HELLO["id"])
    assert not connection.has_open_calls


def test_one_id_used_twice_is_owed_two_answers():
    connection = opened(HELLO, INITIALIZED, call(1, "list"), call("1", "list"))
    connection.answered(1)
    assert connection.has_open_calls
    connection.answered("1")
    assert not connection.has_open_calls


def test_calls_that_the_sdk_never_took_are_broken_off_with_an_error():
    connection = shaken()
    reply_to(connection, call(1, "list"))
    waiting(connection)
    for number in (2, "x"):
        reply_to(connection, call(number, "list"))
    broken = [json.loads(line) for line in connection.break_off()]
    assert [(line["id"], line["error"]["code"]) for line in broken] == [(2, -32000), ("x", -32000)]
    assert connection.has_open_calls
    assert not waiting(connection)
    assert not opened(HELLO).break_off()


def test_initialized_is_passed_on_once_and_only_behind_a_handshake():
    assert not waiting(opened(INITIALIZED, cancel(1), {"jsonrpc": "2.0", "method": "x"}))
    connection = opened(HELLO, INITIALIZED, INITIALIZED)
    assert len(waiting(connection)) == 2
    assert not waiting(opened(modern(1, "tools/list"), INITIALIZED))


@pytest.mark.parametrize("bad", [b"{", b"\xff", b"[" * 100_000, b"7", b'"x"', TooLong(b"", b"")])
def test_what_is_no_message_is_refused_and_changes_nothing(bad):
    connection = opened()
    assert json.loads(connection.receive(bad))["error"]["code"] in (-32700, -32600)
    assert not connection.stays
    assert reply_to(connection, HELLO)["result"]


def test_no_parameters_may_be_said_so():
    for message in (ask("tools/list"), ask("prompts/list"), ask("ping")):
        assert reply_to(shaken(), message | {"params": None}) == reply_to(shaken(), message)
    assert reply_to(opened(HELLO), INITIALIZED | {"params": None}) is None


def test_every_line_is_counted_off_once():
    flow = FlowControl()
    connection = Connection(StaticReplies(STORED), flow)
    lines = [HELLO, INITIALIZED, INITIALIZED, cancel(7), *(call(n, "list") for n in range(4))]
    lines += [cancel(2), cancel(99), {"jsonrpc": "2.0", "id": 1, "result": 7}, ask("ping"), "no"]
    for message in lines:
        line = json.dumps(message).encode()
        flow.read(size_of(line))
        if connection.receive(line):
            flow.done(size_of(line))
    taken = [message["id"] for message in waiting(connection) if message["method"] == "tools/call"]
    reply_to(connection, cancel(3))
    for request_id in (HELLO["id"], *taken):
        connection.answered(request_id)
    waiting(connection)
    assert flow._read - flow._done == -size_of(json.dumps(cancel(3)).encode()) - LINE_BYTES
    assert flow._calls == 0


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
features = st.dictionaries(
    st.sampled_from(
        ["elicitation", "roots", "sampling", "experimental", "extensions", "tasks", "tools"]
    ),
    st.dictionaries(st.sampled_from(["listChanged", "form", "url", "x"]), plain, max_size=2),
    max_size=3,
)
icon = st.dictionaries(st.sampled_from(["src", "mimeType", "sizes", "theme"]), st.text() | plain)
client = st.fixed_dictionaries(
    {"name": st.text(max_size=5) | plain, "version": st.text(max_size=5)},
    optional={"title": plain, "websiteUrl": plain, "icons": plain | st.lists(icon, max_size=2)},
)


@settings(max_examples=100, deadline=None)
@given(features | plain, client | plain, st.sampled_from(["2025-11-25", "x"]))
def test_handshake_that_is_answered_is_passed_on_in_a_form_that_the_sdk_accepts(
    capabilities, client_info, version
):
    params = {
        "protocolVersion": version,
        "capabilities": capabilities,
        "clientInfo": client_info,
    }
    connection = opened()
    if "result" in reply_to(connection, HELLO | {"params": params}):
        passed = connection.next()["params"]
        InitializeRequestParams.model_validate(passed, by_name=False)
        sdk_methods.validate_client_request("initialize", "2025-11-25", passed)


@pytest.mark.parametrize(
    ("offered", "passed"),
    [
        ({"elicitation": {}, "roots": {"listChanged": True}, "tools": True}, {"elicitation": {}}),
        ({"elicitation": {"url": {"x": 1}, "form": None, "y": 7}}, {"elicitation": {"url": {}}}),
        ({"elicitation": True, "sampling": None}, {}),
    ],
)
def test_the_sdk_gets_only_the_client_details_that_this_server_uses(offered, passed):
    host = {"name": "a\ud800", "version": "1", "icons": [{"sizes": ["48x48"]}]}
    connection = opened(hello(capabilities=offered, clientInfo=host, _meta={"progressToken": [1]}))
    assert connection.next()["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": passed,
        "clientInfo": {"name": "a\ufffd", "version": "1"},
    }


@pytest.mark.parametrize("version", [*VERSIONS, "2026-07-28"])
def test_static_replies_are_those_of_the_sdk_on_the_same_connection(version):
    """The two are asked the same; the file is compared elsewhere, this is about how it is used."""
    methods = ["ping", "tools/list", "server/discover", *LISTS]
    if version == "2026-07-28":
        lines = [modern(n, method) for n, method in enumerate(methods, 1)]
    else:
        lines = [hello(protocolVersion=version), INITIALIZED]
        lines += [ask(method, n) for n, method in enumerate(methods, 1)]
    connection = opened()
    ours = [reply for reply in (reply_to(connection, line) for line in lines) if reply is not None]
    assert ours == anyio.run(answered_by_the_sdk, lines)


async def answered_by_the_sdk(lines):
    server = build(CallPipeline(AppHolder(None, report=print)))
    to_server, read = anyio.create_memory_object_stream(20)
    write, from_server = anyio.create_memory_object_stream(20)
    found = []
    async with anyio.create_task_group() as tasks, to_server, from_server:
        tasks.start_soon(server.run, read, write, server.create_initialization_options())
        for line in lines:
            message = jsonrpc_message_adapter.validate_python(line, by_name=False)
            await to_server.send(SessionMessage(message))
            if "id" in line:
                reply = (await from_server.receive()).message
                found.append(reply.model_dump(mode="json", by_alias=True, exclude_unset=True))
        tasks.cancel_scope.cancel()
    return found
