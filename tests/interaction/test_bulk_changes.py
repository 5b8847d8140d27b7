"""Many notes changed in one call, in every store: told before, asked once, repeated without effect, taken back by one undo."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from mcp_notarium.errors import StoreUnavailable
from mcp_notarium.library import Library
from mcp_notarium.storage.approval_table import ApprovalTable
from mcp_notarium.storage.version_table import VersionLimits
from support.bulk_results import rows_of
from support.undo_places import PLACES
from support.whole import Server, store_environment

pytestmark = pytest.mark.anyio
NAMES = ("one", "two", "three")
TAGGED = sorted(PLACES.keys() - {"jotter"})
"""Stores that keep tags."""
WITH_TRASH = sorted(PLACES.keys() - {"memento", "trilium"})


@asynccontextmanager
async def account(store, folder, **more):
    """An account with three notes, and their ids."""
    ids = []
    text = "<p>milk</p>" if store == "trilium" else "Plan\nmilk\n"
    tags = {"tags": ["home"]} if store in TAGGED else {}

    def put(place):
        ids.extend(place.put(name, text, **tags, **more) for name in NAMES)

    async with PLACES[store](folder, put) as place:
        yield place, ids


def states(place, ids):
    return {note_id: place.raw(note_id) for note_id in ids}


async def tags_of(place, ids):
    return [(await place.call("get", id=one))["tags"] for one in ids]


def cut_off(save, *, after):
    """A ``save`` that reaches the store so many times."""
    saved = []

    async def cut(library, **given):
        if len(saved) == after:
            raise StoreUnavailable("out of reach")
        saved.append(given)
        return await save(library, **given)

    return cut


def counted(answer):
    return [answer.get(name) for name in ("status", "notes", "unchanged", "refused")]


@pytest.mark.parametrize("store", TAGGED)
async def test_tags_of_many_notes_are_changed_and_taken_back_together(store, tmp_path):
    async with account(store, tmp_path) as (place, ids):
        before = states(place, ids)
        asked = {"action": "change", "ids": ids, "add_tags": ["work"], "remove_tags": ["home"]}
        told = await place.call("manage", **asked, dry_run=True)
        assert counted(told) == ["dry_run", 3, None, None]
        assert {one["status"] for one in rows_of(told)} == {"would change"}
        refused = await place.call("manage", **asked)
        asks = json.loads(refused["error"])["message"]
        assert asks.startswith("Change 3 notes: add the tag “work”, remove the tag “home”?")
        assert states(place, ids) == before

        done = await place.call("manage", **asked, confirm=True)
        assert counted(done) == ["changed", 3, None, None]
        assert await tags_of(place, ids) == [["work"]] * 3
        after = states(place, ids)
        again = await place.call("manage", **asked)
        assert counted(again) == ["unchanged", 0, 3, None]
        assert states(place, ids) == after

        back = {"action": "undo", "change_id": done["change_id"]}
        assert "in 3 notes" in json.loads((await place.call("manage", **back))["error"])["message"]
        assert states(place, ids) == after
        assert (await place.call("manage", **back, dry_run=True))["notes"] == 3
        undone = await place.call("manage", **back, confirm=True)
        assert counted(undone) == ["undone", 3, None, None]
        assert states(place, ids) == before
        assert counted(await place.call("manage", **back)) == ["unchanged", 0, 3, None]
        redone = {"action": "undo", "change_id": undone["change_id"], "confirm": True}
        assert counted(await place.call("manage", **redone)) == ["undone", 3, None, None]
        assert await tags_of(place, ids) == [["work"]] * 3


@pytest.mark.attack(36)
@pytest.mark.parametrize("store", TAGGED)
async def test_all_that_is_lost_for_good_is_in_one_question_and_one_approval(store, tmp_path):
    async with account(store, tmp_path) as (place, ids):
        versions = place.harness.app.cache.versions
        first = {"action": "change", "ids": ids[:1], "add_tags": ["work"], "remove_tags": ["home"]}
        assert (await place.call("manage", **first, confirm=True))["notes"] == 1
        versions.limits = VersionLimits(days=0)
        before = states(place, ids)
        asked = first | {"ids": ids}
        told = await place.call("manage", **asked, dry_run=True)
        assert [one["id"] for one in rows_of(told) if "reason" in one] == ids[1:]
        error = json.loads((await place.call("manage", **asked, confirm=True))["error"])
        assert "in all 2 cannot be brought back" in error["message"]
        assert states(place, ids) == before
        table, now = ApprovalTable(place.harness.app.cache.database), place.harness.app.clock()
        assert table.decide(error["details"]["approval"], agrees=True, now=now)
        done = await place.call("manage", **asked)
        assert counted(done) == ["changed", 2, 1, None]
        assert await tags_of(place, ids) == [["work"]] * 3


@pytest.mark.parametrize("store", WITH_TRASH)
async def test_many_notes_go_to_the_trash_and_come_back_by_a_query(store, tmp_path):
    async with account(store, tmp_path) as (place, ids):
        before = states(place, ids)
        asked = {"action": "trash", "query": "milk", "confirm": True}
        done = await place.call("manage", **asked)
        assert counted(done) == ["changed", 3, None, None]
        assert (await place.call("list"))["total_items"] == 0
        assert counted(await place.call("manage", **asked)) == ["unchanged", 0, None, None]
        back = await place.call("manage", action="untrash", query="milk", confirm=True)
        assert counted(back) == ["changed", 3, None, None]
        assert (await place.call("list"))["total_items"] == 3
        await place.call("manage", action="undo", change_id=back["change_id"], confirm=True)
        assert (await place.call("list"))["total_items"] == 0
        await place.call("manage", action="undo", change_id=done["change_id"], confirm=True)
        assert (await place.call("list"))["total_items"] == 0  # something has followed that change
        await place.call("manage", action="untrash", ids=ids, confirm=True)
        assert states(place, ids) == before


@pytest.mark.parametrize("store", TAGGED)
async def test_a_note_that_has_changed_since_is_left_and_the_others_are_taken_back(store, tmp_path):
    async with account(store, tmp_path) as (place, ids):
        done = await place.call("manage", action="change", ids=ids, add_tags=["work"], confirm=True)
        await place.call("save", id=ids[1], append="more")
        undone = await place.call(
            "manage", action="undo", change_id=done["change_id"], confirm=True
        )
        assert counted(undone) == ["undone", 2, None, 1]
        first = rows_of(undone)[0]
        assert (first["id"], first["status"]) == (ids[1], "refused")
        assert first["reason"] == "The note has changed since that save; nothing was undone."
        assert await tags_of(place, ids) == [["home"], ["home", "work"], ["home"]]


@pytest.mark.parametrize("store", TAGGED)
async def test_a_change_that_was_cut_off_and_done_again_is_taken_back_whole(
    store, tmp_path, monkeypatch
):
    async with account(store, tmp_path) as (place, ids):
        before = states(place, ids)
        asked = {"action": "change", "ids": ids, "add_tags": ["work"], "confirm": True}
        with monkeypatch.context() as patch:
            patch.setattr(Library, "save", cut_off(Library.save, after=2))
            error = json.loads((await place.call("manage", **asked))["error"])
            assert error["details"]["changed"] == 2
        assert "error" not in await place.call("manage", action="undo", id=ids[0], confirm=True)
        assert states(place, ids) == before | {ids[1]: place.raw(ids[1])}

        done = await place.call("manage", **asked)
        assert counted(done) == ["changed", 2, 1, None]
        assert done["note"] == "`undo` with this `change_id` takes all of it back."
        back = {"action": "undo", "change_id": done["change_id"], "confirm": True}
        assert counted(await place.call("manage", **back)) == ["undone", 3, None, None]
        assert states(place, ids) == before


@pytest.mark.parametrize("store", TAGGED)
async def test_what_came_between_two_parts_of_a_change_is_not_taken_back(
    store, tmp_path, monkeypatch
):
    async with account(store, tmp_path) as (place, ids):
        asked = {"action": "change", "ids": ids, "add_tags": ["work"], "confirm": True}
        with monkeypatch.context() as patch:
            patch.setattr(Library, "save", cut_off(Library.save, after=2))
            assert "error" in await place.call("manage", **asked)
        await place.call("save", id=ids[0], append="more", remove_tags=["work"])
        done = await place.call("manage", **asked)
        assert counted(done) == ["changed", 2, 1, None]
        after = place.raw(ids[0])
        back = {"action": "undo", "change_id": done["change_id"], "confirm": True}
        assert counted(await place.call("manage", **back)) == ["undone", 2, None, 1]
        assert place.raw(ids[0]) == after
        assert await tags_of(place, ids) == [["home", "work"], ["home"], ["home"]]


@pytest.mark.parametrize("store", TAGGED)
async def test_unknown_notes_are_told_and_the_others_changed(store, tmp_path):
    async with account(store, tmp_path) as (place, ids):
        asked = {"action": "change", "ids": [ids[0], "nowhere", ids[0]], "add_tags": ["work"]}
        done = await place.call("manage", **asked, confirm=True)
        assert counted(done) == ["changed", 1, None, 1]
        assert rows_of(done)[0] == {
            "name": "nowhere",
            "status": "refused",
            "reason": "There is no note with this id.",
        }


async def test_a_store_without_tags_or_trash_says_so_and_writes_nothing(tmp_path):
    for store, arguments, said in (
        ("jotter", {"action": "change", "add_tags": ["x"]}, "keeps no tags"),
        ("memento", {"action": "trash"}, "no trash"),
        ("trilium", {"action": "untrash"}, "no trash"),
        ("simplenote", {"action": "change", "folder": "Work"}, "has no folders"),
    ):
        (tmp_path / store).mkdir()
        async with account(store, tmp_path / store) as (place, ids):
            before = states(place, ids)
            answer = await place.call("manage", **arguments, ids=ids, confirm=True)
            assert said in json.loads(answer["error"])["message"]
            assert states(place, ids) == before


async def test_what_is_asked_must_be_clear(tmp_path):
    async with account("local", tmp_path) as (place, ids):
        for arguments in (
            {"action": "change", "ids": ids},
            {"action": "change", "add_tags": ["x"]},
            {"action": "change", "ids": ids, "query": "milk", "add_tags": ["x"]},
            {"action": "change", "ids": ids, "add_tags": ["x"], "remove_tags": ["X"]},
            {"action": "change", "ids": ids, "add_tags": ["two words"]},
            {"action": "trash", "ids": ids, "add_tags": ["x"]},
            {"action": "change", "ids": [f"n{one}" for one in range(501)], "add_tags": ["x"]},
            {"action": "undo", "change_id": "0123456789abcdef"},
        ):
            answer = await place.call("manage", **arguments, confirm=True)
            assert json.loads(answer["error"])["category"] == "VALIDATION", arguments
            assert json.loads(answer["error"])["resolution_hint"]
        assert await tags_of(place, ids) == [["home"]] * 3


@pytest.mark.parametrize("store", ["local", "vault"])
async def test_an_id_of_another_kind_is_told_where_it_belongs(store, tmp_path):
    async with account(store, tmp_path) as (place, ids):
        done = await place.call("manage", action="change", ids=ids, add_tags=["work"], confirm=True)
        change_id, before = done["change_id"], states(place, ids)
        now = (await place.call("get", id=ids[0]))["local_version"]
        version = {"version": change_id, "local_version": now}
        for tool, arguments, hint in (
            ("get", {"id": change_id}, "as `change_id`"),
            ("get", {"id": ids[0], "version": change_id}, "`change_id`: action `undo`"),
            ("save", {"id": change_id, "append": "x"}, "as `change_id`"),
            ("undo", {"id": change_id}, "as `change_id`"),
            ("undo", {"change_id": ids[0]}, "as `id`"),
            ("undo", {"change_id": "2"}, "`version` goes to `restore_version`"),
            ("undo", {"id": ids[0], "version": "1"}, "`restore_version` brings"),
            ("undo", {"id": ids[0], "change_id": change_id}, "`id` to take back"),
            ("undo", {"id": ids[0], "ids": ids[1:]}, "`change_id` for a change of many"),
            ("history", {"id": change_id}, "as `change_id`"),
            ("history", {"id": ids[0], "version": change_id}, "`change_id`: action `undo`"),
            ("history", {"change_id": change_id}, "One note is named by `id`"),
            ("restore_version", {"id": ids[0]} | version, "`change_id`: action `undo`"),
            ("trash", {"change_id": change_id}, "One note is named by `id`"),
        ):
            asked = {} if tool in ("get", "save") else {"action": tool, "confirm": True}
            answer = await place.call("manage" if asked else tool, **asked, **arguments)
            error = json.loads(answer["error"])
            assert hint in error["resolution_hint"], (tool, arguments, error)
            assert len(error["message"] + error["resolution_hint"]) < 300, (tool, arguments)
        assert states(place, ids) == before


async def test_a_query_of_a_change_finds_notes_with_all_of_its_words_only(tmp_path):
    def put(place):
        place.put("one", "milk and bread")
        place.put("two", "milk alone")
        place.put("three", "silk and bread")

    async with PLACES["local"](tmp_path, put) as place:
        assert (await place.call("list", query="milk bread"))["total_items"] == 3
        asked = {"action": "change", "query": "milk bread", "add_tags": ["x"], "dry_run": True}
        assert (await place.call("manage", **asked))["notes"] == 1


async def test_more_than_the_most_that_a_query_finds_are_refused_with_their_number(tmp_path):
    async with PLACES["local"](tmp_path, lambda _place: None) as place:
        for number in range(501):
            place.put(f"note {number}", "milk")
        await place.harness.sync()
        asked = {"action": "change", "query": "milk", "add_tags": ["x"], "confirm": True}
        error = json.loads((await place.call("manage", **asked))["error"])
        assert error["details"] == {"notes": 501, "most": 500}
        assert (await place.call("list", query="tag:x"))["total_items"] == 0


@asynccontextmanager
async def vault(folder, files):
    """A vault with these files."""

    def put(place):
        for path, text in files.items():
            (place.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (place.folder / path).write_text(text)

    async with PLACES["vault"](folder, put) as place:
        yield place


def all_files(place):
    found = (path for path in place.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(place.folder)): path.read_text() for path in found}


FILES = {
    "A.md": "to [[B]] and [[Old/C]]\n",
    "B.md": "to [A](A.md)\n",
    "Old/C.md": "back to [[A]] ![](pic.png)\n",
    "Old/pic.png": "png",
    "Other.md": "see [[Old/C|c]] and [b](B.md)\n",
    "Board.canvas": '{"nodes":[{"type":"file","file":"B.md"}]}',
}


async def test_notes_move_to_a_folder_with_their_links_and_all_come_back(tmp_path):
    async with vault(tmp_path, FILES) as place:
        before = all_files(place)
        asked = {"action": "change", "ids": ["A.md", "B.md", "Old/C.md"], "folder": "New/Deep"}
        told = await place.call("manage", **asked, dry_run=True)
        assert counted(told) == ["dry_run", 3, None, None]
        assert all_files(place) == before
        done = await place.call("manage", **asked, confirm=True)
        assert counted(done) == ["changed", 3, None, None]
        assert {one["id"] for one in rows_of(done) if one["status"] == "changed"} == {
            "New/Deep/A.md",
            "New/Deep/B.md",
            "New/Deep/C.md",
        }
        after = all_files(place)
        assert after["New/Deep/C.md"] == "back to [[A]] ![](../../Old/pic.png)\n"
        assert after["Other.md"] == "see [[New/Deep/C|c]] and [b](New/Deep/B.md)\n"
        assert after["Board.canvas"] == '{"nodes":[{"type":"file","file":"New/Deep/B.md"}]}'
        again = await place.call("manage", **asked, confirm=True)
        assert counted(again) == ["unchanged", 0, 3, None]  # by the ids that they had

        undone = await place.call(
            "manage", action="undo", change_id=done["change_id"], confirm=True
        )
        assert counted(undone)[0] == "undone"
        assert undone.get("refused") is None
        assert all_files(place) == before


async def test_a_folder_is_spelled_as_notes_have_it_and_strange_ones_are_refused(tmp_path):
    async with vault(tmp_path, FILES) as place:
        asked = {"action": "change", "ids": ["A.md"], "confirm": True}
        for folder in ("../out", ".obsidian", "a//b", "what?", "x/.hidden/y"):
            answer = await place.call("manage", **asked, folder=folder)
            assert "error" in answer or answer["refused"] == 1, folder
        done = await place.call("manage", **asked, folder="old/")
        assert rows_of(done)[0]["id"] == "Old/A.md"
        top = await place.call("manage", **(asked | {"ids": ["Old/A.md"]}), folder="/")
        assert rows_of(top)[0]["id"] == "A.md"


async def test_a_name_that_is_taken_leaves_the_note_where_it_is(tmp_path):
    async with vault(
        tmp_path, {"A.md": "one note", "X/A.md": "two", "B.md": "note three"}
    ) as place:
        asked = {"action": "change", "query": "note", "folder": "X", "confirm": True}
        done = await place.call("manage", **asked)
        assert counted(done) == ["changed", 1, None, 1]
        assert rows_of(done)[0]["id"] == "A.md"
        assert all_files(place) == {"A.md": "one note", "X/A.md": "two", "X/B.md": "note three"}


def test_a_real_server_changes_and_brings_back_the_notes_of_a_folder(tmp_path):
    top = tmp_path / "vault"
    for path in ("Old/A.md", "Old/sub/B.md", "C.md"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("[[A]]\n")
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(top))
    with Server(env) as server:
        server.loaded(3)
        asked = {"action": "change", "query": "path:old", "add_tags": ["x"], "folder": "New"}
        done = server.tool("manage", **asked, confirm=True)
        assert sorted(row["id"] for row in rows_of(done)) == ["New/A.md", "New/B.md"]
        folders = server.tool("manage", action="list_folders")["folders"]
        assert [row["folder"] for row in folders] == ["/", "New"]
        assert server.leave() == 0
    with Server(env) as server:  # the versions know it still
        server.loaded(3)
        back = {"action": "undo", "change_id": done["change_id"], "confirm": True}
        assert server.tool("manage", **back)["notes"] == 2
        assert (top / "Old/sub/B.md").read_text() == "[[A]]\n"
        assert server.leave() == 0
