"""Authorize SQL statements, tell what they are about, and fit their parameters and rows; run none.

SQLite asks before each prepare: that is the last defence behind bound parameters: one injected ``ATTACH ... KEY ''`` would write every
note out in clear. It decides from the action alone; its only state is "tables are being created".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from mcp_notarium.domain.characters import replace_surrogates

# SQLite's action codes (part of its stable interface; the driver does not name all of them).
_OK, _DENY = 0, 1
_PRAGMA, _TRANSACTION_VTAB, _FUNCTION = 19, 29, 31
_ATTACH, _DETACH = 24, 25

_ALWAYS_REFUSED = frozenset({_ATTACH, _DETACH})
_SCHEMA_ACTIONS = frozenset({1, 2, 5, 6, 7, 8, 10, 11, 16, 17, 26})
"""CREATE and DROP of indexes, tables, triggers and views; ALTER. Temporary tables stay allowed."""

# "optimize" is missing on purpose: it makes tables of statistics, and the plans of our queries are
# fixed by INDEXED BY.
_READ_PRAGMAS = frozenset(
    {
        "application_id",
        "cipher_integrity_check",
        "data_version",  # FTS5 asks for it itself; without it every search fails
        "freelist_count",
        "integrity_check",
        "page_count",
        "page_size",
        "quick_check",
        "shrink_memory",
        "synchronous",
        "user_version",
        "wal_autocheckpoint",
        "wal_checkpoint",
    }
)
_WRITE_PRAGMAS = frozenset(
    {"integrity_check", "quick_check"} | {"synchronous", "wal_autocheckpoint", "wal_checkpoint"}
)
_SCHEMA_PRAGMAS = frozenset({"application_id", "user_version"})
_SYNCHRONOUS_LEVELS = frozenset({"normal", "full"})
_REFUSED_FUNCTIONS = frozenset({"fts3_tokenizer", "load_extension", "sqlcipher_export"})
_VIRTUAL_TABLES = frozenset({"fts5", "fts5vocab"})


class Authorizer:
    """Authorize the statements of one connection; pass :meth:`authorize` to ``set_authorizer``."""

    def __init__(self) -> None:
        self._schema_open = False

    @contextmanager
    def schema_change(self) -> Iterator[None]:
        """Let a new database create tables and set ``user_version`` inside the ``with`` block."""
        self._schema_open = True
        try:
            yield
        finally:
            self._schema_open = False

    def authorize(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        _by: str | None,
    ) -> int:
        """Answer SQLite's question before each prepare with its codes for yes and no."""
        return _OK if self._permits(action, first, second, database) else _DENY

    def _permits(
        self, action: int, first: str | None, second: str | None, database: str | None
    ) -> bool:
        if action in _ALWAYS_REFUSED:  # defence: no-second-database
            return False
        if action == _PRAGMA:
            # defence: pragmas-one-by-one =True
            return self._permits_pragma((first or "").lower(), second)
        if action == _FUNCTION:
            # defence: no-loading-function =True
            return (second or "").lower() not in _REFUSED_FUNCTIONS
        if action == _TRANSACTION_VTAB:
            return second in _VIRTUAL_TABLES and (self._schema_open or database == "temp")
        return action not in _SCHEMA_ACTIONS or self._schema_open

    def _permits_pragma(self, name: str, value: str | None) -> bool:
        if value is None:
            return name in _READ_PRAGMAS
        if name == "synchronous":
            return value.lower() in _SYNCHRONOUS_LEVELS
        return name in _WRITE_PRAGMAS or (self._schema_open and name in _SCHEMA_PRAGMAS)


Row = tuple[Any, ...]

_VALUES = re.compile(r"VALUES (\([?, ]+\))")
_TEXTS = re.compile(r"\b(?:text|body|raw|full_copy|native|replaced)\b|\bSELECT \*|\.\*")


@lru_cache(256)
def reads_texts(sql: str) -> bool:
    """Tell whether a query names a column that may have pages of its own."""
    return _TEXTS.search(sql) is not None


def may_be_cut(row: Row) -> bool:
    """Tell whether a value ends with NUL: the last page of the row may have been read as zeros."""
    for value in row:
        if isinstance(value, str):
            if value.endswith("\0"):
                return True
        elif isinstance(value, bytes) and value.endswith(b"\0"):
            return True
    return False


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
