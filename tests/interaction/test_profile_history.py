"""A profile sees of a note's versions those that the note had while it was seen, and undoes no others."""

from __future__ import annotations

import json

import pytest

from mcp_notarium.domain.policy import EVERYTHING, Policy, Visibility
from mcp_notarium.stores.contract import Versions
from support.sync_rig import quick_folder
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio


async def test_versions_from_before_a_note_was_hidden_do_not_come_back_with_it():
    rules = EVERYTHING.narrowed(Visibility(hidden_tags=("private",)))
    with quick_folder() as folder:
        policy = Policy(visibility=rules, profile="guest")
        harness = ToolHarness(folder, policy=policy, versions=Versions.NONE)
        harness.store.put("plan", "first", now=harness.now, tags=[])
        await harness.sync()
        async with connected(harness.opened) as client:

            async def ask(tool, **arguments):
                result = await client.call_tool(tool, arguments)
                return json.loads(result.content[0].text)

            await ask("save", id="plan", append="second")
            await ask("save", id="plan", append="third")
            history = (await ask("manage", action="history", id="plan"))["history"]
            assert len(history) == 3
            old = await ask("get", id="plan", version=history[-1]["version"])
            assert old["text"] == "first"
            undone = await ask("manage", action="undo", id="plan", confirm=True)
            assert undone["status"] == "undone"
            for tags in (["private"], []):
                harness.now += 60
                harness.store.put("plan", "as the user has it", now=harness.now, tags=tags)
                await harness.sync()
                seen = await ask("get", id="plan")
                assert (seen.get("category") == "NOT_FOUND") == bool(tags)
            assert len((await ask("manage", action="history", id="plan"))["history"]) == 1
            gone = await ask("get", id="plan", version=history[-1]["version"])
            assert gone["category"] == "NOT_FOUND"
            await ask("save", id="plan", append="new")
            back = await ask("manage", action="undo", id="plan", confirm=True)
            assert back["status"] == "undone"
            assert (await ask("get", id="plan"))["text"] == "as the user has it"
        harness.close()
