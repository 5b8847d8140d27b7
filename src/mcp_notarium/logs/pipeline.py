"""Process every event: allow-list, redaction, rendering, the last filter, the sinks.

Our own events go through structlog into the stdlib's loggers. Records of other libraries start
there, so they reach the same handlers and the same filter. If anything raises on the way, the event is
dropped and ``[dropped]`` is written in its place.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor

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

Renderer = Callable[[Any, str, EventDict], str]

_attached: list[tuple[logging.Logger, logging.Handler]] = []
_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
_as_json: Renderer = structlog.processors.JSONRenderer()  # type: ignore[assignment]  # str, for str


class _Bound(structlog.BoundLoggerBase):
    """Extend structlog's logger by a numeric level, so that TRACE is one of them."""

    def emit(self, level: int, event: str, facts: dict[str, object]) -> None:
        positional, keywords = self._process_event(LEVEL_NAMES[level], event, facts)
        self._logger.log(level, *positional, **keywords)


class LineHandler(logging.Handler):
    """Format a record through the redacting pipeline and write it as one line."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._write = sink.write
        render = _as_json if sink.as_json else for_people
        self.setFormatter(
            ProcessorFormatter(
                foreign_pre_chain=[describe_record, _stamp_and_order, _permit_facts],
                processors=[ProcessorFormatter.remove_processors_meta, _filter_lines(render)],
                pass_foreign_args=True,
                use_get_message=False,
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record. What cannot be made safe is dropped, what cannot be written is lost."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - fails closed, whatever a value's methods raised
            line = dropped_line()
        with suppress(OSError, ValueError):
            self._write(line + "\n")


def emit(name: str, level: int, event: str, facts: dict[str, object]) -> None:
    """Log one event of our own. Never raises."""
    try:
        start()
        _bound(name).emit(level, event, facts)
    except Exception:  # noqa: BLE001 - fails closed, and logging never breaks the caller
        drop()


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
    structlog.reset_defaults()
    return found


def drop() -> None:
    """Write to every sink that an event was dropped, and nothing else about it."""
    for sink in _sinks():
        with suppress(OSError, ValueError):
            sink.write(dropped_line() + "\n")


def dropped_line() -> str:
    """Return the line that stands for a dropped event; it needs no redactor."""
    return json.dumps({"level": LEVEL_NAMES[ERROR], "event": DROPPED})


def for_people(_logger: Any, _method: str, event: EventDict) -> str:
    """Render a line for a terminal: time, level, source, event, facts."""
    facts = dict(event)
    time = str(facts.pop("timestamp", ""))[11:19]
    level = str(facts.pop("level", "")).upper()
    head = f"{time} {level:<8} {facts.pop('logger', '')}: {facts.pop('event', '')}"
    return " ".join([head, *(f"{name}={_short(value)}" for name, value in facts.items())])


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
    # For a library that uses structlog itself: its default would print to stdout.
    structlog.configure(
        processors=[_library_event, _permit_facts, ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _permit_facts(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Pass every fact through the allow-list: :meth:`Redactor.redact_facts`.

    The current redactor is asked each time: a secret learnt later is removed from every later line.
    """
    return current_redactor().redact_facts({str(name): value for name, value in event.items()})


def _filter_lines(render: Renderer) -> Renderer:
    """Return ``render`` with its line filtered once more and kept to one line."""

    def process(logger: Any, method: str, event: EventDict) -> str:
        return one_line(current_redactor().redact_line(render(logger, method, event)))

    return process


def _stamp_and_order(logger: Any, method: str, event: EventDict) -> EventDict:
    stamped = _stamp(logger, method, event)
    first = {name: stamped.pop(name) for name in ("timestamp", "level", "logger", "event")}
    return first | dict(stamped)


def _library_event(logger: Any, method: str, event: EventDict) -> EventDict:
    words = f"[hidden: {len(str(event.get('event')))} characters]"
    told = {"level": method, "logger": getattr(logger, "name", "structlog"), "message": words}
    return _stamp_and_order(logger, method, told | {"event": "library.message"})


def _make_event_processor(name: str) -> Processor:
    def process(logger: Any, method: str, event: EventDict) -> EventDict:
        event["logger"] = name
        event["level"] = method
        if (error := event.pop("exc", None)) is not None:
            event["exception"] = error
        return _stamp_and_order(logger, method, event)

    return process


def _bound(name: str) -> _Bound:
    processors: list[Processor] = [
        _make_event_processor(name),
        _permit_facts,
        ProcessorFormatter.wrap_for_formatter,
    ]
    return _Bound(logging.getLogger(f"{OWN}.{name}"), processors, {})


def _sinks() -> tuple[Sink, ...]:
    return STATE.sinks or (Sink(_to_stderr, as_json=not sys.stderr.isatty()),)


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
