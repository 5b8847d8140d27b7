"""Import the program once, then run it in a fork for every request; see ``support.preloaded``."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import mcp_notarium
from mcp_notarium.cli import server_check

sys.path.insert(0, str(Path(__file__).parents[1]))
from support import cheap_stretching, preloaded, short_pauses

_IMPORTED_LATE = (
    "anyio._backends._asyncio", "argon2", "cryptography.hazmat.primitives.kdf.hkdf", "h11",
    "httpcore", "httpx", "keyring", "sqlcipher3", "truststore",
)  # fmt: skip
"""What the program imports when it needs it."""


def _import_everything() -> None:
    for module in pkgutil.walk_packages(mcp_notarium.__path__, "mcp_notarium."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    for name in _IMPORTED_LATE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


class _Requests:
    """Fork for each request of the test's process, and of programs that it has started in this way."""

    def __init__(self, first: socket.socket, folder: str) -> None:
        self._first, self._listening = first, preloaded.listen(folder)
        self._others: list[socket.socket] = []
        self._running: dict[int, tuple[int, int]] = {}
        self._selector = selectors.DefaultSelector()
        for one in (first, self._listening):
            self._selector.register(one, selectors.EVENT_READ)

    def next_run(self) -> dict[str, object] | None:
        """Return the request in the child, and None in the parent once nobody asks any more."""
        with self._selector:
            while True:
                for key, _ in self._selector.select():
                    if key.fd in self._running:
                        self._tell_end(key.fd)
                    elif key.fileobj is self._listening:
                        self._others.append(self._listening.accept()[0])
                        self._selector.register(self._others[-1], selectors.EVENT_READ)
                    else:
                        request, files, *_ = socket.recv_fds(key.fileobj, 1 << 20, 4)
                        if request and not self._fork(files):
                            return json.loads(request)
                        if not request and key.fileobj is self._first:
                            return None
                        if not request:
                            self._forget(key.fileobj)

    def _tell_end(self, process: int) -> None:
        pid, exit_pipe = self._running.pop(process)
        self._selector.unregister(process)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):  # who asked may have been killed
            os.write(exit_pipe, b"%d\n" % code)
        os.close(exit_pipe)
        os.close(process)

    def _forget(self, other: socket.socket) -> None:
        self._selector.unregister(other)
        self._others.remove(other)
        other.close()

    def _fork(self, files: list[int]) -> int:
        pid = os.fork()
        if pid:
            for file in files[:3]:
                os.close(file)
            os.write(files[3], b"%d\n" % pid)
            process = os.pidfd_open(pid)
            self._running[process] = (pid, files[3])
            self._selector.register(process, selectors.EVENT_READ)
            return pid
        for number, file in enumerate(files[:3]):
            os.dup2(file, number)
        pipes = (exit_pipe for _, exit_pipe in self._running.values())
        for file in (*files, *self._running, *pipes):
            os.close(file)
        for one in (self._listening, *self._others):
            one.close()
        return pid


def _take_terminal() -> None:
    """Start a session at the terminal, as a shell does, and open the standard streams on it."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(
        2, "w", buffering=1, closefd=False, errors="backslashreplace"
    )


def _run(*, script: bool) -> int:
    """Run the program or the script; return its exit code, after the traceback of an error that it let pass."""
    try:
        if script:
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            runpy.run_module("mcp_notarium", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        return end.code or 0
    except Exception:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _leave(code: int) -> NoReturn:
    """End the process as the interpreter does, without freeing what every fork has imported.

    Freeing it writes to each of its pages and costs more than most commands.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        _import_everything()
        wanted = _Requests(asked, sys.argv[2]).next_run()
    if wanted is not None:
        preloaded.connect(sys.argv[2])
        server_check.subprocess = SimpleNamespace(
            Popen=preloaded.started, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL
        )
        os.chdir(wanted["folder"])
        if wanted["at_terminal"]:
            _take_terminal()
        if wanted["cheap"]:
            cheap_stretching.install(setattr)
        if wanted["short_pauses"]:
            short_pauses.install()
        os.environ.clear()
        os.environ.update(wanted["env"])
        time.tzset()
        sys.argv = wanted["arguments"] if wanted["script"] else ["", *wanted["arguments"]]
        sys.path.insert(0, wanted["folder"])  # as ``python -m`` does
        _leave(_run(script=wanted["script"]))
