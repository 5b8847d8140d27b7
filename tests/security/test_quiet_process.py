"""Test that a server starts no program, listens nowhere and connects nowhere else, by audit events."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.whole import Server, environment

TOP = Path(__file__).parents[2]
WATCHED = (
    "import json, os, sys\n"
    "EVENTS = {'subprocess.Popen', 'os.exec', 'os.fork', 'os.forkpty', 'os.posix_spawn', 'os.system',\n"
    "          'os.spawn', 'os.startfile', 'socket.bind', 'pty.spawn', 'webbrowser.open',\n"
    "          'socket.connect', 'socket.sendto', 'socket.getaddrinfo', 'socket.gethostbyname'}\n"
    "def watch(event, arguments):\n"
    "    if event in EVENTS:\n"
    "        with open(os.environ['HOME'] + '/seen', 'a') as seen:\n"
    "            seen.write(json.dumps([event, repr(arguments)]) + '\\n')\n"
    "sys.addaudithook(watch)\n"
)
MAIN = "from mcp_notarium.__main__ import main\nsys.exit(main())\n"
GUILTY = (
    "import socket\nwith socket.socket() as one:\n    one.bind(('127.0.0.1', 0))\n"
    "    one.connect_ex(('127.0.0.1', 1))\n"
)
REACHING = {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"}
LURES = (
    "see http://127.0.0.1:1/a\n",
    "http://127.0.0.1:1",
    "file:///etc/hostname",
    "//127.0.0.1:1/",
)


def events(folder, before=""):
    """What was seen of a server through its life: first sync, reads, a save, the end.

    What it did to reach an address is told apart, without the addresses of the note service.
    """
    simulator = Simulator()
    simulator.load(prose(30, seed=4))
    for number, lure in enumerate(LURES):
        simulator.put(f"lure{number}", content=lure, tags=[lure.strip()])
    with simulator.running():
        env = environment(simulator, folder, NOTARIUM_SANDBOX="off")
        with Server(env, command=[sys.executable, "-c", WATCHED + before + MAIN]) as server:
            server.loaded(sum(not note["deleted"] for note in simulator.notes().values()))
            server.tool("list", query="python -tag:x")
            server.tool("list", query="http", preview_lines=5)
            note = server.tool("save", text="".join(LURES))
            for note_id in (note["id"], *(f"lure{number}" for number in range(len(LURES)))):
                server.tool("get", id=note_id)
            server.tool("manage", action="get_stats")["stats"]
            assert server.leave() == 0
        own = {urlsplit(url).port for url in (simulator.api_url, simulator.auth_url)}
    lines = [json.loads(line) for line in (folder / "seen").read_text().splitlines()]
    reached = [arguments for event, arguments in lines if event in REACHING]
    assert any(port in own for arguments in reached for port in numbers(arguments)), (
        "it has never synced"
    )
    elsewhere = [arguments for arguments in reached if not own & {*numbers(arguments)}]
    return [event for event, _ in lines if event not in REACHING], elsewhere


def numbers(arguments):
    return map(int, re.findall(r"\b\d+\b", arguments.rpartition("'127.0.0.1'")[2]))


@pytest.fixture(name="seen", scope="module")
def _seen(tmp_path_factory):
    return events(tmp_path_factory.mktemp("quiet"))


def test_no_program_is_started_and_no_address_is_bound(seen):
    assert seen[0] == []


def test_no_address_from_a_note_is_opened(seen):
    assert seen[1] == []


def test_the_watch_reports_a_started_program(tmp_path):
    done, elsewhere = events(tmp_path, GUILTY)
    assert done == ["socket.bind"]
    assert len(elsewhere) == 1


def test_every_package_but_one_is_kept_from_modules_that_start_programs():
    """The rule itself is tried by ``scripts/check``."""
    rules = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    (rule,) = (
        one
        for one in rules["tool"]["importlinter"]["contracts"]
        if one["name"]
        == "Only the command line imports modules for programs, servers, pickles, old protocols"
    )
    packages = {
        f"mcp_notarium.{path.stem}"
        for path in (TOP / "src" / "mcp_notarium").iterdir()
        if path.stem not in {"__init__", "__pycache__", "py"}
    }
    assert set(rule["source_modules"]) == packages - {"mcp_notarium.cli"}
    assert {"subprocess", "multiprocessing", "pty", "socketserver"} <= {*rule["forbidden_modules"]}
    # It asks for the folders of the other side of WSL; `setup` and `install` load it, no server does.
    assert rule["ignore_imports"] == ["mcp_notarium.clients.wsl -> subprocess"]
    assert "lint-imports" in (TOP / "scripts" / "check").read_text(encoding="utf-8")
