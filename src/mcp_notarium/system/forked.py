"""Run a function in a copy of this process that has nothing but a pipe to answer.

Sources: POSIX.1-2017 (``fork``, ``pipe``, ``_exit``, ``setrlimit``), Linux man page proc_pid_statm(5). The copy has one thread.
It must import nothing and use no lock that another thread may have had; what it has read, written or broken ends with it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NoReturn

assert sys.platform != "win32"  # noqa: S101 - for mypy, which reads no further there

import resource  # noqa: E402 - POSIX only

_END = b"\0the end\0"
"""Last bytes that the copy writes: a pipe that was closed early does not end so."""
_CHUNK = 1 << 20
_MOST_FILES = 1 << 16
"""Open files that a server cannot have. A system may say -1 where a person has set no limit."""


def run_forked(
    work: Callable[[], Iterable[bytes]],
    *,
    confine: Callable[[], None],
    seconds: float,
    memory: int,
    most: int,
) -> tuple[bytes, bool]:
    """Return what ``work`` yields, and whether that is all; see ``Processes.run_apart``. Raises ``OSError``."""
    limits = _limits(seconds=seconds, memory=memory)
    reader, writer = os.pipe()
    warnings.filterwarnings("ignore", r".*use of fork\(\) may lead to deadlocks")
    try:
        child = os.fork()
        if not child:
            _work(work, writer, confine, limits)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    try:
        return _read(reader, time.monotonic() + seconds, most)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)  # it has its number until it is waited for
        os.waitpid(child, 0)


def _work(
    work: Callable[[], Iterable[bytes]],
    writer: int,
    confine: Callable[[], None],
    limits: Iterable[tuple[int, int]],
) -> NoReturn:
    """Do the work in the copy, and end it without any step of Python's own."""
    try:
        os.closerange(0, writer)  # defence: copy-has-a-pipe-alone
        os.closerange(writer + 1, _MOST_FILES)
        for what, limit in limits:
            with suppress(OSError, ValueError):
                resource.setrlimit(what, (limit, limit))  # defence: copy-is-limited
        confine()
        with os.fdopen(writer, "wb") as out:
            for part in chain(work(), (_END,)):
                out.write(part)
                out.flush()
    finally:
        os._exit(0)


def _limits(*, seconds: float, memory: int) -> list[tuple[int, int]]:
    """Return what the copy is limited by. It could not ask itself: where this process is confined, it may look at no other one."""
    limits = [(resource.RLIMIT_CPU, int(seconds) + 1), (resource.RLIMIT_CORE, 0)]
    with suppress(OSError, ValueError):  # macOS has no such file, and keeps no such limit
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limits.append((resource.RLIMIT_AS, pages * resource.getpagesize() + memory))
    return limits


def _read(reader: int, end: float, most: int) -> tuple[bytes, bool]:
    """Read until the copy ends, has said too much, or time is up."""
    read, news = bytearray(), select.poll()
    news.register(reader, select.POLLIN)
    while news.poll(max(0.0, end - time.monotonic()) * 1000):
        if not (part := os.read(reader, _CHUNK)):
            break
        read += part
        if len(read) > most + len(_END):  # defence: copy-says-so-much
            return b"", False
    done = read.endswith(_END)
    return bytes(read[: -len(_END)] if done else read), done
