"""Configures logging for this process, in two steps: cheap before the handshake, full after it."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import TextIO, cast

from mcp_notarium.logs import exception_hooks
from mcp_notarium.logs.levels import LEVELS, WARNING
from mcp_notarium.logs.sinks import RedactingStream, open_log_file, writer_to, writer_to_stream
from mcp_notarium.logs.state import STATE, Sink, scrub, scrub_for_terminal

_opened: list[int] = []
_diverted: list[TextIO] = []


def configure(
    level: str = "info",
    file: Path | None = None,
    *,
    stream: TextIO | None = None,
    divert_stdout: bool = False,
) -> None:
    """Log to ``stream`` (stderr) and ``file`` from ``level`` on, and take over the hooks.

    A terminal gets lines for people, anything else JSON, the file always JSON. Raises
    ``ConfigError`` if the file cannot be used, changing nothing. Calling it again replaces what
    was configured; nothing slow is imported. With ``divert_stdout`` whatever is printed goes to
    the redacted stderr: for a server whose standard output is the protocol's.
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
    exception_hooks.install()
    clean = scrub_for_terminal if stderr.isatty() else scrub
    sys.stderr = cast("TextIO", RedactingStream(stderr, clean))
    if divert_stdout:
        _diverted.append(sys.stdout)
        sys.stdout = sys.stderr
    atexit.register(close)


def configure_full() -> None:
    """Load the chain and listen to other libraries, before they are first used. Idempotent."""
    from mcp_notarium.logs import pipeline  # noqa: PLC0415 - imports structlog

    pipeline.start()


def close() -> None:
    """Give everything back as it was found: handlers, hooks, stderr, the file. Idempotent."""
    chain = sys.modules.get("mcp_notarium.logs.pipeline")
    if chain is not None:
        chain.stop()
    exception_hooks.remove()
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
