"""Find two files of a vault that are equal through a connected client: their names tell nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.catalog import TITLED
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio


async def test_a_copy_of_a_file_is_a_duplicate_under_any_name(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    (vault / "Old").mkdir(parents=True)
    text = "---\ntags: [a]\n---\nThe same words.\n"
    files = {"Plan.md": text, "Old/Plan (copy).md": text, "Else.md": text + "x"}
    files |= {"Empty.md": "", "Also empty.md": "\n"}
    for name, written in files.items():
        (vault / name).write_text(written)
    harness = ToolHarness(tmp_path, remote=VaultStore(vault))
    await harness.sync()
    async with connected(harness.opened, toolset=TITLED) as client:
        result = await client.call_tool("manage", {"action": "find_duplicates"})
    await harness.remote.close()
    harness.close()
    assert result.structured_content is not None
    (group,) = result.structured_content["duplicates"]
    assert {note["id"] for note in group["notes"]} == {"Plan.md", "Old/Plan (copy).md"}
