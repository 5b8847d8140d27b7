"""Test how many modules of the program a call enters from its first byte to its last, which a reader has to follow, and how
many statements it runs.

What runs of another moment does not count: tasks that have a name (sync, copies of the database) and timers, with all that they
start. A context variable tells them apart, which tasks and threads inherit.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.whole import Server, store_environment, until

MOST = {
    ("local", "list"): 31,
    ("local", "get"): 30,
    ("local", "save"): 42,
    ("vault", "save"): 70,
}
"""As counted: more is a step back. Without words; a search for words enters some more of ``search`` and ``storage``.

The save in a vault is counted with its echo: the news that the system has of our own file, and the cycle that follows.
"""
STATEMENTS = {"list": 4, "get": 5, "save": 31, "change": 40}
"""As counted in the local notebook, where nothing else runs meanwhile; ``BEGIN`` and ``COMMIT`` count."""
CALM_SECONDS = {"local": 0.0, "vault": 4.5}
"""Until sync, which counts in a vault, has nothing to do; the words of all notes are read after three seconds."""
ECHO_SECONDS = 2.5
TRACED = """
import asyncio, contextvars, signal, sys, threading
seen, on, echo, statements = set(), [], sys.argv.pop() == "vault", []
out = sys.argv.pop()
beside = contextvars.ContextVar("beside", default=False)
def look(frame, event, called):
    if not on or beside.get():
        return
    if event == "call":
        seen.add(frame.f_globals.get("__name__") or "")
    elif event == "c_call" and called.__name__ in ("execute", "executemany"):
        statements.append(called)
def turn(*_):
    if not on:
        seen.clear()
        statements.clear()
        on.append(1)
        return
    on.clear()
    ours = sorted(one for one in seen if one.startswith("mcp_notarium"))
    ours += [one for one in ("httpx", "yaml", "markdown_it") if one in sys.modules]
    open(out, "w").write("\\n".join((*ours, str(len(statements)), ".")))
signal.signal(signal.SIGUSR1, turn)
threading.setprofile(look)
sys.setprofile(look)
def mark(context):
    context = context or contextvars.copy_context()
    context.run(beside.set, True)
    return context
create, later = asyncio.create_task, asyncio.BaseEventLoop.call_later
def named(work, *, name=None, context=None):
    return create(work, name=name, context=mark(context) if name and not echo else context)
def timed(loop, delay, callback, *more, context=None):
    apart = delay > 0.1 and not echo
    return later(loop, delay, callback, *more, context=mark(context) if apart else context)
asyncio.create_task, asyncio.BaseEventLoop.call_later = named, timed
from mcp_notarium.__main__ import main
sys.exit(main([]))
"""


def traced(
    server: Server, seen: Path, store: str, tool: str, arguments: dict[str, Any]
) -> tuple[list[str], int]:
    """The modules that a call enters, and the number of statements."""
    seen.unlink(missing_ok=True)
    os.kill(server.process.pid, signal.SIGUSR1)
    server.tool(tool, **arguments)
    time.sleep(0 if store == "local" else ECHO_SECONDS)
    os.kill(server.process.pid, signal.SIGUSR1)
    until(lambda: seen.exists() and seen.read_text().endswith("."))
    *modules, statements, _ = seen.read_text().split()
    return modules, int(statements)


@pytest.mark.parametrize(("store", "tool"), list(MOST))
def test_a_call_passes_few_modules(tmp_path: Path, store: str, tool: str) -> None:
    seen, vault = tmp_path / "seen", tmp_path / "vault"
    vault.mkdir()
    (vault / "First.md").write_text("eggs\n")
    more = {"VAULT_PATH": str(vault)} if store == "vault" else {}
    env = store_environment(tmp_path, store, NOTARIUM_SANDBOX="off", **more)
    with Server(env, command=[sys.executable, "-c", TRACED, str(seen), store]) as server:
        note = server.tool("save", text="milk\nbread\n", tags=["shop"])
        server.tool("list", query="milk")
        time.sleep(CALM_SECONDS[store])
        arguments = {
            "list": {},
            "get": {"id": note["id"]},
            "save": {"text": "another note\n"},
        }[tool]
        modules, statements = traced(server, seen, store, tool, arguments)
        if (store, tool) == ("local", "save"):
            change = {"id": note["id"], "text": "milk\nbread\neggs\n"}
            change["local_version"] = note["local_version"]
            _, changing = traced(server, seen, store, tool, change)
            assert changing <= STATEMENTS["change"]
        assert server.leave() == 0
    ours = [one for one in modules if one.startswith("mcp_notarium")]
    others = {"httpx"} if store == "vault" else {"httpx", "yaml", "markdown_it"}
    assert not others & {*modules}, "what only other stores need"
    if store == "vault":
        assert "mcp_notarium.sync.pull_decisions" in ours, "the echo came"
    assert len(ours) <= MOST[store, tool], f"{len(ours)}: {' '.join(ours)}"
    assert store != "local" or statements <= STATEMENTS[tool]
