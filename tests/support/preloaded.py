"""Start the program without its imports, which cost more than most commands.

A process of its own imports everything once and forks for each start: the program is then a process with its
own files, environment and limits, like a newly started one. A fork that starts the program of a client's entry, as
``setup`` does, gets a fork of the same process. What a start imports, and when, is seen by
tests that start the program themselves (``Talker``); ``./scripts/test --all`` starts it everywhere.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from support import cheap_stretching, short_pauses
from support.long import LONG

_CHILD = Path(__file__).with_name("preloaded_child.py")
ENTRY = [str(Path(sys.executable).with_name("mcp-notarium"))]
"""What the entry of a client starts; arguments follow."""
_SCRIPTS = f"{Path(__file__).parent}{os.sep}"
_SOCKET = "requests"
ANEW = {"PYTHONHASHSEED": "0"}
"""Add this to an environment to start a new interpreter all the same."""
_lock = threading.Lock()


def possible(env: dict[str, str]) -> bool:
    """Whether a fork would be the same as a start: nothing set for the interpreter itself."""
    return (
        not LONG
        and hasattr(os, "pidfd_open")
        and not any(name.startswith(("PYTHON", "LC_", "LANG", "LD_")) for name in env)
    )


def arguments_of(command: list[str]) -> list[str] | None:
    """Return the arguments for :class:`Preloaded` if the command is a client's entry or a script of this folder."""
    if command[:1] == ENTRY:
        return list(command[1:])
    if command[0] == sys.executable and command[1].startswith(_SCRIPTS):
        return list(command[1:])
    return None


def started(command: list[str], *, env: dict[str, str], **options: Any) -> Any:
    """Start the program of a client's entry, as ``subprocess.Popen`` does in ``cli.server_check``."""
    arguments = arguments_of(command)
    if arguments is None or not possible(env):
        return subprocess.Popen(command, env=env, **options)
    process = Preloaded(arguments, env=env, cwd=options["cwd"])
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return process


def listen(folder: str) -> socket.socket:
    """Take requests in this folder, of programs that the process for requests has started."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(f"{folder}/{_SOCKET}")
    listening.listen()
    return listening


def connect(folder: str) -> None:
    """Send requests to the process that listens in this folder."""
    global _requests  # noqa: PLW0603

    def connected() -> socket.socket:
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.connect(f"{folder}/{_SOCKET}")
        return ours

    _requests = functools.cache(connected)


@functools.cache
def _requests() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = tempfile.TemporaryDirectory(prefix="preloaded-")
    process = subprocess.Popen(
        [sys.executable, str(_CHILD), str(theirs.fileno()), folder.name],
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        pass_fds=[theirs.fileno()],
        # Standard streams remember whether they can seek: pipes, as in the programs that take their place.
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        with folder, process:
            pass

    atexit.register(end)
    return ours


class Preloaded:
    """Behave as ``subprocess.Popen`` for the program with these arguments, or for a script and its arguments.

    ``output``: files for standard output and error, instead of pipes. ``terminal``: the terminal to run at.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: dict[str, str],
        cwd: str | os.PathLike[str] | None = None,
        output: tuple[int, int] | None = None,
        terminal: int | None = None,
    ) -> None:
        self.returncode: int | None = None
        env = dict(env)
        request = {
            "arguments": list(arguments),
            "script": bool(arguments) and arguments[0].startswith(_SCRIPTS),
            "cheap": cheap_stretching.wanted(env),
            "short_pauses": short_pauses.wanted(env),
            "env": env,
            "folder": str(Path(cwd or ".").absolute()),
            "at_terminal": terminal is not None,
        }
        self._told, tell = os.pipe()
        theirs = [tell]
        self.stdin = self.stdout = self.stderr = None
        if terminal is not None:
            stdin, output = terminal, (terminal, terminal)
        else:
            stdin, ours = os.pipe()
            theirs.append(stdin)
            self.stdin = os.fdopen(ours, "wb", 0)
        if output is None:
            out, err = os.pipe(), os.pipe()
            self.stdout, self.stderr = (os.fdopen(end[0], "rb", 0) for end in (out, err))
            output = out[1], err[1]
            theirs += output
        with _lock:
            socket.send_fds(_requests(), [json.dumps(request).encode()], [stdin, *output, tell])
        for file in theirs:
            os.close(file)
        self.pid = int(self._line())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in filter(None, (self.stdin, self.stdout)):
            stream.close()
        self.wait()

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            read = os.read(self._told, 1)
            assert read, "the process that starts the program has gone"
            line += read
        return line

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._ended(0)

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], seconds)[0]:
            self.returncode = int(self._line())
            os.close(self._told)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("mcp_notarium", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Signal the process, unless it has ended."""
        if self.poll() is None:
            # Between its end and the line that tells of it, its number is nobody's.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)
