"""Elect the one process that syncs a database, by a lock file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock


class Leader:
    """Hold the lock of the process that syncs and checkpoints, or try to get it.

    The system releases the lock of a process that ends in any way, so a killed leader leaves no trace.
    ``path`` None: no other process has the database.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: FileLock | None = None

    @property
    def held(self) -> bool:
        """Tell whether this process leads."""
        return self._path is None or (self._lock is not None and self._lock.is_locked)

    def acquire(self) -> bool:
        """Try to lead; False if another process does, or if locks do not work here."""
        from filelock import FileLock, Timeout  # noqa: PLC0415 - costs start-up time

        if self.held or self._path is None:
            return True
        if self._lock is None:
            # Not bound to a thread: it is released wherever the event loop is closed.
            self._lock = FileLock(self._path, mode=0o600, thread_local=False)
        try:
            self._lock.acquire(blocking=False)
        except (Timeout, OSError):
            return False
        return True

    def release(self) -> None:
        """Release the lock, so that another process can lead. Idempotent."""
        if self._lock is not None:
            self._lock.release(force=True)
