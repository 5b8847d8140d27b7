"""Exports: what can be said about the lines without any key."""

import base64
import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from mcp_notarium.audit import export
from mcp_notarium.audit.chain import ActName, AuditEntry, ChainMac, Head, append_to_chain
from mcp_notarium.audit.verification import ChainVerifier, FaultKind
from mcp_notarium.cli import activity_feed
from mcp_notarium.errors import ConfigError
from mcp_notarium.secret import Secret


@pytest.fixture
def records():
    made, head = [], Head()
    for number in range(5):
        record, head = append_to_chain(
            AuditEntry(at=number, act=f"act{number}"), head, ChainMac(Secret(b"c" * 32))
        )
        made.append(record)
    return made


def kinds(lines):
    return [(fault.kind, fault.number) for fault in export.find_export_faults(lines)[1]]


def test_whole_export_has_no_faults_and_names_its_head(records):
    lines = list(export.export_lines(records, now_ms=0, end=Head()))
    assert kinds(lines) == []
    assert export.find_export_faults(lines)[0] == Head(5, records[-1].mac)
    assert json.loads(lines[-1])["exported_at"] == "1970-01-01T00:00:00.000Z"


def test_missing_line_is_found_even_if_the_last_line_was_recomputed(records):
    assert kinds(export.export_lines([*records[:2], *records[3:]], now_ms=0, end=Head())) == [
        (FaultKind.DELETED, 4)
    ]
    swapped = [records[0], records[2], records[1], *records[3:]]
    assert kinds(export.export_lines(swapped, now_ms=0, end=Head()))[0] == (FaultKind.DELETED, 3)


def test_export_of_the_newest_days_may_begin_anywhere(records):
    assert kinds(export.export_lines(records[3:], now_ms=0, end=Head())) == []


def test_export_of_no_record_names_the_end_of_the_chain(records):
    end = Head(5, records[-1].mac)
    (line,) = export.export_lines([], now_ms=0, end=end)
    assert export.find_export_faults([line]) == (end, [])
    for wrong in (b"5:", b"x", b"5:" + b"A" * 64):
        assert kinds([line.replace(str(end).encode(), wrong)]) == [(FaultKind.TAIL_CUT, 1)]


def test_what_stands_behind_the_last_line_is_a_fault(records):
    lines = list(export.export_lines(records, now_ms=0, end=Head()))
    assert kinds([*lines, lines[0], b"more"]) == [(FaultKind.INSERTED, 7)]


def test_changed_line_whose_numbers_and_macs_stay_is_found_by_the_sum_of_all(records):
    first, *others = export.export_lines(records, now_ms=0, end=Head())
    assert kinds([first.replace(b'"act0"', b'"act9"'), *others]) == [(FaultKind.EDITED, 5)]


@pytest.mark.parametrize("line", [b"[]\n", b"null\n", b"{}\n", b'{"number":"x"}\n', b"[" * 100_000])
def test_nonsense_is_a_fault_and_no_crash(records, line):
    lines = [*export.export_lines(records, now_ms=0, end=Head())]
    assert (FaultKind.EDITED, 2) in kinds([lines[0], line, *lines[1:]])


def test_time_that_no_calendar_has_stays_a_number():
    assert export.utc_text(2**62) == str(2**62)


@pytest.mark.parametrize("number", ["Infinity", "1e999", "NaN", "[]", '"x"'])
def test_line_with_a_number_that_is_none_is_a_fault_of_the_file(number):
    line = f'{{"number":{number},"mac":"","previous":""}}\n'.encode()
    assert kinds([line])[0] == (FaultKind.EDITED, 1)


def test_record_that_says_what_cannot_be_counted_is_a_fault_of_the_chain():
    chain_mac = ChainMac(None)
    record, _ = append_to_chain(AuditEntry(at=0, act=ActName.PRUNED), Head(), chain_mac)
    check = ChainVerifier(chain_mac)
    check.feed(chain_mac.authenticate(replace(record, facts='{"upto":1e999,"head":""}')))
    assert [fault.kind for fault in check.result().faults] == [FaultKind.EDITED]


@pytest.mark.parametrize("text", ["no JSON", "7", '"x"', "[1, {}]", "[" * 100_000])
def test_changed_record_is_shown_as_it_is(records, text):
    changed = replace(records[0], notes=text, facts=text, act="a\x1b[2J")
    assert export.as_json(changed)["mac"] == changed.mac
    assert list(export.export_lines([changed], now_ms=0, end=Head()))
    assert "\x1b" not in "".join(map(str, activity_feed.describe_records([changed], {}, width=200)))


def pem(key, *, private=False):
    if private:
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_signature_is_that_of_one_key_over_one_file():
    key = export.private_key(pem(ed25519.Ed25519PrivateKey.generate(), private=True))
    public = export.public_key(pem(key.public_key()))
    signature = base64.b64encode(key.sign(b"lines"))
    assert export.is_signed(b"lines", signature + b"\n", public)
    assert not export.is_signed(b"other lines", signature, public)
    assert not export.is_signed(b"lines", b"no base64!", public)


@pytest.mark.parametrize(
    "content", [b"", b"no key", pem(ed448.Ed448PrivateKey.generate(), private=True)]
)
def test_a_file_without_a_private_key_for_signatures_is_refused_with_the_command_that_makes_one(
    content,
):
    with pytest.raises(ConfigError) as refused:
        export.private_key(content)
    assert "genpkey" in refused.value.resolution_hint


@pytest.mark.parametrize(
    "content", [b"", b"no key", pem(ed448.Ed448PrivateKey.generate().public_key())]
)
def test_a_file_without_a_public_key_for_signatures_is_refused_with_the_command_that_makes_one(
    content,
):
    with pytest.raises(ConfigError) as refused:
        export.public_key(content)
    assert "-pubout" in refused.value.resolution_hint
