"""Folders that are no notes, with ids: the notebooks of the worked example list, take notes, and give them back."""

from __future__ import annotations

import json

import pytest

from mcp_notarium.domain.policy import Policy, Visibility
from mcp_notarium.domain.write_scope import WriteScope
from notarium_devtools.http_faults import CutAfter, CutBefore, Status
from notarium_devtools.jotter.simulator import INBOX
from support.bulk_results import rows_of
from support.undo_places import PLACES

pytestmark = pytest.mark.anyio


def plant(place):
    """Make notebooks and notes in them."""
    place.sim.write_notebook("work", "Work")
    place.sim.write_notebook("plans", "Plans", "work")
    place.sim.write_notebook("empty", "Empty")
    for note_id, notebook in (("one", "plans"), ("two", "plans"), ("three", INBOX)):
        place.sim.write(note_id, title=note_id, body=f"{note_id}\n", parent_id=notebook)
    place.sim.write("gone", parent_id="empty", deleted_time=1)


def lies_in(place, note_id):
    return place.sim.notes[note_id]["parent_id"]


async def manage(place, **arguments):
    """Call ``manage``; return the answer, or what the refusal says."""
    answer = await place.call("manage", **arguments)
    return json.loads(answer["error"]) if "error" in answer else answer


async def change(place, **arguments):
    return await manage(place, action="change", confirm=True, **arguments)


async def test_notebooks_are_listed_and_notes_move_by_id_or_path_and_back(tmp_path):
    async with PLACES["jotter"](tmp_path, plant) as place:
        listed = (await manage(place, action="list_folders"))["folders"]
        assert [tuple(row.values()) for row in listed] == [
            ("empty", "Empty", 0, 0),
            ("inbox", "Inbox", 1, 1),
            ("work", "Work", 0, 2),
            ("plans", "Work/Plans", 2, 2),
        ]
        moved = await change(place, ids=["one", "three"], folder="Work")
        assert (moved["notes"], lies_in(place, "one"), lies_in(place, "three")) == (
            2,
            "work",
            "work",
        )
        note = await place.call("get", id="one")
        assert note["in_app"] == {"notebook": "Work"}
        again = await change(place, ids=["one", "three"], folder="work")
        assert again["status"] == "unchanged"
        undone = await manage(place, action="undo", change_id=moved["change_id"], confirm=True)
        assert (undone["notes"], lies_in(place, "one"), lies_in(place, "three")) == (
            2,
            "plans",
            INBOX,
        )
        await change(place, ids=["two"], folder="empty")
        history = await manage(place, action="history", id="two")
        assert history["history"][0]["changed"] == "notebook"
        await manage(place, action="undo", id="two", confirm=True)
        assert (lies_in(place, "two"), place.sim.notes["two"]["body"]) == ("plans", "two\n")


async def test_what_cannot_move_stays_and_says_why(tmp_path):
    async with PLACES["jotter"](tmp_path, plant) as place:
        place.sim.write_notebook("twin", "Plans", "work")
        for folder, said in (
            ("Nowhere", "No notebook"),
            ("Work/Plans", "Several"),
            ("/", "No notebook"),
        ):
            refused = await change(place, ids=["three"], folder=folder)
            assert refused["subcategory"] == "folder"
            assert said in refused["message"]
        refused = await manage(place, action="move_folder", folder="Work", new_folder="Empty")
        assert "move only there" in refused["message"]
        place.sim.remove("one")
        refused = await change(place, ids=["one"], folder="Empty")
        assert rows_of(refused)[0]["status"] == "refused"
        assert lies_in(place, "three") == INBOX


@pytest.mark.parametrize("fault", [CutBefore(), CutAfter(), Status(500)])
@pytest.mark.parametrize("method", ["PUT", "GET"])
async def test_a_move_that_is_cut_off_is_finished_and_keeps_what_was_written(
    tmp_path, method, fault
):
    async with PLACES["jotter"](tmp_path, plant) as place:
        await place.harness.sync()
        place.sim.faults.add(fault, method=method, path="/notes/one", times=20)
        await change(place, ids=["one"], folder="Empty")
        place.sim.faults.clear()
        place.sim.write("one", body="one\ntheirs\n")
        await place.harness.sync()
        done = await change(place, ids=["one"], folder="Empty")
        assert done["status"] in ("changed", "unchanged")
        assert (lies_in(place, "one"), place.sim.notes["one"]["body"]) == ("empty", "one\ntheirs\n")


async def test_a_note_that_a_person_has_moved_since_the_last_sync_moves_from_there(tmp_path):
    async with PLACES["jotter"](tmp_path, plant) as place:
        place.sim.write("two", parent_id="work")
        moved = await change(place, ids=["two"], folder="Empty")
        assert (moved["notes"], lies_in(place, "two")) == (1, "empty")
        await manage(place, action="undo", change_id=moved["change_id"], confirm=True)
        assert lies_in(place, "two") == "work"


async def test_a_notebook_of_hidden_notes_is_neither_listed_nor_a_place(tmp_path):
    policy = Policy(visibility=Visibility(hidden_ids=("three",)))
    async with PLACES["jotter"](tmp_path, plant, policy) as place:
        listed = (await manage(place, action="list_folders"))["folders"]
        assert [row["folder"] for row in listed] == ["work", "plans"]
        refused = await change(place, ids=["one"], folder=INBOX)
        missing = await change(place, ids=["one"], folder="nowhere")
        assert refused["message"] == missing["message"]
        assert lies_in(place, "one") == "plans"


async def test_only_notes_in_a_named_notebook_are_changed_wherever_they_lie_at_that_moment(
    tmp_path,
):
    policy = Policy(writing=WriteScope(below=("work",)))
    async with PLACES["jotter"](tmp_path, plant, policy) as place:
        assert "error" not in await place.call("save", id="one", append="more")
        assert "error" in await place.call("save", id="three", append="more")
        place.sim.write("two", parent_id="empty")  # nothing here knows it yet
        assert "error" in await place.call("save", id="two", append="more")
        assert "error" in await place.call("save", title="New", text="new\n")
        for note_id, folder in (("three", "work"), ("one", "empty")):
            refused = await change(place, ids=[note_id], folder=folder)
            assert rows_of(refused)[0]["status"] == "refused"
        assert (await change(place, ids=["one"], folder="work"))["notes"] == 1
        changed = [one for one, note in place.sim.notes.items() if "more" in note["body"]]
        assert changed == ["one"]
