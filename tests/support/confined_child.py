"""Run as a program: confines itself as the server does, then tries what an intruder would try.

Arguments: the data folder, a file outside of it, the address of somebody who listens, ``on`` or
``off``. Prints each attempt with its outcome as JSON: "done" or the name of the error.
"""

from __future__ import annotations

import ctypes.util
import errno
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from mcp_notarium.sandbox.confinement import Confinement
from support.account import account, open_cheaply
from support.forbidden_calls import forbidden_calls


def attempts(data: Path, outside: Path, port: int) -> dict[str, Callable[[], object]]:
    """What is tried, by name; the first word says whether it has to work."""
    link = data / "link"
    return {
        "never: read a file of the user": outside.read_bytes,
        "never: list the home folder": lambda: [*outside.parent.iterdir()],
        "never: write a file elsewhere": lambda: (outside.parent / "new").write_text("x"),
        "never: read through a link in the data folder": lambda: (
            link.is_symlink() or link.symlink_to(outside),
            link.read_bytes(),
        ),
        "never: move a file out of the data folder": lambda: (
            (data / "note").write_text("x"),
            (data / "note").rename(outside.parent / "note"),
        ),
        "never: run a program": lambda: subprocess.run(["/bin/true"], check=True),
        "never: run a program of our own": lambda: subprocess.run(
            [sys.executable, "-c", "pass"], check=True
        ),
        "never: connect to another port": lambda: connect(port),
        "never: listen": listen,
        "never: signal another process": lambda: os.kill(os.getppid(), 0),
        **forbidden_calls(outside, port),
        "always: connect by https": lambda: connect(443),
        "always: make, open and change a cache": lambda: open_cheaply(account(data.parent)).close(),
        "always: import what was not imported before": lambda: importlib.import_module("wave"),
        "always: make a temporary file": tempfile.NamedTemporaryFile,
        "always: look for a library": lambda: ctypes.util.find_library("pthread"),
        "always: look up a name": lambda: socket.getaddrinfo("localhost", 443),
        "always: ask for the addresses of this machine": lambda: socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW, 0
        ).close(),
        "always: talk to itself": lambda: [one.close() for one in socket.socketpair()],
        "always: run a thread": run_a_thread,
        "always: read the list of certificates": lambda: list(Path("/etc/ssl").iterdir()),
    }


def connect(port: int) -> None:
    """A refusal by the other side is a connection that was allowed."""
    with socket.socket() as one:
        one.settimeout(2)
        if one.connect_ex(("127.0.0.1", port)) == errno.EACCES:
            raise PermissionError(errno.EACCES, "connect")


def listen() -> None:
    """On a port that the system chooses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()


def run_a_thread() -> None:
    """And see it end."""
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def outcome(attempt: Callable[[], object]) -> str:
    """What came of it."""
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except Exception as error:  # noqa: BLE001 - told to the test
        return f"{type(error).__name__}: {error}"
    return "done"


def main() -> None:
    """Confine, try, tell."""
    data, outside, port, wanted = (
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4],
    )
    (data / "work" / "notarium").mkdir(parents=True, mode=0o700)
    confinement = Confinement(account(data / "work"), wanted)
    trying = attempts(data / "work" / "notarium", outside, port)
    confinement.enter()
    found = {name: outcome(one) for name, one in trying.items()}
    sys.stdout.write(json.dumps({"how": confinement.how, "found": found}))


if __name__ == "__main__":
    main()
