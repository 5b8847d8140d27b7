"""Check a server as a client uses it, for ``install``.

The check starts the server with the few variables that clients pass on, in the home folder; it shakes
hands, lists the tools and reads a note.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_notarium import __version__

_SECONDS = 60.0
"""Seconds for the whole talk; a keychain may show a dialog to a person."""
_PASSED_ON = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *(
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
    ),
    *("SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
"""Variables that the official SDKs pass on to a server, on Unix and on Windows."""
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "mcp-notarium-setup", "version": __version__},
}


@dataclass(frozen=True, slots=True)
class Check:
    """Hold what a client saw: the tools, the seconds until it had them, and why notes cannot be read, if so."""

    tools: tuple[str, ...]
    seconds: float
    problem: str = ""


def check_server(entry: Mapping[str, Any]) -> Check:
    """Start the server of a client's entry, list its tools and ask for one note."""
    environ = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    began = time.monotonic()
    try:
        with subprocess.Popen(  # noqa: S603 - the command that the client's file names
            [str(entry["command"]), *map(str, entry.get("args") or ())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ | {str(name): str(text) for name, text in (entry.get("env") or {}).items()},
            cwd=Path.home(),
        ) as process:
            limit = threading.Timer(_SECONDS, process.kill)
            limit.start()
            try:
                return _talk(process, began)
            finally:
                limit.cancel()
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        return Check((), time.monotonic() - began, f"it did not answer ({type(error).__name__})")


def _talk(process: subprocess.Popen[bytes], began: float) -> Check:
    _ask(process, "initialize", _HELLO)
    _send(process, {"method": "notifications/initialized"})
    tools = tuple(one["name"] for one in _ask(process, "tools/list", {})["tools"])
    seconds = time.monotonic() - began
    listing = next((name for name in tools if name.endswith("list")), None)
    if listing is None:
        return Check(tools, seconds)
    answer = _ask(process, "tools/call", {"name": listing, "arguments": {"limit": 1}})
    if not answer.get("isError"):
        return Check(tools, seconds)
    return Check(tools, seconds, str(json.loads(answer["content"][0]["text"])["message"]))


def _ask(
    process: subprocess.Popen[bytes], method: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of a request; what the server says of its own accord is left out."""
    _send(process, {"id": method, "method": method, "params": params})
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == method:
            return dict(message["result"])
    raise EOFError


def _send(process: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
