"""Compare an open database with what is known of it outside its file.

:class:`FileWatch` notices that another file has taken the place of the one that is open, or that an older
one was written over it: SQLite's pages in memory and in the log would make a mixture of the two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from mcp_notarium.errors import CacheReplaced

if TYPE_CHECKING:
    from mcp_notarium.storage.database import Database

READS_SECONDS: Final = 0.1
"""Seconds between two looks at the file by statements that only read."""
_UNSURE_SECONDS: Final = 0.5
"""Seconds until a main file that could not be read is read again."""


class Witness(Protocol):
    """Know outside the database what it must hold. A ``Database`` asks and tells it."""

    def require_same_file(self, *, writing: bool) -> None:
        """Raise ``CacheReplaced`` if the path no longer leads to the file that was opened, or it is older."""

    @property
    def replaced(self) -> bool:
        """Tell whether another file was met in the place of the open one."""

    @property
    def displaced(self) -> bool:
        """Tell whether the file that is open has lost its place to another one, and was not written over."""

    def before_flush(self, database: Database) -> Callable[[], None]:
        """Note the end of its audit chain, read through this connection; return what is called once the disk has it. Raises ``CacheError``."""

    def checkpointed(self, number: int) -> None:
        """Note that the main file has all up to the checkpoint of this number. Never raises."""


class FileWatch:
    """Watch the main file of an open database.

    ``least`` returns the number of the newest checkpoint that the file must have, ``read_main`` the number in
    it (None: it cannot be read just now). ``on_replaced`` is called once.
    """

    def __init__(
        self,
        path: Path,
        *,
        least: Callable[[], int],
        read_main: Callable[[], int | None],
        on_replaced: Callable[[], None],
    ) -> None:
        self._path = path
        self._least = least
        self._read_main = read_main
        self._on_replaced = on_replaced
        self._next_look = 0.0
        self._unsure_until = 0.0
        self.replaced = False
        self.displaced = False
        found = os.stat(path)  # noqa: PTH116 - a tenth of the time
        self._place, self._written = _place(found), _written(found)

    def require_same_file(self, *, writing: bool) -> None:
        """Raise ``CacheReplaced``; see :class:`Witness`. A statement that only reads looks now and then."""
        if self.replaced:
            raise CacheReplaced(REPLACED)
        now = time.monotonic()
        if writing or now >= self._next_look:
            self._next_look = now + READS_SECONDS
            self._look(now)

    def _look(self, now: float) -> None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - as above
        except FileNotFoundError:
            self.displaced = True
            self._fail()
        except OSError:
            return
        if _place(found) != self._place:  # defence: other-file-noticed
            self.displaced = True
            self._fail()
        if _written(found) == self._written or now < self._unsure_until:
            return
        least = self._least()  # before the file is read: another process may be moving the log
        there = self._read_main()
        if there is None:
            self._unsure_until = now + _UNSURE_SECONDS
        elif there < least:  # defence: older-file-noticed
            self._fail()
        else:
            self._written = _written(found)

    def _fail(self) -> None:
        self.replaced = True
        self._on_replaced()
        raise CacheReplaced(REPLACED)


def _place(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _written(found: os.stat_result) -> tuple[int, int]:
    return found.st_mtime_ns, found.st_size


REPLACED: Final = "another file, or an older one, has taken the place of the open database"
