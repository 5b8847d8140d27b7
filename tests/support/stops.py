"""The places at which a command can be stopped: before each call that changes files or takes a lock.

Also where a transaction begins, is about to commit and has committed, and where the command itself
names a step. ``run_killed`` gives it to a process of its own, which dies by SIGKILL at one of them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from mcp_notarium.storage import database
from support import power_stories
from support.account_child import KILLED, forked
from support.stories import Story

__all__ = ["KILLED", "TAKES_ROOM", "run_killed", "stopping"]

_CALLS = {
    os: ("fsync", "mkdir", "rename", "replace", "link", "unlink", "remove", "rmdir", "ftruncate"),
    shutil: ("copyfile",),
    fcntl: ("flock",),
}
TAKES_ROOM = {"open", "write", "sync", "fsync", "mkdir", "link", "copyfile"}
"""Where a disk or a quota may say no; ``write`` and ``sync`` are steps that commands name.

A name that moves within a file system takes the room of the one it had, or replaces another.
"""

Stop = Callable[[str], None]


def run_killed(story: Story, home: Path, number: int) -> int | None:
    """Do it, killed at stop ``number`` (from 1); 0 if it has no so many."""
    process = forked(_act, story.name, home, number)
    process.join(60)
    return process.exitcode


@contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """``stop`` is called with the name of every place within."""
    with ExitStack() as stack:
        for module, names in _CALLS.items():
            for name in names:
                stack.enter_context(
                    patch.object(module, name, _stopping(getattr(module, name), stop))
                )
        stack.enter_context(patch.object(os, "open", _creating(os.open, stop)))
        transaction = _transaction(database.Database.transaction, stop)
        stack.enter_context(patch.object(database.Database, "transaction", transaction))
        yield


def _stopping(call: Callable[..., object], stop: Stop) -> Callable[..., object]:
    def stopping(*given, **options):
        stop(call.__name__)
        return call(*given, **options)

    return stopping


def _creating(call: Callable[..., int], stop: Stop) -> Callable[..., int]:
    def creating(path, flags, *given, **options):
        if flags & os.O_EXCL:
            stop("open")
        return call(path, flags, *given, **options)

    return creating


def _transaction(transaction, stop: Stop):
    @contextmanager
    def stopping(self, **options):
        stop("begin")
        with transaction(self, **options):
            yield
            stop("commit")
        stop("committed")

    return stopping


def _act(name: str, home: Path, number: int) -> None:
    count = 0

    def stop(_name: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    with stopping(stop):
        power_stories.story_named(name).act(home, stop)
