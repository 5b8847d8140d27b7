"""Handle signals: stop a command, interrupt a prompt, and tell what an interrupted command changed.

The key file and the databases before the command are compared with those after it, so the message is
right wherever the interruption came.
"""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from mcp_notarium.errors import CacheError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.system import SYSTEM

_INTERRUPTED = 128
"""A shell's exit code for a signal is this plus its number."""


class CommandStopped(KeyboardInterrupt):
    """Report that the terminal was closed, or somebody ended the command by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@dataclass(slots=True)
class _Watch:
    folder: AccountFolder | None = None
    before: set[tuple[str | int, ...]] = field(default_factory=set)
    done: str = ""
    stopped: CommandStopped | None = None


_watch = _Watch()


def watch_folder(account_dir: Path) -> None:
    """Start to compare this folder: later changes in it count."""
    _watch.folder = AccountFolder(account_dir)
    _watch.before = _snapshot(_watch.folder)


def note_change(what: str) -> None:
    """Record a change that the folder does not show; ``what`` is a sentence for the user."""
    _watch.done = what


def describe_interruption() -> str:
    """Return the message for somebody who has interrupted the command."""
    if _watch.done:
        return f"Interrupted. {_watch.done}"
    if _watch.folder is None or _snapshot(_watch.folder) == _watch.before:
        return "Interrupted. Nothing was changed."
    return (
        "Interrupted after the change was made or begun. Nothing is lost. Check the cache with "
        "`mcp-notarium status`; you can repeat the command."
    )


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return 130 for Ctrl+C, else 128 plus the signal's number."""
    number = interrupt.number if isinstance(interrupt, CommandStopped) else signal.SIGINT
    return _INTERRUPTED + number


def end_by_exception() -> None:
    """Let Ctrl+C raise ``KeyboardInterrupt`` from now on: a command undoes what it has not finished."""
    with suppress(ValueError):  # not the main thread
        if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, signal.default_int_handler):
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Let a closed terminal and SIGTERM end the command as Ctrl+C does: unfinished work is undone.

    Signals that are ignored (``nohup``) stay ignored.
    """
    before = {}
    _watch.stopped = None
    for name in ("SIGHUP", "SIGTERM"):
        number = getattr(signal, name, None)
        with suppress(ValueError):  # not the main thread
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # undoing must not be interrupted again
    _watch.stopped = CommandStopped(number)
    raise _watch.stopped


def raise_if_stopped() -> None:
    """Raise the signal that came. Its own exception is lost if it arrived inside a finaliser, where Python only reports one."""
    if _watch.stopped is not None:
        raise _watch.stopped


def stop_behind(error: Exception) -> KeyboardInterrupt | None:
    """Return the signal that this error comes of: one that was raised inside SQLite reads as a refused statement; None: of none."""
    return _watch.stopped if isinstance(error, CacheError) else None


def _snapshot(folder: AccountFolder) -> set[tuple[str | int, ...]]:
    """Return what identifies the key file and the databases; every change replaces the key file.

    A new file can have the inode of the old one, so the key file's time and size count too.
    """
    with suppress(OSError):
        found: set[tuple[str | int, ...]] = {
            (path.name, path.stat().st_ino)
            for path in folder.path.glob("notarium_cache*")
            if not path.name.endswith(("-wal", "-shm", "-journal"))
        }
        if folder.key_file.exists():
            key = folder.key_file.stat()
            found.add((folder.key_file.name, key.st_ino, key.st_mtime_ns, key.st_size))
        return found
    return set()


def wait_for_input(stream: TextIO) -> None:
    """Wait until ``stream`` can be read or a signal has come, even just before the call.

    Python only records a signal and handles it between two steps of the program. A system call that begins
    after the record is not interrupted, so each signal also writes to a socket that ends the wait here.
    """
    if not SYSTEM.can_select_streams or threading.current_thread() is not threading.main_thread():
        return
    import socket  # noqa: PLC0415 - only where something is asked

    reading, wake = socket.socketpair()
    woken = reading.fileno()
    wake.setblocking(False)  # noqa: FBT003 - Python writes signal numbers to it, which must never block
    before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    try:
        select.select([stream.fileno(), woken], [], [])  # defence: signal-before-the-prompt -woken
    finally:
        signal.set_wakeup_fd(before)
        wake.close()
        reading.close()
