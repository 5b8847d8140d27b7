"""Tags over all notes: counted in one call, renamed after one question, never past the policy."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.policy import Field, Limits, Policy, Visibility
from mcp_notarium.errors import (
    ConfirmationRequired,
    InvalidRequest,
    NotPermitted,
    OutcomeUnknown,
    StillLoading,
    StoreUnavailable,
)
from mcp_notarium.protocol.call_pipeline import success
from mcp_notarium.tools import manage
from mcp_notarium.tools import tags as tags_
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.tool import ToolNames
from support.memory_client import Fault
from support.tool_harness import Caller, ToolHarness

pytestmark = pytest.mark.anyio


async def act(harness, action, caller=None, **arguments):
    request = ManageRequest.model_validate({"action": action} | arguments)
    return await manage.handle(harness.app, request, caller or Caller(agrees=True))


async def filled(harness, **notes):
    for note_id, tags in notes.items():
        harness.store.put(note_id, "text", tags=tags.split(), trash=note_id.startswith("t"))
    await harness.sync()
    harness.remote.calls.clear()
    return harness


def held(harness):
    return {
        note_id: list(harness.store.contents()[note_id].tags) for note_id in harness.store.ids()
    }


@pytest.fixture
def make_harness(tmp_path):
    made = []

    def make(**policy):
        made.append(ToolHarness(tmp_path, policy=Policy(**policy)))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


async def test_all_tags_are_counted_in_one_call_without_asking_the_store(harness):
    await filled(harness, a="Work home", b="work", t="work gone")
    answer = await act(harness, "list_tags")
    assert (answer.tags, answer.total, answer.next_page) == ({"Work": 2, "home": 1}, 2, None)
    assert list(answer.tags) == ["Work", "home"]
    assert harness.remote.calls == []
    value = success(answer, ToolNames()).value
    assert value["begin_untrusted"].startswith(value["untrusted_end"])


async def test_many_tags_come_in_pages(harness, monkeypatch):
    monkeypatch.setattr(tags_, "MOST_TAGS", 2)
    await filled(harness, a="a b c d e")
    pages = [await act(harness, "list_tags", page=page) for page in (1, 2, 3, 4)]
    assert [list(page.tags) for page in pages] == [["a", "b"], ["c", "d"], ["e"], []]
    assert [page.next_page for page in pages] == [2, 3, None, None]
    assert {page.total for page in pages} == {5}


async def test_a_tag_is_marked_as_data_and_what_cannot_be_seen_in_it_is_named(harness):
    harness.store.put("a", "text", tags=["go\u200bod"])
    await harness.sync()
    value = success(await act(harness, "list_tags"), ToolNames()).value
    assert value["findings"] == [{"kind": "zero_width", "count": 1, "where": "tags"}]


async def test_hidden_notes_add_no_tag_and_no_count(make_harness):
    rules = Visibility(hidden_tags=("private",))
    harness = await filled(
        make_harness(visibility=rules), a="work", b="work private", c="secret private"
    )
    assert (await act(harness, "list_tags")).tags == {"work": 1}
    for tag in ("private", "secret", "nowhere"):
        answer = await act(harness, "rename_tag", tag=tag, new_tag="x", dry_run=True)
        assert (answer.status, answer.notes) == ("dry_run", 0)
    await act(harness, "rename_tag", tag="work", new_tag="job")
    assert held(harness) == {"a": ["job"], "b": ["work", "private"], "c": ["secret", "private"]}


async def test_a_renaming_neither_hides_a_note_nor_lifts_what_shows_it(make_harness):
    rules = Visibility(hidden_tags=("private",), allowed_tags=("work",), untagged=False)
    harness = await filled(make_harness(visibility=rules), a="work other", b="work")
    caller = Caller(agrees=True)
    for tag, new_tag in (("other", "private"), ("work", "job")):
        with pytest.raises(NotPermitted):
            await act(harness, "rename_tag", caller, tag=tag, new_tag=new_tag)
    assert caller.asked == []
    assert "push" not in harness.remote.calls


@pytest.mark.parametrize("action", ["list_tags", "rename_tag"])
async def test_hidden_tags_are_neither_counted_nor_renamed(make_harness, action):
    harness = await filled(make_harness(hidden_fields=frozenset({Field.TAGS})), a="work")
    with pytest.raises(NotPermitted):
        await act(harness, action, tag="work", new_tag="x")


async def test_nothing_is_renamed_before_all_notes_are_here(harness, monkeypatch):
    await filled(harness, a="work")
    partly = replace(harness.app.library.status(), complete=False, loaded=1)
    monkeypatch.setattr(harness.app.scheduler, "status", lambda: partly)
    with pytest.raises(StillLoading):
        await act(harness, "rename_tag", tag="work", new_tag="x")


@pytest.mark.parametrize(
    ("tags", "old", "new", "after"),
    [
        ("a b c", "b", "x", "a x c"),
        ("a b c", "B", "x", "a x c"),
        ("b a B", "b", "x", "x a"),
        ("a B", "a", "b", "B"),
        ("B a", "a", "b", "B"),
        ("Work work", "work", "WORK", "WORK"),
        ("Work", "work", "work", "work"),
        ("a", "b", "x", "a"),
    ],
)
def test_the_new_tag_stands_where_the_old_one_stood_and_only_once(tags, old, new, after):
    assert tags_.renamed(tags.split(), old, new) == tuple(after.split())


async def test_one_question_renames_the_tag_in_all_notes_and_merges_it(harness):
    await filled(harness, a="Work home", b="work job", t1="work", c="other")
    caller = Caller(agrees=True)
    answer = await act(harness, "rename_tag", caller, tag="work", new_tag="Job")
    assert caller.asked == [
        "Rename the tag “work” to “Job” in 3 notes (1 in the trash, 1 with both tags)?"
    ]
    assert (answer.status, answer.notes, answer.left) == ("renamed", 3, None)
    assert held(harness) == {"a": ["Job", "home"], "b": ["job"], "t1": ["Job"], "c": ["other"]}
    assert set(success(answer, ToolNames()).notes) == {"a", "b", "t1"}
    again = await act(harness, "rename_tag", caller, tag="work", new_tag="Job")
    assert (again.status, again.notes, len(caller.asked)) == ("unchanged", 0, 1)


async def test_a_dry_run_counts_and_does_nothing(harness):
    await filled(harness, a="work", b="work")
    caller = Caller()
    answer = await act(harness, "rename_tag", caller, tag="work", new_tag="x", dry_run=True)
    assert (answer.status, answer.notes) == ("dry_run", 2)
    assert "“work” to “x” in 2 notes" in answer.note
    assert (caller.asked, harness.remote.calls) == ([], [])


async def test_nothing_is_renamed_without_consent_or_under_a_name_that_is_no_tag(harness):
    await filled(harness, a="work")
    for caller in (Caller(), Caller(agrees=False)):
        with pytest.raises(ConfirmationRequired):
            await act(harness, "rename_tag", caller, tag="work", new_tag="x")
    for arguments in ({"tag": "work"}, {"new_tag": "x"}, {"tag": "work", "new_tag": "two words"}):
        with pytest.raises(InvalidRequest):
            await act(harness, "rename_tag", **arguments)
    assert held(harness) == {"a": ["work"]}


async def test_the_question_says_with_whom_the_notes_would_be_shared(harness):
    await filled(harness, a="work", b="work")
    caller = Caller(agrees=False)
    with pytest.raises(ConfirmationRequired):
        await act(harness, "rename_tag", caller, tag="work", new_tag="eve@example.org")
    assert caller.asked[0].endswith(
        "shares them with “eve@example.org” (an e-mail address as a tag)."
    )


async def test_a_cancelled_renaming_goes_on_where_it_ended_and_writes_no_note_twice(harness):
    await filled(harness, **{f"n{number}": "work" for number in range(6)})

    class Leaves(Caller):
        async def progress(self, done, total, message):
            await super().progress(done, total, message)
            if done == 3:
                raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await act(harness, "rename_tag", Leaves(agrees=True), tag="work", new_tag="x")
    assert sorted(map(str, held(harness).values())) == ["['work']"] * 3 + ["['x']"] * 3
    answer = await act(harness, "rename_tag", tag="work", new_tag="x")
    assert (answer.notes, harness.remote.calls.count("push")) == (3, 6)
    assert set(map(str, held(harness).values())) == {"['x']"}


async def test_a_lost_answer_is_told_with_how_far_it_came_and_repeated_without_a_second_effect(
    harness,
):
    await filled(harness, a="work", b="work", c="work")
    caller = Caller(agrees=True)
    await act(harness, "rename_tag", caller, tag="work", new_tag="warm-up")
    harness.remote.faults.plan(Fault.LOST_ANSWER, on="push")
    with pytest.raises(OutcomeUnknown) as lost:
        await act(harness, "rename_tag", caller, tag="warm-up", new_tag="x")
    assert lost.value.message.startswith("0 of 3 notes were renamed, then: ")
    assert (lost.value.details["renamed"], lost.value.details["left"]) == (0, 3)
    assert lost.value.resolution_hint.endswith("Repeat the call for the rest.")
    await act(harness, "rename_tag", caller, tag="warm-up", new_tag="x")
    await harness.sync()
    assert held(harness) == {"a": ["x"], "b": ["x"], "c": ["x"]}
    assert {harness.store.kept(note_id).head for note_id in "abc"} == {3}


async def test_an_unreachable_store_ends_the_renaming(harness):
    await filled(harness, a="work")
    harness.remote.faults.plan(Fault.UNAVAILABLE, times=9)
    with pytest.raises(StoreUnavailable) as ended:
        await act(harness, "rename_tag", tag="work", new_tag="x")
    assert ended.value.message.startswith("0 of 1 notes were renamed, then: ")


async def test_a_note_that_the_store_refuses_is_left_and_the_others_are_renamed(harness):
    await filled(harness, a="work", b="work")
    harness.remote.faults.plan(Fault.REJECTED, on="push")
    answer = await act(harness, "rename_tag", tag="work", new_tag="x")
    assert (answer.status, answer.notes, answer.left) == ("renamed", 1, 1)
    assert (answer.results[0].status, answer.results[0].ids) == ("refused", ["b"])
    assert held(harness) == {"a": ["x"], "b": ["work"]}


@pytest.mark.parametrize("limit", ["writes_per_session", "writes_per_hour"])
async def test_each_note_counts_as_a_write_and_the_rest_waits_for_another_call(make_harness, limit):
    harness = await filled(make_harness(limits=Limits(**{limit: 2})), a="work", b="work", c="work")
    caller = Caller(agrees=True)
    answer = await act(harness, "rename_tag", caller, tag="work", new_tag="x")
    assert "Only 2 of them now" in caller.asked[0]
    assert (answer.notes, answer.left) == (2, 1)
    assert sorted(map(str, held(harness).values())) == ["['work']", "['x']", "['x']"]
    with pytest.raises(NotPermitted):
        await act(harness, "rename_tag", caller, tag="work", new_tag="x")
    assert len(caller.asked) == 1
    harness.now += 3601
    if limit == "writes_per_hour":
        assert (await act(harness, "rename_tag", caller, tag="work", new_tag="x")).notes == 1


async def test_a_note_that_changes_while_the_user_is_asked_is_taken_as_it_is_then(harness):
    await filled(harness, a="work", b="work", c="work")

    class Edits(Caller):
        async def confirm(self, message):
            harness.store.put("a", "text", tags=["other"])
            harness.store.remove("b")
            await harness.sync()
            return await super().confirm(message)

    answer = await act(harness, "rename_tag", Edits(agrees=True), tag="work", new_tag="x")
    assert (answer.notes, harness.remote.calls.count("push")) == (1, 1)
    assert held(harness) == {"a": ["other"], "c": ["x"]}


async def test_progress_is_reported_a_hundred_times_at_most(harness):
    await filled(harness, **{f"n{number}": "work" for number in range(8)})
    caller = Caller(agrees=True)
    await act(harness, "rename_tag", caller, tag="work", new_tag="x")
    assert len(caller.progress_messages) == 8
