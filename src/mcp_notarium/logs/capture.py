"""For tests: the events a piece of code logs, as they would have been shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp_notarium.logs.levels import LEVELS
from mcp_notarium.logs.state import STATE, Sink


@contextmanager
def capture(level: str = "trace") -> Iterator[list[dict[str, Any]]]:
    """The events logged inside, redacted, newest last; nothing reaches the usual sinks."""
    import json  # noqa: PLC0415 - importing this room stays cheap

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
