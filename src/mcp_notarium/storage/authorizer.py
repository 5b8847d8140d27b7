"""Authorize SQL statements; SQLite asks before each prepare.

It is the last defence behind bound parameters: one injected ``ATTACH ... KEY ''`` would write every
note out in clear. It decides from the action alone; its only state is "a migration is running".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
        """Let migrations create tables and set ``user_version`` inside the ``with`` block."""
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
        if action in _ALWAYS_REFUSED:
            return False
        if action == _PRAGMA:
            return self._permits_pragma((first or "").lower(), second)
        if action == _FUNCTION:
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
