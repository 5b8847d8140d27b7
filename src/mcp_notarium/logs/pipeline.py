"""Process every event: allow-list, redaction, rendering, the last filter, the sinks.

Our own events and the records of other libraries both go through the stdlib's loggers, to the same
handlers and the same filter. If anything raises on the way, the event is dropped and ``[dropped]`` is
written in its place.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from mcp_notarium.logs.logger import (
    DEBUG,
    DROPPED,
    ERROR,
    LEVEL_NAMES,
    STATE,
    TRACE,
    WARNING,
    Sink,
    current_redactor,
)
from mcp_notarium.logs.redaction_rules import one_line
from mcp_notarium.logs.third_party import describe_record

OWN = "mcp_notarium"
NOISY = ("httpx", "httpcore", "mcp", "asyncio", "keyring", "filelock", "hpack", "dotenv")
"""Libraries we load: logged from WARNING on, and in full only at debug and trace."""

_attached: list[tuple[logging.Logger, logging.Handler]] = []


class LineHandler(logging.Handler):
    """Redact a record and write it as one line."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record. What cannot be made safe is dropped, what cannot be written is lost."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - fails closed, whatever a value's methods raised
            line = dropped()
        with suppress(OSError, ValueError):
            self._sink.write(line + "\n")

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, filtered by the redactor before and after it is rendered.

        The current redactor is asked each time: a secret learnt later is removed from every later line.
        """
        facts = current_redactor().facts(_event(record))
        line = json.dumps(facts) if self._sink.as_json else for_people(facts)
        return one_line(current_redactor().rendered(line))


def emit(name: str, level: int, event: str, facts: dict[str, object]) -> None:
    """Log one event of our own. Never raises."""
    try:
        start()
        logging.getLogger(f"{OWN}.{name}").log(level, event, extra={"facts": facts})
    except Exception:  # noqa: BLE001 - fails closed, and logging never breaks the caller
        drop()


def _event(record: logging.LogRecord) -> dict[str, object]:
    """Return time, level, source and event, then the facts; exceptions under ``exception``."""
    time = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
    if not record.name.startswith(f"{OWN}."):
        return {"timestamp": time} | describe_record(record)
    head = {
        "timestamp": time,
        "level": LEVEL_NAMES[record.levelno],
        "logger": record.name.removeprefix(f"{OWN}."),
        "event": record.msg,
    }
    facts = dict(record.facts)  # type: ignore[attr-defined]  # put there by :func:`emit`
    if (error := facts.pop("exc", None)) is not None:
        facts["exception"] = error
    return head | facts | head


def start() -> None:
    """Attach the handlers for the current sinks, once; without a configuration only to our own."""
    with STATE.lock:
        if _attached:
            return
        target = logging.getLogger() if STATE.configured else logging.getLogger(OWN)
        logging.getLogger(OWN).setLevel(TRACE)
        for sink in _sinks():
            handler = LineHandler(sink)
            target.addHandler(handler)
            _attached.append((target, handler))
    if STATE.configured:
        _listen_to_libraries()


def stop() -> bool:
    """Detach what :func:`start` attached. Return whether there was anything."""
    with STATE.lock:
        found = bool(_attached)
        for target, handler in _attached:
            target.removeHandler(handler)
        _attached.clear()
    return found


def drop() -> None:
    """Write to every sink that an event was dropped, and nothing else about it."""
    for sink in _sinks():
        with suppress(OSError, ValueError):
            sink.write(dropped() + "\n")


def dropped() -> str:
    """Return the line that stands for a dropped event; it needs no redactor."""
    return json.dumps({"level": LEVEL_NAMES[ERROR], "event": DROPPED})


def for_people(facts: dict[str, Any]) -> str:
    """Render a line for a terminal: time, level, source, event, facts."""
    time, level, source, event, *rest = facts.items()
    head = f"{str(time[1])[11:19]} {str(level[1]).upper():<8} {source[1]}: {event[1]}"
    return " ".join([head, *(f"{name}={_short(value)}" for name, value in rest)])


def _short(value: object) -> str:
    if isinstance(value, str) and value and not any(char in value for char in ' ="'):
        return value
    return json.dumps(value, ensure_ascii=False)


def _listen_to_libraries() -> None:
    logging.raiseExceptions = False
    logging.addLevelName(TRACE, "TRACE")
    level = DEBUG if STATE.level <= DEBUG else max(STATE.level, WARNING)
    for name in (None, *NOISY):
        logging.getLogger(name).setLevel(level)


def _sinks() -> tuple[Sink, ...]:
    return STATE.sinks or (Sink(_to_stderr, as_json=not sys.stderr.isatty()),)


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
