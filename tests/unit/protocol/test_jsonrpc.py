"""One line to one message: nothing a client waits for is dropped."""

import json

import pytest
from mcp_types import JSONRPCError, JSONRPCResponse

from mcp_notarium.protocol.connection import DEEPEST, Refusal, decode
from mcp_notarium.protocol.sdk_server import encode
from mcp_notarium.protocol.stdio import TooLong


def ask(**fields):
    return json.dumps({"jsonrpc": "2.0", "id": 3, "method": "ping"} | fields).encode()


def nested(levels):
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"{not json", -32700, None),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping"', -32700, 3),
        (b'{"jsonrpc":"2.0","id":"a-1","method":', -32700, "a-1"),
        (b'{"method":"x","params":{,"jsonrpc":"2.0","id":12}', -32700, 12),
        (b'{"params":{"id":"note"}} trailing', -32700, None),
        (b"[]", -32600, None),
        (b"[" + ask() + b"]", -32600, None),
        (b'"text"', -32600, None),
        (b"{}", -32600, None),
        (ask(jsonrpc="1.0"), -32600, 3),
        (ask(id=None), -32600, None),
        (ask(id=1.5), -32600, None),
        (ask(id=True), -32600, None),
        (ask(id=[1]), -32600, None),
        (ask(method=7), -32600, 3),
        (ask(params=[1]), -32600, 3),
        (ask(jsonrpc="\ud83d"), -32600, 3),
        (ask(method="\ud800"), -32600, 3),
        (ask(id="\ud800"), -32600, "\ud800"),
        (ask(params={"a": nested(DEEPEST)}), -32600, 3),
        (b"[" * 100_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":4,"method":"x","params":' + b'{"a":' * 100_000, -32700, 4),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"x"}', -32700, None),
    ],
)
def test_invalid_message_is_refused_with_its_id_if_it_has_one(line, code, request_id):
    refusal = decode(line)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.request_id) == (code, request_id)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/x","params":[1]}',
        b'{"jsonrpc":"2.0","id":1,"result":"not an object"}',
        b'{"jsonrpc":"2.0","id":1,"error":"odd"}',
    ],
)
def test_malformed_notifications_and_replies_are_not_answered(line):
    assert decode(line) is None


def test_nesting_that_is_deep_enough_for_any_argument_is_a_message():
    message = decode(ask(params={"a": nested(DEEPEST - 10), "b": [[]] * 500}))
    assert message["id"] == 3


def test_members_that_are_not_the_protocols_are_left_out():
    assert decode(ask(more=1, params=None)) == json.loads(ask())
    answer = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}
    assert decode(json.dumps(answer).encode()) == answer


def test_half_a_character_is_left_to_the_tool_that_gets_it():
    message = decode(ask(params={"text": "\ud83d"}))
    assert message["params"] == {"text": "\ud83d"}


def test_invalid_utf8_is_served_with_the_replacement_character():
    message = decode(b'{"jsonrpc":"2.0","id":3,"method":"x","params":{"text":"a\xffb"}}')
    assert message["params"] == {"text": "a\ufffdb"}


def test_byte_order_mark_and_carriage_return_do_no_harm():
    assert decode(b"\xef\xbb\xbf" + ask() + b"\r") == json.loads(ask())


def test_refusal_without_id_leaves_it_out_instead_of_null():
    assert json.loads(Refusal(-32700, "Parse error").encoded()) == {
        "jsonrpc": "2.0",
        "error": {"code": -32700, "message": "Parse error"},
    }
    error = JSONRPCError.model_validate(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}
    )
    assert "id" not in json.loads(encode(error))


def test_half_a_character_in_an_id_becomes_a_replacement_character():
    assert json.loads(Refusal(-32600, "no", "a\ud800").encoded())["id"] == "a\ufffd"


def test_lone_surrogates_in_a_result_become_replacement_characters():
    result = {"text": "a\ud83db", "list": ["\udc00"], "\ud800": 1}
    line = encode(JSONRPCResponse(jsonrpc="2.0", id=1, result=result))
    assert json.loads(line)["result"] == {"text": "a\ufffdb", "list": ["\ufffd"], "\ufffd": 1}


@pytest.mark.parametrize(
    ("head", "tail", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":9,"method":"tools/call"', b'x"}}}', 9),
        (b'{"jsonrpc": "2.0", "id": "k", "method"', b"x", "k"),
        (
            b'{"method":"tools/call","params":{"id":"note-1","text":"',
            b'","jsonrpc":"2.0","id":5}',
            5,
        ),
        (b'{"method":"tools/call","params":{"text":"', b'xx","id":"note-1"}}}', None),
        (b'{"params":{"id":1},"id', b"xxx", None),
    ],
)
def test_id_of_a_too_long_line_is_read_from_its_ends(head, tail, request_id):
    assert decode(TooLong(head, tail)).request_id == request_id
