"""Describe the objects of a bucket: what may be posted, and which versions are kept.

Pure. The real schema is not published; these rules follow what clients send and which requests are known
to be refused. Values already stored are never checked, so that an old account can hold anything. Old
versions go as the vendor describes it: the newest sixty stay, then every tenth of those before, a hundred
of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from notarium_devtools.simperium.changes import Value, same

Check = Callable[[Any, float], bool]
"""Says whether a value is acceptable at a time (epoch seconds)."""

_YEAR = 366 * 86_400
_ID = re.compile(r"[A-Za-z0-9\-_.%@]{1,256}")


class Refused(Exception):
    """Report that the service refuses the request, with an HTTP ``status``."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


class SchemaRefused(Refused):
    """Report that a field of the posted object is missing or unacceptable."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(400, reason)
        self.field = name


@dataclass(frozen=True, slots=True)
class Rules:
    """Hold the schema of one bucket."""

    checks: Mapping[str, Check] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    trash_first: bool = False
    """Requires ``deleted`` on an object before it may be removed."""

    def check(self, before: Value | None, posted: Value, *, now: float) -> None:
        """Raise ``SchemaRefused`` for the first bad field; unchanged fields are not checked."""
        for name in sorted(self.required if before is None else ()):
            if name not in posted:
                raise SchemaRefused(name, "is a required property")
        for name, acceptable in self.checks.items():
            if name not in posted or (before is not None and _unchanged(name, before, posted)):
                continue
            if not acceptable(posted[name], now):
                raise SchemaRefused(name, "is not of the right form")

    def check_removal(self, value: Value) -> None:
        """Raise ``Refused`` unless the object may be removed permanently."""
        if self.trash_first and not value.get("deleted"):
            raise SchemaRefused("deleted", "must be true before an object is deleted")


def check_id(object_id: str) -> None:
    """Raise ``Refused`` for an id the service would not take."""
    if _ID.fullmatch(object_id) is None:
        raise Refused(400, "bad object id")


def _unchanged(name: str, before: Value, posted: Value) -> bool:
    return name in before and same(before[name], posted[name])


def _is_text(value: Any, _now: float) -> bool:
    return isinstance(value, str)


def _is_text_list(value: Any, _now: float) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_date(value: Any, now: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= now + _YEAR


def _is_flag(value: Any, _now: float) -> bool:
    return isinstance(value, bool) or (isinstance(value, int) and value in {0, 1})


_NOTE_CHECKS: Mapping[str, Check] = {
    "content": _is_text,
    "tags": _is_text_list,
    "systemTags": _is_text_list,
    "creationDate": _is_date,
    "modificationDate": _is_date,
    "deleted": _is_flag,
    "shareURL": _is_text,
    "publishURL": _is_text,
}

ANYTHING = Rules()
NOTE = Rules(checks=_NOTE_CHECKS, required=frozenset(_NOTE_CHECKS), trash_first=True)


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold how much a bucket remembers. Numbers the vendor does not publish are our guess."""

    recent_versions: int = 60
    archived_versions: int = 100
    archive_step: int = 10
    change_log: int = 5_000
    ccid_memory: int = 10_000
    max_object_bytes: int = 1_000_000
    restart_versions: bool = True
    """Starts an id that is created again after its removal at version 1."""
    stale_delete_status: int = 405


@dataclass(frozen=True, slots=True)
class Stored:
    """Hold an object at one version."""

    id: str
    version: int
    value: Value


@dataclass(slots=True)
class Entity:
    """Hold one object with the versions that are still kept."""

    id: str
    version: int
    sequence: int
    versions: dict[int, Value]
    archived: list[int] = field(default_factory=list)
    _text: bytes = b""

    @property
    def head(self) -> Value:
        """Return the newest value."""
        return self.versions[self.version]

    @property
    def text(self) -> bytes:
        """Return the newest value as JSON text (ASCII), kept until the next version."""
        if not self._text:
            self._text = json_text(self.head)
        return self._text

    def advance(self, value: Value, *, sequence: int, limits: Limits) -> None:
        """Add a version and forget those that are too old."""
        self.version += 1
        self.sequence = sequence
        self.versions[self.version] = value
        self._text = b""
        leaving = self.version - limits.recent_versions
        if leaving in self.versions:
            self._archive(leaving, limits)

    def _archive(self, version: int, limits: Limits) -> None:
        if self.archived and version - self.archived[-1] < limits.archive_step:
            del self.versions[version]
            return
        self.archived.append(version)
        if len(self.archived) > limits.archived_versions:
            del self.versions[self.archived.pop(0)]


_IN_ASCII = json.JSONEncoder(separators=(",", ":"))
_IN_UNICODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def json_text(value: object) -> bytes:
    """Return compact JSON in ASCII, so that any text, even half a surrogate pair, has a form."""
    return _IN_ASCII.encode(value).encode("ascii")


def json_size(value: object) -> int:
    """Return how many bytes the value takes as compact JSON in UTF-8."""
    return len(_IN_UNICODE.encode(value).encode("utf-8", "surrogatepass"))
