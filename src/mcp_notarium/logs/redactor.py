"""Remove secrets from text and values, and describe exceptions as plain values.

A redactor is a frozen value; :meth:`Redactor.with_secret` returns a new one. It removes only
secrets it knows: one shorter than ``secret_encodings.MINIMUM_LENGTH`` is protected by its name alone.

Of an exception its type, its place and its causes are shown, but neither local variables nor source lines. A
message is kept only if its words are the program's or the system's own. Any other message may quote what it
was raised about (a note, a tag, a password) and is replaced by its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import TracebackType
from typing import Any

from mcp_notarium.errors import NotariumError
from mcp_notarium.logs import redaction_rules, secret_encodings
from mcp_notarium.logs.redaction_rules import IDS, REDACTED
from mcp_notarium.secret import Secret

ID_LENGTH = 12
"""Identifiers are cut to this many characters: enough to find a note, too short to hide a secret."""

MAXIMUM_DEPTH = 6
MAXIMUM_ITEMS = 50
MAXIMUM_TEXT = 2000
MAXIMUM_FRAMES = 30
MAXIMUM_CHAIN = 6
MAXIMUM_MEMBERS = 5
_LOOKED_AT = 8 * MAXIMUM_TEXT
_LARGEST_NUMBER = 10**18


@dataclass(frozen=True)
class Redactor:
    """Remove ``secrets`` (raw bytes) and everything that looks like one from text and values.

    ``email_key`` makes the pseudonyms of e-mail addresses; 16 random bytes per process will do.
    """

    email_key: bytes
    secrets: frozenset[bytes] = frozenset()

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        """Compile when it is first used: that takes longer than most commands, and many log nothing."""
        # Longest first: if one secret starts with another, both are removed whole.
        ordered = sorted(self.secrets, key=lambda secret: (-len(secret), secret))
        joined = "|".join(filter(None, map(secret_encodings.build_pattern, ordered)))
        return re.compile(joined, re.IGNORECASE) if joined else None

    def __repr__(self) -> str:
        return f"Redactor({len(self.secrets)} secrets)"

    def with_secret(self, *secrets: Secret) -> Redactor:
        """Return a redactor that knows these secrets too; itself if it knew them all."""
        known = self.secrets | {secret.reveal() for secret in secrets if secret}
        return self if known == self.secrets else Redactor(self.email_key, known)

    def redact_text(self, text: str, *, ids: bool = False) -> str:
        """Return loose text (an error message, a line on stderr) without secrets. ``ids``: notes' ids stay."""
        return redaction_rules.redact_pairs(self.redact_line(text, ids=ids))

    def redact_line(self, line: str, *, ids: bool = False) -> str:
        """Return a finished line without secrets; a JSON line stays JSON. ``ids``: notes' ids stay."""
        return redaction_rules.redact_shapes(
            self.remove_secrets(line), email_key=self.email_key, ids=ids
        )

    def remove_secrets(self, text: str) -> str:
        """Return ``text`` without the secrets themselves; addresses and long numbers stay."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def redact_facts(self, facts: Mapping[str, object]) -> dict[str, Any]:
        """Return an event's facts as plain JSON values, filtered by the allow-list."""
        return {name: self.redact_value(name, value) for name, value in facts.items()}

    def redact_value(self, name: str, value: object, *, depth: int = 0) -> Any:
        """Return one fact as it may be shown under ``name``; of unknown objects only the type."""
        if value is None or isinstance(value, bool):
            return value
        if redaction_rules.is_secret(name) or isinstance(value, Secret):
            return REDACTED
        return (
            "[too deep]" if depth > MAXIMUM_DEPTH else self._redact_plain(name, value, depth=depth)
        )

    def _redact_plain(self, name: str, value: object, *, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.redact_value(name, value.value, depth=depth + 1)
        if isinstance(value, (int, float)):
            return self._redact_number(value)
        if isinstance(value, str):
            return self._redact_words(name, value)
        return self._redact_object(name, value, depth=depth)

    def _redact_number(self, number: float) -> Any:
        if not -_LARGEST_NUMBER < number < _LARGEST_NUMBER:  # also NaN and the infinities
            return REDACTED
        return number if self.redact_line(str(number)) == str(number) else REDACTED

    def _redact_words(self, name: str, text: str) -> str:
        if not redaction_rules.carries_text(name):
            return f"[hidden: {len(text)} characters]"
        if name in IDS and len(text) > ID_LENGTH and self.remove_secrets(text) == text:
            text = text[:ID_LENGTH] + "…"
        # Cut after redacting: half a secret would not be recognised.
        clean = self.redact_text(text[:_LOOKED_AT])
        return clean if len(clean) <= MAXIMUM_TEXT else clean[:MAXIMUM_TEXT] + "…"

    def _redact_object(self, name: str, value: object, *, depth: int) -> Any:
        if isinstance(value, BaseException):
            return self._redact_description(describe(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"[bytes: {len(value)}]"
        if isinstance(value, Mapping):
            return self._redact_mapping(value, depth=depth + 1)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._redact_items(name, value, depth=depth + 1)
        if isinstance(value, type):
            return value.__qualname__
        path = getattr(type(value), "__fspath__", None)
        return self._redact_words(name, str(value)) if path else f"[{type(value).__qualname__}]"

    def _redact_items(self, name: str, items: Iterable[object], *, depth: int) -> list[Any]:
        shown: list[Any] = []
        for item in items:
            if len(shown) == MAXIMUM_ITEMS:
                return [*shown, "[more]"]
            shown.append(self.redact_value(name, item, depth=depth))
        return shown

    def _redact_mapping(self, mapping: Mapping[Any, object], *, depth: int) -> dict[str, Any]:
        # The names inside a mapping do not come from our source: they may be tags or titles.
        known = {
            key: value
            for key, value in mapping.items()
            if isinstance(key, str)
            and (redaction_rules.carries_text(key) or redaction_rules.is_secret(key))
        }
        shown = {key: self.redact_value(key, value, depth=depth) for key, value in known.items()}
        hidden = len(mapping) - len(known)
        return shown | ({"[other names]": hidden} if hidden else {})

    def _redact_description(self, described: dict[str, Any]) -> dict[str, Any]:
        return {key: self._redact_part(part) for key, part in described.items()}

    def _redact_part(self, part: object) -> Any:
        if isinstance(part, str):
            return self.redact_text(part[:_LOOKED_AT])[:MAXIMUM_TEXT]
        if isinstance(part, list):
            return [self._redact_part(item) for item in part]
        return self._redact_description(part) if isinstance(part, dict) else part


def describe(error: BaseException, *, depth: int = 0) -> dict[str, Any]:
    """Return ``{"type", "message", "frames", ...}`` of plain strings; never raises on a hostile error."""
    described: dict[str, Any] = {
        "type": type(error).__qualname__,
        "message": describe_message(error),
    }
    if frames := _list_frames(error.__traceback__):
        described["frames"] = frames
    if depth < MAXIMUM_CHAIN:
        described |= _describe_related(error, depth=depth + 1)
    return described


def describe_message(error: BaseException) -> str:
    """Return the message if it is ours or the operating system's, else its length."""
    if isinstance(error, NotariumError):
        return error.message
    if isinstance(error, OSError) and isinstance(error.strerror, str):
        return f"[errno {error.errno}] {error.strerror}"
    return f"[hidden: {_message_length(error)} characters]"


def _message_length(error: BaseException) -> int:
    try:
        return len(str(error))
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything at all
        return 0


def _describe_related(error: BaseException, *, depth: int) -> dict[str, Any]:
    related: dict[str, Any] = {}
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        related["cause"] = describe(cause, depth=depth)
    if isinstance(error, BaseExceptionGroup):
        members = error.exceptions[:MAXIMUM_MEMBERS]
        related["members"] = [describe(member, depth=depth) for member in members]
    return related


def _list_frames(trace: TracebackType | None) -> list[str]:
    frames: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{_shorten_path(code.co_filename)}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    return frames[-MAXIMUM_FRAMES:]


def _shorten_path(filename: str) -> str:
    """Return the last two parts of a path: enough to find the module, without a home folder."""
    return "/".join(filename.replace("\\", "/").rsplit("/", 2)[-2:])
