"""Test how many modules of the program a call enters from its first byte to its last: a reader has to follow them."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from support.whole import Server, store_environment, until

MOST = {"list": 37, "get": 33, "save": 57}
"""As counted: more is a step back. Without words; a search for words enters some more of ``search`` and ``storage``."""
TRACED = """
import signal, sys, threading
seen, on = set(), []
def look(frame, event, _):
    if on and event == "call":
        seen.add(frame.f_globals.get("__name__") or "")
def turn(*_):
    if not on:
        seen.clear()
        on.append(1)
        return
    on.clear()
    ours = sorted(one for one in seen if one.startswith("mcp_notarium"))
    ours += [one for one in ("httpx", "yaml", "markdown_it") if one in sys.modules]
    open(sys.argv.pop(), "w").write("\\n".join(ours) + "\\n.")
signal.signal(signal.SIGUSR1, turn)
threading.setprofile(look)
sys.setprofile(look)
from mcp_notarium.__main__ import main
sys.exit(main([]))
"""


@pytest.mark.parametrize("tool", list(MOST))
def test_a_call_passes_few_modules(tmp_path: Path, tool: str) -> None:
    seen = tmp_path / "seen"
    env = store_environment(tmp_path, "local", NOTARIUM_SANDBOX="off")
    with Server(env, command=[sys.executable, "-c", TRACED, str(seen)]) as server:
        note = server.tool("save", text="milk\nbread\n", tags=["shop"])
        server.tool("list", query="milk")
        time.sleep(1.5)  # the audit record of what was is stored, and sync has nothing to do
        arguments = {
            "list": {},
            "get": {"id": note["id"]},
            "save": {"text": "another note\n"},
        }[tool]
        os.kill(server.process.pid, signal.SIGUSR1)
        server.tool(tool, **arguments)
        os.kill(server.process.pid, signal.SIGUSR1)
        until(lambda: seen.exists() and seen.read_text().endswith("."))
        modules = seen.read_text().split()[:-1]
        assert server.leave() == 0
    assert not {"httpx", "yaml", "markdown_it"} & {*modules}, "what only other stores need"
    assert len(modules) <= MOST[tool], f"{len(modules)}: {' '.join(modules)}"
