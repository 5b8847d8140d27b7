"""Test what is counted of the records of an audit log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime

from mcp_notarium.audit.chain import (
    OPEN,
    UNKNOWN,
    AuditEntry,
    ChainMac,
    Decision,
    Head,
    append_to_chain,
)
from mcp_notarium.report import activity
from mcp_notarium.report.activity import Activity, ActivityCounter, NoteUse, Result, split_version

DAY = 86_400.0
NOW = 20_000 * DAY
ID = "0123456789abcdef0123456789abcdef"


def day_of(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()


def count(entries: Iterable[AuditEntry], *, since: float = NOW - 7 * DAY) -> Activity:
    counter = ActivityCounter(int(since * 1000), int((NOW + DAY) * 1000), day_of)
    head = Head()
    for entry in entries:
        record, head = append_to_chain(entry, head, ChainMac(None))
        counter.feed(record)
    return counter.result()


def call(act: str = "tool.get", *, client: str = "talker 1", at: float = NOW, **more) -> AuditEntry:
    return AuditEntry(at=at, act=act, client=client, **more)


def test_each_way_a_call_can_end_has_its_result() -> None:
    counted = count(
        [
            call(bytes_out=40),
            call("tool.save", outcome=OPEN),
            call("tool.save", refers=2, bytes_out=2),
            call("tool.save", decision=Decision.REFUSED, outcome="policy"),
            call("tool.undo", decision=Decision.DECLINED, outcome="declined"),
            call("tool.list", decision=Decision.REFUSED, outcome="arguments"),
            call(outcome="not_found"),
            call("tool.save", outcome=OPEN),
            call("tool.save", refers=8, outcome=UNKNOWN),
            call("tool.save", outcome=OPEN),
        ]
    )
    assert counted.tally.results == {
        Result.READ: 1, Result.CHANGED: 1, Result.REFUSED: 2, Result.FAILED: 2, Result.UNSURE: 2,
    }  # fmt: skip
    assert counted.tally.bytes_out == 42
    assert counted.reasons == {
        (Result.REFUSED, "policy"): 1,
        (Result.REFUSED, "declined"): 1,
        (Result.FAILED, "arguments"): 1,
        (Result.FAILED, "not_found"): 1,
    }
    assert [act.result for act in counted.latest] == [
        Result.CHANGED, Result.REFUSED, Result.REFUSED, Result.UNSURE, Result.UNSURE,
    ]  # fmt: skip


def test_a_question_is_no_call_of_its_own() -> None:
    counted = count(
        [
            call("tool.save", decision=Decision.ASKED, outcome=Decision.ASKED),
            call("tool.save", decision=Decision.CONFIRMED, outcome=OPEN),
            call("tool.save", decision=Decision.CONFIRMED, refers=2),
        ]
    )
    assert counted.tally.results == {Result.CHANGED: 1}
    assert counted.decisions == {Decision.ASKED: 1, Decision.CONFIRMED: 1}


def test_only_the_days_asked_for_count_and_older_ones_tell_who_is_new() -> None:
    counted = count(
        [
            call(client="old 1", at=NOW - 9 * DAY),
            call("tool.save", client="old 1", at=NOW - 8 * DAY, outcome=OPEN),
            call("tool.save", client="old 1", refers=2, at=NOW - 6 * DAY),  # begun before
            call(client="old 2", at=NOW - 6 * DAY),
            call(client="young 1", at=NOW),
            call(client="old 2", at=NOW + 2 * DAY),  # the clock was set back since
        ]
    )
    assert counted.days == {
        day_of(int((NOW - 6 * DAY) * 1000)): {Result.READ: 1},
        day_of(int(NOW * 1000)): {Result.READ: 1},
    }
    assert {one.name: (one.new, one.versions) for one in counted.programs.values()} == {
        "old": (False, {"2"}),
        "young": (True, {"1"}),
    }
    assert (counted.early, counted.early_ms, counted.late) == (2, int((NOW - 8 * DAY) * 1000), 1)
    assert not count([call()]).programs["talker"].new  # the log knows nobody else either


def test_notes_are_counted_by_what_was_done_with_them() -> None:
    counted = count(
        [
            call("tool.list", notes=(ID,)),
            call("tool.search_notes", notes=(ID, "b" * 32)),
            call(notes=(ID,)),
            call("tool.save", notes=(ID,), outcome=OPEN),
            call("tool.save", notes=(ID,), refers=4),
            call(notes=(ID,), outcome="not_found"),
        ]
    )
    assert counted.notes == {
        ID: NoteUse(listed=2, read=1, changed=1),
        "b" * 32: NoteUse(listed=1),
    }


def test_servers_commands_and_gaps_are_counted_apart() -> None:
    counted = count(
        [
            call("server.start"),
            call("cli.undo", outcome=OPEN),
            call("cli.undo", refers=2),
            call("chain.gap", facts={"not_recorded": 7}),
            call("keys.changed", facts={"added": ["2 recovery"]}),
            call("server.stop"),
        ]
    )
    assert counted.tally.calls == 0
    assert counted.own["cli.undo"] == 1
    assert counted.lost == 7
    assert [one.act for one in counted.own_latest] == ["cli.undo", "chain.gap", "keys.changed"]


def test_memory_has_a_limit_whatever_is_on_record(monkeypatch) -> None:
    monkeypatch.setattr(activity, "MOST_NOTES", 50)
    monkeypatch.setattr(activity, "_MOST_PENDING", 50)
    entries = [
        call(
            f"tool.t{number}", client=f"p{number} {number}", outcome=outcome, notes=(f"n{number}",)
        )
        for number in range(300)
        for outcome in (OPEN, "ok")
    ]
    counted = count(entries)
    assert counted.tally.calls == 600
    assert len(counted.programs) == activity.MOST_PROGRAMS + 1
    assert counted.programs[activity.OTHERS].tally.calls == 600 - 2 * activity.MOST_PROGRAMS
    assert len(counted.programs[activity.OTHERS].tools) == activity.MOST_TOOLS
    assert len(counted.notes) == 50
    assert len(counted.latest) == activity.MOST_LATEST


def test_names_and_versions_come_apart() -> None:
    assert split_version("claude-code 2.1.3") == ("claude-code", "2.1.3")
    assert split_version("Visual Studio Code v1.99-insider") == (
        "Visual Studio Code", "1.99-insider",
    )  # fmt: skip
    assert split_version("Agent") == ("Agent", "")
    assert split_version("  ") == (activity.UNNAMED, "")


def test_facts_that_make_no_sense_are_ignored() -> None:
    counter = ActivityCounter(0, 10**15, day_of)
    record, _head = append_to_chain(call("keys.changed"), Head(), ChainMac(None))
    for facts in ("[]", "no JSON", "[" * 100_000):
        object.__setattr__(record, "facts", facts)
        object.__setattr__(record, "notes", facts)
        counter.feed(record)
    assert counter.result().own["keys.changed"] == 3
