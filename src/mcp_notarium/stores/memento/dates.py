"""Read the dates of a Prisma file, and write them in the form that this file has. Pure.

A file has integers (milliseconds) or texts. SQLite orders all integers before all texts, so a date of another
form stands in the wrong place for the app, and one without a zone makes its reads fail.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

_TEXT = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(?:\.\d+)?(Z|\+00:00|)")
_LATEST = 10**16
"""Milliseconds. What is above is no date."""
INTEGER = ""
"""The form of a file without a date, as Prisma writes by itself."""
NUMBER = """CASE typeof({0}) WHEN 'integer' THEN {0} WHEN 'real' THEN CAST({0} AS INTEGER)
ELSE CAST(ROUND((julianday({0}) - 2440587.5) * 86400000) AS INTEGER) END"""
"""SQL: the milliseconds of a date of any form."""


def find_form(found: Iterable[object]) -> str:
    """Return the most frequent form among dates: ``INTEGER``, or a pattern of a text."""
    forms = Counter(_form(date) for date in found)
    return max(forms, key=forms.__getitem__, default=INTEGER)


def _form(date: object) -> str:
    match = _TEXT.fullmatch(date) if isinstance(date, str) else None
    if match is None:
        return INTEGER
    between, zone = match.groups()
    zone = zone or ("" if between == " " else "+00:00")
    return f"%Y-%m-%d{between}%H:%M:%S.{{ms:03}}{zone}"


def write(at: int, form: str) -> int | str:
    """Return the date, given in milliseconds, in this form."""
    if form == INTEGER:
        return at
    whole, rest = divmod(at, 1000)
    return datetime.fromtimestamp(whole, UTC).strftime(form).format(ms=rest)


def milliseconds(date: object) -> int | None:
    """Return a date in milliseconds; None if it is none."""
    if isinstance(date, int | float):
        return int(date) if abs(date) < _LATEST else None
    if not isinstance(date, str):
        return None
    try:
        read = datetime.fromisoformat(date)
        read = read if read.tzinfo else read.replace(tzinfo=UTC)
        return round(read.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def seconds(date: object) -> float:
    """Return a date in seconds; 0.0 if it is none."""
    at = milliseconds(date)
    return 0.0 if at is None else at / 1000


def iso(date: object) -> str | None:
    """Return a date as JavaScript shows it; None if it is none."""
    at = milliseconds(date)
    try:
        return None if at is None else str(write(at, "%Y-%m-%dT%H:%M:%S.{ms:03}Z"))
    except (ValueError, OverflowError, OSError):
        return None
