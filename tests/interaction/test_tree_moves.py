"""Trilium's tree: notes move to other places, none is ever without one, and one undo brings all back."""

from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError

from mcp_notarium.domain.policy import Policy, Visibility
from mcp_notarium.domain.write_scope import WriteScope
from notarium_devtools.http_faults import CutAfter, CutBefore, Status
from support.bulk_results import rows_of
from support.undo_places import PLACES

pytestmark = pytest.mark.anyio
TREE = {
    "Work": ["root"],
    "Plans": ["Work"],
    "Archive": ["root"],
    "PlanA": ["Plans"],
    "PlanB": ["Plans"],
    "Twice": ["Plans", "Archive"],
}


def plant(place, tree=None):
    """Make these notes at their places."""
    document = place.sim.document
    for name, parents in (tree or TREE).items():
        place.sim.write(name, f"{name} title", f"<p>{name} text</p>")
        for parent in parents:
            document.place(name, parent)
        if "root" not in parents:
            document.unplace(document.branches[f"root_{name}"])


def inherit(place, note_id, name, value=""):
    """Give a note a label that those below it inherit."""
    place.sim.document.set_attribute(f"l{note_id}{name}", note_id, "label", name, value)
    place.sim.document.attributes[f"l{note_id}{name}"].inheritable = True


def above(place, note_id):
    """Return the ids of the notes above one."""
    return [one.parent_id for one in place.sim.document.parents(note_id)]


async def change(place, **arguments):
    """Change notes; return the answer, or what the refusal says."""
    answer = await place.call("manage", action="change", confirm=True, **arguments)
    return json.loads(answer["error"]) if "error" in answer else answer


async def undo(place, answer):
    """Take a change of many notes back."""
    return await place.call("manage", action="undo", change_id=answer["change_id"], confirm=True)


async def test_notes_move_by_id_or_path_with_their_tags_and_one_undo_brings_all_back(tmp_path):
    def put(place):
        plant(place)
        inherit(place, "Plans", "plan", "open")
        inherit(place, "Archive", "old")
        document = place.sim.document
        document.branches["Plans_PlanA"].prefix = "first"
        document.branches["Plans_PlanA"].position = 5
        document.branches["Plans_PlanA"].expanded = True
        document.branches["Plans_PlanB"].position = 0

    async with PLACES["trilium"](tmp_path, put) as place:
        document = place.sim.document
        asked = {"ids": ["PlanA", "PlanB"], "folder": "Archive title"}
        dry = await change(place, **asked, dry_run=True)
        assert (dry["status"], dry["notes"], above(place, "PlanA")) == ("dry_run", 2, ["Plans"])
        moved = await change(place, **asked, add_tags=["done"])
        assert (moved["status"], moved["notes"]) == ("changed", 2)
        assert above(place, "PlanA") == above(place, "PlanB") == ["Archive"]
        there = document.branches["Archive_PlanA"]
        assert (there.prefix, there.expanded) == ("first", True)
        note = await place.call("get", id="PlanA")
        assert (note["tags"], note.get("properties")) == (["done", "old"], None)
        assert [one.name for one in document.owned("PlanA")] == ["done"]
        again = await change(place, **asked, add_tags=["done"])
        assert again["status"] == "unchanged"
        none = await change(place, query="nowhere", folder="Archive")
        assert "no note is found" in none["note"]
        assert (await undo(place, moved))["status"] == "undone"
        assert above(place, "PlanA") == above(place, "PlanB") == ["Plans"]
        back = document.branches["Plans_PlanA"]
        assert (back.prefix, back.position, back.expanded) == ("first", 5, True)
        assert document.branches["Plans_PlanB"].position == 0
        note = await place.call("get", id="PlanA")
        assert (note["tags"], note["properties"]) == (["plan"], {"plan": "open"})
        assert not document.owned("PlanA")
        top = await change(place, ids=["PlanB"], folder="/")
        assert (top["notes"], above(place, "PlanB")) == (1, ["root"])


async def test_a_folder_moves_with_all_below_it_and_alone_by_its_own_undo(tmp_path):
    async with PLACES["trilium"](tmp_path, plant) as place:
        asked = {"action": "move_folder", "folder": "Work title > Plans title"}
        moved = await place.call("manage", **asked, new_folder="Archive", confirm=True)
        assert (moved["status"], above(place, "Plans")) == ("moved", ["Archive"])
        assert above(place, "PlanA") == ["Plans"]
        rows = (await place.call("manage", action="list_folders"))["folders"]
        assert "Archive title > Plans title" in [row.get("title") for row in rows]
        version = await place.version("Plans")
        undone = await place.call(
            "manage", action="undo", id="Plans", local_version=version, confirm=True
        )
        assert (undone["status"], above(place, "Plans")) == ("undone", ["Work"])
        assert "place in the tree" in undone["note"]


async def test_what_cannot_move_stays_and_says_why(tmp_path):
    tree = TREE | {"Launcher": ["_options"]}
    async with PLACES["trilium"](tmp_path, lambda place: plant(place, tree)) as place:
        below = await change(place, ids=["Work"], folder="PlanA")
        assert "below itself" in rows_of(below)[0]["reason"]
        twice = await change(place, ids=["Twice"], folder="Work")
        assert "several places" in rows_of(twice)[0]["reason"]
        there = await change(place, ids=["Twice"], folder="Plans")
        assert there["status"] == "unchanged"
        system = await change(place, ids=["PlanA"], folder="Launcher")
        assert "Trilium's own" in rows_of(system)[0]["reason"]
        assert (system["status"], system["notes"]) == ("unchanged", 0)
        assert "`list_folders`" in system["note"]
        top = await place.call("manage", action="move_folder", folder="/", new_folder="Work")
        assert "top cannot move" in top["error"]
        for folder in ("_hidden", "nowhere", "Plans title"):
            refused = await change(place, ids=["PlanA"], folder=folder)
            assert refused["subcategory"] == "folder"
            assert "`list_folders`" in refused["resolution_hint"]
        assert above(place, "PlanA") == ["Plans"]
        assert above(place, "Twice") == ["Plans", "Archive"]


@pytest.mark.parametrize(("fault", "labels"), [(CutBefore(), 0), (CutAfter(), 0), (Status(500), 1)])
@pytest.mark.parametrize("method", ["POST", "DELETE", "GET"])
async def test_a_move_that_is_cut_off_anywhere_loses_nothing_and_is_finished(
    tmp_path, method, fault, labels
):
    async with PLACES["trilium"](tmp_path, plant) as place:
        for number in range(labels):
            inherit(place, "Work", f"work{number}", "open")
        await place.harness.sync()
        place.sim.faults.add(fault, method=method, path="/etapi/branches*", times=20)
        await change(place, ids=["Plans"], folder="Archive")
        assert {"Plans", "PlanA", "PlanB"} <= place.sim.document.notes.keys()
        assert set(above(place, "Plans")) & {"Work", "Archive"}
        place.sim.faults.clear()
        await place.harness.sync()
        assert len(above(place, "Plans")) == 1  # the journal finishes it, or nothing was sent
        done = await change(place, ids=["Plans"], folder="Archive")
        assert done["status"] in ("changed", "unchanged")
        assert above(place, "Plans") == ["Archive"]
        assert {"Plans", "PlanA", "PlanB"} <= place.sim.document.notes.keys()


async def test_the_old_place_stays_if_somebody_takes_the_new_one_away(tmp_path):
    async with PLACES["trilium"](tmp_path, plant) as place:
        document = place.sim.document

        def take_away(request):
            if request.method == "GET" and "Archive_Plans" in document.branches:
                document.unplace(document.branches["Archive_Plans"])

        place.sim.before_request = take_away
        await change(place, ids=["Plans"], folder="Archive")
        assert above(place, "Plans") == ["Work"]
        assert not [one for one in place.sim.requests if one.method == "DELETE"]
        place.sim.before_request = lambda _request: None
        await place.harness.sync()
        assert {"Plans", "PlanA", "PlanB"} <= document.notes.keys()


async def test_a_note_that_goes_with_its_last_place_is_brought_back(tmp_path):
    async with PLACES["trilium"](tmp_path, plant) as place:
        document = place.sim.document

        def take_away(request):
            if request.method == "DELETE" and "Archive_Plans" in document.branches:
                document.unplace(document.branches["Archive_Plans"])

        place.sim.before_request = take_away
        await change(place, ids=["Plans"], folder="Archive")
        assert above(place, "Plans") == ["Work"]
        assert above(place, "PlanA") == ["Plans"]


async def test_a_note_that_goes_with_the_one_it_was_moved_below_comes_back_with_that(tmp_path):
    async with PLACES["trilium"](tmp_path, plant) as place:
        document = place.sim.document

        def delete(_request):
            if "Archive_PlanA" in document.branches and "Plans_PlanA" not in document.branches:
                document.delete("Archive")

        place.sim.before_request = delete
        left = await change(place, ids=["PlanA"], folder="Archive")
        assert left["subcategory"] == "in_doubt"
        assert "PlanA" not in document.notes
        assert {"Archive", "PlanA"} <= {*document.undelete("Archive")}
        assert above(place, "PlanA") == ["Archive"]


async def test_a_note_that_a_person_has_moved_since_the_last_sync_moves_from_there(tmp_path):
    async with PLACES["trilium"](tmp_path, plant) as place:
        place_below(place.sim.document, "PlanB", "Work", leaves=["Plans"])
        moved = await change(place, ids=["PlanB"], folder="Archive")
        assert (moved["notes"], above(place, "PlanB")) == (1, ["Archive"])
        assert (await undo(place, moved))["notes"] == 1
        assert above(place, "PlanB") == ["Work"]


def place_below(document, note_id, parent, *, leaves=()):
    """Give a note a place as a person does, and take it from others."""
    document.place(note_id, parent)
    for one in leaves:
        if branch := document.branches.get(f"{one}_{note_id}"):
            document.unplace(branch)


def take_new_away(document, n):
    """Take a note from its new place, if it is there."""
    if branch := document.branches.get(f"New{n}_Note{n}"):
        document.unplace(branch)


PEOPLE = {
    "moves it": lambda document, n: place_below(document, f"Note{n}", "Third", leaves=[f"Old{n}"]),
    "clones it": lambda document, n: place_below(document, f"Note{n}", "Third"),
    "moves the place below it": lambda document, n: place_below(
        document, f"New{n}", f"Note{n}", leaves=["root"]
    ),
    "takes it from the new place": take_new_away,
}
FIRST = 12
"""The request of a move from which on it is not planned any more, but made."""


@pytest.mark.parametrize("does", PEOPLE)
async def test_whatever_a_person_does_to_the_tree_meanwhile_no_note_is_lost_cloned_or_in_a_circle(
    tmp_path, does
):
    async with PLACES["trilium"](
        tmp_path, lambda place: plant(place, {"Third": ["root"]})
    ) as place:
        document, sent, had = place.sim.document, [], {}
        for number in range(FIRST, 99):
            old, new, note, below = (f"{one}{number}" for one in ("Old", "New", "Note", "Below"))
            plant(place, {old: ["root"], new: ["root"], note: [old], below: [note]})
            await place.call("get", id=note)
            sent.clear()

            def act(request, number=number, note=note):
                sent.append(request)
                if len(sent) == number:
                    had[note] = above(place, note)
                    PEOPLE[does](document, number)

            place.sim.before_request = act
            answer = await change(place, ids=[note], folder=new)
            place.sim.before_request = lambda _request: None
            if note not in had:
                break
            if note not in document.notes:  # it was deleted where it had arrived
                assert (does, had[note]) == ("takes it from the new place", [new])
                continue
            there = {*above(place, note)}
            assert below in document.notes
            assert document.below_root(note)
            assert not {old, new} <= there
            if had[note] == [old]:  # ours came second
                assert does != "clones it" or there == {old, "Third"}
                assert does != "moves it" or there == {new}
            if answer.get("notes") == 1:
                assert new in there
            if answer.get("refused"):
                assert new not in there
        assert number > FIRST + 9


async def test_a_note_does_not_come_to_stand_below_itself_while_others_move_too(tmp_path):
    async with PLACES["trilium"](tmp_path, plant) as place:
        document = place.sim.document

        def put_below(request):
            if (
                request.path.startswith("/etapi/branches")
                and "Plans_Archive" not in document.branches
            ):
                document.place("Archive", "Plans")

        place.sim.before_request = put_below
        left = await change(place, ids=["Plans"], folder="Archive")
        assert rows_of(left)[0]["status"] == "refused"
        assert above(place, "Plans") == ["Work"]


@pytest.mark.parametrize("profile", ["", "agent"])
async def test_no_note_leaves_what_rules_of_the_policy_keep(tmp_path, profile):
    tree = TREE | {"Secret": ["root"], "Under": ["Secret"], "Odd": ["Plans"], "OddBelow": ["Odd"]}

    def put(place):
        plant(place, tree)
        inherit(place, "Secret", "private")
        inherit(place, "Archive", "agent")
        inherit(place, "Plans", "agent")
        inherit(place, "Work", "private2")

    visibility = Visibility(hidden_tags=("private",))
    policy = Policy(visibility=visibility, writing=WriteScope(tags=("agent",)))
    policy = Policy().narrowed(profile, policy) if profile else policy
    async with PLACES["trilium"](tmp_path, put, policy) as place:
        for folder in ("Secret", "Secret title", "NoSuch"):
            assert (await change(place, ids=["PlanA"], folder=folder))["subcategory"] == "folder"
        out = await change(place, ids=["PlanA"], folder="/")
        assert "outside of what may be changed" in rows_of(out)[0]["reason"]
        below = await change(place, ids=["Odd"], folder="Archive")
        assert "Notes stand below it" in rows_of(below)[0]["reason"]
        inside = await change(place, ids=["PlanA"], folder="Archive")
        assert (inside["notes"], above(place, "PlanA")) == (1, ["Archive"])
        assert ((await undo(place, inside))["notes"], above(place, "PlanA")) == (1, ["Plans"])
        again = await change(place, ids=["PlanB"], folder="Archive")
        inherit(place, "Plans", "private")  # the person hides the place to which it would go back
        refused = await undo(place, again)
        assert (rows_of(refused)[0]["status"], above(place, "PlanB")) == ("refused", ["Archive"])


@pytest.mark.parametrize("narrowing", [False, True])
async def test_only_notes_below_a_named_one_are_changed_wherever_they_stand_at_that_moment(
    tmp_path, narrowing
):
    scope = WriteScope(below=("Plans",))
    if narrowing:
        scope = WriteScope(below=("Plans", "Archive")).narrowed(WriteScope(below=("Work", "Plans")))
    policy = Policy(writing=scope)
    async with PLACES["trilium"](tmp_path, plant, policy) as place:
        document = place.sim.document

        async def save(note_id):
            answer = await place.call("save", id=note_id, append="more")
            return json.loads(answer["error"]) if "error" in answer else answer

        for note_id in ("Plans", "PlanA"):
            assert "error" not in await save(note_id)
            assert "category" not in await save(note_id)
        for note_id in ("Work", "Archive", "Twice"):
            assert "below notes that the user has named" in (await save(note_id))["resolution_hint"]
            assert b"more" not in document.notes[note_id].content
        # Moved by a person a moment ago: nothing here knows it yet.
        document.place("PlanB", "Archive")
        document.unplace(document.branches["Plans_PlanB"])
        assert (await save("PlanB"))["subcategory"] == "policy"
        document.unplace(document.branches["Archive_Twice"])
        assert "category" not in await save("Twice")
        for ids, folder in ((["PlanA"], "Archive"), (["PlanB"], "Plans"), (["Plans"], "Archive")):
            for dry_run in (True, False):
                moved = await change(place, ids=ids, folder=folder, dry_run=dry_run)
                assert rows_of(moved)[0]["status"] == "refused", (ids, folder, dry_run)
        version = await place.version("PlanB")
        answer = await place.call(
            "manage",
            action="delete_permanently",
            id="PlanB",
            local_version=version,
            confirm=True,
        )
        assert "error" in answer
        assert "PlanB" in document.notes
        new = await place.call("save", title="New", text="x")
        assert "outside of what may be changed" in new["error"]
        inside = await place.call(
            "create_note", parentNoteId="PlanA", title="In", content="x", type="text"
        )
        assert "error" not in inside, inside
        with pytest.raises(MCPError, match="outside of what may be changed"):
            await place.call(
                "create_note", parentNoteId="Archive", title="Out", content="x", type="text"
            )
        within = await change(place, ids=["Twice"], folder="PlanA")
        assert (within["notes"], above(place, "Twice")) == (1, ["PlanA"])
        version = await place.version("Twice")
        gone = await place.call(
            "manage", action="delete_permanently", id="Twice", local_version=version, confirm=True
        )
        assert gone.get("status") == "deleted" or "approve" in str(gone)
