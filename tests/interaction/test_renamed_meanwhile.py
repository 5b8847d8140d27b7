"""Links and cards follow a note that another server renames, and renames back, while a server looks up what leads to it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from mcp_notarium.stores.vault import folder as vault_folder
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.toolsets import find_toolset
from support.cache_room import reopen
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio
LOOKS = ("find_cards", "find_card_links", "find_broken_links")
CARD = {"type": "file", "file": "Plan.md"}


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch):
    monkeypatch.setattr(vault_folder, "SETTLED", 0.0)


@pytest.fixture(name="vault")
def _vault(tmp_path):
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Plan.md").write_text("the plan\n")
    (vault / "Hub.md").write_text("[[Plan]]\n")
    (vault / "Board.canvas").write_text(json.dumps({"nodes": [CARD]}))
    return vault


@asynccontextmanager
async def server(folder, vault, *, again=False):
    """Connect to a server of the vault; ``again``: beside another one, on the same account."""
    remote = VaultStore(vault)
    cache = reopen(folder, key=None, name="cache.sqlite") if again else None
    harness = ToolHarness(folder, remote=remote, cache=cache)
    harness.ticking = True
    await harness.sync()
    try:
        async with connected(harness.opened, toolset=find_toolset("with_paths")) as client:

            async def call(tool, **arguments):
                answer = await client.call_tool(tool, arguments)
                assert not answer.is_error, answer.content
                return answer.structured_content

            yield harness, call
    finally:
        await remote.close()
        harness.close()


async def rename(call, old, title):
    version = (await call("get", id=old))["local_version"]
    asked = {"id": old, "title": title, "local_version": version, "rewrite_links": True}
    return (await call("save", **asked))["id"]


async def move(call):
    asked = {"action": "change", "ids": ["Plan.md"], "folder": "Done", "confirm": True}
    assert (await call("manage", **asked))["status"] == "changed"
    return "Done/Plan.md", "[[Plan]]\n"


async def save(call):
    return await rename(call, "Plan.md", "Goal"), "[[Goal]]\n"


class Paths:
    """Those of a server, while another one renames the note: it is elsewhere from ``away`` on, and back after the last look."""

    def __init__(self, paths, other, *, away, drafts):
        self._paths, self._other, self._away, self._left = paths, other, away, drafts

    def __getattr__(self, name):
        return self._interrupted(name) if name in LOOKS else getattr(self._paths, name)

    def _interrupted(self, name):
        look = getattr(self._paths, name)

        async def looks(*asked):
            if name == self._away:
                self._left -= 1
                if self._left == 0:
                    await rename(self._other, "Plan.md", "Other")
            found = await look(*asked)
            if name == "find_broken_links" and self._left == 0:
                await rename(self._other, "Other.md", "Plan")
            return found

        return looks


@pytest.mark.parametrize(("act", "drafts"), [(save, 1), (move, 2)])
@pytest.mark.parametrize("away", ["find_cards", "find_card_links"])
async def test_links_and_cards_follow_a_note_that_was_elsewhere_when_they_were_looked_up(
    tmp_path, vault, act, drafts, away
):
    """``drafts``: the last of so many looks is the one that is saved."""
    async with (
        server(tmp_path, vault) as (first, call),
        server(tmp_path, vault, again=True) as (_, other),
    ):
        library = first.app.library
        library.paths = Paths(library.paths, other, away=away, drafts=drafts)
        place, link = await act(call)
    assert (vault / place).exists()
    assert json.loads((vault / "Board.canvas").read_text())["nodes"] == [CARD | {"file": place}]
    assert (vault / "Hub.md").read_text() == link
