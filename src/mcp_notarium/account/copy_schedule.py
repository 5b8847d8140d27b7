"""Copy the local notebook in time: beside the calls after the start and once a day, and when the server stops.

A stop has little time. What it cannot copy is copied after the next start, so each change gets into a copy,
however large the notebook is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.account import database_copies
from mcp_notarium.account.database_creation import OpenedCache
from mcp_notarium.errors import CacheDamaged, CacheError, LockedError
from mcp_notarium.stores.kind import LentTables

if TYPE_CHECKING:
    from mcp_notarium.logs import Logger

FIRST_SECONDS = 30.0
"""Seconds after the start until what was not copied before is copied: the first calls come first."""
EVERY_SECONDS = 86_400.0
"""Seconds between two copies of a server that does not stop."""
_VERIFYING = 1.6
"""How many times as long as copying it takes to copy and verify."""


class _OutOfTime(Exception):
    """End a copy that would not be ready in time."""


class CopySchedule:
    """Make the copies of one open database. ``keep``: how many are kept, 0: none is made."""

    def __init__(self, opened: OpenedCache, tables: LentTables, *, keep: int, log: Logger) -> None:
        self._opened = opened
        self._tables = tables
        self._keep = keep
        self._log = log
        self._leaving = threading.Event()

    def work(self) -> None:
        """Make copies until :meth:`leave`. Raises ``CacheDamaged``. Call it in a thread of its own."""
        pause = FIRST_SECONDS
        while not self._leaving.wait(pause):
            self._copy(self._yield_to_calls())
            pause = EVERY_SECONDS

    def leave(self) -> None:
        """End :meth:`work` within one step of copying."""
        self._leaving.set()

    def finish(self, seconds: float) -> Path | None:
        """Make a copy if that takes less time than this. Raises ``CacheDamaged``."""
        return self._copy(_give_up_after(seconds))

    def rescue(self, seconds: float) -> None:
        """Copy the open database in whose place another file was put, if that takes less time than this.

        Never raises. Call it when nothing else uses the database; it answers no statement of others any more.
        """
        try:
            path = database_copies.copy_displaced(
                self._opened, self._tables, now=time.time(), after_step=_give_up_after(seconds)
            )
        except _OutOfTime:
            self._log.warning("cache.not_copied", message="there was no time for it")
        except (CacheError, LockedError, OSError) as error:
            message = database_copies.describe_failure(error)
            self._log.warning("cache.not_copied", message=message)
        else:
            if path is not None:
                self._log.warning("cache.rescued", message=f"The newest notes are in {path.name}.")

    def _copy(self, after_step: Callable[[int, int], object]) -> Path | None:
        try:
            return database_copies.copy_after_changes(
                self._opened, self._tables, keep=self._keep, now=time.time(), after_step=after_step
            )
        except _OutOfTime:
            self._log.info("cache.copy_left")
        except CacheDamaged:
            raise
        except (CacheError, OSError) as error:
            message = database_copies.describe_failure(error)
            self._log.warning("cache.not_copied", message=message)
        return None

    def _yield_to_calls(self) -> Callable[[int, int], object]:
        """Return what takes as long a pause after each step as the step took."""
        began = time.monotonic()

        def pause(_copied: int, _pages: int) -> None:
            nonlocal began
            if self._leaving.wait(time.monotonic() - began):
                raise _OutOfTime
            began = time.monotonic()

        return pause


def _give_up_after(seconds: float) -> Callable[[int, int], object]:
    """Return what ends a copy as soon as its speed shows that it takes longer."""
    began = time.monotonic()

    def look(copied: int, pages: int) -> None:
        taken = (time.monotonic() - began) / max(copied, 1) * pages
        if copied < pages and taken * _VERIFYING > seconds:
            raise _OutOfTime

    return look
