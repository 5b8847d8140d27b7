"""Read what a statement is about, and fit its parameters and rows; it runs none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from mcp_notarium.domain.characters import replace_surrogates

Row = tuple[Any, ...]

_VALUES = re.compile(r"VALUES (\([?, ]+\))")
_TEXTS = re.compile(r"\b(?:text|body|raw|keepsake|native|replaced)\b|\bSELECT \*|\.\*")


@lru_cache(256)
def reads_texts(sql: str) -> bool:
    """Tell whether a query names a column that may have pages of its own."""
    return _TEXTS.search(sql) is not None


def may_be_cut(row: Row) -> bool:
    """Tell whether a value ends with NUL: the last page of the row may have been read as zeros."""
    return any(
        value.endswith("\0") if isinstance(value, str) else value.endswith(b"\0")
        for value in row
        if isinstance(value, str | bytes)
    )


@cache
def portion_of(sql: str, size: int) -> str:
    """Return the statement with the values of ``size`` rows; unchanged if it is no ``INSERT ... VALUES``."""
    found = _VALUES.search(sql)
    if found is None or not sql.lstrip().startswith("INSERT"):
        return sql
    return sql[: found.end()] + f", {found[1]}" * (size - 1) + sql[found.end() :]


def storable(value: Any) -> Any:
    """Replace every lone surrogate by U+FFFD: SQLite stores UTF-8 only."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {name: storable(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [storable(part) for part in value]
    return value
