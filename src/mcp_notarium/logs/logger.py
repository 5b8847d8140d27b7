"""Define the logger that modules hold: it filters by level, then passes events to the pipeline.

Creating one costs nothing, and a call below the level costs one comparison. It never raises: a log
line is not worth a failed call.
"""

from __future__ import annotations

from mcp_notarium.logs.state import CRITICAL, DEBUG, ERROR, INFO, STATE, TRACE, WARNING


class Logger:
    """Log events under a name. The event is a constant dotted name, the facts are keywords."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def trace(self, event: str, /, **facts: object) -> None:
        """Log a step, for tracing one call."""
        self._log(TRACE, event, facts)

    def debug(self, event: str, /, **facts: object) -> None:
        """Log what a developer wants to know."""
        self._log(DEBUG, event, facts)

    def info(self, event: str, /, **facts: object) -> None:
        """Log an ordinary event."""
        self._log(INFO, event, facts)

    def warning(self, event: str, /, **facts: object) -> None:
        """Log something odd that was dealt with."""
        self._log(WARNING, event, facts)

    def error(self, event: str, /, **facts: object) -> None:
        """Log that something requested was not done."""
        self._log(ERROR, event, facts)

    def critical(self, event: str, /, **facts: object) -> None:
        """Log that the program cannot continue as intended."""
        self._log(CRITICAL, event, facts)

    def enabled(self, level: int) -> bool:
        """Return whether an event of this level would be written."""
        return level >= STATE.level

    def _log(self, level: int, event: str, facts: dict[str, object]) -> None:
        if level < STATE.level:
            return
        from mcp_notarium.logs import pipeline  # noqa: PLC0415 - imports structlog: not before it is used

        pipeline.emit(self.name, level, event, facts)


def get(name: str) -> Logger:
    """Return the logger of a package, for example ``logs.get("sync")``."""
    return Logger(name)
