"""Write events and the log records of other libraries: allow-list, rendering, the last filter, the sinks.

Our own events run through a chain of structlog's processors, one for each sink. A library's message may hold note
text (a rejected request, an exception's text), and redaction knows secrets, not notes. So only the constant template of a
message is shown, or only its length. Two say more: the library for keychains, and httpcore (the name of a step).

``[dropped]`` is written in place of an event that raises anything on the way.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

import structlog
from structlog.typing import EventDict, Processor

from mcp_notarium.logs.logger import (
    DEBUG,
    DROPPED,
    ERROR,
    LEVEL_NAMES,
    STATE,
    WARNING,
    Sink,
    current_redactor,
)
from mcp_notarium.logs.redaction import one_line

NOISY = ("httpcore", "mcp", "asyncio", "keyring", "hpack", "dotenv")
"""Libraries we load: logged from WARNING on, and in full only at debug and trace."""

_STEP = re.compile(r"[a-z0-9_]{1,50}\.(?:started|complete|failed)\b")
_DROPPED_LINE = json.dumps({"level": LEVEL_NAMES[ERROR], "event": DROPPED}) + "\n"
_writing = threading.RLock()
"""Lines do not mix. Reentrant: a finaliser may log while a line is written."""


class RecordHandler(logging.Handler):
    """Write the records of other libraries as events."""

    def createLock(self) -> None:  # noqa: N802 - the name is the stdlib's
        """Take the one lock of all lines: a second one could be waited for in the other order."""
        self.lock = _writing

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record. Never raises."""
        try:
            level = record.levelname.casefold()
            _write(level, record.name, "library.message", describe_record(record))
        except Exception:  # noqa: BLE001 - fails closed, and logging never breaks the caller
            drop()


_handler = RecordHandler()


def emit(name: str, level: int, event: str, facts: dict[str, object]) -> None:
    """Write one event of our own. Never raises."""
    try:
        start()
        error = facts.pop("exc", None)
        told = facts if error is None else facts | {"exception": error}
        _write(LEVEL_NAMES[level], name, event, told)  # defence: failed-redaction-drops-event
    except Exception:  # noqa: BLE001 - fails closed, and logging never breaks the caller
        drop()


def start() -> None:
    """Listen to other libraries if logging is configured. Idempotent."""
    root = logging.getLogger()
    with STATE.lock:
        if not STATE.configured or _handler in root.handlers:
            return
        root.addHandler(_handler)
    structlog.configure(processors=[_hide])
    level = DEBUG if STATE.level <= DEBUG else max(STATE.level, WARNING)
    for name in (None, *NOISY):
        logging.getLogger(name).setLevel(level)


def stop() -> None:
    """End what :func:`start` began."""
    logging.getLogger().removeHandler(_handler)
    structlog.reset_defaults()


def drop() -> None:
    """Write to every sink that an event was dropped, and nothing else about it."""
    for sink in _sinks():
        _send(sink, _DROPPED_LINE)


def describe_record(record: logging.LogRecord) -> dict[str, object]:
    """Return what may be shown of a library's record: the facts of an event."""
    facts: dict[str, object] = {
        "where": f"{record.module}:{record.lineno}",
        "message": _message(record),
    }
    if record.exc_info and record.exc_info[1] is not None:
        facts["exception"] = record.exc_info[1]
    return facts


def _message(record: logging.LogRecord) -> str:
    library, template = record.name.partition(".")[0], str(record.msg)
    if library == "keyring":
        return record.getMessage()
    if library == "httpcore" and (step := _STEP.match(template)):
        return step[0]  # defence: foreign-headers-hidden =template
    # The template is a constant in the library's source if there are arguments.
    return template if record.args else f"[hidden: {len(template)} characters]"


def _write(level: str, logger: str, event: str, facts: dict[str, object]) -> None:
    for sink in _sinks():
        line = _Event(None, _chain(logger, as_json=sink.as_json), {}).line(level, event, facts)
        _send(sink, line + "\n")


class _Event(structlog.BoundLoggerBase):
    """Run one event through its chain, whose last processor makes the line."""

    def line(self, level: str, event: str, facts: dict[str, object]) -> str:
        (line,), _ = self._process_event(level, event, facts)
        return str(line)


def _chain(name: str, *, as_json: bool) -> list[Processor]:
    def order(_logger: object, level: str, event: EventDict) -> EventDict:
        told = {"timestamp": event.pop("timestamp"), "level": level, "logger": name}
        return {**told, "event": event.pop("event"), **event}

    return [_stamp, order, _permit_facts, _as_json if as_json else _for_people, _filter_line]


_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
_as_json = structlog.processors.JSONRenderer()


def _permit_facts(_logger: object, _level: str, event: EventDict) -> EventDict:
    # The current redactor: a secret learnt later is removed from every later line.
    # defence: facts-by-allow-list redact_facts()
    return current_redactor().redact_facts(dict(event))


def _for_people(_logger: object, _level: str, event: EventDict) -> str:
    return for_people(dict(event))


def _filter_line(_logger: object, _level: str, line: Any) -> str:
    # defence: line-redacted-again redact_line()
    # defence: event-is-one-line one_line()
    return one_line(current_redactor().redact_line(line))


def _hide(_logger: object, level: str, event: EventDict) -> NoReturn:
    """Write the event of a library that uses structlog itself: its default would print all of it."""
    message = f"[hidden: {len(str(event.get('event')))} characters]"
    try:
        _write(level, "structlog", "library.message", {"message": message})
    except Exception:  # noqa: BLE001 - fails closed, and logging never breaks the caller
        drop()
    raise structlog.DropEvent


def _send(sink: Sink, line: str) -> None:
    with _writing, suppress(OSError, ValueError):
        sink.write(line)


def for_people(event: dict[str, Any]) -> str:
    """Render a line for a terminal: time, level, source, event, facts."""
    facts = dict(event)
    time, level = str(facts.pop("timestamp", ""))[11:19], str(facts.pop("level", "")).upper()
    head = f"{time} {level:<8} {facts.pop('logger', '')}: {facts.pop('event', '')}"
    return " ".join([head, *(f"{name}={_short(value)}" for name, value in facts.items())])


def _short(value: object) -> str:
    if isinstance(value, str) and value and not any(char in value for char in ' ="'):
        return value
    return json.dumps(value, ensure_ascii=False)


def _sinks() -> tuple[Sink, ...]:
    return STATE.sinks or (Sink(_to_stderr, as_json=not sys.stderr.isatty()),)


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
