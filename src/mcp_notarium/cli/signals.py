"""Handle signals: stop a command, interrupt a prompt, and tell what an interrupted command changed.

The account folder before the command is compared with the folder after it, by the names and contents
that count (the key file, the databases). So the message is right wherever the interruption came.

A signal must end a prompt also if it comes just before the wait begins. Python only records a signal and
acts on it between two steps of the program. A system call that has begun is interrupted; one that begins
after the record and before the next step is not, and the first Ctrl+C at a prompt would be followed only
once a line is typed. With other threads at work that is one in a hundred.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import read_private

_INTERRUPTED = 128
"""A shell's exit code for a signal is this plus its number."""
_KEY_FILE_BYTES = 64 * 1024
"""The largest key file."""
_Snapshot = tuple[bytes, tuple[tuple[str, int], ...]]


class CommandStopped(KeyboardInterrupt):
    """Report that the terminal was closed, or somebody ended the command by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@dataclass(slots=True)
class _Watch:
    folder: AccountFolder | None = None
    before: _Snapshot | None = None
    done: str = ""


_watch = _Watch()


def watch_folder(account_dir: Path) -> None:
    """Start to compare this folder: later changes in it count."""
    _watch.folder = AccountFolder(account_dir)
    _watch.before = _snapshot(_watch.folder)


def note_change(what: str) -> None:
    """Record a change that the folder does not show; ``what`` is a sentence for the person."""
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


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Let a closed terminal and SIGTERM end the command as Ctrl+C does: unfinished work is undone.

    Signals that are ignored (``nohup``) stay ignored.
    """
    before = {}
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
    raise CommandStopped(number)


def _snapshot(folder: AccountFolder) -> _Snapshot:
    """Return the key file's content, and the databases, each by name and inode."""
    key_file, databases = b"", []
    with suppress(OSError):
        # Nobody has checked the folder yet: the file may be anything, and endless.
        key_file = hashlib.sha256(
            read_private(folder.key_file, most=_KEY_FILE_BYTES) or b""
        ).digest()
    with suppress(OSError):
        databases = [
            (path.name, path.stat().st_ino)
            for path in sorted(folder.path.glob("notarium_cache*"))
            if not path.name.endswith(("-wal", "-shm", "-journal"))
        ]
    return key_file, tuple(databases)


_GRACE_SECONDS = 0.05
"""A signal recorded this long ago and not handled came too early to interrupt the wait."""
_Handler = Callable[[int, FrameType | None], object]


@contextmanager
def interruptible_wait() -> Iterator[None]:
    """Handle Ctrl+C, SIGTERM and SIGHUP within a moment, whatever the main thread waits for.

    A thread learns of every recorded signal, and interrupts the wait by another, meaningless one until
    the first has been handled. Does nothing outside the main thread, or without POSIX signals.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    acted = threading.Event()
    handlers = _reporting_handlers(acted)
    noted, note = os.pipe()
    os.set_blocking(note, False)  # Python writes signal numbers to it, which must never block
    listener = threading.Thread(
        target=_interrupt_wait, args=(noted, handlers.keys(), acted), daemon=True
    )
    with ExitStack() as undo:  # the last one first
        listener.start()
        undo.callback(os.close, noted)
        undo.callback(listener.join)
        undo.callback(os.close, note)  # the thread then reads the end of its input
        undo.callback(acted.set)
        for number, handler in {**handlers, signal.SIGALRM: _do_nothing}.items():
            undo.callback(_restore_handler, number, signal.getsignal(number), ours=handler)
            signal.signal(number, handler)
        undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(-1))
        signal.set_wakeup_fd(note)
        yield


def _restore_handler(
    number: int, before: signal.Handlers | _Handler | int | None, *, ours: _Handler
) -> None:
    """Restore the previous handler, unless somebody has replaced ours meanwhile: then theirs stays."""
    if signal.getsignal(number) is ours:
        signal.signal(number, before or signal.SIG_DFL)


def _reporting_handlers(acted: threading.Event) -> dict[int, _Handler]:
    """Return the current handlers, extended to report that they have begun."""
    handlers: dict[int, _Handler] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = _report_first(acted, handler)
    return handlers


def _report_first(acted: threading.Event, handler: _Handler) -> _Handler:
    def handle(number: int, frame: FrameType | None) -> object:
        acted.set()
        return handler(number, frame)

    return handle


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: interrupting a system call is the whole purpose."""


def _interrupt_wait(noted: int, heard: Collection[int], acted: threading.Event) -> None:
    waits = threading.main_thread().ident
    while number := os.read(noted, 1):
        while waits is not None and number[0] in heard and not acted.wait(_GRACE_SECONDS):
            signal.pthread_kill(waits, signal.SIGALRM)
