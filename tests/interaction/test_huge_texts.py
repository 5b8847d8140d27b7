"""Test what calls on texts of 4 MiB cost: processor time against that of splitting and joining four million lines.

A wall clock would measure the machine, and what else it does.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_notarium.domain.merge import merge
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.vault.store import VaultStore
from support.cache_room import make
from support.local_notebook import OtherProcess
from support.long import sample
from support.sync_rig import quick_folder
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = [pytest.mark.anyio, pytest.mark.slow("texts of 4 MiB, in two stores")]

SIZE = 4 << 20
TEXTS = {
    "newlines": "\n" * SIZE,
    "headings": "# a\n" * (SIZE // 4),
    "one line": "x" * SIZE,
    "CRLF": "\r\n" * (SIZE // 2),
    "marks on a letter": "e" + "\u0301" * (SIZE // 2 - 1),
    "signs of headings": "#" * SIZE,
    "brackets": "[" * SIZE,
    "backticks": "`" * SIZE,
    "fences": "```\n" * (SIZE // 4),
    "items": "- " * (SIZE // 2),
}
READING, WRITING = 2.0, 10.0
"""Limits, in units of :func:`unit`. It is some 0.1 s here, and takes as much longer on a slow machine as a call does.

Before, a `get` took 4 of them, lines added 8, and a tag put on a vault's million headings 190.
"""


def unit() -> float:
    """Seconds of processor time for splitting four million lines, with their ends, and joining them."""
    began = time.process_time()
    lines = [line + "\n" for line in TEXTS["newlines"].split("\n")]
    assert len("".join(lines)) == SIZE + 1
    return time.process_time() - began


class Meter:
    """A client of a notebook or a vault with one huge note; it notes what each call costs."""

    def __init__(self, client: Client, note_id: str) -> None:
        self.client, self.note_id = client, note_id
        self.units: dict[str, float] = {}
        self.floor = unit()

    async def call(self, label: str, tool: str, **arguments: Any) -> dict[str, Any]:
        began = time.process_time()
        result = await self.client.call_tool(tool, arguments)
        seconds = time.process_time() - began
        if seconds > READING * self.floor:  # the machine may have become slower
            self.floor = max(self.floor, unit())
        self.units[label] = seconds / self.floor
        if result.structured_content is not None:
            return result.structured_content
        found: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
        return found


@asynccontextmanager
async def metered(folder: Path, store: str, text: str) -> AsyncIterator[Meter]:
    cache = make(folder, key=None, name="cache.sqlite") if store == "local" else None
    if cache is not None:
        OtherProcess(cache).put("huge", text)
        remote: Any = LocalStore(cache.database)
    else:
        (folder / "vault").mkdir()
        (folder / "vault" / "huge.md").write_bytes(text.encode())
        remote = VaultStore(folder / "vault")
    harness = ToolHarness(folder, remote=remote, cache=cache)
    await harness.sync()
    async with connected(harness.opened, seconds=300) as client:
        await client.call_tool("list", {})  # what is imported at the first call
        yield Meter(client, "huge" if cache else "huge.md")
    await remote.close()
    harness.close()


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


CASES = [(store, name) for store in ("local", "vault") for name in TEXTS]
ALWAYS = [("local", "newlines"), ("vault", "headings")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("store", "name"), ALWAYS + sample("huge texts", [c for c in CASES if c not in ALWAYS], 1)
)
async def test_calls_on_a_huge_text_take_little_processor_time(
    folder: Path, store: str, name: str
) -> None:
    text = TEXTS[name]
    async with metered(folder, store, text) as meter:
        note = {"id": meter.note_id}
        found = await meter.call("get", "get", **note)
        line, character = max(1, text.count("\n") // 2), SIZE // 3 if "\n" not in text else 1
        part = await meter.call(
            "get lines", "get", **note, range_line_start=line, range_line_count=9
        )
        await meter.call("get on", "get", **note, range_line_start=1, range_char_start=character)
        await meter.call("list", "list")
        await meter.call("search", "list", query="x or e or a")
        await meter.call("find", "save", **note, find="nowhere", replace="x")
        await meter.call("find often", "save", **note, find=text[:1], replace="x")
        reading = dict(meter.units)
        versioned = note | {"local_version": found["local_version"]}
        await meter.call("tags", "save", **versioned, tags=["one"])
        large = await meter.call("append", "save", **note, append="x")
        await meter.call("prepend", "save", **note, prepend="x")
        patch = [{"operation": "addition", "line_number": 1, "value": "x"}]
        await meter.call("text_patch", "save", **versioned, text_patch=patch)
        await meter.call("history", "manage", action="history", **note)
    assert found["text_is_partial"]
    assert part["range_line_start"] == line
    assert large["subcategory"] == "too_large", "a note of this size can be read, but not grow"
    assert {label: cost for label, cost in reading.items() if cost > READING} == {}
    assert {label: cost for label, cost in meter.units.items() if cost > WRITING} == {}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_late_save_of_millions_of_lines_merges_in_little_processor_time(end: str) -> None:
    base, floor = end * (SIZE // len(end)), unit()
    began = time.process_time()
    merged = merge(base, f"{base}mine{end}", f"theirs{end}{base}")
    assert time.process_time() - began < WRITING * floor
    assert merged == f"theirs{end}{base}mine{end}"
