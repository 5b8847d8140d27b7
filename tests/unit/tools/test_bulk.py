"""Changes of many notes: within the policy's limits, cut off and repeated under one name, and undone with what the user was told."""

import asyncio

import pytest

from mcp_notarium.domain.policy import Field, Limits, Mode, Policy, Visibility
from mcp_notarium.errors import (
    ConfirmationRequired,
    InvalidRequest,
    NotPermitted,
    OutcomeUnknown,
    StoreUnavailable,
)
from mcp_notarium.storage.version_table import ROW_BYTES, VersionLimits
from mcp_notarium.tools import bulk, manage
from mcp_notarium.tools.requests import ManageRequest
from support.memory_client import Fault
from support.tool_harness import Caller, ToolHarness

pytestmark = pytest.mark.anyio
IDS = tuple("abcdef")


async def act(harness, action, caller=None, **arguments):
    ids = {"ids": [*arguments["ids"]]} if "ids" in arguments else {}
    request = ManageRequest.model_validate({"action": action} | arguments | ids)
    harness.app.config.policy.require_use("manage", action)
    return await manage.handle(harness.app, request, caller or Caller(agrees=True))


async def filled(harness, *, ids=IDS, tags=("work",)):
    for note_id in ids:
        harness.store.put(note_id, "text", tags=list(tags))
    await harness.sync()
    harness.remote.calls.clear()
    return harness


def held(harness):
    contents = harness.store.contents()
    return {note_id: list(contents[note_id].tags) for note_id in harness.store.ids()}


@pytest.fixture
def make_harness(tmp_path):
    made = []

    def make(**policy):
        made.append(ToolHarness(tmp_path, policy=Policy(**policy)))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


class Leaves(Caller):
    """Goes away after three notes."""

    async def progress(self, done, total, message):
        await super().progress(done, total, message)
        if done == 3:
            raise asyncio.CancelledError


async def test_a_cut_change_goes_on_under_its_name_and_one_undo_takes_all_of_it_back(harness):
    await filled(harness)
    asked = {"ids": IDS, "add_tags": ["x"]}
    with pytest.raises(asyncio.CancelledError):
        await act(harness, "change", Leaves(agrees=True), **asked)
    assert sum("x" in tags for tags in held(harness).values()) == 3
    rest = await act(harness, "change", **asked)
    assert (rest.notes, rest.unchanged, harness.remote.calls.count("push")) == (3, 3, 6)
    undone = await act(harness, "undo", change_id=rest.change_id)
    assert (undone.notes, undone.refused) == (6, None)
    assert held(harness) == {note_id: ["work"] for note_id in IDS}


async def test_a_cut_change_by_a_query_that_finds_less_now_goes_on_under_its_name(harness):
    await filled(harness)
    asked = {"query": "tag:work", "remove_tags": ["work"]}
    with pytest.raises(asyncio.CancelledError):
        await act(harness, "change", Leaves(agrees=True), **asked)
    rest = await act(harness, "change", **asked)
    assert (rest.notes, rest.unchanged) == (3, None)
    assert (await act(harness, "undo", change_id=rest.change_id)).notes == 6


async def test_a_cut_undo_goes_on_and_undoes_no_note_twice(harness):
    await filled(harness)
    done = await act(harness, "change", ids=IDS, add_tags=["x"])
    with pytest.raises(asyncio.CancelledError):
        await act(harness, "undo", Leaves(agrees=True), change_id=done.change_id)
    assert sum("x" in tags for tags in held(harness).values()) == 3
    rest = await act(harness, "undo", change_id=done.change_id)
    assert (rest.notes, rest.unchanged) == (3, 3)
    assert held(harness) == {note_id: ["work"] for note_id in IDS}
    redone = await act(harness, "undo", change_id=rest.change_id)
    assert redone.notes == 6


async def test_a_change_that_is_done_and_asked_for_again_has_another_name(harness):
    await filled(harness, ids="ab")
    asked = {"query": "text", "add_tags": ["x"]}
    first = await act(harness, "change", **asked)
    harness.store.put("c", "text", tags=[])
    await harness.sync()
    second = await act(harness, "change", **asked)
    assert first.change_id != second.change_id
    assert (await act(harness, "undo", change_id=second.change_id)).notes == 1
    assert held(harness) == {"a": ["work", "x"], "b": ["work", "x"], "c": []}


async def test_a_day_later_the_same_call_is_another_change(harness):
    await filled(harness)
    asked = {"ids": IDS, "add_tags": ["x"]}
    with pytest.raises(asyncio.CancelledError):
        await act(harness, "change", Leaves(agrees=True), **asked)
    harness.now += 86_401
    rest = await act(harness, "change", **asked)
    assert (await act(harness, "undo", change_id=rest.change_id)).notes == 3


async def test_another_client_does_not_go_on_with_a_change(harness):
    await filled(harness)
    asked = {"ids": IDS, "add_tags": ["x"]}
    with pytest.raises(asyncio.CancelledError):
        await act(harness, "change", Leaves(agrees=True, client="one"), **asked)
    rest = await act(harness, "change", Caller(agrees=True, client="two"), **asked)
    assert (await act(harness, "undo", change_id=rest.change_id)).notes == 3


@pytest.mark.parametrize("limit", ["writes_per_session", "writes_per_hour"])
async def test_each_note_counts_as_a_write_and_the_rest_waits_for_another_call(make_harness, limit):
    harness = await filled(make_harness(limits=Limits(**{limit: 4})))
    caller = Caller(agrees=True)
    asked = {"ids": IDS, "add_tags": ["x"]}
    answer = await act(harness, "change", caller, **asked)
    assert "Only 4 of them now: no more writes are permitted." in caller.asked[0]
    assert (answer.notes, answer.left) == (4, 2)
    assert answer.note.startswith("Repeat the call for the notes that are left.")
    with pytest.raises(NotPermitted):
        await act(harness, "change", caller, **asked)
    assert len(caller.asked) == 1
    if limit == "writes_per_hour":
        harness.now += 3601
        rest = await act(harness, "change", caller, **asked)
        assert (rest.notes, rest.left, rest.change_id) == (2, None, answer.change_id)
        harness.now += 3601
        undone = await act(harness, "undo", caller, change_id=answer.change_id)
        assert (undone.notes, undone.left) == (4, 2)


async def test_where_notes_can_only_be_read_none_is_changed(make_harness):
    harness = await filled(make_harness(mode=Mode.READ_ONLY))
    for action in ("change", "trash", "undo"):
        with pytest.raises(NotPermitted):
            await act(harness, action, ids=IDS, add_tags=["x"])
    assert harness.remote.calls == []


async def test_hidden_tags_and_texts_are_neither_changed_nor_asked_for(make_harness):
    harness = await filled(make_harness(hidden_fields=frozenset({Field.TAGS, Field.TEXT})))
    for arguments in (
        {"action": "change", "ids": IDS, "add_tags": ["x"]},
        {"action": "change", "ids": IDS, "remove_tags": ["work"]},
        {"action": "trash", "query": "tag:work"},
        {"action": "trash", "query": "text"},
    ):
        with pytest.raises(NotPermitted):
            await act(harness, **arguments)
    assert harness.remote.calls == []


async def test_a_note_that_must_stay_visible_is_left_and_the_others_are_changed(make_harness):
    rules = Visibility(allowed_tags=("work", "home"), untagged=False)
    harness = make_harness(visibility=rules)
    await filled(harness, ids="ab")
    harness.store.put("c", "text", tags=["work", "home"])
    await harness.sync()
    answer = await act(harness, "change", ids="abc", remove_tags=["work"])
    assert (answer.notes, answer.refused) == (1, 2)
    assert "needs another tag" in answer.results[0].reason
    assert held(harness) == {"a": ["work"], "b": ["work"], "c": ["home"]}


@pytest.mark.attack(36)
async def test_the_question_names_the_people_with_whom_notes_would_be_shared(harness):
    await filled(harness)
    caller = Caller(agrees=False)
    with pytest.raises(ConfirmationRequired):
        await act(harness, "change", caller, ids=IDS, add_tags=["eve@example.org"])
    assert "This shares them with “eve@example.org”" in caller.asked[0]
    assert harness.remote.calls == []


@pytest.mark.attack(36)
async def test_an_undo_that_shares_again_says_so_and_shares_with_nobody_else(harness):
    await filled(harness, ids="ab", tags=["eve@example.org"])
    done = await act(harness, "change", ids="ab", remove_tags=["eve@example.org"])
    caller = Caller(agrees=True)
    await act(harness, "undo", caller, change_id=done.change_id)
    assert "This shares them with “eve@example.org”" in caller.asked[0]


@pytest.mark.attack(43)
async def test_a_note_is_not_shared_with_somebody_whom_the_question_did_not_name(harness):
    await filled(harness, ids="ab", tags=["eve@example.org"])

    class Unshares(Caller):
        async def confirm(self, message):
            harness.store.put("a", "text", tags=[])
            await harness.sync()
            return await super().confirm(message)

    caller = Unshares(agrees=True)
    answer = await act(harness, "change", caller, ids="ab", add_tags=["x", "eve@example.org"])
    assert "shares" not in caller.asked[0]
    assert (answer.notes, answer.refused) == (1, 1)
    assert held(harness) == {"a": [], "b": ["eve@example.org", "x"]}


@pytest.mark.attack(36)
async def test_one_answer_holds_for_what_each_note_had_to_lose_when_it_was_asked_for(make_harness):
    harness = make_harness()
    harness.app.cache.versions.limits = VersionLimits(days=0)
    for note_id in IDS:
        harness.store.put(note_id, f"note {note_id}", tags=[] if note_id in "ae" else ["work"])
    await harness.sync()
    asked = {"ids": IDS, "remove_tags": ["work"], "add_tags": ["x"]}
    told = await act(harness, "change", **asked, dry_run=True)
    assert "4 notes would lose for good" in told.note
    rows = [(one, row.reason is not None) for row in told.results for one in row.ids]
    assert rows == [*((one, True) for one in "bcdf"), *((one, False) for one in "ae")]
    assert told.results[0].reason.startswith("it would lose for good: tags (no versions are kept")

    class Meanwhile(Caller):
        async def confirm(self, question):
            harness.store.put("c", "note c", tags=["work", "other"])  # another thing is lost now
            harness.store.put("e", "note e", tags=["work"])  # it had nothing to lose
            harness.store.put("f", "note f, more", tags=["work"])  # the same is lost
            await harness.sync()
            return await super().confirm(question)

    caller = Meanwhile(agrees=True)
    answer = await act(harness, "change", caller, **asked)
    assert len(caller.asked) == 1
    assert "What this replaces in 4 of these notes cannot be brought back." in caller.asked[0]
    assert "tags of note “note b” (id b), note “note c” (id c), note" in caller.asked[0]
    assert "“note a”" not in caller.asked[0]
    assert (
        answer.notes,
        answer.refused,
        sorted(one for row in answer.results if row.status == "refused" for one in row.ids),
    ) == (4, 2, ["c", "e"])
    assert "the question did not name" in answer.results[0].reason
    assert held(harness) == {
        **{key: ["x"] for key in "abdf"},
        "c": ["work", "other"],
        "e": ["work"],
    }
    assert (answer.change_id, "No `undo` takes this back" in answer.note) == (None, True)


@pytest.mark.parametrize(
    ("limits", "promised", "back"),
    [
        (VersionLimits(), "takes all of it back", 6),
        (VersionLimits(size=2 * ROW_BYTES + 50), "takes back what versions are kept of", 3),
        (VersionLimits(days=0), "No `undo` takes this back", None),
    ],
)
async def test_an_undo_is_promised_of_what_versions_are_kept_of(
    make_harness, limits, promised, back
):
    harness = await filled(make_harness())
    harness.app.cache.versions.limits = limits
    asked = {"ids": IDS, "remove_tags": ["work"]}
    done, again = await act(harness, "change", **asked), await act(harness, "change", **asked)
    assert (done.notes, again.notes) == (6, 0)
    assert promised in done.note
    assert promised in again.note
    assert (done.change_id is None, again.change_id is None) == (back is None, back is None)
    if back is not None:
        undone = await act(harness, "undo", change_id=done.change_id)
        assert undone.notes == back


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "change", "query": "tag:work", "remove_tags": ["work"]},
        {"action": "rename_tag", "tag": "work", "new_tag": "job"},
    ],
    ids=lambda one: one["action"],
)
@pytest.mark.parametrize("kept", [6, 3, 0])
async def test_a_repeated_change_whose_notes_are_not_found_any_more_promises_only_what_is_kept(
    make_harness, asked, kept
):
    harness = await filled(make_harness())
    limits = {6: VersionLimits(), 3: VersionLimits(size=2 * ROW_BYTES + 50)}
    harness.app.cache.versions.limits = limits.get(kept, VersionLimits(days=0))
    done, again = await act(harness, **asked), await act(harness, **asked)
    assert (done.notes, again.notes, "all of it" in again.note) == (6, 0, False)
    assert ("takes back what versions are kept of" in again.note) == (kept > 0)
    assert again.change_id == done.change_id


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "change", "query": "tag:work", "remove_tags": ["work"]},
        {"action": "rename_tag", "tag": "work", "new_tag": "job"},
    ],
    ids=lambda one: one["action"],
)
async def test_a_question_about_many_losses_is_bounded_and_tells_how_many(make_harness, asked):
    harness = make_harness()
    await filled(harness, ids=[f"n{number:03}" for number in range(60)])
    harness.app.cache.versions.limits = VersionLimits(days=0)
    caller = Caller(agrees=False)
    with pytest.raises(ConfirmationRequired):
        await act(harness, caller=caller, **asked)
    assert "in all 60" in caller.asked[0]
    assert "and 55 more: no versions are kept" in caller.asked[0]
    assert len(caller.asked[0]) < 800


async def test_versions_that_have_no_room_together_are_asked_about(make_harness):
    """The first notes of a change fill the room: those behind them have none, and nobody is asked later."""
    harness = await filled(make_harness())
    harness.app.cache.versions.limits = VersionLimits(size=2 * ROW_BYTES + 50)
    caller = Caller(agrees=True)
    answer = await act(harness, "change", caller, ids=IDS, remove_tags=["work"])
    assert "What this replaces in 4 of these notes cannot be brought back." in caller.asked[0]
    assert (answer.notes, answer.refused) == (6, None)
    assert harness.remote.calls.count("push") == 6


async def test_the_mode_write_leaves_the_notes_that_would_lose_something_for_good(make_harness):
    harness = await filled(make_harness(mode=Mode.WRITE), ids="ab")
    harness.store.put("b", "text", tags=[])
    await harness.sync()
    harness.app.cache.versions.limits = VersionLimits(days=0)
    answer = await act(harness, "change", ids="ab", add_tags=["x"], remove_tags=["work"])
    assert (answer.notes, answer.refused) == (1, 1)
    assert "cannot be taken back" in answer.results[0].reason
    assert held(harness) == {"a": ["work"], "b": ["x"]}
    renamed = await act(harness, "rename_tag", tag="work", new_tag="y")
    assert (renamed.status, renamed.refused) == ("unchanged", 1)
    assert renamed.note.startswith("Nothing was written: each note with the tag is refused.")


async def test_what_another_device_has_changed_since_is_not_undone(harness):
    await filled(harness, ids="abc")
    done = await act(harness, "change", ids="abc", add_tags=["x"])
    harness.store.put("b", "text of theirs", tags=["work", "x"])
    await harness.sync()
    undone = await act(harness, "undo", change_id=done.change_id)
    assert (undone.notes, undone.refused) == (2, 1)
    assert held(harness) == {"a": ["work"], "b": ["work", "x"], "c": ["work"]}


async def test_a_lost_answer_is_told_with_how_far_it_came_and_the_note_is_of_the_change(harness):
    await filled(harness, ids="abc")
    asked = {"ids": "abc", "add_tags": ["x"]}
    harness.remote.faults.plan(Fault.LOST_ANSWER, on="push")
    with pytest.raises(OutcomeUnknown) as lost:
        await act(harness, "change", **asked)
    assert lost.value.message.startswith("0 of 3 notes were changed, then: ")
    assert (lost.value.details["changed"], lost.value.details["left"]) == (0, 3)
    rest = await act(harness, "change", **asked)
    await harness.sync()
    assert set(map(str, held(harness).values())) == {"['work', 'x']"}
    assert (await act(harness, "undo", change_id=rest.change_id)).notes == 3
    assert held(harness) == {note_id: ["work"] for note_id in "abc"}


async def test_an_unreachable_store_ends_the_change(harness):
    await filled(harness)
    harness.remote.faults.plan(Fault.UNAVAILABLE, times=9)
    with pytest.raises(StoreUnavailable):
        await act(harness, "change", ids=IDS, add_tags=["x"])


async def test_a_note_that_changes_while_the_user_is_asked_is_changed_as_it_is_then(harness):
    await filled(harness, ids="abc")

    class Edits(Caller):
        async def confirm(self, message):
            harness.store.put("a", "text", tags=["other"])
            harness.store.remove("b")
            await harness.sync()
            return await super().confirm(message)

    answer = await act(harness, "change", Edits(agrees=True), ids="abc", add_tags=["x"])
    assert held(harness) == {"a": ["other", "x"], "c": ["work", "x"]}
    assert (answer.notes, answer.refused) == (2, 1)


async def test_an_answer_names_each_note_as_long_as_there_is_room(harness, monkeypatch):
    ids = [f"n{number:03}" for number in range(120)]
    await filled(harness, ids=ids)
    answer = await act(harness, "change", ids=[*ids, "nobody"], add_tags=["x"])
    assert (answer.notes, answer.refused, len(answer.results)) == (120, 1, 2)
    assert answer.results[0].names == ["nobody"]
    assert len({*answer.results[1].ids}) == 120, "each note has its result"
    assert set(answer.changed_ids) == set(ids)
    monkeypatch.setattr(bulk, "MOST_SHOWN", 100)
    again = await act(harness, "rename_tag", tag="x", new_tag="y", dry_run=True)
    [row] = again.results
    assert (row.status, len(row.ids), row.more) == ("would change", 100, 20)


async def test_a_renaming_of_a_tag_is_taken_back_by_one_undo(harness):
    await filled(harness)
    done = await act(harness, "rename_tag", tag="work", new_tag="job")
    await act(harness, "undo", change_id=done.change_id)
    assert held(harness) == {note_id: ["work"] for note_id in IDS}


async def test_the_last_eight_unfinished_changes_are_known_and_no_more(harness):
    await filled(harness)
    for number in range(12):
        with pytest.raises(asyncio.CancelledError):
            await act(harness, "change", Leaves(agrees=True), ids=IDS, add_tags=[f"x{number}"])
    kept = harness.app.cache.change_records._changes()
    assert len(kept) == 8


async def test_an_undo_without_a_note_or_a_change_says_what_it_needs(harness):
    await filled(harness)
    with pytest.raises(InvalidRequest, match="change_id"):
        await act(harness, "undo", change_id="f" * 16)
    with pytest.raises(InvalidRequest, match="`undo` needs `id`"):
        await act(harness, "undo")
