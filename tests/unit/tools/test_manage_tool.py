"""``manage``: reversible without a question, final only with one, numbers that are true."""

from dataclasses import replace

import pytest

from mcp_notarium import __version__
from mcp_notarium.errors import (
    ConfirmationRequired,
    InvalidRequest,
    NoteNotFound,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import Acknowledgement, PushStatus
from mcp_notarium.sync.cycle_states import State
from mcp_notarium.tools import manage
from mcp_notarium.tools.requests import ManageRequest
from support.memory_client import Fault
from support.tool_harness import Caller, ToolHarness

pytestmark = pytest.mark.anyio


async def act(harness: ToolHarness, action: str, caller: Caller | None = None, **arguments):
    request = ManageRequest.model_validate({"action": action} | arguments)
    return await manage.handle(harness.app, request, caller or harness.caller)


async def noted(harness: ToolHarness, **fields):
    harness.store.put("n", "text", **fields)
    await harness.sync()
    harness.remote.calls.clear()
    return harness.app.cache.notes.get("n").local_version


async def test_trash_and_untrash_keep_the_text_and_ask_nobody(harness):
    version = await noted(harness, tags=["a"])
    answer = await act(harness, "trash", id="n", local_version=version)
    assert (answer.id, answer.status) == ("n", "trashed")
    assert harness.store.fields("n") | {"modified": 0, "created": 0} == {
        "text": "text", "tags": ["a"], "trash": True, "modified": 0, "created": 0,
    }  # fmt: skip
    back = await act(harness, "untrash", id="n", local_version=answer.new_local_version)
    assert back.status == "untrashed"
    assert back.new_server_version == 3
    assert not harness.store.fields("n")["trash"]
    assert harness.caller.asked == []


async def test_a_store_that_does_not_keep_the_trash_flag_is_no_success(harness):
    version = await noted(harness)

    async def keeps_nothing(write):
        return Acknowledgement(await harness.remote.get(write.note_id), PushStatus.REPEATED)

    harness.remote.push = keeps_nothing
    with pytest.raises(VersionConflict, match="not in the trash") as refused:
        await act(harness, "trash", id="n", local_version=version)
    assert "local_version" in refused.value.resolution_hint


async def test_nothing_is_trashed_while_the_store_is_down(harness):
    version = await noted(harness)
    harness.remote.faults.plan(Fault.UNAVAILABLE, on="get", times=9)
    with pytest.raises(StoreUnavailable):
        await act(harness, "trash", id="n", local_version=version)
    harness.remote.faults.clear()
    note = harness.app.cache.notes.get("n")
    assert (note.local_version, note.content.trash) == (version, False)
    assert harness.app.cache.journal.all() == []


async def test_what_is_in_the_trash_already_is_success_without_a_write(harness):
    version = await noted(harness, trash=True)
    answer = await act(harness, "trash", id="n", local_version=version)
    assert (answer.status, answer.new_local_version) == ("trashed", version)
    assert harness.remote.calls == []


@pytest.mark.parametrize("action", ["trash", "untrash", "delete_permanently"])
async def test_note_actions_need_id_and_the_current_version(harness, action):
    version = await noted(harness)
    for arguments in ({}, {"local_version": version}, {"id": "n"}):
        with pytest.raises(InvalidRequest):
            await act(harness, action, **arguments)
    with pytest.raises(VersionConflict) as moved:
        await act(harness, action, id="n", local_version=version + 1)
    assert f"`{action}` it with its new" in moved.value.resolution_hint
    assert "save" not in moved.value.resolution_hint
    with pytest.raises(NoteNotFound):
        await act(harness, action, id="text", local_version=version)
    assert harness.remote.calls == ["get"]  # for the id that is not in the index


@pytest.mark.attack(36)
async def test_removal_works_in_the_trash_only_and_with_consent_only(harness):
    version = await noted(harness)
    agreed = Caller(agrees=True)
    with pytest.raises(InvalidRequest) as caught:
        await act(harness, "delete_permanently", agreed, id="n", local_version=version)
    assert caught.value.subcategory == "not_trashed"
    assert agreed.asked == []
    trashed = await act(harness, "trash", id="n", local_version=version)
    arguments = {"id": "n", "local_version": trashed.new_local_version}
    for caller in (Caller(), Caller(agrees=False)):
        with pytest.raises(ConfirmationRequired):
            await act(harness, "delete_permanently", caller, **arguments)
    assert harness.store.ids() == {"n"}
    answer = await act(harness, "delete_permanently", agreed, **arguments)
    assert (answer.id, answer.status) == ("n", "deleted")
    assert harness.store.ids() == set()
    assert harness.app.cache.notes.get("n") is None


@pytest.mark.parametrize("since", ["edited", "restored", "removed", "unreachable"])
async def test_nobody_is_asked_to_delete_what_is_not_so_any_more(harness, since):
    given = {"id": "n", "local_version": await noted(harness, trash=True)}
    match since:  # and nothing of it is known here
        case "edited":
            harness.store.put("n", "text of theirs", trash=True)
        case "restored":
            harness.store.put("n", "text")
        case "removed":
            harness.store.remove("n")
        case _:
            harness.remote.faults.plan(Fault.UNAVAILABLE, times=9)
    caller, held = Caller(agrees=True), harness.store.contents()
    with pytest.raises((VersionConflict, NoteNotFound, StoreUnavailable)) as refused:
        await act(harness, "delete_permanently", caller, **given)
    assert caller.asked == []
    assert since == "removed" or "nothing was deleted" in refused.value.message
    assert harness.store.contents() == held


async def test_statistics_name_everything_and_are_true(harness):
    harness.store.put("a", "text")
    harness.store.put("b", "text", trash=True)
    await harness.sync()
    numbers = (await act(harness, "get_stats")).stats.model_dump(exclude_none=True)
    assert numbers["mcp_notarium_version"] == __version__
    assert numbers["runtime_version"].startswith("CPython 3.")
    assert 5 < numbers["memory_rss_mb"] < 2000
    assert numbers["db_encryption"] == "off"
    assert "db_cipher_version" not in numbers
    assert numbers["db_file_size_mb"] > 0
    assert (numbers["db_total_notes"], numbers["db_active_notes"]) == (2, 1)
    assert numbers["db_trashed_notes"] == 1
    assert numbers["db_schema_version"] >= 1
    assert numbers["db_last_sync_at"] == int(harness.now)
    assert numbers["db_sync_duration_ms"] >= 0
    assert numbers["db_sync_status"] == "idle"
    assert numbers["db_sync_error_count"] == 0
    assert numbers["backend_cursor"] == harness.store.cursor()
    assert numbers["sync_complete"]
    assert (numbers["pending_writes"], numbers["rejected_writes"]) == (0, 0)
    assert numbers["notices"] == ["one"]
    assert not numbers["needs_login"]


async def test_statistics_of_a_cache_that_was_never_synced(harness):
    numbers = (await act(harness, "get_stats")).stats
    assert (numbers.db_total_notes, numbers.db_last_sync_at, numbers.sync_complete) == (
        0,
        None,
        False,
    )


async def test_statistics_count_failures(harness):
    harness.remote.faults.plan(Fault.UNAVAILABLE, times=9)
    await harness.sync()
    numbers = (await act(harness, "get_stats")).stats
    assert numbers.db_sync_error_count == 1
    assert numbers.sync_last_error


async def test_statistics_tell_of_a_failure_that_could_not_be_stored(harness, monkeypatch):
    await harness.sync()
    failing = replace(
        harness.app.scheduler.status(), state=State.BACKING_OFF, last_error="the disk is full"
    )
    monkeypatch.setattr(harness.app.scheduler, "status", lambda: failing)
    numbers = (await act(harness, "get_stats")).stats
    assert (numbers.sync_state, numbers.db_sync_status) == ("backing_off", "backing_off")
    assert numbers.db_sync_error_count == 1


async def test_reset_needs_consent_and_loads_everything_again(harness):
    await noted(harness)
    with pytest.raises(ConfirmationRequired):
        await act(harness, "reset_cache")
    assert harness.remote.calls == []
    harness.store.put("m", "another")
    answer = await act(harness, "reset_cache", Caller(agrees=True))
    assert answer.status == "reset"
    await harness.sync()
    assert {n for n in ("n", "m") if harness.app.cache.notes.get(n)} == {"n", "m"}


async def test_reset_without_the_service_keeps_the_cache(harness):
    await noted(harness)
    harness.remote.faults.plan(Fault.UNAVAILABLE, times=9)
    with pytest.raises(StoreUnavailable):
        await act(harness, "reset_cache", Caller(agrees=True))
    assert harness.app.cache.notes.get("n").text == "text"


async def test_in_a_store_without_a_trash_a_note_is_removed_at_once_and_only_with_consent(tmp_path):
    harness = ToolHarness(tmp_path, trash=False)
    harness.store.put("n1", "one\n")
    await harness.sync()
    version = harness.app.cache.notes.get("n1").local_version
    with pytest.raises(InvalidRequest, match="no trash") as refusal:
        await act(harness, "trash", Caller(agrees=True), id="n1", local_version=version)
    assert "delete_permanently" in refusal.value.resolution_hint
    with pytest.raises(ConfirmationRequired):
        await act(
            harness, "delete_permanently", Caller(agrees=False), id="n1", local_version=version
        )
    assert harness.store.ids() == {"n1"}
    await act(harness, "delete_permanently", Caller(agrees=True), id="n1", local_version=version)
    assert harness.store.ids() == set()
    harness.close()
