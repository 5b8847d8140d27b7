"""Keep files by ``save`` in stores with an app of their own: Trilium takes them, Memento and Simplenote say that they do not."""

from __future__ import annotations

import asyncio
import base64
import json
import os

import pytest

from mcp_notarium.errors import CacheFull
from mcp_notarium.storage.version_table import VersionLimits
from mcp_notarium.sync.journal import Journal
from mcp_notarium.tools.toolsets import find_toolset
from support.cache_room import reopen
from support.sample_files import pdf, picture
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.trilium_client import open_trilium
from support.undo_places import AGENT, PLACES

pytestmark = pytest.mark.anyio
PNG, PAPER = picture("PNG"), pdf(["first page"])
OTHER = picture("PNG", (50, 50))
SENT = f"data:image/png;name=plan.png;base64,{base64.b64encode(PNG).decode()}"
SENT_PAPER = f"data:application/pdf;name=paper.pdf;base64,{base64.b64encode(PAPER).decode()}"
TEXT = "<h2>A</h2><p>x</p><h2>B</h2><p>y</p>"


async def call(place, tool, **arguments):
    result = await place.client.call_tool(tool, arguments)
    return json.loads(next(one.text for one in result.content if one.type == "text"))


async def seen(place, file_id) -> bool:
    result = await place.client.call_tool("get", {"id": file_id})
    return any(one.type == "image" for one in result.content)


def put(place) -> None:
    place.ids = [place.put("plan", TEXT if place.store == "trilium" else "x\n")]


async def test_a_file_becomes_an_attachment_of_a_trilium_note_and_goes_by_undo(tmp_path):
    async with PLACES["trilium"](tmp_path, put) as place:
        (note_id,), document = place.ids, place.sim.document
        saved = await call(place, "save", id=note_id, section="A", file=SENT)
        (one,) = document.attachments_of(note_id)
        assert saved["files"][0]["id"] == f"{note_id}/{one.id}"
        image = f'<p><img alt="plan.png" src="api/attachments/{one.id}/image/plan.png"></p>'
        assert document.notes[note_id].content.decode() == TEXT.replace("x</p>", f"x</p>{image}")
        assert await seen(place, f"{note_id}/{one.id}")
        await call(place, "save", id=note_id, file=SENT_PAPER)
        assert all(one.unused_since is None for one in document.attachments_of(note_id))
        again = await call(place, "save", id=note_id, file=SENT_PAPER)
        assert (again["unchanged"], len(document.attachments_of(note_id))) == (True, 2)
        undone = await call(place, "manage", action="undo", id=note_id, confirm=True)
        assert undone["note"].endswith("Its file went, too.")
        assert document.notes[note_id].content.decode() == TEXT.replace("x</p>", f"x</p>{image}")
        paper = next(held for held in document.attachments_of(note_id) if held.role == "file")
        assert paper.unused_since is not None
        assert "NOT_FOUND" in str(await call(place, "get", id=f"{note_id}/{paper.id}"))
        redone = await call(place, "manage", action="undo", id=note_id, confirm=True)
        assert redone["note"].endswith("Its file is back.")
        assert paper.unused_since is None
        assert "files" in await call(place, "get", id=f"{note_id}/{paper.id}")


async def test_two_servers_that_keep_one_file_at_once_make_one_attachment(tmp_path):
    async with PLACES["trilium"](tmp_path, put) as place:
        (note_id,), remote = place.ids, open_trilium(place.sim)
        beside = reopen(tmp_path, key=None, name="cache.sqlite")
        other = ToolHarness(tmp_path, remote=remote, cache=beside)
        async with connected(other.opened, toolset=find_toolset(place.toolset)) as client:
            arguments = {"id": note_id, "file": SENT}
            both = [one.call_tool("save", arguments) for one in (place.client, client)]
            answers = [one.structured_content for one in await asyncio.gather(*both)]
        await remote.close()
        other.close()
        (one,) = place.sim.document.attachments_of(note_id)
        assert [it["files"][0]["id"] for it in answers] == [f"{note_id}/{one.id}"] * 2
        text = place.sim.document.notes[note_id].content.decode()
        assert text.count(f"api/attachments/{one.id}/") == 1


async def test_what_a_person_writes_while_a_file_goes_to_trilium_stays(tmp_path):
    async with PLACES["trilium"](tmp_path, put) as place:
        (note_id,), sim = place.ids, place.sim
        edited = TEXT.replace("y</p>", "y</p><p>by hand</p>")
        sim.faults.call(
            lambda: sim.write(note_id, "Plan", edited),
            method="PUT",
            path="*/attachments/*",
            times=1,
        )
        saved = await call(place, "save", id=note_id, file=SENT)
        text = sim.document.notes[note_id].content.decode()
        assert "by hand" in text
        assert f"api/attachments/{saved['files'][0]['id'].partition('/')[2]}/image" in text
        assert len(sim.document.attachments_of(note_id)) == 1


async def test_a_picture_is_added_to_those_of_a_memento_note_and_goes_by_undo(tmp_path):
    async with PLACES["memento"](tmp_path, put) as place:
        (note_id,) = place.ids
        first = f"data:image/png;base64,{base64.b64encode(OTHER).decode()}"
        place.app.put(note_id, "x\n", images=json.dumps([first]))
        await place.harness.sync()
        before = place.raw(note_id)
        saved = await call(place, "save", id=note_id, file=SENT, properties={"archived": True})
        assert saved["files"] == [{"id": f"{note_id}/2", "kind": "image/png", "size": len(PNG)}]
        added = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        row = before | {
            "isArchived": 1,
            "images": json.dumps([first, added], separators=(",", ":")),
        }
        assert place.raw(note_id) == row
        assert await seen(place, f"{note_id}/2")
        again = await call(place, "save", id=note_id, file=SENT)
        assert (again["unchanged"], again["files"]) == (True, saved["files"])
        await call(place, "manage", action="undo", id=note_id, confirm=True)
        assert place.raw(note_id) == before
        made = await call(place, "save", title="New", text="y\n", file=SENT)
        assert place.app.row(made["id"])["images"] == json.dumps([added])
        for more in ({"file": SENT_PAPER}, {"file": SENT, "section": "A"}):
            refused = await call(place, "save", id=note_id, **more)
            assert (refused["subcategory"], bool(refused["resolution_hint"])) == ("no_files", True)
        assert place.raw(note_id) == before
        place.harness.app.cache.versions.limits = VersionLimits(days=0)
        refused = await call(place, "save", id=note_id, file=SENT)
        assert "in their app" in refused["resolution_hint"]
        assert place.raw(note_id) == before


async def test_pictures_that_the_app_adds_at_the_same_moment_stay(tmp_path, monkeypatch):
    async with PLACES["memento"](tmp_path, put) as place:
        (note_id,), store, others = place.ids, place.harness.remote, [["a"], ["a", "b"]]
        with_picture = store.with_picture

        async def crossed(*given):
            made = await with_picture(*given)
            if others:
                place.app.put(note_id, "x\n", images=json.dumps(others.pop(0)))
            return made

        monkeypatch.setattr(store, "with_picture", crossed)
        saved = await call(place, "save", id=note_id, file=SENT)
        assert saved["files"][0]["id"] == f"{note_id}/3"
        held = json.loads(place.app.row(note_id)["images"])
        assert (held[:2], len(held)) == (["a", "b"], 3)


async def test_a_picture_and_its_undo_whose_answers_were_not_stored_are_the_clients(
    tmp_path, monkeypatch
):
    def full(*_args, **_how):
        raise CacheFull("the answer was not stored")

    async with PLACES["memento"](tmp_path, put) as place:
        (note_id,) = place.ids
        before = place.raw(note_id)
        back = {"action": "undo", "id": note_id, "confirm": True}
        for tool, change in (("save", {"id": note_id, "file": SENT}), ("manage", back)):
            with monkeypatch.context() as patch:
                patch.setattr(Journal, "finish", full)
                assert (await call(place, tool, **change))["subcategory"] == "in_doubt"
            await place.harness.sync()
        assert place.raw(note_id) == before
        rows = (await call(place, "manage", action="history", id=note_id))["history"]
        assert [(row.get("by"), row["changed"]) for row in rows[:2]] == [(AGENT, "pictures")] * 2
        assert (await call(place, "manage", **back))["status"] == "undone"
        assert place.raw(note_id)["images"] is not None


async def test_pictures_of_a_memento_note_have_a_bound(tmp_path):
    async with PLACES["memento"](tmp_path, put) as place:
        (note_id,) = place.ids
        large = base64.b64encode(os.urandom(300_000)).decode()
        place.app.put(note_id, "x\n", images=json.dumps([large, large]))
        await place.harness.sync()
        before = place.raw(note_id)
        held = base64.b64encode(PNG + os.urandom(200_000)).decode()
        refused = await call(place, "save", id=note_id, file=f"data:image/png;base64,{held}")
        assert (refused["subcategory"], bool(refused["resolution_hint"])) == ("too_large", True)
        place.app.put(note_id, "x\n", images="no list")
        before = place.raw(note_id)
        refused = await call(place, "save", id=note_id, file=SENT)
        assert "Memento" in refused["resolution_hint"]
        assert place.raw(note_id) == before


@pytest.mark.parametrize("store", ["simplenote"])
async def test_a_store_that_keeps_no_files_says_so(tmp_path, store):
    async with PLACES[store](tmp_path, put) as place:
        refused = await call(place, "save", id=place.ids[0], file=SENT)
        assert "no files" in refused["message"]
        assert refused["resolution_hint"]
