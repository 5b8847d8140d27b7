"""``Database``: one open connection, its transactions, and its errors in our own words.

It knows no table. How a file is created, checked and opened stands in ``database.py``; what the
statements are stands in the modules that run them. One thread at a time may use a ``Database``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

from mcp_notarium.domain.text_normalization import replace_surrogates
from mcp_notarium.errors import CacheBusy, CacheDamaged, CacheError, CacheFull
from mcp_notarium.storage.authorizer import Guard
from mcp_notarium.storage.driver import Connection
from mcp_notarium.storage.errors import translate

Parameters = Sequence[Any] | Mapping[str, Any]
Row = tuple[Any, ...]

CHECKPOINT_PAGES = 1000
"""How far the WAL grows before the process that checkpoints moves it into the main file."""

LOOKS = 3
"""How often a database that others write to is looked at before it counts as damaged."""
_ROWS_AT_ONCE = (500, 50, 5, 1)
"""Rows per INSERT; few different numbers, so that statements are prepared once."""
_MOST_AT_ONCE = 2 * 1024 * 1024
"""Characters in the rows of one INSERT of several: the database has a copy of each."""
_SEARCH_ANEW = "SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'a' LIMIT 1"
"""The search index remembers how it is built up; a check after another process has merged parts of it
would miss what is gone. Opening it lets it look again."""
_SEARCH_CHECK = "INSERT INTO notes_fts(notes_fts, rank) VALUES ('integrity-check', 1)"


class Database:
    """An open cache file. Every method may raise ``CacheError`` or one of its subclasses.

    After ``CacheDamaged`` the connection is closed and stays so: what SQLCipher answers after a
    page it could not decrypt means nothing.
    """

    def __init__(
        self,
        connection: Connection,
        path: Path,
        *,
        encrypted: bool,
        driver_error: type[Exception],
        guard: Guard,
        again: Callable[..., Database],
        timeouts: float = 0.0,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.encrypted = encrypted
        self.read_only = read_only
        self.checkpointer = False
        self._again = again
        self._timeouts = timeouts
        self._connection: Connection | None = connection
        self._guard = guard
        self._damage: str | None = None
        self._tellings: list[Callable[[], None]] = []
        self._failures = (driver_error, MemoryError, OverflowError)
        self._durable: bool | None = None  # of the open transaction; None: none is open
        self._synced = "FULL"

    @property
    def closed(self) -> bool:
        """Whether the connection is gone, by :meth:`close` or by damage."""
        return self._connection is None

    @property
    def in_transaction(self) -> bool:
        """Whether the caller is inside :meth:`transaction`."""
        return self._durable is not None

    def another(self) -> Database:
        """One more connection to the same file, for another thread; the caller closes it.

        Raises what ``database.connect`` raises.
        """
        self._live()
        return self._again()

    def reopened(self, *, read_only: bool) -> Database:
        """The same file, also where this connection is closed; raises what ``database.connect`` does.

        A process has one view of the log's index: it cannot be only read and written at the same time.
        """
        return self._again(read_only=read_only)

    def condemn(self, damage: str) -> None:
        """Close for good: the file is damaged, and here or elsewhere somebody has met it."""
        first, self._damage = self._damage is None, damage
        self.close()
        for tell in self._tellings if first else ():
            tell()

    def when_damaged(self, tell: Callable[[], None]) -> None:
        """Have it called once damage is met, in the thread that meets it; at once if it has been."""
        self._tellings.append(tell)
        if self._damage is not None:
            tell()

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows of a query."""
        found: list[Row] = self._do(lambda c, p: c.execute(sql, p).fetchall(), parameters)
        return found

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """The first row of a query, or None."""
        found: Row | None = self._do(lambda c, p: c.execute(sql, p).fetchone(), parameters)
        return found

    def number(self, sql: str, parameters: Parameters = ()) -> int:
        """The one integer a query answers; 0 if it answers nothing."""
        found = self.row(sql, parameters)
        return int(found[0]) if found and found[0] is not None else 0

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement; returns the number of rows it changed (-1 where that means nothing).

        Outside a transaction it commits by itself, without waiting for the disk.
        """
        changed: int = self._do(lambda c, p: c.execute(sql, p).rowcount, parameters)
        return changed

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""
        everything = list(rows)
        if everything:
            self._do(lambda c, p: c.executemany(sql, p), everything)

    def insert_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run an INSERT whose ``VALUES {rows}`` stands for these rows, many in one statement.

        The driver gives Python back to other threads, and waits for it, once per statement and not
        once per row. All rows are of one width.
        """
        at = 0
        while at < len(rows):
            parts = (rows[at : at + size] for size in _ROWS_AT_ONCE if size <= len(rows) - at)
            part = next(part for part in parts if len(part) == 1 or _fit(part))
            values = [value for row in part for value in row]
            self.run(_spread(sql, len(part[0]), len(part)), values)
            at += len(part)

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """One write transaction: all of it or, on any exception, nothing.

        ``durable`` waits until the disk has it (power loss included); otherwise a power cut may
        undo the newest transactions, never tear one. Does not nest: raises ``RuntimeError``. Where the
        database is only read it is as if somebody else were writing for good: raises ``CacheBusy``.
        """
        if self.read_only:
            raise CacheBusy("the cache is only read")
        if self._durable is not None:
            msg = "transactions do not nest"
            raise RuntimeError(msg)
        self._set_synchronous("FULL" if durable else "NORMAL")
        self.run("BEGIN IMMEDIATE")
        self._durable = durable
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._durable = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read the file as it is at the first query, whatever others write meanwhile. Does not nest."""
        self.run("BEGIN")
        try:
            yield
        finally:
            self._roll_back()

    @contextmanager
    def joined(self, *, durable: bool = False) -> Iterator[None]:
        """The caller's transaction if one is open, else a new one.

        Raises ``RuntimeError`` if ``durable`` is asked for inside one that is not.
        """
        if durable and self._durable is False:
            msg = "this needs a durable transaction"
            raise RuntimeError(msg)
        with self.transaction(durable=durable) if self._durable is None else nullcontext():
            yield

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Raise ``CacheBusy`` at once, while it is entered, where another process is writing."""
        self._live().set_busy_timeout(0.0)
        try:
            yield
        finally:
            if self._connection is not None:
                self._connection.set_busy_timeout(math.ceil(self._timeouts))  # whole seconds

    @contextmanager
    def schema_change(self) -> Iterator[None]:
        """Let migrations create tables while it is entered."""
        with self._guard.schema_change():
            yield

    def data_version(self) -> int:
        """A number that changes whenever *another* connection has committed."""
        return self.number("PRAGMA data_version")

    def stamp(self) -> tuple[int, int]:
        """Something that stays the same until anything is written, by this connection or another."""
        return self.data_version(), self._live().total_changes

    def user_version(self) -> int:
        """The schema version in the file; 0 in a new one."""
        return self.number("PRAGMA user_version")

    def set_checkpointer(self, wanted: bool) -> None:  # noqa: FBT001 - reads as a setter
        """Whether this connection moves the WAL into the main file. At most one of all may."""
        self.run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES if wanted else 0}")
        self.checkpointer = wanted

    def checkpoint(self) -> bool:
        """Move the whole WAL into the main file and empty it; False if readers prevented it."""
        found = self.row("PRAGMA wal_checkpoint(TRUNCATE)")
        return found is not None and found[0] == 0

    def shrink(self) -> None:
        """Let go of the pages that are kept in memory."""
        self.run("PRAGMA shrink_memory")

    def size_bytes(self) -> int:
        """Bytes on disk: the main file and its WAL."""
        total = 0
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                total += self.path.with_name(self.path.name + suffix).stat().st_size
        return total

    def check(self, *, deep: bool = False) -> tuple[str, ...]:
        """What is wrong with the file, in technical words; empty when all is well.

        Moves the WAL into the main file first: the page check knows no WAL and would report
        damage that is none. ``deep`` also compares indexes with their tables (twice the time).
        Raises ``CacheBusy`` or ``CacheFull`` if the WAL could not be moved.
        """
        questions = ["PRAGMA cipher_integrity_check"] if self.encrypted else []
        questions += [f"PRAGMA {'integrity' if deep else 'quick'}_check", _SEARCH_CHECK]
        return self._faults(questions, first=self.checkpoint)

    def walk(self, *, deep: bool = False) -> tuple[str, ...]:
        """Like :meth:`check`, for a file that servers may be at work on: it moves nothing.

        Reads every page that is in use, whether it stands in the file or in the log, and again where
        something seems wrong: what another process changes meanwhile is no damage. Only ``deep``
        compares the search index with the notes. Raises ``CacheBusy`` or ``CacheFull``.
        """
        questions = ["PRAGMA integrity_check" if deep else "PRAGMA quick_check"]
        if deep and not self.read_only:  # the statement that compares counts as one that writes
            questions.append(_SEARCH_CHECK)
        return self._faults(questions, looks=LOOKS)

    def _faults(
        self,
        questions: Sequence[str],
        *,
        first: Callable[[], object] = lambda: None,
        looks: int = 1,
    ) -> tuple[str, ...]:
        found: tuple[str, ...] = ()
        try:
            first()
            for _ in range(looks):
                found = self._found(questions)
                if not found:
                    return ()
        except (CacheBusy, CacheFull):
            raise
        except CacheError as error:
            found = (error.message,)
        self.condemn(found[0])
        return found

    def _found(self, questions: Sequence[str]) -> tuple[str, ...]:
        self.rows(_SEARCH_ANEW)
        for question in questions:
            found = tuple(str(line[0]) for line in self.rows(question) if line[0] != "ok")
            if found:  # after a bad page the other answers mean nothing
                return found
        return ()

    def close(self) -> None:
        """Let go of the file. Idempotent; never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self._failures):
                connection.close()

    def _set_synchronous(self, level: str) -> None:
        if level != self._synced:
            self.run(f"PRAGMA synchronous = {level}")
            self._synced = level

    def _roll_back(self) -> None:
        # A full disk may already have rolled back; a damaged file has closed the connection.
        if self._connection is not None and self._connection.in_transaction:
            with suppress(*self._failures):
                self._connection.execute("ROLLBACK")

    def _do(self, action: Callable[[Connection, Any], Any], parameters: Any) -> Any:
        connection = self._live()
        try:
            return action(connection, parameters)
        except UnicodeEncodeError:
            return self._do(action, _storable(parameters))
        except self._failures as error:
            raise self._failed(error) from None

    def _live(self) -> Connection:
        if self._connection is None:
            raise CacheDamaged(self._damage) if self._damage else CacheError("the cache is closed")
        return self._connection

    def _failed(self, error: BaseException) -> CacheError:
        meaning = translate(error, writing=self._durable is not None)
        if type(meaning) is CacheError and self._connection is not None:
            meaning = self._poisoned(self._connection) or meaning
        if isinstance(meaning, CacheDamaged):
            self.condemn(meaning.message)
        return meaning

    def _poisoned(self, connection: Connection) -> CacheDamaged | None:
        """After some unreadable pages SQLCipher first answers "logic error"; all else fails then."""
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except self._failures as error:
            meaning = translate(error, writing=False)
            return meaning if isinstance(meaning, CacheDamaged) else None
        return None


def _fit(rows: Sequence[Sequence[Any]]) -> bool:
    return sum(len(v) for row in rows for v in row if isinstance(v, str)) <= _MOST_AT_ONCE


@cache
def _spread(sql: str, width: int, count: int) -> str:
    row = f"({', '.join('?' * width)})"
    return sql.replace("{rows}", ", ".join([row] * count))


def _storable(value: Any) -> Any:
    """The same parameters with every lone surrogate as U+FFFD: SQLite stores UTF-8 only."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {name: _storable(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_storable(part) for part in value]
    return value
