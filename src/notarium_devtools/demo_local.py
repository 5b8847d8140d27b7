"""Run the first part of the demo: a notebook on this machine, without an account, a service or a network."""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from notarium_devtools import demo_offline

if TYPE_CHECKING:
    from mcp import Client

    from notarium_devtools.demo import Screen

_TEXT = "Garden plan\n\n- beans\n- carrots\n- leeks\n"


@asynccontextmanager
async def open_client(environment: Mapping[str, str], folder: Path) -> AsyncIterator[Client]:
    """Run the real server in a process of its own, with the SDK's client over stdio."""
    from mcp import Client, StdioServerParameters  # noqa: PLC0415 - half a second, only here

    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_notarium"], env={**environment}, cwd=folder
    )
    async with Client(parameters, mode="legacy", read_timeout_seconds=30) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; return its structured content."""
    result = await client.call_tool(tool, arguments)
    if result.is_error or not isinstance(result.structured_content, dict):
        raise DemoFailed(tool, getattr(result.content[0], "text", ""))
    return result.structured_content


class DemoFailed(RuntimeError):
    """Report that a step of the demo did not do what it should."""

    def __init__(self, tool: str, text: str) -> None:
        super().__init__(f"{tool} answered an error: {text}")


async def run(screen: Screen) -> None:
    """Run the part in a folder of its own, which is removed at the end."""
    screen.title("MCP Notarium: a notebook of your own, without any account")
    screen.say(
        "NOTARIUM_STORE=local and a key are the whole configuration. The server is a process of its own, "
        "spoken to over stdio."
    )
    with tempfile.TemporaryDirectory(prefix="notarium-demo-") as name:
        folder = Path(name)
        environment = {
            "NOTARIUM_STORE": "local",
            "DB_ENCRYPTION_KEY": f"raw:{secrets.token_hex(32)}",
            "NOTARIUM_DATA_DIR": str(folder),
            "NOTARIUM_KEYCHAIN": "off",
            "LOG_LEVEL": "fatal",
        }
        started = time.perf_counter()
        async with open_client(environment, folder) as client:
            note = await _write_and_find(screen, client)
            note = await _take_back(screen, client, note)
            await _share(screen, client, environment, folder, note)
        await _reopen(screen, environment, folder, note)
        demo_offline.encrypted_file(screen, folder)
        screen.say(f"all of this took {time.perf_counter() - started:.1f} s")


async def _write_and_find(screen: Screen, client: Client) -> dict[str, Any]:
    screen.step("Save a note, change one line, find it")
    note = await call(client, "save", text=_TEXT, tags=["garden"])
    patch = [{"operation": "modification", "line_number": 4, "value": "- carrots, two rows"}]
    note = await call(
        client, "save", id=note["id"], local_version=note["local_version"], text_patch=patch
    )
    screen.quote(note["changed"][0]["text"])
    started = time.perf_counter()
    found = await call(client, "list", query='"two rows" tag:garden')
    screen.check(
        found["total_items"] == 1,
        f"the changed note is found in {(time.perf_counter() - started) * 1000:.0f} ms",
    )
    return note


async def _take_back(screen: Screen, client: Client, note: dict[str, Any]) -> dict[str, Any]:
    screen.step("Spoil the note, see what changed, take it back")
    identity = {"id": note["id"]}
    before = (await call(client, "get", **identity))["text"]
    await call(
        client, "save", local_version=note["local_version"], text="Garden plan\n", **identity
    )
    found = await call(client, "manage", action="history", **identity)
    for row in found["history"]:
        screen.quote(f"{row['version']}  {row['at']}  {row['changed']}")
    await call(client, "manage", action="undo", confirm=True, **identity)
    note = await call(client, "get", **identity)
    screen.check(
        note["text"] == before, "`undo`, which needs your consent, gave the former text back"
    )
    return note


async def _share(
    screen: Screen,
    client: Client,
    environment: Mapping[str, str],
    folder: Path,
    note: dict[str, Any],
) -> None:
    screen.step("A second server on the same notebook")
    async with open_client(environment, folder) as other:
        await call(other, "save", id=note["id"], find="- leeks", replace="- leeks, late")
        seen = await call(client, "get", id=note["id"])
        screen.check("leeks, late" in seen["text"], "the first one sees its change at once")
        stale = {"id": note["id"], "local_version": note["local_version"]}
        top = [{"operation": "modification", "line_number": 1, "value": "Garden"}]
        merged = await call(client, "save", **stale, text_patch=top)
        screen.check(merged["merged"] is True, "its change of another line, made late, is merged")
        refused = await client.call_tool("save", stale | {"text": "mine\n"})
        screen.check(refused.is_error is True, "a late save over the same lines is refused")


async def _reopen(
    screen: Screen, environment: Mapping[str, str], folder: Path, note: dict[str, Any]
) -> None:
    screen.step("Stop and start again")
    screen.check(
        _count_copies(folder) == 1, "the stop left a verified copy of the encrypted notebook"
    )
    async with open_client(environment, folder) as client:
        again = await call(client, "get", id=note["id"])
        screen.check("leeks, late" in again["text"], "the note is there")


def _count_copies(folder: Path) -> int:
    return len([*folder.glob("*/copies/*.sqlite.encrypted")])
