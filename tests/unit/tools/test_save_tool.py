"""``save``: what is written is what was meant, once, or nothing at all."""

import functools

import anyio
import pytest

from mcp_notarium.errors import (
    ConfirmationRequired,
    InvalidRequest,
    NoteNotFound,
    OutcomeUnknown,
    PatchError,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.tools import save
from mcp_notarium.tools.call_context import describe_note
from mcp_notarium.tools.manage import collect_stats
from mcp_notarium.tools.save_checks import SMALL
from mcp_notarium.tools.schemas import SaveRequest
from support.memory_client import Fault
from support.tooling import Caller, Desk

pytestmark = pytest.mark.anyio

LONG = " ".join(f"word{n}" for n in range(200))


async def write(desk: Desk, caller: Caller | None = None, **arguments):
    request = SaveRequest.model_validate(arguments)
    return await save.handle(desk.app, request, caller or desk.caller)


async def noted(desk: Desk, text="one\ntwo\nthree\n", **fields):
    desk.store.put("n", text, **fields)
    await desk.sync()
    desk.remote.calls.clear()
    return desk.app.cache.notes.get("n").local_version


def change(operation, line, value=None):
    return {"operation": operation, "line_number": line, "value": value}


async def test_new_note_is_stored_by_the_service_before_it_is_reported(desk):
    await desk.sync()
    answer = await write(desk, text="hello \U0001f44b\r\n", tags=["a"])
    assert desk.store.text(answer.id) == "hello \U0001f44b\r\n"
    assert answer.tags == ["a"]
    assert (answer.local_version, answer.server_version) == (1, 1)
    assert answer.merged is None
    assert desk.app.cache.notes.get(answer.id).text == "hello \U0001f44b\r\n"


async def test_new_note_may_be_empty(desk):
    await desk.sync()
    assert desk.store.text((await write(desk, text="")).id) == ""


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tags": ["a"]},
        {"trash": True},
        {"text_patch": [change("addition", 1, "x")]},
        {"text": "x", "text_patch": [change("addition", 1, "x")]},
        {"text": "x", "local_version": 1},
        {"text": "x", "server_version": 1},
        {"id": "n"},
        {"id": "n", "local_version": 1},
        {"id": "n", "text": "x"},
        {"id": "n", "local_version": 1, "text": "x", "text_patch": []},
        {"text": "x", "tags": ["two words"]},
        {"text": "x" * 1_048_577},
        {"text": "\u20ac" * 400_000},
    ],
)
async def test_request_that_cannot_be_meant_is_refused_and_nothing_is_sent(desk, arguments):
    await noted(desk)
    with pytest.raises(InvalidRequest):
        await write(desk, **arguments)
    assert "push" not in desk.remote.calls


async def test_whole_text_replaces_and_keeps_tags(desk):
    version = await noted(desk, tags=["keep"])
    answer = await write(desk, id="n", local_version=version, text="new")
    assert (answer.text, answer.tags, answer.local_version) == ("new", ["keep"], version + 1)
    assert desk.store.fields("n")["text"] == "new"


async def test_patch_changes_the_named_lines_only(desk):
    version = await noted(desk, "a\r\nb\r\nc")
    patch = [
        change("addition", 4, "end"),
        change("modification", 2, "B"),
        change("deletion", 1),
        change("addition", 1, "top"),
    ]
    answer = await write(desk, id="n", local_version=version, text_patch=patch)
    assert answer.text == desk.store.text("n") == "top\r\nB\r\nc\r\nend"


@pytest.mark.parametrize(
    "patch",
    [
        [],
        [change("deletion", 4)],
        [change("addition", 5, "x")],
        [change("modification", 1)],
        [change("deletion", 1), change("modification", 1, "x")],
    ],
)
async def test_patch_that_does_not_fit_changes_nothing(desk, patch):
    version = await noted(desk)
    with pytest.raises(PatchError):
        await write(desk, id="n", local_version=version, text_patch=patch)
    assert desk.store.text("n") == "one\ntwo\nthree\n"


async def test_tags_or_trash_alone_leave_the_text_alone(desk):
    version = await noted(desk, tags=["old tag", "b"])
    answer = await write(desk, id="n", local_version=version, tags=["old tag", "new"])
    assert (answer.tags, answer.text) == (["old tag", "new"], "one\ntwo\nthree\n")
    answer = await write(desk, id="n", local_version=answer.local_version, trash=True)
    assert (answer.trash, answer.tags) == (True, ["old tag", "new"])
    answer = await write(desk, id="n", local_version=answer.local_version, tags=[], trash=False)
    assert (answer.trash, answer.tags) == (False, [])


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "one\ntwo\nthree\n"},
        {"tags": ["Keep"]},
        {"tags": ["keep"], "trash": False},
        {"text_patch": [change("modification", 2, "two")]},
    ],
)
async def test_change_that_changes_nothing_is_success_without_a_write(desk, arguments):
    version = await noted(desk, tags=["Keep"])
    answer = await write(desk, id="n", local_version=version, **arguments)
    assert answer.unchanged
    assert answer.local_version == version
    assert desk.remote.calls == []


async def test_stale_local_version_is_refused_and_names_the_current_one(desk):
    version = await noted(desk)
    desk.store.put("n", "elsewhere")
    await desk.sync()
    with pytest.raises(VersionConflict) as caught:
        await write(desk, id="n", local_version=version, text="mine")
    assert caught.value.details["current_local_version"] == version + 1
    assert desk.store.text("n") == "elsewhere"


async def test_other_server_version_is_refused(desk):
    version = await noted(desk)
    with pytest.raises(VersionConflict):
        await write(desk, id="n", local_version=version, server_version=7, text="mine")
    answer = await write(desk, id="n", local_version=version, server_version=1, text="mine")
    assert answer.server_version == 2


async def test_unseen_change_elsewhere_is_merged_and_said_so(desk):
    version = await noted(desk)
    desk.store.put("n", "one\ntwo\nthree\nfour\n")
    patch = [change("modification", 1, "ONE")]
    answer = await write(desk, id="n", local_version=version, text_patch=patch)
    assert answer.merged
    assert answer.text == desk.store.text("n") == "ONE\ntwo\nthree\nfour\n"


async def test_unseen_change_of_the_same_line_is_a_conflict_and_nothing_is_written(desk):
    version = await noted(desk)
    desk.store.put("n", "uno\ntwo\nthree\n")
    patch = [change("modification", 1, "ONE")]
    with pytest.raises(VersionConflict) as caught:
        await write(desk, id="n", local_version=version, text_patch=patch)
    assert caught.value.details["current_local_version"] > version
    assert desk.store.text("n") == "uno\ntwo\nthree\n"


async def test_unknown_id_is_an_error_and_creates_nothing(desk):
    await noted(desk)
    with pytest.raises(NoteNotFound):
        await write(desk, id="nowhere", local_version=1, text="x")
    assert desk.store.ids() == {"n"}


async def test_unreachable_service_means_nothing_was_saved(desk):
    version = await noted(desk)
    desk.remote.faults.plan(Fault.UNAVAILABLE, times=9)
    with pytest.raises(StoreUnavailable):
        await write(desk, id="n", local_version=version, text="mine")
    assert desk.app.cache.notes.get("n").text == "one\ntwo\nthree\n"


async def test_lost_answer_is_told_as_in_doubt(desk):
    version = await noted(desk)
    desk.remote.faults.plan(Fault.LOST_ANSWER, on="push")
    with pytest.raises(OutcomeUnknown) as caught:
        await write(desk, id="n", local_version=version, text="mine")
    assert caught.value.details["id"] == "n"


async def test_new_address_as_tag_needs_consent(desk):
    version = await noted(desk, "Plan\nsecret", tags=["old@example.org"])
    tags = ["old@example.org", "new@example.org"]
    with pytest.raises(ConfirmationRequired) as caught:
        await write(desk, id="n", local_version=version, tags=tags)
    assert caught.value.message == (
        "Share the note “Plan” (id n) with new@example.org (an e-mail address as a tag)?"
    )
    assert "old@example.org" not in caught.value.message
    with pytest.raises(ConfirmationRequired):
        await write(desk, Caller(agrees=False), id="n", local_version=version, tags=tags)
    assert desk.store.fields("n")["tags"] == ["old@example.org"]
    answer = await write(desk, Caller(agrees=True), id="n", local_version=version, tags=tags)
    assert answer.tags == tags


async def test_sharing_a_new_note_is_asked_with_its_first_line(desk):
    await desk.sync()
    with pytest.raises(ConfirmationRequired) as caught:
        await write(desk, text="Plan\nsecret", tags=["a\u200b@example.org"])
    assert caught.value.message == (
        "Share the new note “Plan” with a\\u200b@example.org (an e-mail address as a tag)?"
    )


async def test_address_is_an_ordinary_tag_where_tags_do_not_share(tmp_path):
    desk = Desk(tmp_path, shares_by_tag=False)
    await desk.sync()
    assert (await write(desk, text="x", tags=["a@example.org"])).tags == ["a@example.org"]
    desk.close()


@pytest.mark.parametrize(
    "arguments",
    [{"text": "gone"}, {"text": ""}, {"text_patch": [change("deletion", 1)]}],
)
async def test_dropping_most_of_a_note_needs_consent(desk, arguments):
    version = await noted(desk, LONG)
    with pytest.raises(ConfirmationRequired) as caught:
        await write(desk, id="n", local_version=version, **arguments)
    assert caught.value.message.startswith(
        f"Overwrite the {describe_note(LONG, note_id='n')} and drop"
    )
    assert desk.store.text("n") == LONG
    await write(desk, Caller(agrees=True), id="n", local_version=version, **arguments)
    assert desk.store.text("n") != LONG


async def test_a_text_dropped_in_steps_needs_no_consent(desk):
    """A limit, as docs/tools.md says: what counts is what one save drops."""
    version = await noted(desk, LONG)
    for length in (len(LONG) // 2, SMALL, 0):
        answer = await write(desk, id="n", local_version=version, text=LONG[:length])
        version = answer.local_version
    assert desk.store.text("n") == ""


async def test_note_that_moved_on_while_the_person_thought_is_not_written(desk):
    version = await noted(desk, LONG)

    class Slow(Caller):
        async def confirm(self, message):
            desk.store.put("n", "changed elsewhere meanwhile")
            await desk.sync()
            return True

    with pytest.raises(VersionConflict):
        await write(desk, Slow(), id="n", local_version=version, text="gone")
    assert desk.store.text("n") == "changed elsewhere meanwhile"


async def test_consent_to_one_version_is_not_used_for_another(desk):
    version = await noted(desk)

    class Slow(Caller):
        async def confirm(self, message):
            desk.store.edit("n", lambda text: text + "and a secret\n")
            await desk.sync()
            return True

    with pytest.raises(VersionConflict):
        await write(desk, Slow(), id="n", local_version=version, tags=["new@example.org"])
    assert desk.store.fields("n")["tags"] == []


async def test_write_waits_for_the_one_before_it_whatever_the_note(desk):
    version = await noted(desk)
    desk.remote.faults.plan(Fault.HANG_BEFORE, on="push")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(functools.partial(write, desk, id="n", local_version=version, text="a"))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(functools.partial(write, desk, text="another note"))
        await anyio.wait_all_tasks_blocked()
        assert desk.remote.calls.count("push") == 1
        tasks.cancel_scope.cancel()


async def test_writes_that_come_together_are_served_one_after_another(desk):
    version = await noted(desk)
    outcomes = []

    async def one(text):
        try:
            await write(desk, id="n", local_version=version, text=text)
            outcomes.append(text)
        except VersionConflict:
            outcomes.append("conflict")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, "first")
        tasks.start_soon(one, "second")
    assert outcomes == ["first", "conflict"]
    assert desk.store.text("n") == "first"


async def test_service_with_a_smaller_limit_is_respected(tmp_path):
    desk = Desk(tmp_path, max_note_bytes=100)
    await desk.sync()
    with pytest.raises(InvalidRequest) as caught:
        await write(desk, text="x" * 101)
    assert caught.value.subcategory == "too_large"
    desk.close()


async def test_too_large_note_from_elsewhere_can_still_be_tagged(desk):
    version = await noted(desk, "x" * 1_200_000)
    assert (await write(desk, id="n", local_version=version, tags=["big"])).tags == ["big"]


async def test_megabyte_and_hundred_tags_go_through(desk):
    await desk.sync()
    text = "0123456789abcde\n" * 65_536
    answer = await write(desk, text=text, tags=[f"t{n}" for n in range(100)])
    assert desk.store.text(answer.id) == text
    assert len(answer.tags) == 100
    assert answer.text_is_partial
    assert len(answer.text) < 70_000


async def test_what_the_service_stores_differently_is_told_by_lines_and_to_the_person(desk):
    version = await noted(desk, "one\ntwo\nthree\n")
    desk.store.rewrite = lambda fields: fields | {"text": fields["text"].replace("\0", "")}
    answer = await write(desk, id="n", local_version=version, text="one\nt\0wo\nthree\n\0\n")
    assert answer.note.startswith("stored differently: lines 2, 4. ")
    assert answer.text == desk.store.text("n") == "one\ntwo\nthree\n\n"
    assert (answer.merged, answer.conflict_copy_id) == (None, None)
    assert len(desk.store.ids()) == 1
    one, told = collect_stats(desk.app).notices
    assert (one, told.partition(" writes")[0]) == ("one", "The note store has stored 1")


async def test_a_creation_that_was_stored_differently_is_told_when_it_is_asked_for_again(desk):
    await desk.sync()
    desk.store.rewrite = lambda fields: fields | {"text": fields["text"].upper()}
    desk.remote.faults.plan(Fault.LOST_ANSWER, on="push")
    with pytest.raises(OutcomeUnknown):
        await write(desk, text="new\n")
    answer = await write(desk, text="new\n")
    assert answer.note.startswith("stored differently: line 1. ")
    assert (answer.text, answer.merged) == ("NEW\n", None)
    assert len(desk.store.ids()) == 1


async def test_no_more_lines_are_named_than_an_agent_needs(desk):
    await desk.sync()
    desk.store.rewrite = lambda fields: {
        **fields,
        "text": fields["text"].upper(),
        "tags": [tag.upper() for tag in fields["tags"]],
    }
    answer = await write(desk, text="".join(f"line {n}\n" for n in range(9)), tags=["a"])
    assert answer.note.startswith("stored differently: lines 1, 2, 3 and 6 more, tags. ")
