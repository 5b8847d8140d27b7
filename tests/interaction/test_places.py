"""Folders with their counts, and what hangs loose: links that lead nowhere, notes without links or tags, files nobody shows."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from mcp_notarium.domain.policy import Field, Limits, Policy, Visibility
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.toolsets import find_toolset
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.undo_places import PLACES

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def vault(folder, files, **policy):
    """A client of a vault with these files; it calls ``manage``."""
    for path, text in files.items():
        (folder / "vault" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "vault" / path).write_text(text)
    remote = VaultStore(folder / "vault")
    harness = ToolHarness(folder, remote=remote, policy=Policy(**policy))
    await harness.sync()
    try:
        async with connected(harness.opened, toolset=find_toolset("with_paths")) as client:

            async def manage(action, **arguments):
                result = await client.call_tool("manage", {"action": action} | arguments)
                if result.is_error:
                    return {"error": json.loads(result.content[0].text)}
                return dict(result.structured_content)

            yield manage
    finally:
        await remote.close()
        harness.close()


def rows(answer, kind):
    return [
        tuple(value for name, value in row.items() if name != "kind")
        for row in answer["problems"]
        if row["kind"] == kind
    ]


async def test_folders_are_listed_with_the_notes_in_them_and_below(tmp_path):
    files = dict.fromkeys(
        ("A.md", "Work/B.md", "Work/2026/C.md", "Work/2026/D.md", "x/y/z/E.md", "pics/p.png"),
        "text",
    )
    async with vault(tmp_path, files | {".trash/Work/gone.md": "gone"}) as manage:
        answer = await manage("list_folders")
        assert [tuple(row.values()) for row in answer["folders"]] == [
            ("/", 1, 5),
            ("Work", 1, 3),
            ("Work/2026", 2, 2),
            ("x", 0, 1),
            ("x/y", 0, 1),
            ("x/y/z", 1, 1),
        ]
        assert answer["total"] == 6
        assert "begin_untrusted" in answer


async def test_folders_come_in_pages_of_what_the_policy_permits_and_hidden_ones_do_not_exist(
    tmp_path,
):
    files = {"a/A.md": "text", "b/B.md": "text", "c/C.md": "#private", "d/D.md": "text"}
    rules = Visibility(hidden_tags=("private",), hidden_paths=("d",))
    async with vault(tmp_path, files, visibility=rules, limits=Limits(notes_per_call=2)) as manage:
        first = await manage("list_folders")
        second = await manage("list_folders", page=2)
        assert [row["folder"] for row in first["folders"]] == ["/", "a"]
        assert (first["total"], first["next_page"]) == (3, 2)
        assert [row["folder"] for row in second["folders"]] == ["b"]
        assert "next_page" not in second


LOOSE = {
    "A.md": "#t\n\nto [[B]] and [[Nowhere#part|shown]]\n",
    "B.md": "#t ![[pic.png]] [x](sub/rel.pdf) [y](sub/none.pdf) `[[code]]`\n",
    "C.md": "alone, and [[C]]\n",
    "D.md": "#t shown by a canvas\n",
    "sub/E.md": "#t [up](../A.md) ![](near.png) [web](https://example.org/x)\n",
    "F.md": "---\naliases: [Other]\ntags: [t]\n---\nto [[../out]]\n",
    "G.md": "#t to [[Other]]\n",
    "pics/pic.png": "p",
    "pics/loose.png": "p",
    "sub/rel.pdf": "p",
    "sub/near.png": "p",
    "near.png": "another, which Obsidian would not take for the one beside the note",
    "sub/on card.png": "p",
    "sub/in text.png": "p",
    "Board.canvas": json.dumps(
        {
            "nodes": [
                {"type": "file", "file": "D.md"},
                {"type": "file", "file": "sub/on card.png"},
                {"type": "text", "text": "![[in text.png]] and [[A]]"},
                {"type": "file"},
                "odd",
            ]
        }
    ),
    "Broken.canvas": "{",
    ".trash/T.md": "[[Nowhere at all]] ![[loose.png]]",
    ".obsidian/app.json": "{}",
}


async def test_what_hangs_loose_is_told_with_where(tmp_path):
    async with vault(tmp_path, LOOSE) as manage:
        answer = await manage("find_problems")
        assert rows(answer, "broken_link") == [
            ("A.md", "Nowhere", 3),
            ("B.md", "sub/none.pdf", 1),
            ("F.md", "../out", 5),
        ]
        assert rows(answer, "no_links") == [("C.md",)]
        assert rows(answer, "no_tags") == [("C.md",)]
        assert rows(answer, "unlinked_file") == [("near.png",), ("pics/loose.png",)]
        assert answer["totals"] == {
            "broken_link": 3,
            "no_links": 1,
            "no_tags": 1,
            "unlinked_file": 2,
        }
        assert "begin_untrusted" in answer


async def test_many_problems_come_in_pages_with_their_totals(tmp_path):
    files = {f"n{number:03}.md": f"[[gone {number}]]" for number in range(60)}
    async with vault(tmp_path, files) as manage:
        pages = [await manage("find_problems", page=page) for page in (1, 2, 3, 4)]
        assert [page.get("next_page") for page in pages] == [2, 3, None, None]
        assert [len(rows(page, "broken_link")) for page in pages] == [25, 25, 10, 0]
        found = [row for page in pages for row in rows(page, "broken_link")]
        assert len(set(found)) == 60
        assert pages[0]["totals"] == {
            "broken_link": 60,
            "no_links": 60,
            "no_tags": 60,
            "unlinked_file": 0,
        }


@pytest.mark.attack(38)
async def test_a_link_to_a_hidden_note_is_a_broken_one_and_hidden_places_show_no_file(tmp_path):
    files = {
        "A.md": "#t to [[Secret]], [[B]], ![[safe/p.png]] and ![[mine.png]]\n",
        "B.md": "#t\n",
        "Secret.md": "#private to [[B]] ![[mine.png]]\n",
        "mine.png": "p",
        "safe/p.png": "p",
        "safe/q.png": "p",
        "safe/Own.md": "#t ![[lone.png]]\n",
        "lone.png": "p",
    }
    rules = Visibility(hidden_tags=("private",), hidden_paths=("safe",))
    async with vault(tmp_path, files, visibility=rules) as manage:
        answer = await manage("find_problems")
        assert rows(answer, "broken_link") == [
            ("A.md", "Secret", 1),
            ("A.md", "safe/p.png", 1),
            ("A.md", "mine.png", 1),  # else a link tells that a hidden note's file is there
        ]
        assert rows(answer, "no_links") == []
        assert "unlinked_file" not in answer["totals"]  # a hidden note may be the one that shows it
    (tmp_path / "open").mkdir()
    closed = Visibility(hidden_paths=("safe",))
    async with vault(tmp_path / "open", files, visibility=closed) as manage:
        answer = await manage("find_problems")
        assert rows(answer, "unlinked_file") == []
        assert answer["totals"]["unlinked_file"] == 0


async def test_a_part_that_is_hidden_is_not_looked_at(tmp_path):
    async with vault(tmp_path, LOOSE, hidden_fields=frozenset({Field.TEXT})) as manage:
        assert (await manage("find_problems"))["totals"] == {"no_tags": 1}
    (tmp_path / "two").mkdir()
    fields = frozenset({Field.TEXT, Field.TAGS})
    async with vault(tmp_path / "two", LOOSE, hidden_fields=fields) as manage:
        assert (await manage("find_problems"))["error"]["subcategory"] == "policy"


@pytest.mark.parametrize("store", sorted(PLACES.keys() - {"vault", "jotter", "trilium"}))
async def test_a_store_without_folders_says_so_and_tells_which_notes_have_no_tags(store, tmp_path):
    ids = []

    def put(place):
        ids.extend(place.put(name, "text", tags=tags) for name, tags in (("a", ["t"]), ("b", [])))

    async with PLACES[store](tmp_path, put) as place:
        error = json.loads((await place.call("manage", action="list_folders"))["error"])
        assert error["subcategory"] == "no_folders"
        answer = await place.call("manage", action="find_problems")
        assert answer["problems"] == [{"kind": "no_tags", "id": ids[1]}]
        assert answer["totals"] == {"no_tags": 1}


async def test_trilium_lists_the_notes_with_others_below_them(tmp_path):
    def put(place):
        document = place.sim.document
        for name, parents in {
            "Work": ["root"],
            "Plans": ["Work", "Archive"],
            "Archive": ["root"],
            "PlanA": ["Plans"],
            "PlanB": ["Plans", "Work"],
            "Secret": ["root"],
            "Inner": ["Secret", "Inner2"],
            "Inner2": ["Inner"],
            "Private": ["Plans", "PlanA"],
        }.items():
            place.sim.write(name, f"{name} title", "<p>x</p>")
            for parent in parents:
                document.place(name, parent)
            if "root" not in parents:
                document.unplace(document.branches[f"root_{name}"])
        for name in ("Secret", "Private"):
            document.set_attribute(f"l{name}", name, "label", "private", "")

    policy = Policy(visibility=Visibility(hidden_tags=("private",)))
    async with PLACES["trilium"](tmp_path, put, policy) as place:
        answer = await place.call("manage", action="list_folders")
        assert [tuple(row.values()) for row in answer["folders"]] == [
            ("root", 2, 5),
            ("Work", "Work title", 2, 3),
            ("Plans", "Work title > Plans title", 2, 2),
            ("Archive", "Archive title", 1, 3),
            ("Inner", "Inner title", 1, 1),
            ("Inner2", "Inner title > Inner2 title", 1, 1),
        ]
        assert answer["total"] == 6
        assert answer["untrusted_end"]
    (tmp_path / "second").mkdir()
    policy = Policy(hidden_fields=frozenset({Field.TEXT}), limits=Limits(notes_per_call=2))
    async with PLACES["trilium"](tmp_path / "second", put, policy) as place:
        first = await place.call("manage", action="list_folders")
        assert (len(first["folders"]), first["next_page"], first["total"]) == (2, 2, 8)
        assert not any("title" in row for row in first["folders"])
