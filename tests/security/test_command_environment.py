"""Test that no command leaves a secret in what other processes can read of its environment, while it asks or works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from mcp_notarium.cli.main import COMMANDS
from mcp_notarium.config import secret_names
from notarium_devtools.simperium import Simulator
from support.long import sample
from support.terminal import Terminal
from support.whole import DEADLINE, RAW_KEY, SERVE, environment, run, store_environment

SECRETS = {name: f"{name.lower()}-canary" for name in secret_names()}
SECRETS["DB_ENCRYPTION_KEY"] = RAW_KEY
ASKING = {
    "setup": (["--account", "new"], "Encrypt with which key?"),
    "login": ([], "Code from the e-mail:"),
    "rotate-key": ([], "New key:"),
    "purge": ([], "Type the account's name"),
    "restore": ([], "Restore the newest copy?"),
    "reset-cache": ([], "Build the index"),
    "keys": (["recovery", "create"], "Type group"),
}
"""Arguments of commands that wait for a person, and what they show by then."""
WORKING = {
    "install": ["--print", "claude-code"],
    "uninstall": [],
    "logout": [],
    "accounts": [],
    "completion": ["bash"],
    "list": [],
    "search": ["canary"],
    "show": ["NOTE"],
    "new": [],
    "edit": ["NOTE"],
    "sync": [],
    "history": ["NOTE"],
    "diff": ["NOTE"],
    "undo": ["NOTE"],
    "restore-version": ["NOTE", "1"],
    "export": ["OUT"],
    "import": ["OUT"],
    "status": ["--json"],
    "doctor": [],
    "audit": ["verify"],
    "watch": [],
    "refused": [],
    "approve": ["--list"],
    "report": ["-o", "OUT.html"],
    "policy": ["show"],
    "keychain": ["status"],
    "generate-key": [],
    "repair": [],
    "backup": ["OUT.backup"],
}
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/PID/environ"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may read it of a protected process"),
    pytest.mark.slow("starts every command"),
]


@pytest.fixture(name="env", scope="module")
def _env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings and secrets of every store; the processes are new ones, since a fork shows another's environment."""
    folder = tmp_path_factory.mktemp("account")
    env = store_environment(folder, "local", PYTHONSAFEPATH="1")
    (folder / "given").mkdir()
    (folder / "given" / "a.md").write_text("canary\n")
    done = run(env, "import", str(folder / "given"), "--yes")
    assert done.returncode == 0, done.stderr
    (note,) = json.loads(run(env, "search", "canary", "--json").stdout)["notes"]
    return env | SECRETS | {"NOTE": note["id"], "EDITOR": "true"}


def words(env: dict[str, str], arguments: list[str], tmp_path: Path) -> list[str]:
    named = {"NOTE": env["NOTE"], "OUT": str(tmp_path / "out")}
    for name, value in named.items():
        arguments = [one.replace(name, value) for one in arguments]
    return arguments


def environment_of(pid: int) -> bytes:
    """What the system shows of it; b'' once the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def shown(environ: bytes) -> set[str]:
    return {name for name, value in SECRETS.items() if value.encode() in environ}


@pytest.mark.attack(31)
@pytest.mark.parametrize("command", sorted(ASKING))
def test_no_secret_is_shown_while_a_command_asks(
    env: dict[str, str], tmp_path: Path, command: str
) -> None:
    arguments, asks = ASKING[command]
    with ExitStack() as stack:
        if command == "login":
            simulator = Simulator()
            stack.enter_context(simulator.running())
            env = env | environment(simulator, tmp_path) | {"NOTARIUM_STORE": "simplenote"}
        screen = stack.enter_context(Terminal(env, command, *arguments))
        screen.shows(asks)
        assert screen.process.poll() is None, screen.screen
        found = environment_of(screen.process.pid)
        assert b"HOME=" in found
        assert shown(found) == set()


@pytest.mark.attack(31)
@pytest.mark.parametrize("command", sample("working", sorted(WORKING), 8))
def test_no_secret_is_shown_while_a_command_works(
    env: dict[str, str], tmp_path: Path, command: str
) -> None:
    """What was shown last before it ended counts: a process has its secrets until it has hidden them."""
    process = subprocess.Popen(
        [*SERVE, command, *words(env, WORKING[command], tmp_path)],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    last, end = b"", time.monotonic() + DEADLINE
    with process:
        while process.poll() is None and time.monotonic() < end:
            last = environment_of(process.pid) or last
            time.sleep(0.001)
        process.kill()
    assert b"HOME=" in last
    assert shown(last) == set()


def test_every_command_but_the_server_is_looked_at() -> None:
    assert ASKING.keys() | WORKING.keys() == COMMANDS.keys() - {"serve"}


_TWICE = """
import ctypes, sys
held = [b"HOME=/", b"DB_ENCRYPTION_KEY=canary-1", b"DB_ENCRYPTION_KEY=canary-2", b"DB_ENCRYPTION_KEYS=other"]
words = [word.encode() for word in sys.argv[1:]]
array = lambda parts: (ctypes.c_char_p * (len(parts) + 1))(*parts, None)
ctypes.CDLL(None).execve(words[0], array(words), array(held))
"""
_HIDES = """
import os
from pathlib import Path
from mcp_notarium.sandbox.confinement import hide_secrets
held = os.environ["DB_ENCRYPTION_KEY"]
hide_secrets("DB_ENCRYPTION_KEY")
assert os.environ["DB_ENCRYPTION_KEY"] == held, "who reads the settings finds it"
shown = Path("/proc/self/environ").read_bytes()
print(shown.count(b"canary"), shown.count(b"DB_ENCRYPTION_KEYS=other"))
"""


@pytest.mark.attack(31)
def test_a_variable_that_is_given_twice_is_hidden_twice() -> None:
    """No shell makes such an environment, and another program can."""
    command = [sys.executable, "-c", _TWICE, sys.executable, "-c", _HIDES]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0 1\n"
