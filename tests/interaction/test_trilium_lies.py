"""Test that no wrong answer of a Trilium server, or of a proxy before it, becomes the note or replaces it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
from mcp.shared.exceptions import MCPError

from mcp_notarium.tools.catalog import TITLED
from support.long import sample
from support.lying_trilium import ENDPOINTS, LIES, LyingTrilium
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
ID, OTHER = "Plan12345678", "Other1234567"
PARAGRAPHS = [f"Paragraph {number} of the plan." for number in range(30)]
TODAY = "Written by the user today."
NEVER = ("Sign in to", "Another note", "\\ufffd")
"""What stands in wrong answers alone."""


def html(*paragraphs):
    return "".join(f"<p>{one}</p>" for one in paragraphs)


@asynccontextmanager
async def told(folder, lie):
    """A client that has read yesterday's note; the user has written since, and then the lies begin."""
    async with LyingTrilium(OTHER).serving() as sim:
        sim.write(ID, "Plan", html(*PARAGRAPHS))
        sim.write(OTHER, "Another note", html("Another note's text."))
        remote = open_trilium(sim)
        harness = ToolHarness(folder, remote=remote)
        harness.ticking = True
        await harness.sync()
        await remote.list_versions(ID, before="", limit=1)
        sim.write(ID, "Plan", html(*PARAGRAPHS, TODAY))
        sim.lie = lie
        async with connected(harness.opened, toolset=TITLED) as client:
            yield sim, harness, client
        await remote.close()
        harness.close()


class Calls:
    """Calls tools, and holds what each answer must not be."""

    def __init__(self, sim, client):
        self.sim, self.client = sim, client
        self.failures = []

    @property
    def stored(self):
        return self.sim.document.notes[ID].content.decode()

    async def call(self, tool, **arguments):
        """Return the answer; None for a clear refusal."""
        try:
            result = await self.client.call_tool(tool, arguments)
        except MCPError as error:
            self.failures.append(error.error.data)
            return None
        said = json.dumps(result.structured_content) + "".join(
            getattr(part, "text", "") for part in result.content
        )
        assert [word for word in NEVER if word in said] == []
        if result.is_error:
            self.failures.append(said)
            assert '"message"' in said
            return None
        return result.structured_content

    async def get(self):
        note = await self.call("get", id=ID)
        if note is None:
            return None
        assert [one for one in PARAGRAPHS[1:] if one not in note["text"]] == []
        return note

    async def save(self, confirmed, **changes):
        """Save over the newest version; a save that is confirmed is stored, ``confirmed`` tells whether."""
        note = await self.get()
        if note is None:
            return
        before = self.stored
        saved = await self.call("save", id=ID, local_version=note["local_version"], **changes)
        if saved is not None:
            assert confirmed(), (changes, saved, self.stored)
        if "append" not in changes and "find" not in changes:
            assert self.stored == before


def owned(sim):
    return [one.name for one in sim.document.owned(ID)]


@pytest.mark.attack(45)
@pytest.mark.parametrize(
    "lie",
    [
        (endpoint, name)
        for endpoint in ENDPOINTS
        for name in sample(f"lies about {endpoint}", list(LIES), 2)
    ],
    ids=": ".join,
)
async def test_no_wrong_answer_becomes_the_note_or_replaces_it(tmp_path, lie):
    async with told(tmp_path, lie) as (sim, harness, client):
        await _twelve_calls(sim, harness, Calls(sim, client))
        assert sim.told


async def _twelve_calls(sim, harness, calls):
    await calls.get()
    await calls.save(lambda: "todo" in owned(sim), tags=["todo"])
    await harness.sync()
    await calls.save(lambda: sim.document.notes[ID].title == "Plans", title="Plans")
    await calls.save(lambda: "Appended." in calls.stored, append="\n\nAppended.")
    await harness.sync()
    await calls.save(lambda: "first" in calls.stored, find="Paragraph 0", replace="first")
    await calls.call("list", query="paragraph")
    await calls.call("manage", action="history", id=ID)
    note = await calls.get()
    if note is not None:
        asked = {"id": ID, "local_version": note["local_version"], "confirm": True}
        await calls.call("manage", action="undo", **asked)
    await calls.get()
    missing = [one for one in (*PARAGRAPHS[1:], TODAY) if one not in calls.stored]
    assert missing == []
    assert [word for word in NEVER if word in calls.stored] == []
    assert sim.document.notes[OTHER].content.decode() == html("Another note's text.")
