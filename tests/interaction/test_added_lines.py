"""Add lines to notes through a connected client: in Markdown they are blocks, in other notes lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_notarium.stores.contract import Store
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.catalog import TITLED
from notarium_devtools.trilium import TriliumSimulator
from support.cache_room import make
from support.memento_file import MementoFile
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
ID = "Plan12345678"
FRONT = "---\ntags: [a]\n---\n"


@asynccontextmanager
async def client_of(harness: ToolHarness) -> AsyncIterator[Client]:
    await harness.sync()
    async with connected(harness.opened, toolset=TITLED) as client:
        yield client
    harness.close()


@asynccontextmanager
async def client_over(folder: Path, store: Store) -> AsyncIterator[Client]:
    async with client_of(ToolHarness(folder, remote=store)) as client:
        yield client
    await store.close()


async def save(client: Client, note_id: str, **change: Any) -> dict[str, Any]:
    result = await client.call_tool("save", {"id": note_id, **change})
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.parametrize(
    ("held", "change", "stored"),
    [
        ("<p>Call Ann.</p>", {"append": "Call Bob."}, "<p>Call Ann.</p><p>Call Bob.</p>"),
        ("<p>A</p>", {"append": "---"}, "<p>A</p><hr>"),
        ("<p>A</p>", {"append": "a\nb"}, "<p>A</p><p>a<br>b</p>"),
        ("<p>Intro.</p>", {"prepend": "- item"}, "<ul><li>item</li></ul><p>Intro.</p>"),
        ('<ul><li data-list-item-id="e1">a</li></ul>', {"append": "- b"},
         '<ul><li data-list-item-id="e1">a</li><li>b</li></ul>'),
        ("<p>a</p><p>b</p>", {"text_patch": [{"operation": "addition", "line_number": 2, "value": "x"}]},
         "<p>a</p><p>x</p><p>b</p>"),
    ],
)  # fmt: skip
async def test_in_trilium(tmp_path: Path, held: str, change: dict[str, Any], stored: str) -> None:
    async with TriliumSimulator().serving() as sim:
        sim.write(ID, "Plan", held)
        async with client_over(tmp_path, open_trilium(sim)) as client:
            version = {"local_version": 1} if "text_patch" in change else {}
            await save(client, ID, **change, **version)
        assert sim.document.notes[ID].content.decode() == stored


async def test_in_trilium_code_is_lines_and_a_refusal_names_the_line(tmp_path: Path) -> None:
    async with TriliumSimulator().serving() as sim:
        sim.write(ID, "Plan", "<p>one</p><p>two <u>three</u></p>")
        sim.write("Code12345678", "Code", "x = 1")
        sim.document.notes["Code12345678"].type = "code"
        async with client_over(tmp_path, open_trilium(sim)) as client:
            await save(client, "Code12345678", append="y = 2")
            refused = await client.call_tool(
                "save", {"id": ID, "find": "two three", "replace": "x"}
            )
        assert sim.document.notes["Code12345678"].content == b"x = 1\ny = 2"
        assert "<u> in line 3" in str(refused.structured_content or refused.content)


@pytest.mark.parametrize(
    ("held", "change", "stored"),
    [
        ("Text\n", {"append": "---"}, "Text\n\n---\n"),
        ("- a\n", {"append": "- b"}, "- a\n- b\n"),
        ("- a\n", {"append": "text"}, "- a\n\ntext\n"),
        ("> [!NOTE]\n> a", {"append": "text"}, "> [!NOTE]\n> a\n\ntext"),
        (FRONT + "Text\n", {"prepend": "- item"}, f"{FRONT}- item\n\nText\n"),
        (FRONT + "Text\r\n", {"append": "more"}, f"{FRONT}Text\r\n\nmore\n"),
    ],
)  # fmt: skip
async def test_in_a_vault(tmp_path: Path, held: str, change: dict[str, Any], stored: str) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Plan.md").write_bytes(held.encode())
    async with client_over(tmp_path, VaultStore(vault)) as client:
        await save(client, "Plan.md", **change)
    assert (vault / "Plan.md").read_bytes().decode() == stored


@pytest.mark.parametrize("markdown", [False, True])
async def test_in_memento(tmp_path: Path, markdown: bool) -> None:
    app = MementoFile(tmp_path / "dev.db")
    app.put("n1", "milk", isMarkdown=int(markdown))
    async with client_over(tmp_path, MementoStore(app.path)) as client:
        await save(client, "n1", append="bread")
    assert app.row("n1")["content"] == ("milk\n\nbread" if markdown else "milk\nbread")


@pytest.mark.parametrize("markdown", [False, True])
async def test_in_simplenote(tmp_path: Path, markdown: bool) -> None:
    harness = ToolHarness(tmp_path, properties=frozenset({"markdown", "pinned"}))
    harness.store.put(ID, "List\n\nmilk")
    async with client_of(harness) as client:
        if markdown:
            await save(client, ID, properties={"markdown": True})
        await save(client, ID, append="bread")
        await save(client, ID, append="- eggs")
        await save(client, ID, prepend="butter")
    gap = "\n" * markdown
    assert harness.store.contents()[ID].text == (
        f"List\n\nbutter{gap}\nmilk{gap}\nbread{gap}\n- eggs"
    )


async def test_in_the_local_notebook(tmp_path: Path) -> None:
    cache = make(tmp_path, key=None, name="cache.sqlite")
    store = LocalStore(cache.database)
    harness = ToolHarness(tmp_path, remote=store, cache=cache)
    async with client_of(harness) as client:
        made = await client.call_tool("save", {"text": "milk"})
        note_id = (made.structured_content or {})["id"]
        await save(client, note_id, append="bread")
        assert (await store.get(note_id)).content.text == "milk\nbread"
