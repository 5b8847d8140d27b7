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
from mcp_notarium.cli import server

sys.path.insert(0, str(Path(__file__).parents[1]))
from support import cheap_stretching, preloaded, short_pauses

_IMPORTED_LATE = (
    "anyio._backends._asyncio", "argon2", "cryptography.hazmat.primitives.kdf.hkdf", "filelock", "h11",
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


def _next_run(requests: socket.socket, folder: str) -> dict[str, object] | None:
    """Fork for each request: the request in the child, None in the parent once nobody asks any more."""
    running: dict[int, tuple[int, int]] = {}
    sockets = [requests, preloaded.listen(folder)]
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            selector.register(one, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sockets[1]:
                    sockets.append(sockets[1].accept()[0])
                    selector.register(sockets[-1], selectors.EVENT_READ)
                    continue
                if key.fd in running:
                    pid, exit_pipe = running.pop(key.fd)
                    selector.unregister(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with contextlib.suppress(BrokenPipeError):  # whoever asked may have been killed
                        os.write(exit_pipe, b"%d\n" % code)
                    os.close(exit_pipe)
                    os.close(key.fd)
                    continue
                request, files, *_ = socket.recv_fds(key.fileobj, 1 << 20, 4)
                if not request:
                    if key.fileobj is requests:
                        return None
                    selector.unregister(key.fileobj)
                    sockets.remove(key.fileobj)
                    key.fileobj.close()
                    continue
                pid = os.fork()
                if not pid:
                    for number, file in enumerate(files[:3]):
                        os.dup2(file, number)
                    for file in (
                        *files,
                        *running,
                        *(exit_pipe for _, exit_pipe in running.values()),
                    ):
                        os.close(file)
                    for one in sockets[1:]:
                        one.close()
                    return json.loads(request)
                for file in files[:3]:
                    os.close(file)
                os.write(files[3], b"%d\n" % pid)
                process = os.pidfd_open(pid)
                running[process] = (pid, files[3])
                selector.register(process, selectors.EVENT_READ)


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
        wanted = _next_run(asked, sys.argv[2])
    if wanted is not None:
        preloaded.connect(sys.argv[2])
        server.subprocess = SimpleNamespace(
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
