"""Notes outside of what a profile may change are read by agents and changed by no way, each file byte for byte."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.domain.write_scope import WriteScope
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.toolsets import find_toolset
from support.bulk_results import rows_of
from support.sync_rig import quick_folder
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio
FILES = {
    "Inbox/mine.md": "# Mine\n\n- [ ] one\n",
    "Inbox/other.md": "#agent other\n",
    "Work/plan.md": "---\nstatus: open\n---\n# Plan\n\n- [ ] do it\n\n#work see [[mine]]\n",
    "Work/tagged.md": "#work text\n",
    "Work/picture.png": "no note",
}
PLAN = "Work/plan.md"


def narrowed(**scope):
    return Policy(writing=WriteScope().narrowed(WriteScope(**scope)), profile="agent")


@asynccontextmanager
async def vault(policy, files=FILES):
    with quick_folder() as folder:
        base = folder / "vault"
        for path, text in files.items():
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text(text)
        remote = VaultStore(base)
        harness = ToolHarness(folder, remote=remote, policy=policy)
        harness.ticking = True
        await harness.sync()

        def outside():
            found = (path for path in base.rglob("*") if path.is_file())
            texts = {str(path.relative_to(base)): path.read_text() for path in found}
            return {path: text for path, text in texts.items() if not path.startswith("Inbox/")}

        try:
            async with connected(harness.opened, toolset=find_toolset("with_paths")) as client:

                async def call(tool, **arguments):
                    result = await client.call_tool(tool, arguments)
                    if result.is_error:
                        return {"error": json.loads(result.content[0].text)}
                    return dict(result.structured_content)

                yield call, outside, base
        finally:
            await remote.close()
            harness.close()


def refused(answer):
    """Whether the answer is a refusal that names what is writable."""
    error = answer.get("error", {})
    return error.get("subcategory") == "policy" and '"Inbox"' in error["resolution_hint"]


async def test_no_tool_changes_or_moves_a_note_outside_of_the_writable_folder():
    async with vault(narrowed(paths=("Inbox",))) as (call, outside, _):
        before = outside()
        read = await call("get", id=PLAN)
        assert "do it" in read["text"]
        known = {"id": PLAN, "local_version": read["local_version"], "confirm": True}
        for more in (
            {"text": "other"},
            {"append": "more"},
            {"find": "do it", "replace": "done it"},
            {"section": "Plan", "text": "x"},
            {"task": "do it", "done": True},
            {"tags": ["agent"]},
            {"add_tags": ["agent"]},
            {"properties": {"status": "done"}},
            {"title": "Plan 2", "rewrite_links": True},
            {"title": "Inbox/plan"},
            {"trash": True},
        ):
            answer = await call("save", **known, **more)
            assert refused(answer), (more, answer)
        # Also what changes nothing: the note is like that already.
        for more in ({"text": read["text"]}, {"trash": False}, {"remove_tags": ["none"]}):
            answer = await call("save", **known, **more)
            assert refused(answer), (more, answer)
        for action in ("trash", "untrash", "delete_permanently"):
            answer = await call("manage", action=action, **known)
            assert refused(answer), (action, answer)
        for action in ("trash", "untrash"):
            answer = await call("manage", action=action, ids=[PLAN], confirm=True)
            assert "may only be read" in answer["results"][0]["reason"], (action, answer)
        mine = await call("get", id="Inbox/mine.md")
        mine = {"id": "Inbox/mine.md", "local_version": mine["local_version"], "confirm": True}
        # Out of the folder, and links that would follow into what may only be read.
        away = await call("manage", action="change", ids=[mine["id"]], folder="Work", confirm=True)
        assert "may be changed here" in away["results"][0]["reason"]
        answer = await call("save", **mine, title="Mine 2", rewrite_links=True)
        assert refused(answer)
        assert answer["error"]["details"]["ids"] == [PLAN]
        assert refused(await call("save", text="# New\n\nin no folder"))
        for folder, to in (("Work", "Inbox/Work"), ("Work", "Old"), ("Inbox", "Old")):
            answer = await call(
                "manage", action="move_folder", folder=folder, new_folder=to, confirm=True
            )
            assert "error" in answer, (folder, to, answer)
        many = await call(
            "manage", action="change", query="text OR plan OR other", add_tags=["x"], confirm=True
        )
        rows = {row["id"]: row for row in rows_of(many)}
        assert "only be read" in rows["Work/tagged.md"]["reason"]
        assert rows["Inbox/other.md"]["status"] == "changed"
        await call("manage", action="rename_tag", tag="work", new_tag="labour", confirm=True)
        assert outside() == before

        saved = await call("save", **mine, append="two")
        assert "error" not in saved
        new = await call("save", title="Inbox/New", text="made here")
        assert new.get("id", "").startswith("Inbox/"), new
        assert "error" not in await call("manage", action="undo", id=mine["id"], confirm=True)
        assert outside() == before


MARKED = {
    PLAN: "---\nstatus: open\n---\n- [ ] do it\n\nsee [[mine]]\n",
    "Work/Sub/b.md": "see [[plan]]\n",
    "Work/p.png": "p",
    "Inbox/mine.md": "mine\n",
    "Inbox/c.canvas": '{"nodes":[{"type":"file","file":"Inbox/mine.md"}]}',
}


@pytest.mark.parametrize(
    ("marked", "mode"),
    [((PLAN, "Inbox/c.canvas"), 0o444), (("Work",), 0o555)],
    ids=["file", "folder"],
)
async def test_a_note_whose_file_or_folder_is_marked_as_read_only_is_changed_by_no_way(
    marked, mode
):
    async with vault(PERMISSIVE, MARKED) as (call, outside, base):
        before = outside()
        for one in marked:
            (base / one).chmod(mode)
        read = await call("get", id=PLAN)
        known = {"id": PLAN, "local_version": read["local_version"], "confirm": True}
        for more in (
            {"text": "other"},
            {"text": read["text"]},
            {"append": "more"},
            {"task": "do it", "done": True},
            {"add_tags": ["x"]},
            {"properties": {"status": "done"}},
            {"title": "Plan 2", "rewrite_links": True},
            {"title": "Inbox/plan", "rewrite_links": True},
            {"trash": True},
        ):
            answer = await call("save", **known, **more)
            assert answer["error"]["subcategory"] == "read_only", (more, answer)
        for action in ("trash", "untrash"):
            answer = await call("manage", action=action, **known)
            assert answer["error"]["subcategory"] == "read_only", (action, answer)
        for more in ({"dry_run": True}, {"confirm": True}):
            asked = {"action": "change", "ids": [PLAN], "folder": "Else"} | more
            [row] = rows_of(await call("manage", **asked))
            assert (row["status"], "may only be read" in row["reason"]) == ("refused", True)
            asked = {"action": "move_folder", "folder": "Work", "new_folder": "Else"} | more
            error = (await call("manage", **asked))["error"]
            [left] = error["details"]["refused"]
            assert (left["id"], "may only be read" in left["reason"]) == (PLAN, True)
        # The link in it stays, and nothing says that a later sync changes it.
        mine = (await call("get", id="Inbox/mine.md"))["local_version"]
        asked = {"id": "Inbox/mine.md", "local_version": mine, "title": "Mine 2"}
        answer = await call("save", **asked, rewrite_links=True)
        assert f"They are left in: {PLAN}." in answer["note"]
        assert "next sync" not in answer["note"]
        assert ("Left alone" in answer["note"]) == (mode == 0o444)
        stats = (await call("manage", action="get_stats"))["stats"]
        assert (stats["pending_writes"], stats["rejected_writes"]) == (0, 0)
        assert outside() == before
        if mode == 0o555:
            answer = await call("save", title="Work/new", text="new")
            assert answer["error"]["subcategory"] == "read_only"
        for one in marked:
            (base / one).chmod(0o755)
        assert "error" not in await call("save", **known, append="more")
        trashed = await call("manage", action="trash", id=PLAN, local_version=2)
        (base / ".trash" / PLAN).chmod(0o444)
        gone = {"id": PLAN, "local_version": trashed["new_local_version"], "confirm": True}
        for action in ("untrash", "delete_permanently"):
            error = (await call("manage", action=action, **gone))["error"]
            assert error["subcategory"] == "read_only", (action, error)


BESIDE = {
    "a card of a note": '{"nodes":[{"type":"file","file":"Inbox/Old/A.md"}]}',
    "a link in a text": '{"nodes":[{"type":"text","text":"[[Inbox/Old/A]]"}]}',
    "a card of a file": '{"nodes":[{"type":"file","file":"Inbox/Old/pic.png"}]}',
}


async def test_a_canvas_that_is_only_read_keeps_a_whole_folder_where_it_is():
    moved = {"Inbox/Old/A.md": "a\n", "Inbox/Old/B.md": "b\n", "Inbox/Old/pic.png": "p"}
    move = {"action": "move_folder", "folder": "Inbox/Old", "new_folder": "Inbox/New"}
    async with vault(narrowed(paths=("Inbox",)), moved | {"Work/c.canvas": "{}"}) as it:
        call, base = it[0], it[2]
        for case, text in BESIDE.items():
            (base / "Work/c.canvas").write_text(text)
            for more in ({"dry_run": True}, {"confirm": True}):
                answer = await call("manage", **move, **more)
                assert "nothing was moved" in answer["error"]["message"], (case, more, answer)
            assert [one for one in moved if not (base / one).exists()] == [], case
        (base / "Work/c.canvas").write_text("{}")
        assert (await call("manage", **move, confirm=True))["status"] == "moved"


async def test_a_tag_that_makes_notes_writable_is_given_and_taken_by_no_agent():
    with quick_folder() as folder:
        base = Policy(writing=WriteScope(tags=("agent", "both")))
        own = Policy(writing=WriteScope(tags=("both",), ids=("named",)))
        harness = ToolHarness(folder, policy=base.narrowed("agent", own))
        for note_id, tags in {
            "both": ["both"],
            "base": ["agent"],
            "named": [],
            "free": ["x"],
        }.items():
            harness.store.put(note_id, f"text of {note_id}", now=harness.now, tags=tags)
        await harness.sync()
        async with connected(harness.opened) as client:

            async def save(note_id, **more):
                arguments = (
                    {"id": note_id, "append": "more"} if not more else {"id": note_id, **more}
                )
                result = await client.call_tool("save", arguments)
                return (
                    json.loads(result.content[0].text).get("subcategory")
                    if result.is_error
                    else "saved"
                )

            assert await save("both") == "saved"
            for note_id in ("base", "named", "free"):
                assert await save(note_id) == "policy", note_id
                for action in ("trash", "untrash", "pin", "unpin", "delete_permanently"):
                    asked = {"action": action, "id": note_id, "local_version": 1}
                    answer = await client.call_tool("manage", asked)
                    assert json.loads(answer.content[0].text)["subcategory"] == "policy", action
            assert await save("free", add_tags=["both"]) == "policy"
            assert await save("both", remove_tags=["both"]) == "policy"
            assert await save("both", remove_tags=["BOTH"], add_tags=["other"]) == "policy"
            assert await save("both", add_tags=["other"]) == "saved"
            # The user takes the note out of the scope: the next save meets that at the store.
            harness.store.put("both", "text of both", now=harness.now, tags=["other"])
            assert await save("both") == "policy"
            made = await client.call_tool("save", {"text": "new", "tags": ["both"]})
            assert not made.is_error
            assert (await client.call_tool("save", {"text": "new", "tags": ["agent"]})).is_error
        harness.close()
