"""What an interrupted command has changed: the cache before it, compared with the cache after it.

Looks at the names and contents that count (the key file, the databases), not at what the command meant
to do, so that it is right wherever the interruption came.
"""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import read_private

_INTERRUPTED = 128
"""A shell's exit code for a signal is this and its number."""
_LOOKED_AT = 64 * 1024
"""Bytes; a key file has no more."""
_Seen = tuple[bytes, tuple[tuple[str, int], ...]]


class Stopped(KeyboardInterrupt):
    """The terminal was closed, or somebody ended the command by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@dataclass(slots=True)
class _Watch:
    folder: AccountFolder | None = None
    before: _Seen | None = None
    done: str = ""


_watch = _Watch()


def watch(account_dir: Path) -> None:
    """From now on it counts what is changed in this folder."""
    _watch.folder = AccountFolder(account_dir)
    _watch.before = _seen(_watch.folder)


def done(what: str) -> None:
    """Something was changed that the folder does not show; ``what`` is a sentence for the person."""
    _watch.done = what


def said() -> str:
    """What to tell somebody who has interrupted the command."""
    if _watch.done:
        return f"Interrupted. {_watch.done}"
    if _watch.folder is None or _seen(_watch.folder) == _watch.before:
        return "Interrupted. Nothing was changed."
    return (
        "Interrupted, after the change was made or begun. Nothing is lost: `mcp-notarium status` says how "
        "the cache stands, and the command can be repeated."
    )


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """130 for Ctrl+C, 128 and the signal's number for others."""
    number = interrupt.number if isinstance(interrupt, Stopped) else signal.SIGINT
    return _INTERRUPTED + number


@contextmanager
def stoppable() -> Iterator[None]:
    """A closed terminal and SIGTERM end the command as Ctrl+C does: what is unfinished is taken back.

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
    signal.signal(number, signal.SIG_IGN)  # what is taken back now is not to be interrupted again
    raise Stopped(number)


def _seen(folder: AccountFolder) -> _Seen:
    """The key file's content, and the databases, each by name and inode."""
    key_file, databases = b"", []
    with suppress(OSError):
        # Nobody has examined the folder yet: what lies there may be anything, and have no end.
        key_file = hashlib.sha256(read_private(folder.key_file, most=_LOOKED_AT) or b"").digest()
    with suppress(OSError):
        databases = [
            (path.name, path.stat().st_ino)
            for path in sorted(folder.path.glob("notarium_cache*"))
            if not path.name.endswith(("-wal", "-shm", "-journal"))
        ]
    return key_file, tuple(databases)
