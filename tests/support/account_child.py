"""Another process that does one thing to an account's cache and dies where it is told to.

``run`` does ``create``, ``create-plain``, ``rebuild``, ``rotate``, ``reencrypt`` or
``write``, killed by SIGKILL at a step or after some time; ``start`` holds a cache open until it gets a line.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch

from mcp_notarium.account import key_rotation, rewrite
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import kdf
from mcp_notarium.secret import Secret
from support.account import BOUNDS, OTHER, account, open_cheaply

KILLED = -signal.SIGKILL
_HOLD = "import sys; sys.path[:0] = {path!r}; from support import account_child; account_child.hold({folder!r})"

# A server that has everything imported and forks: a fresh interpreter per step takes far longer.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["support.stops"])  # which imports this module, too


def run(folder: Path, action: str, step: str = "", *, seconds: float | None = None) -> int | None:
    """Do it in a process of its own, to its end or death; returns the exit code.

    ``seconds``: kill it when so much time has passed.
    """
    process = forked(act, folder, action, str(step))
    process.join(60 if seconds is None else seconds)
    if seconds is not None:
        process.kill()
        process.join(60)
    return process.exitcode


def forked(target: Callable[..., None], *options: object) -> BaseProcess:
    """A process that does ``target``, started."""
    # The server finds what it is to import only so, and goes on without it, silently.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        forkserver.ensure_running()
    process = _processes.Process(target=target, args=options)
    process.start()
    return process


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


def act(folder: Path, action: str, step: str) -> None:
    """What the process of :func:`run` does."""

    def at(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    config = account(folder)
    if action == "rotate":
        key_rotation.rotate_passphrase(
            config,
            new=Secret(OTHER),
            parameters=kdf.CHEAPEST,
            options=ChangeOptions(bounds=BOUNDS, at=at),
        )
        return
    if action == "reencrypt":
        rewrite.reencrypt(
            config,
            new=Secret(OTHER),
            parameters=kdf.CHEAPEST,
            options=ChangeOptions(bounds=BOUNDS, at=at),
        )
        return
    if action == "create-plain":
        config = replace(config, db_encryption=False)
    if action == "rebuild":
        config = replace(config, db_key=Secret(OTHER), on_unreadable="rebuild")
    opened = open_cheaply(config, at=at)
    if action == "write":
        opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', 'written')")
        os.kill(os.getpid(), signal.SIGKILL)
    opened.close()
