"""Let a computer refuse what a database is to write, once or for minutes: its disk is full, or fails, or the database is locked.

A refused commit is rolled back, as SQLite does it, and a refused flush has put nothing more on the disk. Neither moves what a loss of power keeps.
"""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from explorer.loop import OWNER

if TYPE_CHECKING:
    from explorer.choices import Chooser
    from explorer.machine import Process
    from mcp_notarium.errors import CacheError
    from mcp_notarium.storage.database import Database

FULL, FAILS, FULL_FOR_LONG = "is full", "fails", "is full for long"
LOCKED = "is locked"
_COMMIT = {
    FULL: (13, "SQLITE_FULL"),
    FAILS: (778, "SQLITE_IOERR_WRITE"),
    LOCKED: (5, "SQLITE_BUSY"),
}
"""SQLite's numbers and names of these errors."""
_FLUSH = {FULL: errno.ENOSPC, FAILS: errno.EIO}
LONG_SECONDS = 200.0
MOST_AT_ONCE = 500
"""Commits that are refused at one moment, at most: more are an endless loop."""
SHARE = 0.3
"""How often the disk refuses, as a share of how often a request fails."""


class DatabaseDisk:
    """Decide what the disk of one computer refuses."""

    def __init__(self, chooser: Chooser, note: Callable[[str], None]) -> None:
        self._chooser = chooser
        self._note = note
        self._full_until = -math.inf
        self._at_once = (0.0, 0)
        """A moment, and how often it has refused a commit then."""
        self.gives_up: Callable[[str], object] = lambda _what: None
        """Told of a process that goes on without an end."""

    def may_begin(self, database: Database, process: Process) -> None:
        """Raise ``CacheBusy`` if the schedule says that another program has the lock for too long."""
        if self._happens(process, "the database refuses a transaction", [LOCKED]):
            raise self._error(database, process, LOCKED)

    def may_commit(self, database: Database, process: Process) -> None:
        """Raise the product's error if the disk takes no commit."""
        if why := self._refuses(process, "the disk refuses a commit"):
            raise self._error(database, process, why)

    def may_flush(self, process: Process) -> None:
        """Raise the system's error if the disk does not flush."""
        if why := self._refuses(process, "the disk refuses to flush"):
            process.missed_flush = True
            raise OSError(_FLUSH[why], os.strerror(_FLUSH[why]))

    def _refuses(self, process: Process, what: str) -> str:
        is_full = time.monotonic() < self._full_until
        if is_full and not self._chooser.mute and self._may_be_refused(process):
            return FULL
        why = self._happens(process, what, [FULL, FAILS, FULL_FOR_LONG])
        if why == FULL_FOR_LONG:
            self._full_until = time.monotonic() + LONG_SECONDS
        return FULL if why == FULL_FOR_LONG else why

    def _happens(self, process: Process, what: str, options: list[str]) -> str:
        if not self._may_be_refused(process):
            return ""
        rate = self._chooser.rates.faults * SHARE
        why = self._chooser.among(f"{process.name}: {what}", ["", *options], rate=rate)
        if why:
            self._note(f"{what} of {process.name}: it {why}")
        return why

    def _error(self, database: Database, process: Process, why: str) -> CacheError:
        """Return what the database makes of an error of SQLite by which a commit fails. Raises ``Killed``."""
        process.missed_commit = True
        now = time.monotonic()
        self._at_once = (now, self._at_once[1] + 1 if self._at_once[0] == now else 1)
        if self._at_once[1] > MOST_AT_ONCE:  # no step of the loop ends that could tell it
            self.gives_up(f"Endless: {process.name} writes again and again to a disk that refuses")
            process.kill()
            process.place("")
        error = database._failures[0]("simulated")
        error.sqlite_errorcode, error.sqlite_errorname = _COMMIT[why]  # type: ignore[attr-defined]
        return database._failed(error)

    def _may_be_refused(self, process: Process) -> bool:
        """Tell whether a process writes itself: another program may use its connection."""
        return process.is_refused and OWNER.get() is process
