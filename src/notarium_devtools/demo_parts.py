"""Run the parts of the demo that need no service: a notebook on this machine; then no network, a wrong key, the recovery."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


async def run_local(screen: Screen) -> None:
    """Run the first part, a notebook without an account, in a folder of its own, which is removed at the end."""
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
        encrypted_file(screen, folder)
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


def encrypted_file(screen: Screen, folder: Path) -> None:
    """Show that the file on disk is unreadable without the key."""
    screen.step("The cache on disk")
    path = next(folder.rglob("*.sqlite.encrypted"))
    head = path.read_bytes()[:32]
    screen.say(
        f"{path.name}, {path.stat().st_size // 1024} KiB, mode {path.stat().st_mode & 0o777:o}"
    )
    screen.quote(head.hex(" "))
    try:
        with closing(sqlite3.connect(path)) as plain:
            plain.execute("SELECT count(*) FROM notes").fetchone()
        answer = "opened it"
    except sqlite3.DatabaseError as error:
        answer = str(error)
    screen.check("not a database" in answer, f"SQLite without the key: “{answer}”")
    everything = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    screen.check(
        b"garbage" not in everything and b"Garden plan" not in everything,
        f"no word of any note in {len(everything) // 1024} KiB of files",
    )


async def read_and_refuse(screen: Screen, client: Client, search: str) -> None:
    """Show that reading continues from the local notes, and that a write is refused honestly."""
    started = time.perf_counter()
    result = await client.call_tool("list", {"query": search, "limit": 1})
    found = result.structured_content or {}
    took = (time.perf_counter() - started) * 1000
    screen.check(
        not result.is_error and found["total_items"] > 0,
        f'"{search}" still finds {found.get("total_items")} notes ({took:.0f} ms with start-up)',
    )
    refused = await client.call_tool("save", {"text": "written in a tunnel"})
    body = json.loads(getattr(refused.content[0], "text", "{}"))
    screen.check(
        refused.is_error is True, f"a save is refused, not pretended: {body.get('message')}"
    )


def wrong_key(screen: Screen, folder: Path, environment: dict[str, str]) -> None:
    """Show that a wrong key opens nothing, breaks nothing, and gets instructions."""
    screen.step("A wrong key")
    before = _files(folder)
    code, answer = _converse(folder, environment)
    error = json.loads(answer["content"][0]["text"])
    screen.say(f"every tool answers: {error['message']}")
    screen.say(f"→ {error['resolution_hint']}")
    screen.check(error["details"]["verdict"] == "wrong_key", "the key file proves the key wrong")
    screen.check(_files(folder) == before, "no byte of the cache was touched")
    screen.check(code == 1, f"exit code {code}")


def clean_exit(screen: Screen, folder: Path, environment: dict[str, str]) -> None:
    """Start with the right key again, then close stdin."""
    screen.step("Clean exit")
    code, answer = _converse(folder, environment)
    total = answer["structuredContent"]["total_items"]
    screen.check(total > 0, f"the right key opens it again: {total} notes")
    screen.check(code == 0, f"stdin closed, exit code {code}")


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def _converse(folder: Path, environment: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Send initialize, one ``list``, and the end of input; return the exit code and the tool's result."""
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "demo", "version": "1"},
    }
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "list", "arguments": {"limit": 1}},
        },
    ]
    inherited = {
        key: os.environ[key] for key in ("PATH", "HOME", "SYSTEMROOT") if key in os.environ
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "mcp_notarium"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=inherited | environment,
        text=True,
        encoding="utf-8",
    )
    with server:
        assert server.stdin is not None  # noqa: S101 - pipes were asked for
        assert server.stdout is not None  # noqa: S101 - pipes were asked for
        for frame in frames:
            server.stdin.write(json.dumps(frame) + "\n")
        server.stdin.flush()
        result: dict[str, Any] = {}
        for line in server.stdout:
            message = json.loads(line)
            if message.get("id") == 2:  # noqa: PLR2004 - the id of the call above
                result = message["result"]
                break
        server.stdin.close()
        return server.wait(timeout=10), result
