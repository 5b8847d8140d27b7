"""What stands below a shared note of Trilium is public: a person is asked before an agent puts anything there."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from mcp_notarium.domain.policy import Policy, Visibility
from mcp_notarium.storage.approval_table import ApprovalTable
from mcp_notarium.tools.toolsets import find_toolset
from notarium_devtools.http_faults import CutBefore
from support.bulk_results import rows_of
from support.tool_client import connected
from support.undo_places import PLACES

pytestmark = pytest.mark.anyio
TREE = {
    "Blog": ["root", "_share"],
    "Post": ["Blog"],
    "Draft": ["Post"],
    "Work": ["root"],
    "Plan": ["Work"],
    "Below": ["Plan"],
    "Other": ["Work"],
    "Trip": ["Work"],
    "Map": ["Trip"],
}
DAY = {"id": "daily:2025-06-20", "append": "milk"}
LOGIN = "shareCredentials"


def plant(place):
    """Make a blog that everybody may read, its drafts with a password, the calendar below it; and other notes."""
    document = place.sim.document
    for name, parents in TREE.items():
        place.sim.write(name, f"{name} title", f"<p>{name} text</p>")
        for parent in parents:
            document.place(name, parent)
        if "root" not in parents:
            document.unplace(document.branches[f"root_{name}"])
    document.set_attribute("pass1", "Draft", "label", LOGIN, "me:secret")
    document.set_attribute("cal1", "Post", "label", "calendarRoot", "")


def public(place):
    """Return the notes that everybody may read."""
    document = place.sim.document

    def is_public(note_id):
        above = [one.parent_id for one in document.parents(note_id)]
        return "_share" in above or any(map(is_public, above))

    locked = {one.note_id for one in document.attributes.values() if one.name == LOGIN}
    return {one for one in document.notes if is_public(one)} - locked


def move(document, note_id, parent):
    """Move a note as a person does."""
    old = document.parents(note_id)
    document.place(note_id, parent)
    for branch in old:
        document.unplace(branch)


@asynccontextmanager
async def world(folder, *, setting="ask", policy=None, user=None):
    """Open the account for a client; ``user`` answers its dialogue, None: it has none."""
    async with PLACES["trilium"](folder, plant, policy or Policy()) as place:
        app = place.harness.app
        place.harness.app = replace(app, config=replace(app.config, destructive=setting))
        options = {} if user is None else {"elicitation_callback": user}
        toolset = find_toolset("trilium_both")
        async with connected(
            place.harness.opened, toolset=toolset, seconds=60, **options
        ) as place.client:
            yield place


async def call(place, tool, arguments):
    """Return the answer of a call, or what its refusal says."""
    try:
        answer = await place.call(tool, **arguments)
    except MCPError as error:
        return error.error.data
    return json.loads(answer["error"]) if "error" in answer else answer


def waiting(place):
    return ApprovalTable(place.harness.app.cache.database).waiting(now=place.harness.clock())


def approve(place, answer):
    """Agree to what a call waits for, as ``mcp-notarium approve`` does."""
    table = ApprovalTable(place.harness.app.cache.database)
    assert table.decide(answer["details"]["approval"], agrees=True, now=place.harness.clock())


def create(parent):
    return "create_note", {"parentNoteId": parent, "title": "New", "content": "x", "type": "text"}


def manage(**arguments):
    return "manage", arguments


MOVE = manage(action="change", ids=["Plan"], folder="Blog")


def aside(note_id):
    return manage(action="change", ids=[note_id], folder="Aside", confirm=True)


ACTS = {
    "a new note": create("Blog"),
    "a new note further below": create("Draft"),
    "a move": MOVE,
    "a move of what a search finds": manage(action="change", query="Other", folder="Blog title"),
    "a move with all below": manage(action="move_folder", folder="Trip", new_folder="Post"),
    "an undo of a move": manage(action="undo", id="Once"),
    "an undo of many": manage(action="undo", change_id="MANY"),
    "the note of a day": ("save", DAY),
    "a password that goes": manage(action="change", ids=["Draft"], properties={LOGIN: None}),
    "another password": ("save", {"id": "Draft", "properties": {LOGIN: "me:guess"}}),
}


async def prepare(place):
    """Let the agent move public notes elsewhere, which publishes nothing; return the acts with the id of such a change."""
    for note_id in ("Once", "Twice"):
        place.sim.write(note_id, f"{note_id} title", "<p>text</p>")
        move(place.sim.document, note_id, "Blog")
    await place.harness.sync()
    moved = {}
    for note_id in ("Once", "Twice"):
        away = manage(action="change", ids=[note_id], folder="Work", confirm=True)
        moved = await call(place, *away)
        if "approval" in moved.get("details", {}):
            assert "public" not in moved["details"]["asks"]
            approve(place, moved)
            moved = await call(place, *away)
    if place.harness.app.config.destructive == "deny":
        return {name: one for name, one in ACTS.items() if "undo" not in name}
    return json.loads(json.dumps(ACTS).replace("MANY", moved["change_id"]))


@pytest.mark.attack(36)
@pytest.mark.parametrize(
    ("setting", "dialogue"),
    [("ask", False), ("strict", False), ("deny", False), ("trust", False), ("ask", True)],
)
async def test_an_agent_that_obeys_every_note_publishes_nothing_alone(tmp_path, setting, dialogue):
    asked = []

    async def declines(_context, params):
        asked.append(params.message)
        return types.ElicitResult(action="decline" if "on the web?" in params.message else "accept", content={"confirm": True})  # fmt: skip

    async with world(tmp_path, setting=setting, user=declines if dialogue else None) as place:
        for name, (tool, arguments) in (await prepare(place)).items():
            before = public(place)
            answer = await call(place, tool, arguments | {"confirm": True})
            after = public(place)
            assert (after != before) == (setting == "trust"), name
            if setting == "trust":
                continue
            assert answer["subcategory"] in ("confirmation_required", "declined"), (name, answer)
            said = asked[-1] if dialogue else answer["details"]["asks"]
            assert "on the web?" in said, name
            assert "approval" in answer.get("details", {}) or dialogue or setting == "deny", name


async def test_a_yes_is_for_one_place_and_what_stands_below_at_that_moment(tmp_path):
    async with world(tmp_path) as place:
        document, before = place.sim.document, public(place)
        dry = await call(place, *manage(**MOVE[1], dry_run=True))
        assert "2 notes (the note “Plan title” (id “Plan”) and what stands below it) would be public on the web; the user is asked" in dry["note"]  # fmt: skip
        asked = await call(place, *MOVE)
        (shown,) = waiting(place)
        assert "Make 2 notes (the note “Plan title” (id “Plan”) and what stands below it) public on the web? They would stand below the note “Blog title” (id “Blog”), which is shared." in shown.question  # fmt: skip
        approve(place, asked)
        other = await call(place, *manage(**MOVE[1] | {"folder": "Post"}))
        assert other["subcategory"] == "confirmation_required"
        place.sim.write(
            "Late", "Late title", "<p>late</p>"
        )  # more would be published than was agreed to, and is not synced yet
        move(document, "Late", "Plan")
        more = await call(place, *MOVE)
        assert "Make 3 notes (" in more["details"]["asks"]
        assert public(place) == before
        approve(place, more)
        moved = await call(place, *MOVE)
        assert (moved["status"], public(place) - before) == ("changed", {"Plan", "Below", "Late"})
        within = await call(place, *manage(**MOVE[1] | {"folder": "Post", "confirm": True}))
        assert within["status"] == "changed", "it is public already"
        made = await call(place, *create("Blog"))
        assert "new note “New” public on the web" in made["details"]["asks"]
        assert "approve" in made["resolution_hint"]
        approve(place, made)
        assert "noteId" in await call(place, *create("Blog"))


def exchange_below(place):
    move(place.sim.document, "Map", "Plan")
    move(place.sim.document, "Below", "Trip")


def rewrite(place):
    place.sim.write("Plan", "Plan title", "<p>my salary</p>")


@pytest.mark.parametrize("meanwhile", [exchange_below, rewrite])
async def test_a_yes_at_a_terminal_is_for_these_notes_as_they_were_shown(tmp_path, meanwhile):
    async with world(tmp_path) as place:
        before = public(place)
        approve(place, await call(place, *MOVE))
        meanwhile(place)
        again = await call(place, *MOVE)
        assert again["subcategory"] == "confirmation_required", (
            "what would be public is not what was agreed to"
        )
        assert public(place) == before
        approve(place, again)
        assert (await call(place, *MOVE))["status"] == "changed"


async def test_a_question_about_several_notes_names_them(tmp_path):
    async with world(tmp_path) as place:
        several = manage(action="change", ids=["Plan", "Other"], folder="Blog")
        asked = (await call(place, *several))["details"]["asks"]
        named = "3 notes (note “Plan title” (id “Plan”), note “Other title” (id “Other”) and what stands below them)"
        assert f"Make {named} public on the web?" in asked


@pytest.mark.parametrize("act", [MOVE, ACTS["an undo of a move"]], ids=["many", "one"])
async def test_a_yes_in_a_dialogue_is_for_what_stood_below_when_it_was_asked(tmp_path, act):
    async def agrees(_context, params):
        if "public on the web" in params.message:
            for parent in ("Plan", "Once"):
                world_of["place"].sim.document.place("Other", parent)
        return types.ElicitResult(action="accept", content={"confirm": True})

    world_of = {}
    async with world(tmp_path, user=agrees) as place:
        world_of["place"] = place
        await prepare(place)
        before = public(place)
        refused = await call(place, *act)
        said = rows_of(refused)[0]["reason"] if "results" in refused else refused["message"]
        assert "public" in said or "changed since" in said, refused
        assert public(place) == before


def share(document, note_id):
    """Share a note as a person does."""
    document.place(note_id, "_share")


def is_last_look(request, document):
    """Tell whether a request is the last one before a write that does not read the place: of the old place, or of the new note's id."""
    *_, kind, name = request.path.split("/")
    return request.method == "GET" and (kind == "branches" or name not in document.notes)


@pytest.mark.parametrize(
    ("rehearsal", "act", "sent"),
    [
        (aside("Map"), aside("Other"), "/etapi/branches"),
        (create("Plan"), create("Aside"), "/etapi/create-note"),
    ],
    ids=["move", "creation"],
)  # fmt: skip
async def test_what_is_shared_right_before_the_write_is_not_published(
    tmp_path, rehearsal, act, sent
):
    async with world(tmp_path) as place:
        document, looks = place.sim.document, []
        place.sim.write("Aside", "Aside title", "<p>aside</p>")
        await place.harness.sync()

        def count(request):
            if request.method == "POST":
                place.sim.before_request = lambda _request: None
            elif is_last_look(request, document):
                looks.append(request)

        place.sim.before_request = count
        assert "category" not in await call(place, *rehearsal)
        names, left = {*document.notes}, [*looks]
        assert left

        def somebody_shares(request):
            if left and is_last_look(request, document):
                left.pop()
                if not left:
                    share(document, "Aside")

        place.sim.before_request = somebody_shares
        before = len(place.sim.requests)
        refused = await call(place, *act)
        place.sim.before_request = lambda _request: None
        said = rows_of(refused)[0]["reason"] if "results" in refused else refused["message"]
        assert "was shared just now" in said, refused
        assert {*document.notes} == names
        posts = [one for one in place.sim.requests[before:] if one.method == "POST"]
        assert not [one for one in posts if one.path == sent]
        assert "Other" not in public(place)


async def test_what_is_repeated_after_a_cut_publishes_nothing_that_was_not_agreed_to(tmp_path):
    async with world(tmp_path) as place:
        document = place.sim.document
        place.sim.write("Aside", "Aside title", "<p>aside</p>")
        await place.harness.sync()
        place.sim.faults.add(CutBefore(), method="POST", path="/etapi/branches*", times=20)
        cut = await call(place, *aside("Other"))
        assert cut["subcategory"] == "in_doubt"
        share(document, "Aside")
        place.sim.faults.clear()
        await place.harness.sync()
        assert "Other" not in public(place)
        assert [one.parent_id for one in document.parents("Other")] == ["Work"]


async def test_a_question_tells_nothing_of_what_is_hidden(tmp_path):
    said = []
    for number in range(2):
        policy = Policy(visibility=Visibility(hidden_tags=("private",)))
        folder = tmp_path / str(number)
        folder.mkdir()
        async with world(folder, policy=policy) as place:
            document = place.sim.document
            place.sim.write("Hidden", "Hidden title", "<p>x</p>")
            document.set_attribute("h2", "Hidden", "label", "private", "")
            if number:
                document.place("Hidden", "Plan")
                document.unplace(document.branches["root_Hidden"])
            await place.harness.sync()
            asked = await call(place, *MOVE)
            said.append(asked["details"]["asks"])
    assert said[0] == said[1]
    assert (
        "Make 2 notes (the note “Plan title” (id “Plan”) and what stands below it) public"
        in said[0]
    )
    assert "What stands below and is hidden here becomes public, too." in said[0]
