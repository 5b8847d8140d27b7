"""The form of a record: bounded, canonical, and with nothing of what was asked in it."""

import hashlib
import hmac
import json
from pathlib import Path

import pytest

from mcp_notarium.audit import export
from mcp_notarium.audit.chain import (
    GENESIS,
    MOST_NOTES,
    AuditEntry,
    AuditKeys,
    ChainMac,
    Head,
    append_to_chain,
    clean_client_name,
    make_record,
)
from mcp_notarium.secret import Secret

KEY = Secret(bytes(range(32)))
KEYS = AuditKeys(KEY, Secret(b"d" * 32), Secret(b"a" * 32))
PAGE = Path(__file__).parents[3] / "docs" / "format.md"
GOLDEN = AuditEntry(
    at=1_750_000_000.1234,
    act="tool.save",
    client="Client 1",
    digest="ab",
    notes=("n1", "é"),
    bytes_out=7,
    refers=0,
    facts={"b": 1, "a": "x"},
)


def test_bytes_of_a_record_must_not_change_silently():
    record, head = append_to_chain(GOLDEN, Head(), ChainMac(KEY))
    assert record.mac_input() == (
        b'[1,1750000000123,"Client 1","tool.save","ab","[\\"n1\\",\\"\\\\u00e9\\"]","allowed","ok",7,'
        b'0,"{\\"a\\":\\"x\\",\\"b\\":1}"]'
    )
    assert record.previous == GENESIS
    assert head == Head(1, "4adf8bde6ef6f3cfb28035e1322ac5acd7fd4d7cdd91abf0b89da22fe301120e")
    assert append_to_chain(GOLDEN, Head(), ChainMac(None))[1].mac == (
        "7450c4f962aaed81063d900db92ff0772ce89bd7d76caaa9800a581aef19b5e6"
    )
    assert ChainMac(KEY).verifies(record)
    assert not ChainMac(Secret(b"x" * 32)).verifies(record)
    assert not ChainMac(None).verifies(record)


def test_the_page_of_the_format_shows_that_record_and_its_mac():
    record, head = append_to_chain(GOLDEN, Head(), ChainMac(KEY))
    page = PAGE.read_text(encoding="utf-8")
    assert f"\n{record.mac_input().decode()}\n" in page
    assert f"`{head.mac}`" in page


def canonical_form(value):
    """Section 2 of the page, with nothing of ours."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def recomputed(line, key):
    """The MAC of a record of an export, as section 6 of the page says, with nothing of ours."""
    one = json.loads(line)
    names = "number at_ms client act digest notes decision outcome bytes_out refers facts"
    texts = {name: canonical_form(one[name]) for name in ("notes", "facts")}
    covered = canonical_form([(one | texts)[name] for name in names.split()]).encode()
    message = bytes.fromhex(one["previous"]) + covered
    if key is None:
        return hashlib.sha256(b"mcp-notarium/v1/audit-without-a-key\n" + message).hexdigest()
    return hmac.digest(key, message, "sha256").hex()


@pytest.mark.parametrize("key", [KEY, None], ids=["with a key", "without"])
def test_every_mac_of_an_export_can_be_recomputed_from_the_page_alone(key):
    odd = AuditEntry(
        at=2.0, act="cli.x", client='"\\\x7fé\u2028', facts={"why": 'a "b" \\ \n ü', "n": [1]}
    )
    records, head = [], Head()
    for entry in (GOLDEN, odd, AuditEntry(at=0.0, act="tool.get", notes=("x" * 12,))):
        record, head = append_to_chain(entry, head, ChainMac(key))
        records.append(record)
    *lines, _end = export.export_lines(records, now_ms=0, end=head)
    assert len(lines) == 3
    for line in lines:
        assert recomputed(line, key and key.reveal()) == json.loads(line)["mac"]


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
    assert clean_client_name("a\nb\x1b[31m\u202e\ud83d" + "x" * 500) == "a?b?[31m?\ufffd" + "x" * 86


def test_more_notes_than_fit_are_counted():
    entry = AuditEntry(at=1, act="tool.list", notes=tuple(map(str, range(MOST_NOTES + 3))))
    record = make_record(entry, number=1, previous=GENESIS)
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
