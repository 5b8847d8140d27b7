"""Define the logger that modules hold, and the state of logging, one per process.

Only ``setup`` and :func:`protect` change the state. The redactor is built on first use: compiling its patterns
takes longer than everything else a start does before the handshake. A logger costs nothing, a call below
the level one comparison. It never raises: a log line is not worth a failed call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mcp_notarium.config import Config
    from mcp_notarium.logs.redaction import Redactor
    from mcp_notarium.secret import Secret

TRACE = 5
DEBUG = 10
INFO = 20
WARNING = 30
ERROR = 40
CRITICAL = 50

LEVELS = {
    "trace": TRACE, "debug": DEBUG, "info": INFO, "warn": WARNING, "warning": WARNING,
    "error": ERROR, "critical": CRITICAL,
}  # fmt: skip
LEVEL_NAMES = {level: name for name, level in LEVELS.items()}

DROPPED = "[dropped]"
"""Replaces everything that could not be made safe to show."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Hold a destination for finished lines, as JSON or for people."""

    write: Callable[[str], None]
    as_json: bool


@dataclass(slots=True)
class LoggingState:
    """Hold the process's logging."""

    level: int = WARNING
    configured: bool = False
    """False: warnings and worse go to stderr, no hooks."""
    sinks: tuple[Sink, ...] = ()
    redactor: Redactor | None = None
    lock: AbstractContextManager[bool] = field(default_factory=threading.RLock)
    """Reentrant: a finaliser may log while it is held."""


STATE = LoggingState()


class Logger:
    """Log events under a name. The event is a constant dotted name, the facts are keywords."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def debug(self, event: str, /, **facts: object) -> None:
        """Log what a developer wants to know."""
        self._log(DEBUG, event, facts)

    def info(self, event: str, /, **facts: object) -> None:
        """Log an ordinary event."""
        self._log(INFO, event, facts)

    def warning(self, event: str, /, **facts: object) -> None:
        """Log something unusual that was handled."""
        self._log(WARNING, event, facts)

    def error(self, event: str, /, **facts: object) -> None:
        """Log that something requested was not done."""
        self._log(ERROR, event, facts)

    def critical(self, event: str, /, **facts: object) -> None:
        """Log that the program cannot continue as intended."""
        self._log(CRITICAL, event, facts)

    def _log(self, level: int, event: str, facts: dict[str, object]) -> None:
        if level < STATE.level:
            return
        from mcp_notarium.logs import pipeline  # noqa: PLC0415 - imports the stdlib's logging

        pipeline.emit(self.name, level, event, facts)


def get(name: str) -> Logger:
    """Return the logger of a package, for example ``logs.get("sync")``."""
    return Logger(name)


def current_redactor() -> Redactor:
    """Return the redactor with every secret known so far."""
    return STATE.redactor or _add_secrets(())


def protect(*secrets: Secret | None) -> None:
    """Remove these secrets from every line from now on."""
    _add_secrets(tuple(secret for secret in secrets if secret))


def protect_config(config: Config) -> None:
    """Protect every secret of a configuration."""
    raw = _raw_key(config.db_key)
    # defence: every-secret-protected -values
    protect(*config.store_settings.secrets.values(), config.db_key, *raw)


def scrub(text: str) -> str:
    """Return ``text`` without secrets, for error texts and whatever else leaves the process."""
    return _fail_closed(lambda redactor: redactor.redact_text(text))


def scrub_for_pipe(text: str) -> str:
    """Return ``text`` as :func:`scrub` does, with the ids of notes: the user names notes by them."""
    return _fail_closed(lambda redactor: redactor.redact_text(text, ids=True))


def scrub_for_terminal(text: str) -> str:
    """Return ``text`` without the secrets themselves, for the user whose addresses are in it."""
    return _fail_closed(lambda redactor: redactor.remove_secrets(text))


def _fail_closed(clean: Callable[[Redactor], str]) -> str:
    try:
        return clean(current_redactor())
    except Exception:  # noqa: BLE001 - nothing is better than a secret
        return DROPPED  # defence: failed-scrubbing-is-silent


def scrub_for_client(value: Any) -> Any:
    """Return a JSON value without the secrets themselves; ids stay, so that an agent can name a note."""
    if isinstance(value, str):
        return scrub_for_terminal(value)
    if isinstance(value, dict):
        return {scrub_for_client(name): scrub_for_client(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_for_client(part) for part in value]
    return value


def _add_secrets(secrets: tuple[Secret, ...]) -> Redactor:
    from mcp_notarium.logs.redaction import Redactor  # noqa: PLC0415 - slow to import

    with STATE.lock:
        known = STATE.redactor or Redactor(email_key=os.urandom(16))
        STATE.redactor = known.with_secret(*secrets)
        return STATE.redactor


def _raw_key(key: Secret | None) -> list[Secret]:
    """Return the bytes of a ``raw:`` key, and its digits without the prefix."""
    from mcp_notarium.secret import Secret  # noqa: PLC0415 - only where there is a key

    if key is None or not key.reveal().startswith(b"raw:"):
        return []
    digits = key.reveal().removeprefix(b"raw:").strip()
    try:
        return [Secret(digits), Secret(bytes.fromhex(digits.decode("ascii")))]
    except ValueError:
        return [Secret(digits)]
