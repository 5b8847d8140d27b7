"""Check what a bucket accepts: the form of ids, required fields, types, and permitted removals.

The real schema is not published; these rules follow what clients send and which requests are known
to be refused. Values already stored are never checked, so that an old account can hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from notarium_devtools.simperium.jsondiff import Value, same

Check = Callable[[Any, float], bool]
"""Says whether a value is acceptable at a time (epoch seconds)."""

_YEAR = 366 * 86_400
_ID = re.compile(r"[A-Za-z0-9\-_.%@]{1,256}")


class Refused(Exception):
    """The service refuses the request with an HTTP ``status``."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


class SchemaRefused(Refused):
    """A field of the posted object is missing or unacceptable."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(400, reason)
        self.field = name


@dataclass(frozen=True, slots=True)
class Rules:
    """Hold the schema of one bucket."""

    checks: Mapping[str, Check] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    trash_first: bool = False
    """Whether only an object with ``deleted`` set may be removed."""

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
LENIENT_NOTE = Rules(trash_first=True)
NOTE = Rules(checks=_NOTE_CHECKS, required=frozenset(_NOTE_CHECKS), trash_first=True)
