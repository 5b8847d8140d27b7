"""The handshake and the list of tools, answered before the configuration is even read.

Reading and checking it takes longer than starting Python does, and every client waits for the handshake
of every server at its start. So where a glance shows plain surroundings it is answered at once. A glance
is enough to see what an early refusal is for and what narrows the tools: whatever looks like one of these
is left to the configuration, which then comes first. What only reading can find (a number that is
none) ends the process right behind the handshake, with the same words and the same exit code.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterator, Mapping

from mcp_notarium.protocol.handshake import Greeting
from mcp_notarium.protocol.line_reader import LineBuffer
from mcp_notarium.protocol.path_check import CHANGEABLE, READABLE, ours

PATIENCE_MS = 30
"""How long the client's next line is waited for before the configuration is read."""

_ODD = (
    "NOTARIUM_POLICY",
    "NOTARIUM_READ_ONLY",
    "NOTARIUM_TOOLS",
    "NOTARIUM_SANDBOX",
    "NOTARIUM_BACKEND",
)
_MODE = "DB_ENCRYPTION"
_REQUIRED = "SIMPLENOTE_USERNAME"
_FOLDER = "NOTARIUM_DATA_DIR"
_POLICY = "policy.toml"
_DRIVER = "sqlcipher3"
_CHUNK = 1 << 16


def may_answer(environ: Mapping[str, str], *, incoming: int) -> bool:
    """Whether the surroundings are plain, and input can be waited for."""
    if sys.platform != "linux" or os.isatty(incoming) or os.path.lexists(".env"):
        return False
    if _MODE in environ or any(name.startswith(_ODD) for name in environ):
        return False
    folder = _folder(environ)
    return (
        bool(environ.get(_REQUIRED, "").strip())
        # Written in any other way it may mean another folder.
        and folder == os.path.normpath(folder.strip())
        and folder.startswith("/")
        and not os.path.lexists(folder + "/" + _POLICY)
        and _private(folder)
        and _one_driver()
    )


def answer(incoming: int, greeting: Greeting, buffer: LineBuffer) -> None:
    """Answer until something needs more, or the client is silent; the end of input is left unread.

    What is read and not a whole line yet stays in ``buffer``.
    """
    poller = select.poll()
    poller.register(incoming, select.POLLIN)
    while not greeting.waiting and poller.poll(PATIENCE_MS):
        content = os.read(incoming, _CHUNK)
        if not content:
            return
        for item in buffer.feed(content):
            greeting.answer(item)


def _folder(environ: Mapping[str, str]) -> str:
    """The data folder; something that is no path where only reading can tell."""
    named = environ.get(_FOLDER, "")
    if named.strip():
        return named
    data, home = environ.get("XDG_DATA_HOME", "").strip(), environ.get("HOME", "")
    if not data and not home.startswith("/"):
        return ""
    return (data or f"{home.rstrip('/')}/.local/share") + "/mcp-notarium"


def _private(folder: str) -> bool:
    """True only if nobody else can change what is above, or read what is in the accounts' folders.

    A policy file that has strayed into one of these is left to the configuration, which refuses it.
    """
    try:
        return all(ours(path, forbidden=CHANGEABLE) for path in _upwards(folder)) and all(
            ours(path, forbidden=READABLE) and not path.endswith("/" + _POLICY)
            for path in _inside(folder)
        )
    except OSError:
        return False


def _upwards(path: str) -> Iterator[str]:
    while True:
        yield path
        if path == "/":
            return
        path = path.rpartition("/")[0] or "/"


def _inside(folder: str) -> list[str]:
    """The accounts' folders and what lies in them."""
    accounts = _entries(folder) if os.path.lexists(folder) else []
    within = [_entries(account) for account in accounts if stat.S_ISDIR(os.lstat(account).st_mode)]
    return accounts + [path for paths in within for path in paths]


def _entries(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in os.listdir(folder)]  # noqa: PTH208 - without pathlib


def _one_driver() -> bool:
    """The SQLCipher driver is there once, where modules are looked for first."""
    for place in sys.path:
        if os.path.lexists(f"{place}/{_DRIVER}/__init__.py"):
            names = os.listdir(place)  # noqa: PTH208 - without pathlib
            named = [n for n in names if n.startswith(_DRIVER) and n.endswith(".dist-info")]
            return len(named) == 1
    return False
