"""``save``: what is written is what was meant, once, or nothing at all."""

import functools
from contextlib import nullcontext

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
from mcp_notarium.tools.consent import describe_note
from mcp_notarium.tools.manage import collect_stats
from mcp_notarium.tools.requests import SaveRequest
from mcp_notarium.tools.save_checks import SMALL
from support.memory_client import Fault
from support.tool_harness import Caller, ToolHarness

pytestmark = pytest.mark.anyio

LONG = " ".join(f"word{n}" for n in range(200))


async def write(harness: ToolHarness, caller: Caller | None = None, **arguments):
    request = SaveRequest.model_validate(arguments)
    return await save.handle(harness.app, request, caller or harness.caller)


async def noted(harness: ToolHarness, text="one\ntwo\nthree\n", **fields):
    harness.store.put("n", text, **fields)
    await harness.sync()
    harness.remote.calls.clear()
    return harness.app.cache.notes.get("n").local_version


def shown(answer):
    return [(part.line, part.text) for part in answer.changed]


def change(operation, line, value=None):
    return {"operation": operation, "line_number": line, "value": value}


async def test_new_note_is_stored_by_the_service_before_it_is_reported(harness):
    await harness.sync()
    answer = await write(harness, text="hello \U0001f44b\r\n", tags=["a"])
    assert harness.store.text(answer.id) == "hello \U0001f44b\r\n"
    assert answer.tags == ["a"]
    assert (answer.local_version, answer.server_version) == (1, 1)
    assert (answer.merged, answer.text, answer.changed) == (None, None, None)
    assert harness.app.cache.notes.get(answer.id).text == "hello \U0001f44b\r\n"


async def test_new_note_may_be_empty(harness):
    await harness.sync()
    assert harness.store.text((await write(harness, text="")).id) == ""


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
        {"id": "n", "local_version": 1, "text_patch": []},
        {"id": "n", "append": ""},
        {"id": "n", "append": "x", "prepend": "x"},
        {"id": "n", "append": "x", "tags": ["a"]},
        {"id": "n", "find": "one"},
        {"id": "n", "replace": "one"},
        {"id": "n", "find": "", "replace": "x"},
        {"append": "x"},
        {"find": "x", "replace": "y"},
        {"text": "x", "append": "y"},
        {"text": "x", "tags": ["two words"]},
        {"text": "x" * 1_048_577},
        {"text": "\u20ac" * 400_000},
    ],
)
async def test_request_that_cannot_be_meant_is_refused_and_nothing_is_sent(harness, arguments):
    await noted(harness)
    with pytest.raises(InvalidRequest):
        await write(harness, **arguments)
    assert "push" not in harness.remote.calls


async def test_whole_text_replaces_and_keeps_tags(harness):
    version = await noted(harness, tags=["keep"])
    answer = await write(harness, id="n", local_version=version, text="new")
    assert (answer.tags, answer.local_version) == (["keep"], version + 1)
    assert harness.store.fields("n")["text"] == "new"


async def test_patch_changes_the_named_lines_only(harness):
    version = await noted(harness, "a\r\nb\r\nc")
    patch = [
        change("addition", 4, "end"),
        change("modification", 2, "B"),
        change("deletion", 1),
        change("addition", 1, "top"),
    ]
    answer = await write(harness, id="n", local_version=version, text_patch=patch, return_text=True)
    assert answer.text == harness.store.text("n") == "top\r\nB\r\nc\r\nend"


@pytest.mark.parametrize(
    "patch",
    [
        [change("deletion", 4)],
        [change("addition", 5, "x")],
        [change("modification", 1)],
        [change("deletion", 1), change("modification", 1, "x")],
    ],
)
async def test_patch_that_does_not_fit_changes_nothing(harness, patch):
    version = await noted(harness)
    with pytest.raises(PatchError):
        await write(harness, id="n", local_version=version, text_patch=patch)
    assert harness.store.text("n") == "one\ntwo\nthree\n"


async def test_tags_or_trash_alone_leave_the_text_alone(harness):
    version = await noted(harness, tags=["old tag", "b"])
    answer = await write(harness, id="n", local_version=version, tags=["old tag", "new"])
    assert (answer.tags, answer.changed) == (["old tag", "new"], None)
    assert harness.store.text("n") == "one\ntwo\nthree\n"
    answer = await write(harness, id="n", local_version=answer.local_version, trash=True)
    assert (answer.trash, answer.tags) == (True, ["old tag", "new"])
    answer = await write(harness, id="n", local_version=answer.local_version, tags=[], trash=False)
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
async def test_change_that_changes_nothing_is_success_without_a_write(harness, arguments):
    version = await noted(harness, tags=["Keep"])
    answer = await write(harness, id="n", local_version=version, **arguments)
    assert answer.unchanged
    assert answer.local_version == version
    assert harness.remote.calls == []


async def test_stale_local_version_is_refused_and_names_the_current_one(harness):
    version = await noted(harness)
    harness.store.put("n", "elsewhere")
    await harness.sync()
    with pytest.raises(VersionConflict) as caught:
        await write(harness, id="n", local_version=version, text="mine")
    assert caught.value.details["current_local_version"] == version + 1
    assert harness.store.text("n") == "elsewhere"


async def test_other_server_version_is_refused(harness):
    version = await noted(harness)
    with pytest.raises(VersionConflict):
        await write(harness, id="n", local_version=version, server_version=7, text="mine")
    answer = await write(harness, id="n", local_version=version, server_version=1, text="mine")
    assert answer.server_version == 2


async def test_unseen_change_elsewhere_is_merged_and_said_so(harness):
    version = await noted(harness)
    harness.store.put("n", "one\ntwo\nthree\nfour\n")
    patch = [change("modification", 1, "ONE")]
    answer = await write(harness, id="n", local_version=version, text_patch=patch)
    assert answer.merged
    assert harness.store.text("n") == "ONE\ntwo\nthree\nfour\n"
    assert shown(answer) == [(1, "ONE\ntwo\nthree\nfour\n")]


async def test_unseen_change_of_the_same_line_is_a_conflict_and_nothing_is_written(harness):
    version = await noted(harness)
    harness.store.put("n", "uno\ntwo\nthree\n")
    patch = [change("modification", 1, "ONE")]
    with pytest.raises(VersionConflict) as caught:
        await write(harness, id="n", local_version=version, text_patch=patch)
    assert caught.value.details["current_local_version"] > version
    assert harness.store.text("n") == "uno\ntwo\nthree\n"


async def test_unknown_id_is_an_error_and_creates_nothing(harness):
    await noted(harness)
    with pytest.raises(NoteNotFound):
        await write(harness, id="nowhere", local_version=1, text="x")
    assert harness.store.ids() == {"n"}


async def test_unreachable_service_means_nothing_was_saved(harness):
    version = await noted(harness)
    harness.remote.faults.plan(Fault.UNAVAILABLE, times=9)
    with pytest.raises(StoreUnavailable):
        await write(harness, id="n", local_version=version, text="mine")
    assert harness.app.cache.notes.get("n").text == "one\ntwo\nthree\n"


async def test_lost_answer_is_reported_as_in_doubt(harness):
    version = await noted(harness)
    harness.remote.faults.plan(Fault.LOST_ANSWER, on="push")
    with pytest.raises(OutcomeUnknown) as caught:
        await write(harness, id="n", local_version=version, text="mine")
    assert caught.value.details["id"] == "n"


@pytest.mark.attack(43)
async def test_new_address_as_tag_needs_consent(harness):
    version = await noted(harness, "Plan\nsecret", tags=["old@example.org"])
    tags = ["old@example.org", "new@example.org"]
    with pytest.raises(ConfirmationRequired) as caught:
        await write(harness, id="n", local_version=version, tags=tags)
    assert caught.value.message == (
        "Share the note “Plan” (id “n”) with “new@example.org” (an e-mail address as a tag)?"
    )
    assert "old@example.org" not in caught.value.message
    with pytest.raises(ConfirmationRequired):
        await write(harness, Caller(agrees=False), id="n", local_version=version, tags=tags)
    assert harness.store.fields("n")["tags"] == ["old@example.org"]
    answer = await write(harness, Caller(agrees=True), id="n", local_version=version, tags=tags)
    assert answer.tags == tags


@pytest.mark.attack(43)
async def test_sharing_a_new_note_is_asked_with_its_first_line(harness):
    await harness.sync()
    with pytest.raises(ConfirmationRequired) as caught:
        await write(harness, text="Plan\nsecret", tags=["a\u200b@example.org"])
    assert caught.value.message == (
        "Share the new note “Plan” with “a\\u200b@example.org” (an e-mail address as a tag)?"
    )


async def test_address_is_an_ordinary_tag_where_tags_do_not_share(tmp_path):
    harness = ToolHarness(tmp_path, shares_by_tag=False)
    await harness.sync()
    assert (await write(harness, text="x", tags=["a@example.org"])).tags == ["a@example.org"]
    harness.close()


@pytest.mark.parametrize(
    "arguments",
    [{"text": "gone"}, {"text": ""}, {"text_patch": [change("deletion", 1)]}],
)
async def test_dropping_most_of_a_note_needs_consent(harness, arguments):
    version = await noted(harness, LONG)
    with pytest.raises(ConfirmationRequired) as caught:
        await write(harness, id="n", local_version=version, **arguments)
    assert caught.value.message.startswith(
        f"Overwrite the {describe_note(LONG, note_id='n')} and drop"
    )
    assert harness.store.text("n") == LONG
    await write(harness, Caller(agrees=True), id="n", local_version=version, **arguments)
    assert harness.store.text("n") != LONG


async def test_a_text_dropped_in_steps_needs_no_consent(harness):
    """A limit, as docs/tools.md says: what counts is what one save drops."""
    version = await noted(harness, LONG)
    for length in (len(LONG) // 2, SMALL, 0):
        answer = await write(harness, id="n", local_version=version, text=LONG[:length])
        version = answer.local_version
    assert harness.store.text("n") == ""


async def test_note_that_moved_on_while_the_person_thought_is_not_written(harness):
    version = await noted(harness, LONG)

    class Slow(Caller):
        async def confirm(self, message):
            harness.store.put("n", "changed elsewhere meanwhile")
            await harness.sync()
            return True

    with pytest.raises(VersionConflict):
        await write(harness, Slow(), id="n", local_version=version, text="gone")
    assert harness.store.text("n") == "changed elsewhere meanwhile"


async def test_consent_to_one_version_is_not_used_for_another(harness):
    version = await noted(harness)

    class Slow(Caller):
        async def confirm(self, message):
            harness.store.edit("n", lambda text: text + "and a secret\n")
            await harness.sync()
            return True

    with pytest.raises(VersionConflict):
        await write(harness, Slow(), id="n", local_version=version, tags=["new@example.org"])
    assert harness.store.fields("n")["tags"] == []


async def test_write_waits_for_the_one_before_it_of_the_same_note_and_no_other(harness):
    version = await noted(harness)
    harness.remote.faults.plan(Fault.HANG_BEFORE, on="push")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(functools.partial(write, harness, id="n", local_version=version, text="a"))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(functools.partial(write, harness, id="n", append="more"))
        await anyio.wait_all_tasks_blocked()
        assert harness.remote.calls.count("push") == 1
        await write(harness, text="another note")
        assert harness.remote.calls.count("push") == 2
        tasks.cancel_scope.cancel()


async def test_writes_that_come_together_are_served_one_after_another(harness):
    version = await noted(harness)
    outcomes = []

    async def one(text):
        try:
            await write(harness, id="n", local_version=version, text=text)
            outcomes.append(text)
        except VersionConflict:
            outcomes.append("conflict")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, "first")
        tasks.start_soon(one, "second")
    assert outcomes == ["first", "conflict"]
    assert harness.store.text("n") == "first"


async def test_service_with_a_smaller_limit_is_respected(tmp_path):
    harness = ToolHarness(tmp_path, max_note_bytes=100)
    await harness.sync()
    with pytest.raises(InvalidRequest) as caught:
        await write(harness, text="x" * 101)
    assert caught.value.subcategory == "too_large"
    harness.close()


async def test_too_large_note_from_elsewhere_can_still_be_tagged(harness):
    version = await noted(harness, "x" * 1_200_000)
    assert (await write(harness, id="n", local_version=version, tags=["big"])).tags == ["big"]


async def test_too_large_note_from_elsewhere_can_shrink_and_not_grow(harness):
    version = await noted(harness, "first line\n" + "x" * 1_200_000)
    answer = await write(harness, id="n", find="first line\n", replace="")
    assert harness.store.text("n") == "x" * 1_200_000
    assert answer.local_version > version
    with pytest.raises(InvalidRequest) as caught:
        await write(harness, id="n", append="more")
    assert caught.value.subcategory == "too_large"


async def test_megabyte_and_hundred_tags_go_through(harness):
    await harness.sync()
    text = "0123456789abcde\n" * 65_536
    answer = await write(harness, text=text, tags=[f"t{n}" for n in range(100)], return_text=True)
    assert harness.store.text(answer.id) == text
    assert len(answer.tags) == 100
    assert answer.text_is_partial
    assert len(answer.text) < 70_000


async def test_what_the_service_stores_differently_is_reported_by_lines_and_to_the_person(harness):
    version = await noted(harness, "one\ntwo\nthree\n")
    harness.store.rewrite = lambda fields: fields | {"text": fields["text"].replace("\0", "")}
    answer = await write(harness, id="n", local_version=version, text="one\nt\0wo\nthree\n\0\n")
    assert answer.note.startswith("stored differently: lines 2, 4. ")
    assert harness.store.text("n") == "one\ntwo\nthree\n\n"
    assert shown(answer) == [(2, "two\nthree\n\n")]
    assert (answer.merged, answer.conflict_copy_id) == (None, None)
    assert len(harness.store.ids()) == 1
    one, notice = collect_stats(harness.app).notices
    assert (one, notice.partition(" writes")[0]) == ("one", "The note store has stored 1")


async def test_a_creation_stored_differently_is_reported_when_it_is_repeated(harness):
    await harness.sync()
    harness.store.rewrite = lambda fields: fields | {"text": fields["text"].upper()}
    harness.remote.faults.plan(Fault.LOST_ANSWER, on="push")
    with pytest.raises(OutcomeUnknown):
        await write(harness, text="new\n")
    answer = await write(harness, text="new\n", return_text=True)
    assert answer.note.startswith("stored differently: line 1. ")
    assert (answer.text, answer.merged) == ("NEW\n", None)
    assert len(harness.store.ids()) == 1


async def test_no_more_lines_are_named_than_an_agent_needs(harness):
    await harness.sync()
    harness.store.rewrite = lambda fields: {
        **fields,
        "text": fields["text"].upper(),
        "tags": [tag.upper() for tag in fields["tags"]],
    }
    answer = await write(harness, text="".join(f"line {n}\n" for n in range(9)), tags=["a"])
    assert answer.note.startswith("stored differently: lines 1, 2, 3 and 6 more, tags. ")


@pytest.mark.parametrize("spaced", [True, False])
async def test_a_tag_of_two_words_is_taken_where_the_store_has_such_tags(tmp_path, spaced):
    harness = ToolHarness(tmp_path, spaced_tags=spaced)
    with nullcontext() if spaced else pytest.raises(InvalidRequest, match="white space"):
        saved = await write(harness, text="x", tags=["two words"])
        assert harness.store.contents()[saved.id].tags == ("two words",)
    harness.close()
