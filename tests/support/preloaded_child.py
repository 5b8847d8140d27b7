"""Import the program once, then run it in a fork for every request; see ``support.preloaded``."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import socket
import sys
import time

import mcp_notarium


def _import_everything() -> None:
    for module in pkgutil.walk_packages(mcp_notarium.__path__, "mcp_notarium."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _next_run(requests: socket.socket) -> dict[str, object] | None:
    """Fork for each request: the request in the child, None in the parent once nobody asks any more."""
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in running:
                    pid, exit_pipe = running.pop(key.fd)
                    selector.unregister(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    os.write(exit_pipe, b"%d\n" % code)
                    os.close(exit_pipe)
                    os.close(key.fd)
                    continue
                request, files, *_ = socket.recv_fds(requests, 1 << 20, 4)
                if not request:
                    return None
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
                    return json.loads(request)
                for file in files[:3]:
                    os.close(file)
                os.write(files[3], b"%d\n" % pid)
                process = os.pidfd_open(pid)
                running[process] = (pid, files[3])
                selector.register(process, selectors.EVENT_READ)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        _import_everything()
        wanted = _next_run(asked)
    if wanted is not None:
        os.chdir(wanted["folder"])
        os.environ.clear()
        os.environ.update(wanted["env"])
        time.tzset()
        sys.argv = ["", *wanted["arguments"]]
        sys.path.insert(0, wanted["folder"])  # as ``python -m`` does
        runpy.run_module("mcp_notarium", run_name="__main__", alter_sys=True)
