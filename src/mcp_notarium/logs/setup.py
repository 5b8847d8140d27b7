"""Configure logging for this process, in two steps: cheap before the handshake, full after it.

Also turns the interpreter's last-resort hooks into redacted log events. Uncaught exceptions (main thread,
other threads, finalisers, asyncio) and warnings would otherwise print messages, and some of them values,
straight to stderr.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

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
from mcp_notarium.logs.sinks import RedactingStream, open_log_file, writer_to, writer_to_stream

if TYPE_CHECKING:
    import asyncio

_log = Logger("python")
_saved: list[tuple[Any, Any, Any, Any]] = []
_opened: list[int] = []
_diverted: list[TextIO] = []


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
    sinks = [Sink(writer_to_stream(stderr), as_json=not stderr.isatty())]
    if descriptor is not None:
        sinks.append(Sink(writer_to(descriptor), as_json=True))
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


def configure_full() -> None:
    """Load the pipeline and listen to other libraries, before they are first used. Idempotent."""
    from mcp_notarium.logs import pipeline  # noqa: PLC0415 - imports structlog

    pipeline.start()


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
    """Replace the interpreter's hooks; the ones found are kept for :func:`_remove_hooks`."""
    _saved.append((sys.excepthook, sys.unraisablehook, threading.excepthook, warnings.showwarning))
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    threading.excepthook = _uncaught_in_thread
    warnings.showwarning = _warning


def _remove_hooks() -> None:
    while _saved:
        sys.excepthook, sys.unraisablehook, threading.excepthook, warnings.showwarning = (
            _saved.pop()
        )


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Log what the loop reports (exceptions nobody awaited) instead of letting asyncio print it."""
    loop.set_exception_handler(_unhandled_in_loop)


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
