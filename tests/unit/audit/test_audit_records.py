"""The form of a record: bounded, canonical, and with nothing of what was asked in it."""

import json

import pytest

from mcp_notarium.audit.chain import GENESIS, AuditKeys, Head, Seal, appended
from mcp_notarium.audit.record import MOST_NOTES, Entry, record_of, shown_client
from mcp_notarium.secret import Secret

KEY = Secret(bytes(range(32)))
KEYS = AuditKeys(KEY, Secret(b"d" * 32), Secret(b"a" * 32))


def test_bytes_of_a_record_must_not_change_silently():
    entry = Entry(
        at=1_750_000_000.1234,
        act="tool.save",
        client="Client 1",
        digest="ab",
        notes=("n1", "é"),
        bytes_out=7,
        refers=0,
        facts={"b": 1, "a": "x"},
    )
    record, head = appended(entry, Head(), Seal(KEY))
    assert record.covered() == (
        b'[1,1750000000123,"Client 1","tool.save","ab","[\\"n1\\",\\"\\\\u00e9\\"]","allowed","ok",7,'
        b'0,"{\\"a\\":\\"x\\",\\"b\\":1}"]'
    )
    assert record.previous == GENESIS
    assert head == Head(1, "4adf8bde6ef6f3cfb28035e1322ac5acd7fd4d7cdd91abf0b89da22fe301120e")
    assert appended(entry, Head(), Seal(None))[1].mac == (
        "7450c4f962aaed81063d900db92ff0772ce89bd7d76caaa9800a581aef19b5e6"
    )
    assert Seal(KEY).fits(record)
    assert not Seal(Secret(b"x" * 32)).fits(record)
    assert not Seal(None).fits(record)


def test_same_call_has_the_same_digest_and_another_call_or_key_another_one():
    digest = KEYS.digest("list", {"query": "my diary", "limit": 5})
    assert digest == KEYS.digest("list", {"limit": 5, "query": "my diary"})
    assert digest != KEYS.digest("get", {"query": "my diary", "limit": 5})
    assert digest != AuditKeys(KEY, Secret(b"e" * 32), KEY).digest(
        "list", {"query": "my diary", "limit": 5}
    )
    assert "diary" not in digest


def test_without_a_key_there_is_no_digest_that_could_be_guessed():
    assert AuditKeys().digest("list", {"query": "x"}) == ""


@pytest.mark.parametrize(
    "odd",
    ["\ud83d", {"\udc00": [1.5, None, True]}, float("nan"), object(), 10**400, [[[["deep"]]]]],
    ids=["half", "half name", "nan", "object", "huge", "nested"],
)
def test_any_argument_has_a_digest(odd):
    assert len(KEYS.digest("save", {"text": odd})) == 64


def test_deepest_argument_has_a_digest():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert len(KEYS.digest("save", deep)) == 64


def test_client_names_become_one_short_line():
    assert shown_client("a\nb\x1b[31m\u202e\ud83d" + "x" * 500) == "a?b?[31m?\ufffd" + "x" * 86


def test_more_notes_than_fit_are_counted():
    entry = Entry(at=1, act="tool.list", notes=tuple(map(str, range(MOST_NOTES + 3))))
    record = record_of(entry, number=1, previous=GENESIS)
    assert len(json.loads(record.notes)) == MOST_NOTES
    assert json.loads(record.facts) == {"notes_left_out": 3}


@pytest.mark.parametrize(
    "made",
    ["0123456789abcdef" * 2, "6f1c2b1e-9c1b-4b1e-8a63-2f0f4d9d6c11", "cjld2cjxh0000qzrmn831i7rn"],
)
def test_id_that_a_program_made_stays_as_it_is(made):
    assert KEYS.note(made) == made


@pytest.mark.parametrize("words", ["my-diary", "divorce-lawyer-2026", "me@example.org", "n", ""])
def test_id_made_of_words_is_named_by_a_digest(words):
    named = KEYS.note(words)
    assert named == KEYS.note(words)
    assert len(named) == len("id:") + 16
    assert AuditKeys().note(words) == "id:withheld"
