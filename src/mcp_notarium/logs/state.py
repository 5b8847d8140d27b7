"""What logging currently is: the level, the sinks, the redactor. One per process.

Changed by ``setup`` and :func:`protect` only. The redactor is built on first use: compiling its
patterns takes longer than everything else a start does before the handshake.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_notarium.logs.levels import WARNING

if TYPE_CHECKING:
    from mcp_notarium.config import Config
    from mcp_notarium.logs.redactor import Redactor
    from mcp_notarium.secret import Secret

DROPPED = "[dropped]"
"""Stands for everything that could not be made safe to show."""

Write = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sink:
    """A place for finished lines; ``as_json`` or for people."""

    write: Write
    as_json: bool


@dataclass(slots=True)
class State:
    """The process's logging. ``configured`` False: warnings and worse go to stderr, no hooks."""

    level: int = WARNING
    configured: bool = False
    sinks: tuple[Sink, ...] = ()
    redactor: Redactor | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


STATE = State()


def current_redactor() -> Redactor:
    """The redactor with every secret known so far."""
    redactor = STATE.redactor
    return redactor if redactor is not None else _grown(())


def protect(*secrets: Secret | None) -> None:
    """From now on these secrets are blotted out of every line, in every spelling."""
    _grown(tuple(secret for secret in secrets if secret))


def protect_config(config: Config) -> None:
    """:func:`protect` for every secret of a configuration."""
    raw = _raw_key(config.db_key)
    protect(config.password, config.token, config.db_key, config.api_key, *raw)


def scrub(text: str) -> str:
    """``text`` without secrets, for error texts and whatever else leaves the process."""
    try:
        return current_redactor().text(text)
    except Exception:  # noqa: BLE001 - fails closed: nothing is better than a secret
        return DROPPED


def scrub_for_terminal(text: str) -> str:
    """``text`` without the secrets themselves, for the person the addresses in it belong to."""
    try:
        return current_redactor().without_known(text)
    except Exception:  # noqa: BLE001 - as above
        return DROPPED


def scrub_for_client(value: Any) -> Any:
    """A JSON value without the secrets themselves; ids stay, so that an agent can name a note."""
    if isinstance(value, str):
        return scrub_for_terminal(value)
    if isinstance(value, dict):
        return {scrub_for_client(name): scrub_for_client(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_for_client(part) for part in value]
    return value


def _grown(secrets: tuple[Secret, ...]) -> Redactor:
    from mcp_notarium.logs.redactor import Redactor  # noqa: PLC0415 - slow to import

    with STATE.lock:
        known = STATE.redactor or Redactor(email_key=os.urandom(16))
        STATE.redactor = known.with_secret(*secrets)
        return STATE.redactor


def _raw_key(key: Secret | None) -> list[Secret]:
    """The bytes a ``raw:`` key spells, and its digits without the word before them."""
    from mcp_notarium.secret import Secret  # noqa: PLC0415 - only where there is a key

    if key is None or not key.reveal().startswith(b"raw:"):
        return []
    digits = key.reveal().removeprefix(b"raw:").strip()
    try:
        return [Secret(digits), Secret(bytes.fromhex(digits.decode("ascii")))]
    except ValueError:
        return [Secret(digits)]
