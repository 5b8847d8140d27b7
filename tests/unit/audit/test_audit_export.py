"""Exports: what can be said about the lines without any key."""

import json

import pytest

from mcp_notarium.audit import export
from mcp_notarium.audit.chain import Head, Seal, appended
from mcp_notarium.audit.record import Entry
from mcp_notarium.audit.verify import Kind
from mcp_notarium.secret import Secret


@pytest.fixture
def records():
    made, head = [], Head()
    for number in range(5):
        record, head = appended(Entry(at=number, act=f"act{number}"), head, Seal(Secret(b"c" * 32)))
        made.append(record)
    return made


def kinds(lines):
    return [(fault.kind, fault.number) for fault in export.faults_in(lines)[1]]


def test_whole_export_has_no_faults_and_names_its_head(records):
    lines = list(export.lines(records, now_ms=0))
    assert kinds(lines) == []
    assert export.faults_in(lines)[0] == Head(5, records[-1].mac)
    assert json.loads(lines[-1])["exported_at"] == "1970-01-01T00:00:00.000Z"


def test_line_that_is_missing_shows_even_if_the_last_line_was_made_anew(records):
    assert kinds(export.lines([*records[:2], *records[3:]], now_ms=0)) == [(Kind.DELETED, 4)]
    swapped = [records[0], records[2], records[1], *records[3:]]
    assert kinds(export.lines(swapped, now_ms=0))[0] == (Kind.DELETED, 3)


def test_export_of_the_newest_days_may_begin_anywhere(records):
    assert kinds(export.lines(records[3:], now_ms=0)) == []


@pytest.mark.parametrize("line", [b"[]\n", b"null\n", b"{}\n", b'{"number":"x"}\n', b"[" * 100_000])
def test_nonsense_is_a_fault_and_no_crash(records, line):
    lines = [*export.lines(records, now_ms=0)]
    assert (Kind.EDITED, 2) in kinds([lines[0], line, *lines[1:]])


def test_time_that_no_calendar_has_stays_a_number():
    assert export.when(2**62) == str(2**62)
