"""Implement what only macOS has.

Sources: Apple man pages fcntl(2) F_FULLFSYNC, fsync(2), ptrace(2) PT_DENY_ATTACH, getrusage(2), environ(7); Apple's "File
System Programming Guide" for the Application Support folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

assert sys.platform != "win32"  # noqa: S101 - for mypy, as in ``posix``

from mcp_notarium.system.posix import Posix  # noqa: E402 - mypy stops above

F_FULLFSYNC = 51
_PT_DENY_ATTACH = 31


def _control(descriptor: int, command: int) -> int:
    import fcntl  # noqa: PLC0415 - not every start writes

    return fcntl.fcntl(descriptor, command)


def _load() -> Any:
    import ctypes  # noqa: PLC0415 - not before the first answer

    return ctypes.CDLL(None)


class MacOS(Posix):
    """Implement the port with the calls of macOS. ``control`` is ``fcntl``, ``load`` loads the C library."""

    flushes_fully = True
    editors = ("nano", "vim", "vi")

    def __init__(
        self, control: Callable[[int, int], int] = _control, load: Callable[[], Any] = _load
    ) -> None:
        self._control = control
        self._load = load

    def flush(self, descriptor: int) -> None:
        """Ask the drive to write its buffer, too: ``fsync`` does not reach the platter.

        A file system that does not know the command refuses it; ``fsync`` is all there is then.
        """
        try:
            self._control(descriptor, F_FULLFSYNC)
        except OSError:
            os.fsync(descriptor)

    def flush_file(self, path: Path) -> None:
        """Do the same to an existing file."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.flush(descriptor)
        finally:
            os.close(descriptor)

    def flush_folder(self, folder: Path) -> None:
        """Do the same to the folder."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.flush(descriptor)
        finally:
            os.close(descriptor)

    def forbid_tracing(self) -> None:
        """Deny debuggers; reading another process's memory needs a right that macOS gives to few."""
        import ctypes  # noqa: PLC0415 - the same

        with suppress(OSError, AttributeError):
            deny = self._load().ptrace
            deny.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
            deny.restype = ctypes.c_int
            deny(_PT_DENY_ATTACH, 0, None, 0)

    def _environment(self) -> Any:
        """Ask for the list: a library has no ``environ`` of its own here."""
        import ctypes  # noqa: PLC0415 - the same

        find = self._load()._NSGetEnviron  # noqa: SLF001 - Apple's name
        find.restype = ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))
        return find().contents

    def memory_used(self) -> int | None:
        """Return the peak; the unit is one byte here."""
        return self._peak()

    def app_folder(self, _environ: Mapping[str, str]) -> Path:
        """Return the folder Application Support."""
        return Path.home() / "Library" / "Application Support"

    def user_folder(self, _what: Literal["config", "data"], environ: Mapping[str, str]) -> Path:
        """Return one folder for both, as is usual there."""
        return self.app_folder(environ) / "mcp-notarium"
