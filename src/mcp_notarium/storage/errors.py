"""The driver's errors in the words of ``errors.py``: the one place that maps them. Pure.

No SQL, parameter or file content is ever taken over into a message: an SQL error quotes the
statement, and a statement may hold what somebody wrote.
"""

from __future__ import annotations

from mcp_notarium.errors import CacheBusy, CacheDamaged, CacheError, CacheFull

# SQLite's primary result codes.
_BUSY, _LOCKED, _NOMEM, _READONLY, _IOERR = 5, 6, 7, 8, 10
_CORRUPT, _FULL, _CANTOPEN, _PROTOCOL, _TOOBIG, _NOTADB = 11, 13, 14, 15, 18, 26
_PRIMARY = 0xFF
# The higher byte of an I/O error names the operation: write, flush, truncate, or the shared memory
# beside the WAL, which needs disk space even for reading.
_NEEDS_ROOM = frozenset({3, 4, 5, 6, 18, 19, 21})
_NO_ROOM = "the disk takes no more data; what was stored before is untouched"


def translate(error: BaseException, *, writing: bool) -> CacheError:
    """Turn a driver's exception into ours. ``writing``: it came from inside a write transaction.

    A failed write to the disk is reported as a full disk: a quota or a size limit answers "I/O error"
    too, and what was stored before stays. A failed *read* is damage.
    """
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & _PRIMARY
    if code == _IOERR and extended >> 8 in _NEEDS_ROOM:
        return CacheFull(_NO_ROOM)
    if isinstance(error, MemoryError) or code == _NOMEM:
        # SQLCipher answers "out of memory" to everything after the first page it cannot decrypt.
        return CacheDamaged("the database stopped being readable")
    if code in {_CORRUPT, _NOTADB} or (code == _IOERR and not writing):
        return CacheDamaged("the database cannot be read", details={"sqlite": _name(error)})
    if code in {_FULL, _IOERR}:
        return CacheFull(_NO_ROOM)
    if code in {_BUSY, _LOCKED, _PROTOCOL}:
        return CacheBusy("another process is writing to the cache")
    return _refusal(code, error)


def _refusal(code: int, error: BaseException) -> CacheError:
    reasons = {
        _READONLY: "the database file cannot be written",
        _CANTOPEN: "the database file cannot be opened",
        _TOOBIG: "a value is too large for the database",
    }
    return CacheError(
        reasons.get(code, "the database refused a statement"), details={"sqlite": _name(error)}
    )


def _name(error: BaseException) -> str:
    return str(getattr(error, "sqlite_errorname", type(error).__name__))
