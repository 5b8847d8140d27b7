"""The logger every room holds: filters by level, then hands over to the chain.

Creating one costs nothing and calling one below the level costs a comparison. It never raises: a
log line is not worth a failed call.
"""

from __future__ import annotations

from mcp_notarium.logs.levels import CRITICAL, DEBUG, ERROR, INFO, TRACE, WARNING
from mcp_notarium.logs.state import STATE


class Logger:
    """A named source of events. The event is a constant dotted name, the facts are keywords."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def trace(self, event: str, /, **facts: object) -> None:
        """Every step, for tracing one call."""
        self._log(TRACE, event, facts)

    def debug(self, event: str, /, **facts: object) -> None:
        """What a developer wants to know."""
        self._log(DEBUG, event, facts)

    def info(self, event: str, /, **facts: object) -> None:
        """What happened, in the ordinary course."""
        self._log(INFO, event, facts)

    def warning(self, event: str, /, **facts: object) -> None:
        """Odd, and dealt with."""
        self._log(WARNING, event, facts)

    def error(self, event: str, /, **facts: object) -> None:
        """Something asked for was not done."""
        self._log(ERROR, event, facts)

    def critical(self, event: str, /, **facts: object) -> None:
        """The program cannot go on as it was meant to."""
        self._log(CRITICAL, event, facts)

    def enabled(self, level: int) -> bool:
        """Whether an event of this level would be written."""
        return level >= STATE.level

    def _log(self, level: int, event: str, facts: dict[str, object]) -> None:
        if level < STATE.level:
            return
        from mcp_notarium.logs import pipeline  # noqa: PLC0415 - imports structlog: not before it is used

        pipeline.emit(self.name, level, event, facts)


def get(name: str) -> Logger:
    """The logger of a room, for example ``log.get("sync")``."""
    return Logger(name)
