"""Put committed transactions on the disk; one flush serves all who have committed by then."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from mcp_notarium.errors import CacheError, CacheFull
from mcp_notarium.files import os_errors

_FULL = {errno.ENOSPC, errno.EDQUOT}
_PAUSE = 0.003
"""Seconds between two flushes: of writes that come together, the first goes on at once and the rest share the next."""


class WalFlusher:
    """Flush the write-ahead log of one database. SQLite has no locks on this file that closing it could drop.

    ``before`` is called before each flush, and what it returns after it.
    """

    def __init__(self, database: Path, before: Callable[[], Callable[[], None]]) -> None:
        self._path = database.with_name(f"{database.name}-wal")
        self._before = before
        self._next: asyncio.Future[None] | None = None
        self._flushed_at = -_PAUSE

    async def flush(self) -> None:
        """Wait until the disk has what was committed before this call. Raises ``CacheError`` if it refuses."""
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            pause = self._flushed_at + _PAUSE - loop.time()
            loop.call_later(max(0.0, pause), self._flush, self._next)
        await asyncio.shield(self._next)

    def _flush(self, waited_for: asyncio.Future[None]) -> None:
        self._next = None
        self._flushed_at = waited_for.get_loop().time()
        try:
            flushed = self._before()
            _flush(self._path)
        except CacheError as error:
            waited_for.set_exception(error)
        except OSError as error:
            kind = CacheFull if error.errno in _FULL else CacheError
            said = os_errors.describe(error)
            waited_for.set_exception(kind(f"the disk does not take what was written: {said}"))
        else:
            flushed()
            waited_for.set_result(None)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    try:
        if sys.platform == "darwin":
            import fcntl  # noqa: PLC0415 - POSIX only

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync does not reach the platter
        else:
            getattr(os, "fdatasync", os.fsync)(descriptor)
    finally:
        os.close(descriptor)
