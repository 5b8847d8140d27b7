"""Configure logging for this process: the destinations, a stderr that removes secrets, and the last-resort hooks.

Uncaught exceptions (main thread, other threads, finalisers, asyncio) and warnings become redacted events: Python
would print their messages, and some of their values, straight to stderr. Nothing slow is imported.
"""

from __future__ import annotations

import atexit
import os
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from mcp_notarium.errors import ConfigError
from mcp_notarium.logs.logger import (
    LEVELS,
    STATE,
    WARNING,
    Logger,
    Sink,
    scrub,
    scrub_for_pipe,
    scrub_for_terminal,
)
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    import asyncio

_log = Logger("python")
_saved: list[tuple[Any, Any, Any, Any]] = []
_opened: list[int] = []
_diverted: list[TextIO] = []
_MOST_BUFFERED = 64 * 1024


def configure(
    level: str = "info",
    file: Path | None = None,
    *,
    stream: TextIO | None = None,
    divert_stdout: bool = False,
) -> None:
    """Log to ``stream`` (stderr) and ``file`` from ``level`` on, and install the hooks.

    A terminal gets lines for people, any other stream gets JSON; the file always gets JSON. Another call
    replaces the configuration. Nothing slow is imported. With ``divert_stdout`` whatever is printed goes
    to the redacted stderr: for a server, whose standard output belongs to the protocol. Raises
    ``ConfigError`` if the file cannot be used, and changes nothing then.
    """
    descriptor = open_log_file(file) if file else None
    close()
    stderr = stream or sys.stderr
    sinks = [Sink(partial(_write_to_stream, stderr), as_json=not stderr.isatty())]
    if descriptor is not None:
        sinks.append(Sink(partial(_append_to, descriptor), as_json=True))
        _opened.append(descriptor)
    STATE.sinks = tuple(sinks)
    STATE.level = LEVELS[level.casefold()]
    STATE.configured = True
    _install_hooks()
    unread = scrub if divert_stdout else scrub_for_pipe
    clean = scrub_for_terminal if stderr.isatty() else unread
    sys.stderr = cast("TextIO", RedactingStream(stderr, clean))
    if divert_stdout:
        _diverted.append(sys.stdout)
        sys.stdout = sys.stderr
    atexit.register(close)


def close() -> None:
    """Restore everything: handlers, hooks, stderr, the file. Idempotent."""
    # Another thread may still be importing it.
    stop = getattr(sys.modules.get("mcp_notarium.logs.pipeline"), "stop", None)
    if stop is not None:
        stop()
    _remove_hooks()
    wrapped: object = sys.stderr
    if isinstance(wrapped, RedactingStream):
        wrapped.finish()
        sys.stderr = wrapped.stream
    while _diverted:
        sys.stdout = _diverted.pop()
    while _opened:
        os.close(_opened.pop())
    STATE.sinks = ()
    STATE.level = WARNING
    STATE.configured = False
    atexit.unregister(close)


def _install_hooks() -> None:
    _saved.append((sys.excepthook, sys.unraisablehook, threading.excepthook, warnings.showwarning))
    sys.excepthook = _uncaught  # defence: hook-uncaught
    sys.unraisablehook = _unraisable  # defence: hook-finalisers
    threading.excepthook = _uncaught_in_thread  # defence: hook-threads
    warnings.showwarning = _warning  # defence: hook-warnings


def _remove_hooks() -> None:
    while _saved:
        hooks = _saved.pop()
        sys.excepthook, sys.unraisablehook, threading.excepthook, warnings.showwarning = hooks


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Log what the loop reports (exceptions nobody awaited), and what libraries log from now on."""
    loop.set_exception_handler(_unhandled_in_loop)  # defence: hook-event-loop
    listen_to_libraries()


def listen_to_libraries() -> None:
    """Write what other libraries log as events of ours. Without it the first event begins that. Idempotent."""
    from mcp_notarium.logs import pipeline  # noqa: PLC0415 - imports the stdlib's logging

    pipeline.start()


def _uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _log.critical("process.crashed", exc=error.with_traceback(trace))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    _log.error("thread.crashed", exc=args.exc_value)


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    # The object's repr may hold anything; its type is enough to find the finaliser.
    _log.error("finaliser.failed", exc=args.exc_value, type=type(args.object).__qualname__)


def _unhandled_in_loop(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # "message" is a constant of asyncio; the rest of the context are reprs of tasks.
    _log.error("loop.unhandled", message=context.get("message"), exc=context.get("exception"))


def _warning(  # noqa: PLR0917 - the signature is the interpreter's
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del message, file, line  # they may quote the values the warning is about
    place = "/".join(filename.replace("\\", "/").rsplit("/", 2)[-2:])
    _log.warning("python.warning", type=category.__qualname__, where=f"{place}:{lineno}")


def open_log_file(path: Path) -> int:
    """Return a descriptor that appends to ``path``, mode 0600. Raises ``ConfigError``.

    The folder must exist. A link, another user's file or anything that is not a regular file is
    refused. An existing file of ours loses the permission of others to read it.
    """
    try:
        _check_folder(path)
        descriptor = SYSTEM.open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError as error:
        raise _log_file_error(path, error.strerror or type(error).__name__) from error
    try:
        _check_file(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _append_to(descriptor: int, line: str) -> None:
    # One system call: lines of several servers do not mix.
    os.write(descriptor, line.encode("utf-8", "backslashreplace"))


def _write_to_stream(stream: TextIO, line: str) -> None:
    stream.write(line)
    stream.flush()


def _check_folder(path: Path) -> None:
    mode = path.parent.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX and SYSTEM.has_modes:
        raise _log_file_error(path, "everybody may write to its folder")


def _check_file(path: Path, descriptor: int) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _log_file_error(path, "it is not a regular file")
    access = SYSTEM.access(descriptor, status)
    if access.owner != "user":
        raise _log_file_error(path, "it belongs to another user")
    if status.st_nlink > 1:
        raise _log_file_error(path, "it has a second name (hard link)")
    if not access.is_private:
        SYSTEM.make_private(descriptor)


def _log_file_error(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"LOG_FILE_PATH names {str(path)!r}, which cannot be used: {reason}",
        resolution_hint="Name a file of your own in an existing folder, or remove LOG_FILE_PATH.",
    )


class RedactingStream:
    """Pass whole lines on to a text stream, without secrets.

    Text without a newline is held back until the line is complete (a secret may come in pieces). The
    exception is ``flush`` on a terminal, which shows it: prompts have no newline.
    ``[dropped]`` is written for a text whose redaction raises.
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
        if len(self._pending) > _MOST_BUFFERED:  # defence: stderr-pieces-joined =True
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
        shown = self._scrub(text)  # defence: stderr-scrubbed _scrub()
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
