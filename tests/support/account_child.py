"""Acts on an account's cache to be killed (``support.stories``), and a process that holds a cache open until it gets a line."""

import subprocess
import sys
from pathlib import Path

from mcp_notarium.account import reencryption, user_key_rotation
from mcp_notarium.files.private_files import StepHook
from mcp_notarium.secret import Secret
from support.account import OTHER, account, open_cheaply
from support.cheap_costs import CHEAPEST
from support.stories import KILLED, change_options, run_killed

_HOLD = "import sys; sys.path[:0] = {path!r}; from support import account_child; account_child.hold({folder!r})"


def create(home: Path, at: StepHook) -> None:
    """Start for the first time."""
    open_cheaply(account(home), at=at).close()


def create_plain(home: Path, at: StepHook) -> None:
    """Start for the first time, without encryption."""
    open_cheaply(account(home, db_encryption=False), at=at).close()


def rebuild(home: Path, at: StepHook) -> None:
    """Start anew, with another key than that of the cache."""
    open_cheaply(account(home, db_key=Secret(OTHER), on_unreadable="rebuild"), at=at).close()


def rotate(home: Path, at: StepHook) -> None:
    """Change the passphrase."""
    user_key_rotation.rotate_passphrase(
        account(home), new=Secret(OTHER), parameters=CHEAPEST, options=change_options(at)
    )


def reencrypt(home: Path, at: StepHook) -> None:
    """Change the passphrase and the data key."""
    reencryption.reencrypt(
        account(home), new=Secret(OTHER), parameters=CHEAPEST, options=change_options(at)
    )


def write(home: Path, at: StepHook) -> None:
    """Write a mark; its one step is ``written``, before the cache is closed."""
    opened = open_cheaply(account(home))
    opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', 'written')")
    at("written")
    opened.close()


def leave_log(home: Path) -> None:
    """Write a mark and be killed: it is in the log alone."""
    assert run_killed(write, home, "written") == KILLED


def start_unready(folder: Path) -> subprocess.Popen[str]:
    """Hold the cache open in a process that prints "ready" in time. Write a line to end it."""
    code = _HOLD.format(path=[str(Path(__file__).parents[1])], folder=str(folder))
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def start(folder: Path) -> subprocess.Popen[str]:
    """Hold the cache open in a process that is ready now."""
    process = start_unready(folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def hold(folder: str) -> None:
    """What the process of :func:`start` does."""
    opened = open_cheaply(account(Path(folder)))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    opened.close()
