"""Turn the interpreter's last-resort hooks into redacted log events.

Uncaught exceptions (main thread, other threads, finalisers, asyncio) and warnings would otherwise
print messages, and some of them values, straight to stderr.
"""

from __future__ import annotations

import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, TextIO

from mcp_notarium.logs.logger import Logger

if TYPE_CHECKING:
    import asyncio

_log = Logger("python")
_saved: dict[str, Any] = {}


def install() -> None:
    """Replace the interpreter's hooks; the ones found are kept for :func:`remove`."""
    if _saved:
        return
    _saved["excepthook"] = sys.excepthook
    _saved["unraisablehook"] = sys.unraisablehook
    _saved["threading"] = threading.excepthook
    _saved["showwarning"] = warnings.showwarning
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    threading.excepthook = _uncaught_in_thread
    warnings.showwarning = _warning


def remove() -> None:
    """Restore the hooks."""
    if not _saved:
        return
    sys.excepthook = _saved["excepthook"]
    sys.unraisablehook = _saved["unraisablehook"]
    threading.excepthook = _saved["threading"]
    warnings.showwarning = _saved["showwarning"]
    _saved.clear()


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
