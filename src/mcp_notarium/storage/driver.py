"""Import the SQLCipher driver, check that it is suitable and translate its errors.

Nothing else imports it. The import happens at the first call, because it costs start-up time. This
module opens no file. No SQL, parameter or file content is ever taken over into a message: an SQL error
quotes the statement, and a statement may hold what somebody wrote.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_notarium.errors import (
    REINSTALL,
    CacheBusy,
    CacheDamaged,
    CacheError,
    CacheFull,
    LockedError,
    Verdict,
)

DISTRIBUTIONS = ("sqlcipher3-binary", "sqlcipher3", "sqlcipher3-wheels")
"""All of them install the same import package: the last one unpacked wins silently."""

OLDEST_CIPHER = (4, 12)
"""The oldest SQLCipher these settings were measured with (160-digit keys, temp_store enforced)."""

_MEMORY_TEMP_STORES = (2, 3)


# SQLite's primary result codes.
_OK, SQL_ERROR, _DONE = 0, 1, 101
_BUSY, _LOCKED, _NOMEM, _READONLY, _IOERR = 5, 6, 7, 8, 10
_CORRUPT, _FULL, _CANTOPEN, _PROTOCOL, _TOOBIG, _NOTADB = 11, 13, 14, 15, 18, 26
_PRIMARY = 0xFF
# The higher byte of an I/O error names the operation: write, flush, truncate, or the shared memory
# next to the WAL, which needs disk space even for reading.
_NEEDS_SPACE = frozenset({3, 4, 5, 6, 18, 19, 21})
_NO_SPACE = "nothing more was stored, and what was stored before is untouched"
_REASONS = {
    _READONLY: "the database file cannot be written",
    _CANTOPEN: "the database file cannot be opened",
    _TOOBIG: "a value is too large for the database",
}


if TYPE_CHECKING:
    import sqlite3

    class Connection(sqlite3.Connection):
        """Add to the standard connection what the driver's has in addition."""

        def set_key(self, key: str, /) -> None:
            """Set the key without any SQL text."""

        def set_busy_timeout(self, seconds: float, /) -> None:
            """Wait this long for another connection's transaction."""


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """Describe the driver."""

    distribution: str
    cipher_version: str
    sqlite_version: tuple[int, ...]
    fts5: bool
    temp_store: int
    provider: str
    """Empty if it is not SQLCipher."""


def installed_versions(version: Callable[[str], str] | None = None) -> tuple[str, ...]:
    """Return the installed driver distributions as ``name version``; tests may give ``version``."""
    from importlib import metadata  # noqa: PLC0415 - costs start-up time

    found = []
    for name in DISTRIBUTIONS:
        try:
            found.append(f"{name} {(version or metadata.version)(name)}")
        except metadata.PackageNotFoundError:
            continue
    return tuple(found)


@functools.cache
def module() -> Any:
    """Return the driver's DB-API module, imported once. Raises ``LockedError`` (CRYPTO_UNSUITABLE)."""
    found = installed_versions()
    if len(found) > 1:  # defence: one-driver
        raise _unsuitable(
            f"two SQLCipher drivers are installed on top of each other: {', '.join(found)}"
        )
    try:
        return importlib.import_module("sqlcipher3.dbapi2")
    except ImportError:
        raise _unsuitable("the SQLCipher driver cannot be loaded") from None


@functools.cache
def facts() -> DriverFacts:
    """Return the facts about the installed driver, read once. Raises ``LockedError`` (CRYPTO_UNSUITABLE)."""
    driver = module()
    connection = driver.connect(":memory:", isolation_level=None)
    try:
        connection.execute("PRAGMA cipher_log_level = NONE")
        cipher = connection.execute("PRAGMA cipher_version").fetchone()
        if cipher:
            connection.set_key(f"x'{'00' * 80}'")
        provider = connection.execute("PRAGMA cipher_provider_version").fetchone()
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    finally:
        connection.close()
    return DriverFacts(
        distribution=next(iter(installed_versions()), "unknown"),
        cipher_version=cipher[0] if cipher else "",
        sqlite_version=_numbers(driver.sqlite_version),
        fts5="ENABLE_FTS5" in options,
        temp_store=next((int(o[-1]) for o in options if o.startswith("TEMP_STORE=")), 1),
        provider=provider[0] if provider else "",
    )


def require_suitable(found: DriverFacts) -> DriverFacts:
    """Return the same facts if the driver is suitable; raise ``LockedError`` if it is not.

    It is checked in plain mode too: there the same driver runs without a key.
    """
    for bad, message in (
        (not found.cipher_version, "the driver is plain SQLite, not SQLCipher"),
        (_numbers(found.cipher_version) < OLDEST_CIPHER, "this SQLCipher is too old"),
        (not found.provider, "this SQLCipher has no crypto provider"),
        (not found.fts5, "the driver was built without full-text search"),
        (
            found.temp_store not in _MEMORY_TEMP_STORES,
            "the driver would write notes to temporary files in clear",
        ),
    ):
        if bad:
            raise _unsuitable(message, driver=found.distribution)
    return found


def _numbers(version: str) -> tuple[int, ...]:
    head = re.match(r"[0-9.]*", version)
    return tuple(int(part) for part in head[0].split(".") if part) if head else ()


def _unsuitable(message: str, *, driver: str | None = None) -> LockedError:
    return LockedError(
        Verdict.CRYPTO_UNSUITABLE,
        message,
        resolution_hint=REINSTALL,
        details={"driver": driver} if driver else None,
    )


def copy_pages(
    source: Connection, target: Connection, *, pages: int, after_step: Callable[[int, int], object]
) -> None:
    """Copy every page to an empty database, so many at a time.

    ``after_step`` gets the pages copied and those of all. What the driver raises gets the code that it leaves
    out here.
    """
    status = 0

    def progress(code: int, left: int, count: int) -> None:
        nonlocal status
        status = code
        if code in {_OK, _DONE}:
            after_step(count - left, count)

    try:
        source.backup(target, pages=pages, progress=progress)
    except module().Error as error:
        error.sqlite_errorcode = status
        raise


def translate(error: BaseException, *, writing: bool) -> CacheError:
    """Turn a driver's exception into ours. ``writing``: it came from inside a write transaction.

    A failed write to the disk is reported as a full disk: a quota or a size limit answers "I/O error"
    too, and what was stored before stays. A failed *read* is damage.
    """
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & _PRIMARY
    details = {"sqlite": str(getattr(error, "sqlite_errorname", type(error).__name__))}
    if code == _IOERR and extended >> 8 in _NEEDS_SPACE:
        return CacheFull(_NO_SPACE)
    if isinstance(error, MemoryError) or code == _NOMEM:
        # SQLCipher answers "out of memory" to everything after the first page it cannot decrypt.
        return CacheDamaged("the database stopped being readable")
    # defence: cut-page-is-damage -_CORRUPT
    if code in {_CORRUPT, _NOTADB} or (code == _IOERR and not writing):
        return CacheDamaged("the database cannot be read", details=details)
    if code in {_FULL, _IOERR}:
        return CacheFull(_NO_SPACE)
    if code in {_BUSY, _LOCKED, _PROTOCOL}:
        return CacheBusy("another process is writing to the cache")
    return CacheError(_REASONS.get(code, "the database refused a statement"), details=details)
