"""Write finished lines to the log file, and to a stderr that removes secrets by itself."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from mcp_notarium.errors import ConfigError

_MOST_BUFFERED = 64 * 1024


def open_log_file(path: Path) -> int:
    """Return a descriptor that appends to ``path``, mode 0600. Raises ``ConfigError``.

    The folder must exist. A link, another user's file or anything that is not a regular file is
    refused. If others may read an existing file of ours, that permission is removed.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK"):
        flags |= getattr(os, name, 0)
    try:
        _check_folder(path.parent)
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise _log_file_error(error.strerror or type(error).__name__) from error
    try:
        _check_file(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def writer_to(descriptor: int) -> Callable[[str], None]:
    """Return a function that writes each line with one system call: lines of several servers do not mix."""

    def write(line: str) -> None:
        os.write(descriptor, line.encode("utf-8", "backslashreplace"))

    return write


def writer_to_stream(stream: TextIO) -> Callable[[str], None]:
    """Return a function that writes each line to a text stream and flushes it."""

    def write(line: str) -> None:
        stream.write(line)
        stream.flush()

    return write


def _check_folder(folder: Path) -> None:
    status = folder.stat()
    if sys.platform == "win32":
        return
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise _log_file_error("everybody may write to its folder")


def _check_file(descriptor: int) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _log_file_error("it is not a regular file")
    if sys.platform == "win32":
        return
    if status.st_uid != os.geteuid():
        raise _log_file_error("it belongs to another user")
    if status.st_nlink > 1:
        raise _log_file_error("it has a second name (hard link)")
    if stat.S_IMODE(status.st_mode) & 0o077:
        os.fchmod(descriptor, 0o600)


def _log_file_error(reason: str) -> ConfigError:
    return ConfigError(
        f"the log file named by LOG_FILE_PATH cannot be used: {reason}",
        resolution_hint="Point LOG_FILE_PATH to a file of your own in an existing folder, "
        "or remove it.",
    )


class RedactingStream:
    """Pass whole lines on to a text stream, without secrets.

    Text without a newline is held back until the line is complete (a secret may come in pieces). The
    exception is ``flush`` on a terminal, which shows it: prompts have no newline. If redaction raises,
    ``[dropped]`` is written instead.
    """

    def __init__(self, stream: TextIO, scrub: Callable[[str], str]) -> None:
        self.stream = stream
        self._scrub = scrub
        self._pending = ""
        self.buffer = _BytesSide(self)

    def write(self, text: str) -> int:
        """Hold the text; pass on the lines it completes."""
        whole, newline, self._pending = (self._pending + text).rpartition("\n")
        if newline:
            self._write_clean(whole + newline)
        if len(self._pending) > _MOST_BUFFERED:
            self._write_pending()
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush what was passed on; on a terminal also what is held."""
        if self.stream.isatty():
            self._write_pending()
        self.stream.flush()

    def finish(self) -> None:
        """Pass on what is held, at the end of the program."""
        self._write_pending()
        self.stream.flush()

    def _write_pending(self) -> None:
        held, self._pending = self._pending, ""
        if held:
            self._write_clean(held)

    def _write_clean(self, text: str) -> None:
        shown = self._scrub(text)
        ended = shown.endswith("\n") or not text.endswith("\n")
        self.stream.write(shown if ended else shown + "\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _BytesSide:
    """Stand in for ``sys.stderr.buffer`` of a :class:`RedactingStream`: bytes are redacted as text."""

    def __init__(self, stream: RedactingStream) -> None:
        self._redacting = stream

    def write(self, content: bytes) -> int:
        self._redacting.write(bytes(content).decode("utf-8", "backslashreplace"))
        return len(content)

    def flush(self) -> None:
        self._redacting.flush()
