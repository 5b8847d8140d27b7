"""Move notes in the tree of a running Trilium server, if one is named, and bring them back."""

from __future__ import annotations

import pytest

from mcp_notarium.tools.toolsets import find_toolset
from support.real_trilium import URL, open_store, real_bench
from support.tool_client import connected
from support.tool_harness import ToolHarness

if not URL:
    pytest.skip("no Trilium server was named (docs/testing.md)", allow_module_level=True)
pytestmark = pytest.mark.anyio


async def test_a_note_moves_with_all_below_it_and_comes_back_to_its_position(tmp_path):
    async with real_bench() as bench:
        person = bench.person
        for number, (name, parent) in enumerate(
            (("MoveWork", "root"), ("MovePlans", "MoveWork"), ("MoveNext", "MoveWork"), ("MoveBelow", "MovePlans"), ("MoveArchive", "root"))
        ):  # fmt: skip
            await person.write(name, f"{name} title", f"<p>text {number}</p>", parent)
        label = {"noteId": "MoveArchive", "type": "label", "name": "old", "value": "yes"}
        label |= {"isInheritable": True, "attributeId": "MoveLabel123"}
        await person.ask("POST", "/attributes", json=label)
        await person.ask("PATCH", "/branches/MoveWork_MovePlans", json={"prefix": "first"})
        before = (await person.ask("GET", "/branches/MoveWork_MovePlans")).json()

        async def places(name: str) -> list[str]:
            return list((await person.ask("GET", f"/notes/{name}")).json()["parentNoteIds"])

        remote = open_store()
        harness = ToolHarness(tmp_path, remote=remote)
        try:
            await harness.sync()
            async with connected(
                harness.opened, toolset=find_toolset("trilium_both"), seconds=120
            ) as client:

                async def manage(**arguments: object) -> dict[str, object]:
                    asked = {"confirm": True} | arguments
                    return dict((await client.call_tool("manage", asked)).structured_content or {})

                # A title is a path only if something stands below it.
                asked = {"action": "change", "ids": ["MovePlans"]}
                refused = await client.call_tool("manage", asked | {"folder": "MoveArchive title"})
                assert refused.is_error
                moved = await manage(**asked, folder="MoveArchive")
                assert moved["status"] == "changed"
                assert await places("MovePlans") == ["MoveArchive"]
                assert await places("MoveBelow") == ["MovePlans"]
                branch = (await person.ask("GET", "/branches/MoveArchive_MovePlans")).json()
                assert branch["noteId"] == "MovePlans"
                note = (await client.call_tool("get", {"id": "MovePlans"})).structured_content
                assert (note["tags"], note["properties"]) == (["old"], {"old": "yes"})
                undone = await manage(action="undo", change_id=moved["change_id"])
                assert undone["status"] == "undone"
                assert await places("MovePlans") == ["MoveWork"]
                after = (await person.ask("GET", "/branches/MoveWork_MovePlans")).json()
                kept = ("prefix", "notePosition")
                assert [after[one] for one in kept] == [before[one] for one in kept]
                children = (await person.ask("GET", "/notes/MoveWork")).json()["childNoteIds"]
                assert children == ["MovePlans", "MoveNext"]
                below = await manage(
                    action="move_folder", folder="MoveWork", new_folder="MoveBelow"
                )
                assert below["refused"] == 1
                assert await places("MoveWork") == ["root"]
        finally:
            await remote.close()
            harness.close()
