"""A folder moves with everything in it: links within it stay as they are written, those to it follow, and one undo brings all back."""

from __future__ import annotations

import json
import random
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mcp_notarium.domain.policy import Limits, Mode, Policy, Visibility
from mcp_notarium.errors import CacheFull
from mcp_notarium.library import Library
from mcp_notarium.markup.obsidian_links import find_links, name_key, relative_place, resolve
from mcp_notarium.stores.vault import canvases
from mcp_notarium.stores.vault.folder import InUse
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.toolsets import find_toolset
from support.bulk_results import rows_of
from support.cache_room import reopen
from support.sync_rig import quick_folder
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio
MOVE = {"action": "move_folder", "folder": "Old", "new_folder": "New/Deep"}


class Vault:
    """A vault and a client that calls ``manage``; each error is a dict with ``error``."""

    def __init__(self, folder, client, harness):
        self.folder, self.client, self.harness = folder, client, harness

    async def manage(self, **arguments):
        result = await self.client.call_tool("manage", arguments)
        if result.is_error:
            return {"error": json.loads(result.content[0].text)}
        return dict(result.structured_content)

    async def undo(self, answer):
        return await self.manage(action="undo", change_id=answer["change_id"], confirm=True)

    def files(self):
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_text() for path in found}


@asynccontextmanager
async def vault(folder, files, *, again=False, **policy):
    base = folder / "vault"
    for path, text in files.items():
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_text(text)
    remote = VaultStore(base)
    cache = reopen(folder, key=None, name="cache.sqlite") if again else None
    harness = ToolHarness(folder, remote=remote, cache=cache, policy=Policy(**policy))
    harness.ticking = True
    await harness.sync()
    try:
        async with connected(harness.opened, toolset=find_toolset("with_paths")) as client:
            yield Vault(base, client, harness)
    finally:
        await remote.close()
        harness.close()


FILES = {
    "Old/A.md": "[[B]] [b](sub/B.md) ![](pic.png) ![[pic.png]] [[Old/sub/B#x|b]] [out](../Top.md) [[Top]]\n",
    "Old/sub/B.md": "[a](../A.md) ![](../pic.png) [[Old/A]] [none](../none.md) [far](../../x/far.png)\n",
    "Old/pic.png": "p",
    "Old/sub/list.pdf": "l",
    "Old/Board.canvas": '{"nodes":[{"type":"file","file":"Old/A.md"},{"type":"file","file":"Old/pic.png"}]}',
    "Top.md": "[a](Old/A.md) [[A]] [[Old/A|x]] ![](Old/pic.png) ![[Old/pic.png]] ![[pic.png]]\n",
    "x/far.png": "f",
    "x/Side.md": "[b](../Old/sub/B.md) `[[Old/A]]` [l](../Old/sub/list.pdf)\n",
    "Main.canvas": '{"nodes":[{"type":"file","file":"Old/sub/B.md"},{"type":"file","file":"Old/pic.png"}]}',
}
MOVED = {
    "New/Deep/A.md": "[[B]] [b](sub/B.md) ![](pic.png) ![[pic.png]] [[New/Deep/sub/B#x|b]] [out](../../Top.md) [[Top]]\n",
    "New/Deep/sub/B.md": "[a](../A.md) ![](../pic.png) [[New/Deep/A]] [none](../none.md) [far](../../../x/far.png)\n",
    "New/Deep/pic.png": "p",
    "New/Deep/sub/list.pdf": "l",
    "New/Deep/Board.canvas": '{"nodes":[{"type":"file","file":"New/Deep/A.md"},{"type":"file","file":"New/Deep/pic.png"}]}',
    "Top.md": "[a](New/Deep/A.md) [[A]] [[New/Deep/A|x]] ![](New/Deep/pic.png) ![[New/Deep/pic.png]] ![[pic.png]]\n",
    "x/far.png": "f",
    "x/Side.md": "[b](../New/Deep/sub/B.md) `[[Old/A]]` [l](../New/Deep/sub/list.pdf)\n",
    "Main.canvas": '{"nodes":[{"type":"file","file":"New/Deep/sub/B.md"},{"type":"file","file":"New/Deep/pic.png"}]}',
}


async def test_a_folder_moves_with_everything_and_comes_back(tmp_path):
    async with vault(tmp_path, FILES) as it:
        told = await it.manage(**MOVE, dry_run=True)
        assert (told["status"], told["notes"]) == ("dry_run", 4)
        said = "the folder “Old” to “New/Deep”: 2 notes, 3 other files, links in 2 other notes and 2 canvases"
        assert said in told["note"]
        asked = await it.manage(**MOVE)
        assert asked["error"]["message"] == f"Move {said}?"
        assert it.files() == FILES
        done = await it.manage(**MOVE, confirm=True)
        assert (done["status"], done["notes"], done.get("refused")) == ("moved", 4, None)
        along = {row["name"] for row in rows_of(done) if row["status"] == "moved along"}
        assert along == {f"New/Deep/{one}" for one in ("pic.png", "sub/list.pdf", "Board.canvas")}
        assert it.files() == MOVED
        assert not (it.folder / "Old").exists()
        again = await it.manage(**MOVE, confirm=True)
        assert (again["status"], again["change_id"]) == ("unchanged", done["change_id"])
        undone = await it.undo(done)
        assert (undone["status"], undone.get("refused")) == ("undone", None)
        assert it.files() == FILES
        assert not (it.folder / "New/Deep").exists()
        redone = await it.undo(undone)
        assert redone["status"] == "undone"
        assert it.files() == MOVED


@pytest.mark.parametrize(("step", "left"), [("keep_moved_files", 3), ("end_change", 0)])
async def test_a_disk_that_is_full_after_the_notes_have_moved_is_told_with_what_is_left(
    tmp_path, monkeypatch, step, left
):
    async with vault(tmp_path, FILES) as it:
        records = it.harness.app.cache.change_records

        def full(*_args, **_how):
            raise CacheFull("nothing more was stored")

        with monkeypatch.context() as patch:
            patch.setattr(records, step, full)
            error = (await it.manage(**MOVE, confirm=True))["error"]
        assert error["message"].startswith("4 of 4 notes were moved, then: the disk is full")
        assert (error["subcategory"], error["details"]) == ("disk_full", {"moved": 4, "left": left})
        assert error["resolution_hint"].endswith("Repeat the call for the rest.")
        await it.manage(**MOVE, confirm=True)
        assert it.files() == MOVED


async def test_an_undo_takes_no_file_away_from_a_note_that_has_to_stay(tmp_path):
    async with vault(tmp_path, FILES) as it:
        done = await it.manage(**MOVE, confirm=True)
        (it.folder / "New/Deep/A.md").write_text(f"{MOVED['New/Deep/A.md']}more\n")
        await it.harness.sync()
        refused = await it.undo(done)
        [left] = refused["error"]["details"]["refused"]
        assert (left["id"], "changed since" in left["reason"]) == ("New/Deep/A.md", True)
        assert "`move_folder` from “New/Deep” to “Old”" in refused["error"]["resolution_hint"]
        assert it.files() == MOVED | {"New/Deep/A.md": f"{MOVED['New/Deep/A.md']}more\n"}
        back = await it.manage(
            action="move_folder", folder="New/Deep", new_folder="Old", confirm=True
        )
        assert (back["status"], back.get("refused")) == ("moved", None)
        assert it.files() == FILES | {"Old/A.md": f"{FILES['Old/A.md']}more\n"}


async def test_what_stays_of_a_folder_is_named_with_why(tmp_path, monkeypatch):
    async with vault(tmp_path, FILES | {"Old/.git/config": "c"}) as it:
        (it.folder / "Old/sub/latin.md").write_bytes(b"\xff")
        (it.folder / "Old/A.md").chmod(0o444)

        async def not_known(_self, _note_ids):
            return set()

        with monkeypatch.context() as patches:  # the mark comes after the question
            patches.setattr(Library, "find_read_only", not_known)
            done = await it.manage(**MOVE, confirm=True)
        refused = {
            row.get("id") or row["name"]: row["reason"]
            for row in rows_of(done)
            if row["status"] == "refused"
        }
        assert "may only be read" in refused.pop("Old/A.md")
        assert refused == dict.fromkeys(
            ("Old/Board.canvas", "Old/pic.png", "Old/sub/list.pdf"),
            "It goes when all notes have gone: some are left.",
        )
        (it.folder / "Old/A.md").chmod(0o644)
        rest = await it.manage(**MOVE, confirm=True)
        refused = {row["name"]: row["reason"] for row in rows_of(rest) if "reason" in row}
        assert refused.keys() == {"Old/.git/config", "Old/sub/latin.md"}
        assert all("no file that can be moved" in why for why in refused.values())
        assert sum(row["status"] == "moved along" for row in rows_of(rest)) == 3


async def test_nothing_moves_if_something_is_in_the_way(tmp_path):
    for number, there in enumerate(("New/Deep/A.md", "New/Deep/PIC.png", "New/Deep/sub/b.md")):
        files = FILES | {there: "mine\n"}
        async with vault(tmp_path / str(number), files) as it:
            answer = await it.manage(**MOVE, confirm=True)
            if there.endswith("sub/b.md"):  # another name, where the disk tells letter case apart
                continue
            assert answer["error"]["http_status_code"] == 409, there
            assert it.files() == files


async def test_strange_folders_are_refused(tmp_path):
    async with vault(tmp_path, FILES) as it:
        for old, new in (
            ("Old", "Old/sub"),
            ("Old", "old"),
            ("/", "New"),
            ("Old", "/"),
            ("Old", "../out"),
            ("Old", ".obsidian"),
            ("Old", "a/.b"),
            ("Old", "what?"),
            ("nowhere", "New"),
        ):
            asked = {"action": "move_folder", "folder": old, "new_folder": new, "confirm": True}
            assert "error" in await it.manage(**asked), (old, new)
        assert "error" in await it.manage(action="move_folder", folder="Old")
        assert it.files() == FILES


async def test_a_folder_is_merged_with_one_that_is_there(tmp_path):
    async with vault(tmp_path, FILES | {"New/Deep/Own.md": "own\n"}) as it:
        done = await it.manage(**MOVE, confirm=True)
        assert it.files() == MOVED | {"New/Deep/Own.md": "own\n"}
        await it.undo(done)
        assert it.files() == FILES | {"New/Deep/Own.md": "own\n"}


@pytest.mark.attack(38)
async def test_hidden_notes_stay_and_nothing_tells_of_them(tmp_path):
    secret = {"Old/Secret.md": "#private ![](own.png) ![](guessed.png)\n", "Old/guessed.png": "g"}
    seen = FILES | {"Old/own.png": "o", "Old/Mine.md": "![](guessed.png) ![](./guessed.png)\n"}
    answers = []
    for number, files in enumerate((seen | secret, seen)):
        rules = Visibility(hidden_tags=("private",))
        async with vault(tmp_path / str(number), files, visibility=rules) as it:
            done = await it.manage(**MOVE, confirm=True)
            left = {path: text for path, text in it.files().items() if path.startswith("Old/")}
            # What no visible note shows may be a hidden one's.
            stay = {
                path: files[path]
                for path in ("Old/own.png", "Old/Board.canvas", *secret)
                if path in files
            }
            assert left.keys() >= stay.keys() - {"Old/Board.canvas"}
            assert "Old/A.md" not in left
            new = next(row["id"] for row in rows_of(done) if row["id"].endswith("/A.md"))
            assert new.startswith("New/Deep ")
            # It goes on to show what stays, and it is written so whether there is something or not.
            mine = it.files()[new.replace("/A.md", "/Mine.md")]
            assert mine == "![](guessed.png) ![](../../Old/guessed.png)\n"
            drop = ("begin_untrusted", "untrusted_end")
            answers.append({name: value for name, value in done.items() if name not in drop})
            assert "change_id" not in done  # a name that is taken would betray a hidden note
            known = it.harness.app.cache.database.row("SELECT max(change_id) FROM note_versions")
            refused = await it.undo({"change_id": known[0]})
            assert refused["error"]["subcategory"] == "nothing_to_undo"
            back = {"action": "move_folder", "folder": new.rpartition("/")[0], "new_folder": "Old"}
            there = await it.manage(**back, confirm=True)
            assert (there["status"], there.get("refused")) == ("moved", None)
    assert answers[0] == answers[1]


async def test_a_closed_place_is_no_target_and_its_notes_and_files_stay(tmp_path):
    rules = Visibility(hidden_paths=("New", "Old/sub"))
    files = FILES | {"Old/more.txt": "more"}
    async with vault(tmp_path, files, visibility=rules) as it:
        assert "error" in await it.manage(**MOVE, confirm=True)
        assert it.files() == files
        moved = await it.manage(**MOVE | {"new_folder": "Open"}, confirm=True)
        after = it.files()
        # The picture is one that a closed note shows.
        stays = {"Old/sub/B.md", "Old/sub/list.pdf", "Old/pic.png"}
        assert {"Open/A.md", "Open/more.txt"} | stays <= after.keys()
        assert "pic.png" not in str(moved)


@pytest.mark.attack(38)
async def test_a_hidden_canvas_that_shows_a_file_of_the_folder_is_not_counted(tmp_path):
    files = FILES | {"Closed/Board.canvas": FILES["Main.canvas"]}
    async with vault(tmp_path, files, visibility=Visibility(hidden_paths=("Closed",))) as it:
        assert "and 2 canvases?" in (await it.manage(**MOVE, dry_run=True))["note"]


async def test_a_canvas_that_is_in_use_while_its_cards_are_counted_follows_as_well(
    tmp_path, monkeypatch
):
    count, refused = canvases._count, []

    def in_use(folder, name, path):
        found = count(folder, name, path)
        if not path.endswith(".md") or not found:
            return found
        refused.append(name)
        return None

    monkeypatch.setattr(canvases, "_count", in_use)
    async with vault(tmp_path, FILES) as it:
        done = await it.manage(**MOVE, confirm=True)
        assert (done["status"], done.get("refused")) == ("moved", None)
        assert {*refused} == {"Board.canvas", "Main.canvas"}
        assert it.files() == MOVED


@pytest.mark.parametrize("back", [False, True], ids=["there", "and back"])
async def test_cards_of_files_in_a_canvas_that_is_in_use_all_the_time_follow_later(
    tmp_path, monkeypatch, back
):
    read, held = canvases.read_file, ["Main.canvas"]

    def in_use(parent, name, **how):
        if name in held:
            raise InUse
        return read(parent, name, **how)

    monkeypatch.setattr(canvases, "read_file", in_use)
    async with vault(tmp_path, FILES) as it:
        done = await it.manage(**MOVE, confirm=True)
        assert it.files() == MOVED | {"Main.canvas": FILES["Main.canvas"]}
        if back:
            await it.undo(done)
        held.clear()
        await it.harness.sync()
        assert it.files() == (FILES if back else MOVED)
        assert it.harness.app.cache.sync_state.card_moves() == []


async def test_a_card_stays_with_the_file_that_has_come_to_the_old_path_of_another(
    tmp_path, monkeypatch
):
    read, held = canvases.read_file, ["Main.canvas"]

    def in_use(parent, name, **how):
        if name in held:
            raise InUse
        return read(parent, name, **how)

    monkeypatch.setattr(canvases, "read_file", in_use)
    async with vault(tmp_path, FILES) as it:
        await it.manage(**MOVE, confirm=True)
        (it.folder / "Old").mkdir()
        (it.folder / "Old/pic.png").write_text("another")
        held.clear()
        await it.harness.sync()
        shown = [one["file"] for one in json.loads(it.files()["Main.canvas"])["nodes"]]
        assert shown == ["New/Deep/sub/B.md", "Old/pic.png"]


async def test_limits_count_notes_and_files_and_the_repeated_call_does_the_rest(tmp_path):
    async with vault(tmp_path, FILES, limits=Limits(writes_per_hour=6)) as it:
        answer, rounds = {"left": 1}, 0
        while answer.get("left") and rounds < 12:
            it.harness.now += 3601
            answer = await it.manage(**MOVE, confirm=True)
            assert "error" not in answer
            rounds += 1
        assert it.files() == MOVED
        assert rounds > 1


async def test_where_notes_can_only_be_read_no_folder_moves(tmp_path):
    async with vault(tmp_path, FILES, mode=Mode.READ_ONLY) as it:
        assert (await it.manage(**MOVE, confirm=True))["error"]["subcategory"] == "policy"
        assert it.files() == FILES


async def test_a_file_that_waits_for_a_limit_says_so(tmp_path):
    files = {"Old/A.md": "a\n", "Old/1.png": "1", "Old/2.png": "2", "Old/3.png": "3"}
    async with vault(tmp_path, files, limits=Limits(writes_per_hour=2)) as it:
        answer = await it.manage(**MOVE, confirm=True)
        why = {row["reason"] for row in rows_of(answer) if row["status"] == "refused"}
        assert (why, answer["left"]) == ({"No more changes are permitted now."}, 2)


async def test_what_can_never_move_is_told_and_is_not_left_for_another_call(tmp_path):
    async with vault(tmp_path, {"Old/A.md": "a\n", "Old/.hid/x.txt": "x"}) as it:
        answer = await it.manage(**MOVE, confirm=True)
        assert any("hidden folder" in row.get("reason", "") for row in rows_of(answer))
        assert "left" not in answer
        assert "Repeat the call" not in answer["note"]


async def test_no_folder_moves_below_a_file(tmp_path):
    files = {"Old/a.png": "a", "Note.md": "x\n", "file.txt": "f"}
    async with vault(tmp_path, files) as it:
        for new in ("file.txt", "file.txt/x"):
            answer = await it.manage(**MOVE | {"new_folder": new}, confirm=True)
            assert answer["error"]["subcategory"] == "name_taken", new
        assert it.files() == files


async def test_a_move_of_files_alone_is_recorded_before_it_is_made(tmp_path):
    files = {"Old/a.png": "a", "Note.md": "![](Old/b.png)\n", "Old/b.png": "b"}
    async with vault(tmp_path, files) as it:
        done = await it.manage(**MOVE, confirm=True)
        assert it.files() == {
            "New/Deep/a.png": "a",
            "New/Deep/b.png": "b",
            "Note.md": "![](New/Deep/b.png)\n",
        }
        await it.undo(done)
        assert it.files() == files
    (tmp_path / "alone").mkdir()
    alone = {"Old/a.png": "a", "Note.md": "x\n"}
    async with vault(tmp_path / "alone", alone) as it:
        versions = it.harness.app.cache.versions
        versions.limits = replace(versions.limits, days=0)  # a file needs none to come back
        begun = it.harness.app.audit.last_begun
        done = await it.manage(**MOVE, confirm=True)
        assert it.harness.app.audit.last_begun > begun
        assert "New/Deep/a.png" in it.files()
        assert "takes all of it back" in done["note"]
        await it.undo(done)
        assert it.files() == alone


def meanings(files):
    """What each link of each note means, by Obsidian's rules and as a relative path."""
    found = {}
    named = {}
    for path in files:
        named.setdefault(name_key(path), []).append(path)
    for source, text in files.items():
        if not source.endswith(".md"):
            continue
        for number, link in enumerate(find_links(text)):
            near = relative_place(link.target, source) if link.form != "wiki" else None
            meant = resolve(link.target, source, named.get(name_key(link.target), ()))
            found[source, number] = near if near in files else meant
    return found


@pytest.mark.parametrize("seed", range(12))
async def test_after_any_move_every_link_means_what_it_meant(seed):
    dice = random.Random(seed)
    folders = ["", "Old/", "Old/sub/", "Old/sub/deep/", "x/", "x/Old/"]
    names = [
        f"{folder}{name}" for folder in folders for name in ("A.md", "B.md", "C d.md", "p.png")
    ]
    paths = [*dice.sample(names, 14), "Old/A.md", "Top.md"]

    def link(source):
        target = dice.choice(paths)
        stem = target.removesuffix(".md")
        up = "../" * source.count("/")
        near = f"{up}{target}".replace(" ", "%20")
        return dice.choice(
            (
                f"[[{stem}]]",
                f"![[{stem.rpartition('/')[2]}]]",
                f"[x]({near})",
                f"[[{target}|shown]]",
            )
        )

    files = {
        path: " and ".join(link(path) for _ in range(dice.randint(0, 4))) + "\n"
        if path.endswith(".md")
        else path
        for path in paths
    }
    with quick_folder() as folder:
        async with vault(folder, files) as it:
            before = meanings(files)
            done = await it.manage(**MOVE, confirm=True)
            assert done.get("refused") is None, done

            def then(path):
                return f"New/Deep{path[3:]}" if path and path.startswith("Old/") else path

            after = it.files()
            assert after.keys() == {then(path) for path in files}
            wanted = {
                (then(source), number): then(meant) for (source, number), meant in before.items()
            }
            got = meanings(after)
            assert {one: meant for one, meant in got.items() if wanted[one] is not None} == {
                one: meant for one, meant in wanted.items() if meant is not None
            }
            undone = await it.undo(done)
            assert undone.get("refused") is None, undone
            assert it.files() == files


async def test_a_move_that_met_a_limit_goes_on_and_breaks_no_link(tmp_path):
    """A note that has yet to move may link to where another one was: the link follows it all the same."""
    files = {
        "A/a.md": "target\n",
        "A/b.md": "see [[A/a]] and [m](a.md) ![[A/p.png]]\n",
        "A/c.md": "see [[A/a]]\n",
        "A/p.png": "p",
        "Top.md": "[[A/c]] [[A/a]]\n",
    }
    move = {"action": "move_folder", "folder": "A", "new_folder": "Z", "confirm": True}
    async with vault(tmp_path, files, limits=Limits(writes_per_session=1)) as it:
        none = await it.manage(**move)
        assert rows_of(none)[0]["reason"].startswith("It takes 2 changes")
        assert it.files() == files
    async with vault(tmp_path, {}, again=True, limits=Limits(writes_per_session=2)) as it:
        await it.manage(**move)
        assert "Z/a.md" in it.files()
        assert "A/b.md" in it.files()
    async with vault(tmp_path, {}, again=True) as it:
        await it.manage(**move)
        assert it.files() == {
            "Z/a.md": "target\n",
            "Z/b.md": "see [[Z/a]] and [m](a.md) ![[Z/p.png]]\n",
            "Z/c.md": "see [[Z/a]]\n",
            "Z/p.png": "p",
            "Top.md": "[[Z/c]] [[Z/a]]\n",
        }


TEXT_CARD = '{"nodes":[\n\t{"text":"see [[Old/A|\\u00e9 \\"a\\"]] and\\n[b](Old\\/sub/B.md) `[[Old/A]]` [[none]]", "type":"text"},{"type":"link","text":"[[Old/A]]"}]}'
SMALL = {
    "Old/A.md": "a\n",
    "Old/sub/B.md": "b\n",
    "Main.canvas": TEXT_CARD,
    "Top.md": "[[Old/A]]\n",
}


def text_card(one, two):
    return TEXT_CARD.replace("see [[Old/A|", f"see [[{one}|").replace("Old\\/sub/B.md", two)


async def test_links_in_texts_of_a_canvas_follow_a_folder_and_a_note_and_come_back(tmp_path):
    """Each other byte of the canvas stays; the answer names what has changed beside the notes that moved."""
    async with vault(tmp_path, SMALL) as it:
        problems = await it.manage(action="find_problems")
        broken = [one for one in problems["problems"] if one["kind"] == "broken_link"]
        asked = await it.manage(**MOVE)
        assert asked["error"]["message"].endswith("links in 1 other note and 1 canvas?")
        assert broken == [{"kind": "broken_link", "link": "none", "file": "Main.canvas"}]
        done = await it.manage(**MOVE, confirm=True)
        assert it.files()["Main.canvas"] == text_card("New/Deep/A", "New/Deep/sub/B.md")
        followed = [one for one in rows_of(done) if one["status"] == "links changed"]
        assert [one.get("id") or one["name"] for one in followed] == ["Top.md", "Main.canvas"]
        assert "Links were changed in 1 other note and 1 canvas." in done["note"]
        await it.undo(done)
        assert it.files() == SMALL | {"Main.canvas": text_card("Old/A", "Old/sub/B.md")}
        one = {"action": "change", "ids": ["Old/A.md"], "folder": "Else"}
        assert " in 1 other note and 1 canvas." in (await it.manage(**one, dry_run=True))["note"]
        asked = await it.manage(**one)
        assert asked["error"]["message"].endswith(
            " Links to them change in 1 other note and 1 canvas."
        )
        moved = await it.manage(**one, confirm=True)
        assert it.files()["Main.canvas"] == text_card("Else/A", "Old/sub/B.md")
        await it.undo(moved)
        assert it.files()["Main.canvas"] == text_card("Old/A", "Old/sub/B.md")


async def test_a_limit_is_told_in_the_status_with_what_to_do(tmp_path):
    async with vault(tmp_path, FILES, limits=Limits(writes_per_hour=5)) as it:
        done = await it.manage(**MOVE, confirm=True)
        assert (done["status"], done["left"] > 0) == ("moved in part", True)
        assert "A limit on changes leaves them as they are until it permits more." in done["note"]


async def test_relative_links_of_notes_that_move_together_stay_as_they_are(tmp_path):
    """Also in a call that a limit cuts after the first of them; a note that stays is linked to where it is."""
    files = {
        "Old/A.md": "[b](./B.md) [b](B.md) [[./B]] [c](C.md)\n",
        "Old/B.md": "[a](./A.md) [a](A.md)\n",
        "Old/C.md": "[a](./A.md)\n",
    }
    asked = {"action": "change", "ids": ["Old/A.md", "Old/B.md"], "folder": "New", "confirm": True}
    then = {
        "New/A.md": "[b](./B.md) [b](B.md) [[./B]] [c](../Old/C.md)\n",
        "New/B.md": files["Old/B.md"],
        "Old/C.md": "[a](../New/A.md)\n",
    }
    async with vault(tmp_path / "whole", files) as it:
        done = await it.manage(**asked)
        assert it.files() == then
        await it.undo(done)
        assert it.files() == files
    async with vault(tmp_path / "cut", files, limits=Limits(writes_per_hour=2)) as it:
        first = await it.manage(**asked)
        assert (first["status"], first["left"]) == ("changed in part", 1)
        it.harness.now += 3601
        await it.manage(**asked)
        assert it.files() == then


@pytest.mark.attack(38)
async def test_what_a_canvas_links_to_is_not_told_where_rules_hide_notes(tmp_path):
    files = SMALL | {"Secret.md": "#private\n"}
    files["Main.canvas"] = '{"nodes":[{"type":"text","text":"[[Secret]] [[none]]"}]}'
    async with vault(tmp_path, files, visibility=Visibility(hidden_tags=("private",))) as it:
        problems = await it.manage(action="find_problems")
        assert "broken_link" not in {one["kind"] for one in problems["problems"]}
        assert problems["totals"]["broken_link"] == 0


@pytest.mark.parametrize("writes", [None, 3])
async def test_links_follow_notes_that_move_together_under_new_names(tmp_path, writes):
    files = {
        "Old/A.md": "[[B]]\n",
        "Old/B.md": "[[A]]\n",
        "Top.md": "[[A]] [[Old/B|b]] [a](Old/A.md)\n",
    }
    asked = {"action": "change", "ids": ["Old/A", "Old/B"], "folder": "New", "confirm": True}
    rules = {"visibility": Visibility(hidden_tags=("private",))}
    async with vault(tmp_path, files, limits=Limits(writes_per_hour=writes), **rules) as it:
        answer = await it.manage(**asked)
        if writes is not None:
            assert (answer["status"], answer["left"]) == ("changed in part", 1)
            it.harness.now += 3601
            answer = await it.manage(**asked)
        assert answer["status"] == "changed"
        after = it.files()
        [a], [b] = ([one[4:-3] for one in after if one.startswith(f"New/{x}")] for x in "AB")
        assert (len(a), len(b)) == (10, 10)
        assert after == {
            f"New/{a}.md": f"[[{b}]]\n", f"New/{b}.md": f"[[{a}]]\n",
            "Top.md": f"[[{a}]] [[New/{b}|b]] [a](New/{a.replace(' ', '%20')}.md)\n",
        }  # fmt: skip
