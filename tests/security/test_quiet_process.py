"""A server starts no program and listens nowhere, watched by the interpreter itself while it works."""

from __future__ import annotations

import json
import sys

from mcp_notarium.simulator import Simulator
from mcp_notarium.simulator.data import prose
from support.whole import Server, environment

WATCHED = (
    "import json, os, sys\n"
    "EVENTS = {'subprocess.Popen', 'os.exec', 'os.fork', 'os.forkpty', 'os.posix_spawn', 'os.system',\n"
    "          'os.spawn', 'os.startfile', 'socket.bind', 'pty.spawn', 'webbrowser.open'}\n"
    "def watch(event, arguments):\n"
    "    if event in EVENTS:\n"
    "        with open(os.environ['HOME'] + '/seen', 'a') as seen:\n"
    "            seen.write(json.dumps([event, repr(arguments)]) + '\\n')\n"
    "sys.addaudithook(watch)\n"
)
MAIN = "from mcp_notarium.__main__ import main\nsys.exit(main())\n"
GUILTY = "import socket\nwith socket.socket() as one:\n    one.bind(('127.0.0.1', 0))\n"


def events(tmp_path, before=""):
    """What was seen of a server through its life: first sync, reads, a save, the end."""
    simulator = Simulator()
    simulator.load(prose(30, seed=4))
    with simulator.running():
        env = environment(simulator, tmp_path, NOTARIUM_SANDBOX="off")
        with Server(env, command=[sys.executable, "-c", WATCHED + before + MAIN]) as server:
            server.loaded(server.tool("list")["total_items"])
            server.tool("list", query="python -tag:x")
            note = server.tool("save", text="a new note\n")
            server.tool("get", id=note["id"])
            server.tool("manage", action="get_stats")
            assert server.leave() == 0
    seen = tmp_path / "seen"
    return [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []


def test_no_program_is_started_and_no_address_is_bound(tmp_path):
    assert events(tmp_path) == []


def test_the_watch_would_have_told(tmp_path):
    assert [event for event, _ in events(tmp_path, GUILTY)] == ["socket.bind"]
