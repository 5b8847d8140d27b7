"""A call that is cancelled at any of its awaits: done once or not at all, and nothing is left open."""

import asyncio
from contextlib import suppress

import pytest

from mcp_notarium.audit.chain import OPEN, AuditEntry
from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.stores.contract import Retry
from mcp_notarium.tools.catalog import NOTARIUM
from support.long import LONG
from support.memory_client import Fault
from support.tool_harness import Caller, ToolHarness

TOOLS = NOTARIUM.by_name()
CALLS = {
    "list": ("list", {"query": "x"}),
    "get": ("get", {"id": "plain"}),
    "save a new note": ("save", {"text": "new\n"}),
    "save a change": ("save", {"id": "plain", "local_version": 1, "text": "x\nmore\n"}),
    "trash": ("manage", {"action": "trash", "id": "plain", "local_version": 1}),
    "delete": (
        "manage",
        {"action": "delete_permanently", "id": "trashed", "local_version": 1},
    ),
    "reset": ("manage", {"action": "reset_cache"}),
}
AGAIN = {
    "a new note": {"text": "new\n"},
    "a line": {"id": "plain", "append": "more"},
    "a place": {"id": "plain", "find": "x", "replace": "x more"},
}
STEPS = range(120 if LONG else 40)
_QUICK_STEPS = 30


async def begun(folder, **traits):
    harness = ToolHarness(folder, **traits)
    harness.caller = Caller(agrees=True)
    harness.store.put("plain", "x\n")
    harness.store.put("trashed", "y\n", trash=True)
    await harness.sync()
    return harness


def recorded(harness):
    """A caller whose changes are recorded."""
    caller = Caller(agrees=True)
    entry = AuditEntry(at=1.0, act="tool.save", outcome=OPEN, client=caller.client)
    caller.act = Act(harness.app.audit, lambda: entry, caller.steps)
    return caller


def contents(harness):
    """What the service holds, new notes by their text."""
    return sorted((note.text, note.tags, note.trash) for note in harness.store.contents().values())


async def cancelled_after(harness, call, steps):
    """The call, cancelled when the loop has gone round so often; whether it had ended before.

    Later rounds take a millisecond, because a search ends in a thread.
    """
    name, arguments = call
    tool = TOOLS[name]
    request = tool.request.model_validate(arguments)
    task = asyncio.create_task(tool.handle(harness.app, request, harness.caller))
    for number in range(steps):
        await asyncio.sleep(0 if number < _QUICK_STEPS else 0.001)
    over = task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return over


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_a_call_cancelled_at_any_await_is_done_once_or_not_at_all(tmp_path, call):
    async def once(steps):
        (folder := tmp_path / f"{steps}").mkdir()
        harness = await begun(folder)
        try:
            before = contents(harness)
            over = await cancelled_after(harness, call, steps)
            after = await settled(harness)
            # The next call of the same kind of thing works.
            tool = TOOLS["save"]
            request = tool.request.model_validate({"text": "next\n"})
            await asyncio.wait_for(tool.handle(harness.app, request, harness.caller), 60)
            assert ("next\n", (), False) in contents(harness)
            return before, after, over
        finally:
            harness.close()

    async def settled(harness):
        for _ in range(3):
            await harness.sync()
            harness.now += 61  # the lease of a write is over
        assert not harness.app.cache.journal.all()
        ids = harness.app.cache.notes.etags()
        held = {note_id: harness.app.cache.notes.get(note_id).content for note_id in ids}
        assert held == harness.store.contents()
        return contents(harness)

    async def every():
        outcomes = []
        for steps in STEPS:
            before, after, over = await once(steps)
            outcomes.append(after)
            if over:
                break
        else:
            pytest.fail("it did not end within so many steps")
        done = outcomes[-1]
        assert all(after in (before, done) for after in outcomes)
        assert (done != before) == (call[0] in {"save", "manage"} and call is not CALLS["reset"])
        return outcomes

    asyncio.run(every())


@pytest.mark.parametrize("unlike", [{}, {"retry": Retry.ASK}], ids=["knows writes", "asks"])
@pytest.mark.parametrize("arguments", AGAIN.values(), ids=list(AGAIN))
def test_a_call_cancelled_at_any_await_and_called_again_is_done_once(tmp_path, arguments, unlike):
    async def twice(steps):
        (folder := tmp_path / f"{steps}").mkdir()
        harness = await begun(folder, **unlike)
        try:
            first, again = recorded(harness), recorded(harness)
            harness.caller = first
            over = await cancelled_after(harness, ("save", arguments), steps)
            again.steps.earlier = first.steps
            request = TOOLS["save"].request.model_validate(arguments)
            answer = await TOOLS["save"].handle(harness.app, request, again)
            assert answer.id in harness.store.contents()
            return contents(harness), over
        finally:
            harness.close()

    async def every():
        outcomes = []
        for steps in STEPS:
            after, over = await twice(steps)
            outcomes.append(after)
            if over:
                break
        assert over, "it did not end within so many steps"
        assert all(after == outcomes[0] for after in outcomes), outcomes

    asyncio.run(every())


@pytest.mark.parametrize("theirs", ["x\nmore\n", "x\nthem\nmore\n", "\nx\nmore\nx\n", "x\n"])
def test_a_line_that_was_saved_before_its_call_was_taken_back_stands_once(tmp_path, theirs):
    async def scenario():
        harness = await begun(tmp_path)
        handle, append = TOOLS["save"].handle, {"id": "plain", "append": "more"}
        request = TOOLS["save"].request.model_validate(append)
        first, second, again = recorded(harness), recorded(harness), recorded(harness)
        await handle(harness.app, request, first)
        harness.store.edit("plain", lambda _: theirs)
        await harness.sync()
        second.steps.earlier, again.steps.earlier = first.steps, second.steps  # it saved nothing
        answer = await handle(harness.app, request, again)
        assert "more" in str(answer.changed)
        harness.close()
        return harness.store.text("plain")

    wanted = theirs if "more" in theirs else "x\nmore\n"
    assert asyncio.run(scenario()) == wanted


@pytest.mark.parametrize("fault", [None, Fault.RACE, Fault.TIMEOUT], ids=str)
@pytest.mark.parametrize("since", ["", "another line"])
def test_an_undo_that_was_taken_back_takes_back_what_its_client_has_saved_since(
    tmp_path, since, fault
):
    async def scenario():
        harness = await begun(tmp_path)

        async def call(tool, arguments, caller):
            request = TOOLS[tool].request.model_validate(arguments)
            await TOOLS[tool].handle(harness.app, request, caller)

        undo = {"action": "undo", "id": "plain"}
        first, second, again = recorded(harness), recorded(harness), recorded(harness)
        await call("save", {"id": "plain", "append": "more"}, recorded(harness))
        if fault is not None:
            harness.remote.faults.plan(fault, on="push", edit=lambda text: f"theirs\n{text}")
        with suppress(OutcomeUnknown):
            await call("manage", undo, first)
        await harness.sync()  # it finishes what had no answer
        if since:
            await call("save", {"id": "plain", "append": since}, recorded(harness))
        second.steps.earlier, again.steps.earlier = first.steps, second.steps  # it saved nothing
        await call("manage", undo, again)
        harness.close()
        return harness.store.text("plain")

    assert asyncio.run(scenario()) == ("theirs\nx\n" if fault is Fault.RACE else "x\n")


def test_a_new_note_that_was_in_doubt_and_found_when_its_call_was_taken_back_is_one(tmp_path):
    async def scenario():
        harness = await begun(tmp_path)
        handle, request = (
            TOOLS["save"].handle,
            TOOLS["save"].request.model_validate({"text": "n\n"}),
        )
        harness.remote.faults.plan(Fault.LOST_ANSWER, on="push")
        with pytest.raises(OutcomeUnknown):
            await handle(harness.app, request, recorded(harness))
        found, again = recorded(harness), recorded(harness)
        await handle(harness.app, request, found)
        again.steps.earlier = found.steps
        await handle(harness.app, request, again)
        harness.close()
        return [text for text, *_ in contents(harness)]

    assert asyncio.run(scenario()).count("n\n") == 1
