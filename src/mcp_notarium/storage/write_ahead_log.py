"""Flush the write-ahead log, number its checkpoints, and read which pages stand in it.

The log moves into the main file only behind a transaction that raises the number. So each state of the main
file has a number of its own, which is on one page and can be read there without the log. A transaction
after the move raises it again and restarts the log: what is left of a log that was cut inside the part
that the main file has already shows a lower number than that.

The log is SQLite's: a header, then frames of a page each (sqlite.org/fileformat2.html, "The Write-Ahead Log").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from mcp_notarium.errors import CacheDamaged, CacheError, CacheFull, LockedError
from mcp_notarium.files import os_errors
from mcp_notarium.files.private_files import flush_file, open_regular

if TYPE_CHECKING:
    from mcp_notarium.storage.database import Database


_NUMBER = "SELECT number FROM checkpoints"


class Witness(Protocol):
    """Remember outside the database what it must hold. A ``Database`` asks and tells it."""

    def require_same_file(self, *, writing: bool) -> None:
        """Raise ``CacheReplaced`` if the path no longer leads to the file that was opened, or it is older."""

    @property
    def replaced(self) -> bool:
        """Tell whether another file was met in the place of the open one."""

    @property
    def displaced(self) -> bool:
        """Tell whether the file that is open has lost its place to another one, and was not written over."""

    def before_flush(self, database: Database) -> Callable[[], None]:
        """Remember the end of its audit chain, read through this connection; return what is called once the disk has it. Raises ``CacheError``."""

    def checkpointed(self, number: int) -> None:
        """Record that the main file has all up to the checkpoint of this number. Never raises."""


def read_number(database: Database) -> int:
    """Return the number as the log and the main file together have it. Raises ``CacheError``."""
    return database.number(_NUMBER)


def read_main(database: Database) -> int | None:
    """Return the number in the main file alone; None if that cannot be read, or not just now."""
    try:
        with closing(database.open_without_log()) as main:
            return main.number(_NUMBER)
    except (CacheError, LockedError):
        return None


def move_log(database: Database) -> bool:
    """Move the whole log into the main file and empty it; False if readers prevented it. Raises ``CacheError``."""
    number = number_next(database)
    found = database.row("PRAGMA wal_checkpoint(TRUNCATE)")
    done = found is not None and found[0] == 0
    if done:
        note_done(database, number)
    return done


def move_what_can_be(database: Database) -> None:
    """Move the log as far as readers permit. Never raises. SQLite would do so by itself, without a number."""
    with suppress(CacheError):
        number = number_next(database)
        found = database.row("PRAGMA wal_checkpoint(PASSIVE)")
        if found is not None and found[0] == 0 and found[1] == found[2]:
            note_done(database, number)
            number_next(database)  # restarts the log


def number_next(database: Database) -> int:
    """Raise the number for the checkpoint that follows; 0 if that is not possible now. Raises ``CacheDamaged``."""
    if database.read_only or database.in_memory or database.in_transaction:
        return 0
    try:
        with database.transaction():
            database.run("UPDATE checkpoints SET number = number + 1")
            return read_number(database)
    except CacheDamaged:
        raise
    except CacheError:
        return 0


def note_done(database: Database, number: int) -> None:
    """Tell the database's witness that the main file has all up to this number; 0: it has none."""
    if database.witness is not None and number:
        database.witness.checkpointed(number)


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
            flush_file(self._path)
        except CacheError as error:
            waited_for.set_exception(error)
        except OSError as error:
            kind = CacheFull if error.errno in os_errors.FULL else CacheError
            said = os_errors.describe(error)
            waited_for.set_exception(kind(f"what was written is not on the disk ({said})"))
        else:
            flushed()
            waited_for.set_result(None)


_HEADER, _FRAME_HEADER = 32, 24
_MAGIC, _VERSION = 0x377F0682, 3007000
_PAGE_SIZE = slice(8, 12)
_SALT = slice(16, 24)
_FRAME_NUMBER, _FRAME_SALT = slice(0, 4), slice(8, 16)


def pages_in_log(log: Path) -> set[int]:
    """Return the numbers of the pages in a log; older frames behind its end are left out. Empty if there is none."""
    found: set[int] = set()
    try:
        with open_regular(log) as file:
            header = file.read(_HEADER)
            size = int.from_bytes(header[_PAGE_SIZE], "big")
            while len(frame := file.read(_FRAME_HEADER)) == _FRAME_HEADER:
                if frame[_FRAME_SALT] != header[_SALT]:
                    break
                found.add(int.from_bytes(frame[_FRAME_NUMBER], "big"))
                file.seek(size, 1)
    except OSError:
        pass
    return found


def has_header(log: Path) -> bool:
    """Tell whether a log begins as SQLite demands; it takes one that does not for empty."""
    try:
        with open_regular(log) as file:
            header = file.read(_HEADER)
    except OSError:
        return False
    words = [header[at : at + 4] for at in range(0, len(header), 4)]
    magic = int.from_bytes(words[0], "big") if len(header) == _HEADER else 0
    if magic & ~1 != _MAGIC or int.from_bytes(words[1], "big") != _VERSION:
        return False
    order: Literal["big", "little"] = "big" if magic & 1 else "little"
    first = second = 0
    for at in range(0, 6, 2):
        first = (first + int.from_bytes(words[at], order) + second) & 0xFFFFFFFF
        second = (second + int.from_bytes(words[at + 1], order) + first) & 0xFFFFFFFF
    return header[24:] == first.to_bytes(4, "big") + second.to_bytes(4, "big")


def reaches(log: Path, frames: int, *, page_size: int) -> bool:
    """Tell whether a log has so many frames; older ones behind its end do not count."""
    try:
        with open_regular(log) as file:
            salt = file.read(_HEADER)[_SALT]
            file.seek(_HEADER + (frames - 1) * (_FRAME_HEADER + page_size))
            return file.read(_FRAME_HEADER)[_FRAME_SALT] == salt != b""
    except OSError:
        return False
