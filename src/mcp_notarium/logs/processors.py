"""Redact as structlog processors: ``(logger, method, event) -> event``, and the last filter.

They do not need structlog itself. They read the current redactor through a callable, so a secret
learnt later is removed from every later line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from mcp_notarium.logs.escaping import one_line
from mcp_notarium.logs.redactor import Redactor

Event = MutableMapping[str, Any]
Processor = Callable[[Any, str, Event], Event]
Renderer = Callable[[Any, str, Event], str]
CurrentRedactor = Callable[[], Redactor]


def facts_filter(redactor: CurrentRedactor) -> Processor:
    """Return a processor that passes every fact through the allow-list: :meth:`Redactor.facts`."""

    def process(_logger: Any, _method: str, event: Event) -> Event:
        return redactor().facts(_named(event))

    return process


def line_filter(render: Renderer, redactor: CurrentRedactor) -> Renderer:
    """Return ``render`` with its line filtered once more and kept to one line."""

    def process(logger: Any, method: str, event: Event) -> str:
        return one_line(redactor().rendered(render(logger, method, event)))

    return process


def _named(event: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in event.items()}
