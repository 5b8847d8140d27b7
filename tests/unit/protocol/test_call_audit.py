"""Every call leaves a record: reads, acts, refusals, errors, unknown tools, calls broken off."""

import asyncio
import json
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mcp_notarium.audit.chain import AuditKeys
from mcp_notarium.errors import CacheFull, StoreTimeout
from mcp_notarium.protocol import call_audit
from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.secret import Secret
from mcp_notarium.storage.audit_log import Steps
from mcp_notarium.stores.contract import check_not_withdrawn
from support.memory_client import Fault
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio

KEYS = AuditKeys(Secret(b"c" * 32), Secret(b"d" * 32), Secret(b"a" * 32))
NOTE = "0123456789abcdef" * 2
ERAS = ["legacy", "auto"]


@pytest.fixture
def harness(tmp_path):
    made = ToolHarness(tmp_path, audit_keys=KEYS)
    yield made
    made.close()


def opened_after(gate, harness):
    @asynccontextmanager
    async def opened():
        await gate.wait()
        yield harness.app

    return opened


def records(harness):
    harness.app.audit.flush(wait=True)
    return list(harness.app.audit.table.records())


async def until(true):
    while not true():  # noqa: ASYNC110 - nobody tells
        await anyio.sleep(0.01)


def summary(record):
    return (record.act, record.decision, record.outcome)


@pytest.mark.parametrize("era", ERAS)
async def test_read_is_one_record_with_its_notes_and_size(harness, era):
    harness.store.put(NOTE, "hello")
    await harness.sync()
    async with connected(harness.opened, era) as client:
        result = await client.call_tool("get", {"id": NOTE})
        await client.call_tool("list", {})
    got, listed = records(harness)
    assert summary(got) == ("tool.get", "allowed", "ok")
    assert json.loads(got.notes) == json.loads(listed.notes) == [NOTE]
    assert got.bytes_out == len(result.content[0].text.encode())
    assert got.at_ms == int(harness.now * 1000)
    assert len(got.digest) == 64
    assert got.client.startswith("mcp")
    assert harness.app.audit.table.verify(anchored=None).whole


async def test_read_is_stored_soon_without_being_asked_for(harness, monkeypatch):
    monkeypatch.setattr(call_audit, "SECONDS", 0.01)
    await harness.sync()
    async with connected(harness.opened) as client:
        await client.call_tool("list", {})
        await until(lambda: harness.app.audit.table.head().count)


async def test_many_reads_are_stored_few_at_a_time(harness, monkeypatch):
    monkeypatch.setattr(call_audit, "AT_ONCE", 4)
    monkeypatch.setattr(call_audit, "SECONDS", 60.0)
    await harness.sync()
    waiting = []
    async with connected(harness.opened) as client:
        for _ in range(10):
            await client.call_tool("list", {})
            waiting.append(harness.app.audit.waiting)
    assert waiting == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    assert len(records(harness)) == 10


async def test_act_is_recorded_before_it_is_begun_and_its_outcome_after(harness, monkeypatch):
    await harness.sync()
    seen = []
    push = harness.remote.push

    async def watched(*args, **options):
        seen.extend(harness.app.audit.table.records())
        return await push(*args, **options)

    monkeypatch.setattr(harness.remote, "push", watched)
    async with connected(harness.opened) as client:
        saved = (await client.call_tool("save", {"text": "new"})).structured_content
    assert [summary(record) for record in seen] == [("tool.save", "allowed", "")]
    opened, ended = records(harness)
    assert ended.refers == opened.number
    assert summary(ended) == ("tool.save", "allowed", "ok")
    assert json.loads(ended.notes) == [saved["id"]]
    assert ended.digest == opened.digest


async def test_act_that_cannot_be_recorded_is_not_done(harness, monkeypatch):
    await harness.sync()

    def full(*_args, **_options):
        raise CacheFull("no room")

    async with connected(harness.opened) as client:
        monkeypatch.setattr(harness.app.audit.table, "append", full)
        result = await client.call_tool("save", {"text": "new"})
        monkeypatch.undo()
    error = json.loads(result.content[0].text)
    assert error["subcategory"] == "not_recorded"
    assert error["details"] == {"reason": "disk_full"}
    assert error["resolution_hint"]
    assert harness.store.ids() == set()
    assert harness.app.cache.journal.count() == 0
    (refused,) = records(harness)
    assert summary(refused) == ("tool.save", "refused", "not_recorded")


async def test_outcome_that_cannot_be_recorded_does_not_undo_a_success(harness, monkeypatch):
    await harness.sync()
    append, calls = harness.app.audit.table.append, []

    def once(*args, **options):
        calls.append(args)
        if len(calls) > 1:
            raise CacheFull("no room")
        return append(*args, **options)

    async with connected(harness.opened) as client:
        monkeypatch.setattr(harness.app.audit.table, "append", once)
        result = await client.call_tool("save", {"text": "new"})
        assert not result.is_error
        monkeypatch.undo()
    assert [summary(record)[2] for record in records(harness)] == ["", "ok"]


async def test_unknown_tool_and_its_arguments_leave_only_a_digest(harness):
    await harness.sync()
    async with connected(harness.opened) as client:
        await client.call_tool("list", {})
        with pytest.raises(MCPError):
            await client.call_tool("my diary", {"x": "my diary"})
    record = records(harness)[-1]
    assert summary(record) == ("tool.unknown", "refused", "unknown_tool")
    assert "diary" not in repr(record)


async def test_call_before_the_cache_is_open_is_recorded_when_it_is(harness):
    await harness.sync()
    gate = anyio.Event()
    async with connected(opened_after(gate, harness)) as client:
        with pytest.raises(MCPError):
            await client.call_tool("nope", {})
        gate.set()
        await client.call_tool("list", {})
    assert [record.act for record in records(harness)] == ["tool.unknown", "tool.list"]


async def test_last_call_before_the_cache_is_open_is_recorded_too(harness):
    await harness.sync()
    gate = anyio.Event()
    async with connected(opened_after(gate, harness)) as client:
        with pytest.raises(MCPError):
            await client.call_tool("nope", {})
        gate.set()
    assert [summary(record) for record in records(harness)] == [
        ("tool.unknown", "refused", "unknown_tool")
    ]


async def test_of_too_many_calls_before_the_cache_is_open_the_chain_says_how_many_are_missing(
    harness, monkeypatch
):
    monkeypatch.setattr(call_audit, "_MOST_EARLY", 3)
    await harness.sync()
    gate = anyio.Event()
    async with connected(opened_after(gate, harness)) as client:
        for _ in range(5):
            with pytest.raises(MCPError):
                await client.call_tool("nope", {})
        gate.set()
    gap, *others = records(harness)
    assert (gap.act, json.loads(gap.facts)) == ("chain.gap", {"not_recorded": 2})
    assert [record.act for record in others] == ["tool.unknown"] * 3


async def test_invalid_arguments_are_recorded_without_them(harness):
    await harness.sync()
    async with connected(harness.opened) as client:
        await client.call_tool("manage", {"action": "my diary", "id": "my diary"})
    (record,) = records(harness)
    assert summary(record) == ("tool.manage", "refused", "arguments")
    assert "diary" not in repr(record)


async def test_invalid_arguments_are_answered_with_what_is_taken(harness):
    await harness.sync()
    async with connected(harness.opened) as client:
        unknown = await client.call_tool("list", {"order": "newest"})
        wrong = await client.call_tool("list", {"sort_order": "newest", "trash_status": 7})
    hint = json.loads(unknown.content[0].text)["resolution_hint"]
    assert hint.startswith("`list` takes: query, tags, trash_status, date_before, ")
    hint = json.loads(wrong.content[0].text)["resolution_hint"]
    assert hint == "`list` takes: trash_status (1 trashed, 2 both), sort_order (ASC|DESC)."


async def test_a_wrong_action_beside_an_unknown_argument_is_answered_with_all_actions(harness):
    await harness.sync()
    async with connected(harness.opened) as client:
        wrong = await client.call_tool("manage", {"action": "remove", "colour": 1})
    refusal = json.loads(wrong.content[0].text)
    assert refusal["resolution_hint"].startswith("`manage` takes: action (trash|untrash|")
    assert refusal["resolution_hint"].endswith("|reset_cache).")
    assert refusal["message"].endswith("action: Not one of its values; colour: Unknown argument")


async def test_error_says_its_kind_and_only_ids_of_notes_here_are_kept(harness):
    harness.store.put(NOTE, "x")
    await harness.sync()
    async with connected(harness.opened) as client:
        await client.call_tool("get", {"id": "my diary"})
        await client.call_tool("get", {"id": NOTE, "local_version": 99})
        await client.call_tool("get", {"uuid": NOTE, "local_version": 99})
        await client.call_tool("manage", {"action": "get_stats"})
    missing, other, same, stats = records(harness)
    assert summary(missing) == ("tool.get", "allowed", "not_found")
    assert missing.notes == "[]"
    assert (other.outcome, other.notes) == ("version_changed", f'["{NOTE}"]')
    assert (same.outcome, same.notes) == (other.outcome, other.notes)
    assert summary(stats) == ("tool.manage.get_stats", "allowed", "ok")
    assert stats.refers == 0


async def test_write_without_an_answer_is_recorded_as_unknown(harness):
    await harness.sync()
    harness.remote.faults.plan(Fault.LOST_ANSWER, on="push", times=9)
    async with connected(harness.opened) as client:
        result = await client.call_tool("save", {"text": "new"})
    assert result.is_error
    assert [record.outcome for record in records(harness)] == ["", "unknown"]


async def asked(harness, era, answer, **arguments):
    async def elicit(_context, _params):
        if answer == "late":
            await anyio.sleep(5)
        if answer == "broken":
            return types.ErrorData(code=-32600, message="no")
        return types.ElicitResult(action=answer, content={"confirm": True})

    async with connected(
        harness.opened, era, elicitation_callback=elicit if answer else None
    ) as client:
        return await client.call_tool("manage", {"action": "reset_cache"} | arguments)


@pytest.mark.attack(40)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("answer", "decision", "outcome"),
    [
        ("accept", "confirmed", "ok"),
        ("decline", "declined", "declined"),
        ("cancel", "declined", "declined"),
        (None, "refused", "confirmation_required"),
    ],
)
async def test_decision_of_the_person_is_recorded(harness, era, answer, decision, outcome):
    await harness.sync()
    await asked(harness, era, answer)
    last = records(harness)[-1]
    assert summary(last) == ("tool.manage.reset_cache", decision, outcome)
    if era == "auto" and answer:
        assert summary(records(harness)[0]) == ("tool.manage.reset_cache", "asked", "asked")


async def test_that_somebody_agreed_is_on_the_disk_before_anything_is_done(harness, monkeypatch):
    seen = []
    delete = harness.remote.delete

    async def watched(*args, **options):
        seen.extend(harness.app.audit.table.records())
        return await delete(*args, **options)

    monkeypatch.setattr(harness.remote, "delete", watched)
    harness.store.put(NOTE, "x", trash=True)
    await harness.sync()
    note = harness.app.cache.notes.get(NOTE)
    await asked(
        harness,
        "legacy",
        "accept",
        action="delete_permanently",
        id=NOTE,
        local_version=note.local_version,
    )
    (begun,) = seen
    assert summary(begun) == ("tool.manage.delete_permanently", "confirmed", "")
    ended = records(harness)[-1]
    assert summary(ended) == ("tool.manage.delete_permanently", "confirmed", "ok")
    assert ended.refers == begun.number


async def test_consent_that_cannot_be_recorded_changes_nothing(harness, monkeypatch):
    harness.store.put(NOTE, "x")
    await harness.sync()

    def full(*_args, **_options):
        raise CacheFull("no room")

    monkeypatch.setattr(harness.app.audit.table, "append", full)
    answer = await asked(harness, "legacy", "accept")
    monkeypatch.undo()
    assert json.loads(answer.content[0].text)["subcategory"] == "not_recorded"
    assert harness.app.cache.notes.get(NOTE) is not None
    (refused,) = records(harness)
    assert summary(refused) == ("tool.manage.reset_cache", "confirmed", "not_recorded")


async def test_an_error_in_the_place_of_an_answer_is_not_called_silence(harness):
    await harness.sync()
    answer = await asked(harness, "legacy", "broken")
    error = json.loads(answer.content[0].text)
    assert "did not answer in time" not in error["message"]
    assert "Do not try again unless" in error["resolution_hint"]


async def test_argument_confirm_is_not_taken_for_the_persons_word(harness):
    await harness.sync()
    await asked(harness, "legacy", None, confirm=True)
    assert records(harness)[-1].decision == "by_argument"


@pytest.mark.attack(40)
async def test_question_that_nobody_answered_is_timed_out(harness, monkeypatch):
    monkeypatch.setattr("mcp_notarium.protocol.elicitation.ASKING_SECONDS", 0.05)
    await harness.sync()
    await asked(harness, "legacy", "late")
    assert records(harness)[-1].decision == "timed_out"


def lose_answer():
    raise StoreTimeout("no answer came")


@pytest.mark.parametrize(
    ("at", "then", "outcomes"),
    [
        ("get", lambda: None, ["cancelled"]),
        ("push", lambda: None, ["", "finished"]),
        ("push", check_not_withdrawn, ["", "cancelled"]),
        ("push", lose_answer, ["", "unknown"]),
    ],
    ids=["read", "stored", "not sent", "no answer"],
)
async def test_call_that_is_cancelled_is_recorded_with_what_became_of_it(
    harness, monkeypatch, at, then, outcomes
):
    harness.store.put(NOTE, "old")
    await harness.sync()
    begun, goes_on, go = anyio.Event(), anyio.Event(), getattr(harness.remote, at)

    async def held(*args, **options):
        begun.set()
        await goes_on.wait()
        then()
        return await go(*args, **options)

    monkeypatch.setattr(harness.remote, at, held)
    version = harness.app.cache.notes.get(NOTE).local_version
    asked_for = {"id": NOTE, "local_version": version, "text": "new"}
    async with connected(harness.opened) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "save", asked_for)
            await begun.wait()
            tasks.cancel_scope.cancel()
        await client.list_tools()  # the server has heard of it
        if at == "push":
            assert [record.outcome for record in records(harness)] == [""], "it goes on"
        goes_on.set()
        await until(lambda: len(records(harness)) == len(outcomes))
    assert [record.outcome for record in records(harness)] == outcomes


@pytest.mark.parametrize(
    ("others", "taken_back", "again", "seconds", "known"),
    [
        (0, "7", b"same", 600.0, True),
        (15, 7, b"same", 600.0, True),
        (16, 7, b"same", 600.0, False),
        (0, 8, b"same", 600.0, False),
        (0, 7, b"other", 600.0, False),
        (0, 7, b"same", 0.0, False),
    ],
)
async def test_call_that_was_taken_back_lately_is_known_once_if_it_comes_again(  # noqa: PLR0917 - a row of the table
    monkeypatch, others, taken_back, again, seconds, known
):
    monkeypatch.setattr(call_audit, "_KEPT_SECONDS", seconds)
    recorder, steps = call_audit.Recorder(AppHolder(None, report=print)), Steps()
    assert recorder.see_change(7, b"same", steps) is None
    for number in range(others):
        recorder.see_change(f"other {number}", b"another", Steps())
    recorder.take_back(taken_back)
    assert recorder.see_change(9, again, Steps()) is (steps if known else None)
    assert recorder.see_change(9, again, Steps()) is None


async def test_slow_call_is_known_for_as_long_after_it_was_taken_back_as_a_quick_one(monkeypatch):
    monkeypatch.setattr(call_audit, "_KEPT_SECONDS", 0.2)
    recorder, steps = call_audit.Recorder(AppHolder(None, report=print)), Steps()
    assert recorder.see_change(7, b"same", steps) is None
    await asyncio.sleep(0.3)
    recorder.take_back(7)
    assert recorder.see_change(9, b"same", Steps()) is steps


async def test_change_that_changes_nothing_is_one_record(harness):
    harness.store.put(NOTE, "old")
    await harness.sync()
    version = harness.app.cache.notes.get(NOTE).local_version
    async with connected(harness.opened) as client:
        await client.call_tool("save", {"id": NOTE, "local_version": version, "text": "old"})
    assert [record.outcome for record in records(harness)] == ["ok"]
