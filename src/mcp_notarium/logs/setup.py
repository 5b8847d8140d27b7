"""Configure logging for this process, in two steps: cheap before the handshake, full after it."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from mcp_notarium.logs import exception_hooks
from mcp_notarium.logs.sinks import RedactingStream, open_log_file, writer_to, writer_to_stream
from mcp_notarium.logs.state import LEVELS, STATE, WARNING, Sink, scrub, scrub_for_terminal

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
    exception_hooks.install()
    clean = scrub_for_terminal if stderr.isatty() else scrub
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


@contextmanager
def capture(level: str = "trace") -> Iterator[list[dict[str, Any]]]:
    """Collect the events logged inside, redacted, newest last. For tests.

    Nothing reaches the usual sinks.
    """
    import json  # noqa: PLC0415 - slow to import

    from mcp_notarium.logs import pipeline  # noqa: PLC0415 - imports structlog

    events: list[dict[str, Any]] = []
    before = (STATE.sinks, STATE.level)
    attached = pipeline.stop()
    STATE.sinks = (Sink(lambda line: events.append(json.loads(line)), as_json=True),)
    STATE.level = LEVELS[level.casefold()]
    try:
        yield events
    finally:
        pipeline.stop()
        STATE.sinks, STATE.level = before
        if attached:
            pipeline.start()
