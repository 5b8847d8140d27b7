"""The pure rules around requests: hosts, pauses, Retry-After, bounded JSON."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_notarium.errors import (
    ConfigError,
    OutcomeUnknown,
    StoreProtocolError,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.stores.http_rules import (
    Outcome,
    RetryPolicy,
    error_for,
    origin_of,
    retry_after_seconds,
    usable_origin,
)
from mcp_notarium.stores.json_answers import DEEPEST, AnswerTooLarge, parse_json, to_json

NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("base", "origin"),
    [
        ("https://api.example/1", ("https", "api.example", 443)),
        ("https://API.example:8443", ("https", "api.example", 8443)),
        ("http://127.0.0.1:8080/1", ("http", "127.0.0.1", 8080)),
        ("http://127.9.9.9", ("http", "127.9.9.9", 80)),
        ("http://localhost:1", ("http", "localhost", 1)),
        ("http://[::1]:2/x", ("http", "::1", 2)),
    ],
)
def test_https_and_loopback_may_be_configured(base: str, origin: tuple[str, str, int]) -> None:
    assert usable_origin(base) == origin == origin_of(base)


@pytest.mark.parametrize(
    "base",
    [
        "http://api.example/1",
        "http://192.168.1.5",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "ftp://api.example",
        "https://user:pass@api.example",
        "https://user@api.example",
        "https://api.example/?to=x",
        "https://api.example/#x",
        "https://api.example:99999",
        "https://[::1",
        "https://",
        "api.example",
        "",
    ],
)
def test_other_addresses_are_refused_without_being_quoted(base: str) -> None:
    with pytest.raises(ConfigError) as caught:
        usable_origin(base)
    assert "pass" not in str(caught.value)


def test_pauses_double_up_to_the_longest() -> None:
    patience = RetryPolicy(first=0.5, longest=8.0)
    assert [patience.pause(n, 1.0) for n in range(1, 7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert patience.pause(3, 0.0) == 0.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, now=10.0) == seconds


def test_write_that_ran_out_of_time_before_it_was_sent_surely_did_nothing() -> None:
    late = Outcome(arrived=False, timed_out=True)
    assert type(error_for(late, "any", write=True, in_doubt=False)) is StoreUnavailable
    assert type(error_for(late, "any", write=False, in_doubt=False)) is StoreTimeout
    assert type(error_for(late, "any", write=True, in_doubt=True)) is OutcomeUnknown


@NO_DEADLINE
@given(st.text())
def test_any_retry_after_is_survived(header: str) -> None:
    seconds = retry_after_seconds(header, now=10.0)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><title>502</title>",
        b'{"a": ',
        b"[" * 100_000,
        b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
        b'{"a":' * 70 + b"1" + b"}" * 70,
        b"NaN",
        b"[Infinity]",
        b"[1e999]",
        b"9" * 10_000,
        b"\xff\xfe[]",
        b"[1] trailing",
    ],
    ids=range(12),
)
def test_what_is_not_bounded_json_is_a_protocol_error_that_quotes_nothing(body: bytes) -> None:
    with pytest.raises(StoreProtocolError) as caught:
        parse_json(body)
    assert caught.value.__cause__ is None
    assert len(str(caught.value)) < 100


def test_json_as_deep_as_allowed_is_read() -> None:
    body = b"[" * DEEPEST + b"]" * DEEPEST
    assert parse_json(body) == json.loads(body)


HALF = 16 * 1024 * 1024


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * (HALF // 3) + b"0]",
        b"[" + b'{"a":{}},' * (HALF // 9) + b"0]",
        b"[" + b"1.5," * (HALF // 4) + b"0]",
        b"[" + b'"\\"","",' * (HALF // 8) + b"0]",
        b'["' + b'\\",' * (HALF // 3) + b'",' + b"[]," * (HALF // 3) + b"0]",
    ],
    ids=["lists", "objects", "numbers", "texts", "behind a text"],
)
def test_more_values_than_can_be_taken_are_never_made(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(AnswerTooLarge):
            parse_json(body)
        assert tracemalloc.get_traced_memory()[1] < 8 * HALF
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["a, [b] {c}", 'say "a", \\', "\\"])
def test_a_text_of_separators_is_not_many_values(text: str) -> None:
    value = [text * (HALF // 16)]
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize("odd", [b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"[" * 100_000])
def test_a_value_that_one_note_may_have_caused_is_distinguished(odd: bytes) -> None:
    with pytest.raises(AnswerTooLarge):
        parse_json(b'{"index":[' + odd)


@NO_DEADLINE
@given(st.binary())
def test_any_bytes_are_a_value_or_a_protocol_error(body: bytes) -> None:
    try:
        parse_json(body)
    except StoreProtocolError:
        return


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@NO_DEADLINE
@given(JSON)
def test_json_goes_out_as_utf_8_and_comes_back_the_same(value: object) -> None:
    assert parse_json(to_json(value)) == value


def test_text_goes_out_short_unless_it_cannot() -> None:
    assert to_json("汉😀") == '"汉😀"'.encode()
    assert to_json("\ud800") == b'"\\ud800"'
