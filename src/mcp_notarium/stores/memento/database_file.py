"""Open the app's database file for one call at a time, as a good neighbour of the app.

The app waits five seconds for a lock and then fails. So every transaction is short, reads are complete before
anything else is done, and nothing of the file's own settings is changed. The file is never opened but by
SQLite: closing another descriptor of it would drop SQLite's locks.

SQLite's own way of waiting looks ten times a second in the end. An app that writes without a pause leaves gaps of a few
milliseconds, which it would miss for seconds. So we look each millisecond ourselves, and keep a lock as shortly.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from mcp_notarium.errors import (
    FREE_SPACE,
    OutcomeUnknown,
    StorePlaceUnusable,
    StoreUnavailable,
    describe_full_disk,
)
from mcp_notarium.files.os_errors import describe, display_path
from mcp_notarium.stores.memento.note_codec import REQUIRED
from mcp_notarium.system import SYSTEM

READ_SECONDS = 3.0
WRITE_SECONDS = 5.0
"""As long as the app itself waits."""
STAMP_SECONDS = 0.5
"""Writes wait for it, and the next look comes soon."""
LOOK_SECONDS = 0.001
"""Between two looks whether the file is free."""
_TRY_AGAIN = "Nothing was changed. Try again in a moment; the user may have to close what keeps the file busy."
_MOVED = sqlite3.SQLITE_READONLY_DBMOVED
_REASONS = {
    _MOVED: ("Memento's database file was replaced at this moment", _TRY_AGAIN),
    sqlite3.SQLITE_BUSY: ("Memento's database file is locked by another program", _TRY_AGAIN),
    sqlite3.SQLITE_LOCKED: ("Memento's database file is locked by another program", _TRY_AGAIN),
    sqlite3.SQLITE_FULL: (
        describe_full_disk("Memento's database file was not changed"),
        f"Nothing was changed. {FREE_SPACE}.",
    ),
    sqlite3.SQLITE_READONLY: (
        "Memento's database file may not be written",
        "Nothing was changed. Ask the user to permit this program to write the file and its folder.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "Memento's database file is damaged",
        "Nothing was changed. Ask the user to close Memento and to restore a copy of the file.",
    ),
    sqlite3.SQLITE_NOTADB: (
        "MEMENTO_DATABASE names a file that is no SQLite database",
        "Ask the user to set it to the file of the app, such as prisma/dev.db.",
    ),
}
_FOR_A_PERSON = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Errors that stay until a person has mended them."""
_PRIMARY = 0xFF
_Done = TypeVar("_Done")
Columns = frozenset[str]
Opened = tuple[sqlite3.Connection, Columns]
"""A connection inside a transaction, and the columns of the notes then."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Hold the connection that stays open: it alone can tell whether others have written."""

    connection: sqlite3.Connection
    identity: tuple[int, int]
    name: str = field(default_factory=lambda: secrets.token_hex(8))


class DatabaseFile:
    """Open one file. It may vanish, be replaced or get other columns between two calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: _Kept | None = None
        self._in_use = threading.Lock()

    def stamp(self) -> str:
        """Return a value that is another one after any change by anybody else."""
        with self._in_use, _translated(self._path):
            kept = self._keep()
            (version,) = _wait(
                lambda: kept.connection.execute("PRAGMA data_version").fetchone(), STAMP_SECONDS
            )
            return f"{kept.name}:{version}"

    @contextmanager
    def reading(self) -> Iterator[Opened]:
        """Read one state of the file, which stays while this is open. Raises ``StoreUnavailable``."""
        with _translated(self._path):
            connection = self._connect()
            try:
                connection.execute("PRAGMA query_only = ON")  # defence: app-file-query-only
                connection.execute("BEGIN")
                columns = _wait(lambda: self._columns(connection), READ_SECONDS)  # takes the lock
                yield connection, columns
            finally:
                connection.close()

    @contextmanager
    def writing(self) -> Iterator[Opened]:
        """Run a transaction that nobody else's write comes into; an error undoes it.

        Raises ``StoreUnavailable`` if nothing was stored, ``OutcomeUnknown`` if that is not certain.
        """
        with self._in_use:
            try:
                with _translated(self._path):
                    kept = self._keep()
                    _wait(lambda: kept.connection.execute("BEGIN IMMEDIATE"), WRITE_SECONDS)
                    yield kept.connection, self._columns(kept.connection)
                    _commit(kept.connection)
            except BaseException:
                self._drop()  # rolls back what is not committed
                raise
            self._require_still(kept.identity)

    def close(self) -> None:
        """Close what is open. May be called twice."""
        with self._in_use:
            self._drop()

    def _keep(self) -> _Kept:
        identity = self._identity()
        if self._kept is not None and self._kept.identity != identity:
            self._drop()
        if self._kept is None:
            self._kept = _Kept(self._connect(), identity)
        return self._kept

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.connection.close()
        self._kept = None

    def _require_still(self, identity: tuple[int, int]) -> None:
        with suppress(StoreUnavailable):
            if self._identity() == identity:  # defence: replaced-file-in-doubt =True
                return
        raise OutcomeUnknown("Memento's database file was replaced while the note was stored")

    def _connect(self) -> sqlite3.Connection:
        """Open a connection; it never makes a file, nor waits for a lock. Raises ``StoreUnavailable``."""
        self._identity()
        if SYSTEM.is_held(self._path):  # defence: held-app-file-told =False
            raise StoreUnavailable(
                "another program has Memento's database file open, and does not share it",
                resolution_hint=_TRY_AGAIN,
            )
        connection = sqlite3.connect(
            f"file:{quote(os.fspath(self._path))}?mode=rw",  # defence: app-file-never-made rw=rwc
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,  # each call has a thread of its own
        )
        try:
            connection.text_factory = _text
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(
                "PRAGMA cache_spill = OFF"
            )  # else a large change waits for readers midway
        except BaseException:
            connection.close()
            raise
        return connection

    def _identity(self) -> tuple[int, int]:
        """Return which file this is. Raises ``StoreUnavailable`` unless it is a file of this user."""
        try:
            found = os.lstat(self._path)
        except OSError as error:
            raise _unavailable(
                f"MEMENTO_DATABASE names a file that cannot be used: {display_path(self._path)} ({describe(error)})"
            ) from None
        if not stat.S_ISREG(found.st_mode):  # defence: app-file-is-no-link
            raise _unavailable(
                f"MEMENTO_DATABASE names no file, but a link, a folder or so: {display_path(self._path)}"
            )
        if SYSTEM.access(self._path, found).owner != "user":  # defence: app-file-is-the-users
            raise _unavailable(
                f"MEMENTO_DATABASE names a file of another user: {display_path(self._path)}"
            )
        if not os.access(self._path, os.R_OK):
            raise _unavailable(
                f"MEMENTO_DATABASE names a file that may not be read: {display_path(self._path)}"
            )
        return found.st_dev, found.st_ino

    def _columns(self, connection: sqlite3.Connection) -> Columns:
        rows = connection.execute('PRAGMA table_info("Note")').fetchall()
        columns = frozenset(row["name"] for row in rows)
        if not columns:
            raise _unavailable(
                f"MEMENTO_DATABASE names a database without notes of Memento: {display_path(self._path)}"
            )
        if missing := sorted(REQUIRED - columns):
            raise _unavailable(
                f"Memento's notes have no column {', '.join(missing)}: a version of the app that is not known here"
            )
        return columns


def _wait(act: Callable[[], _Done], seconds: float) -> _Done:
    """Return what ``act`` gives as soon as no lock of another program is in its way. Raises what SQLite raises."""
    end = time.monotonic() + seconds
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
        time.sleep(LOOK_SECONDS)


def _commit(connection: sqlite3.Connection) -> None:
    """Commit. What fails for want of a lock or of room is undone, and nothing else is certain."""
    try:
        _wait(lambda: connection.execute("COMMIT"), WRITE_SECONDS)
    except sqlite3.Error as error:
        waits = connection.in_transaction and _code(error) == sqlite3.SQLITE_BUSY
        if waits or _code(error) == sqlite3.SQLITE_FULL:  # SQLite itself undoes it for want of room
            raise
        raise OutcomeUnknown("Memento's database file did not confirm the write") from None


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn an error of SQLite into one that promises that nothing was written."""
    try:
        yield
    except sqlite3.Error as error:
        said, hint = _REASONS.get(
            _code(error), ("Memento's database file cannot be used", _TRY_AGAIN)
        )
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        kind = StorePlaceUnusable if _code(error) in _FOR_A_PERSON else StoreUnavailable
        place = f": {display_path(path)}" if _code(error) in _FOR_A_PERSON else ""
        raise kind(f"{said}{place} ({name})", resolution_hint=hint) from None


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code if code == _MOVED else code & _PRIMARY


def _unavailable(said: str) -> StorePlaceUnusable:
    return StorePlaceUnusable(
        said,
        resolution_hint="Ask the user to check MEMENTO_DATABASE and the file; nothing here has changed it.",
    )


def quoted(name: str) -> str:
    """Return the name of a table or column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _text(data: bytes) -> str | bytes:
    """Return text; as bytes if it is no UTF-8, so that it is never written back as another one."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
