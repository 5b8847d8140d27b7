"""Run the second half of the demo: no network, no key, a wrong key, and the recovery."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp import Client

    from notarium_devtools.demo import Screen


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
