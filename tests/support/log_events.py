"""Capture logged events as values."""

import json
from contextlib import contextmanager

from mcp_notarium.logs.logger import LEVELS, STATE, Sink


@contextmanager
def capture():
    """The events logged inside, redacted, newest last. Nothing reaches the usual sinks."""
    events = []
    before = (STATE.sinks, STATE.level)
    STATE.sinks = (Sink(lambda line: events.append(json.loads(line)), as_json=True),)
    STATE.level = LEVELS["trace"]
    try:
        yield events
    finally:
        STATE.sinks, STATE.level = before
