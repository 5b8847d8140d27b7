"""Run statements and transactions on one open connection, with errors of our own.

It knows no table. ``database_opener.py`` creates, checks and opens files; the statements are in the modules
that run them. One thread at a time may use a ``Database``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_notarium.errors import CacheDamaged, CacheError
from mcp_notarium.storage import write_ahead_log
from mcp_notarium.storage.authorizer import (
    Authorizer,
    Row,
    may_be_cut,
    portion_of,
    reads_texts,
    storable,
)
from mcp_notarium.storage.driver import SQL_ERROR, copy_pages, translate
from mcp_notarium.storage.write_ahead_log import Witness, pages_in_log, reaches
from mcp_notarium.threads import run_in_thread

if TYPE_CHECKING:
    from mcp_notarium.storage.driver import Connection

MEMORY = Path(":memory:")
"""The path of a database in memory."""
Parameters = Sequence[Any] | Mapping[str, Any]
_Result = TypeVar("_Result")

BUSY_SECONDS = 5
"""Seconds that a statement waits for another process's transaction before ``CacheBusy``."""

_PORTIONS = (1000, 50)
"""Rows that one statement inserts, of 32 columns at most. After each statement another thread may take Python for
a millisecond, so a load that does this row by row takes twice as long while another one is busy."""

_PAGE_SIZE = 4096
_NO_CACHE = 64 << 10
_SECOND_CACHE = 8 << 20
"""Bytes of pages that a second connection keeps in memory: a quarter of the first's. A load is as fast."""

MOST_CHECKS = 3
"""Checks of a database that others write to, before it counts as damaged."""

CHECKPOINT_PAGES = 1000
"""Pages of WAL after which the checkpointing process moves it into the main file."""


class Database:
    """Hold an open database file. Every method may raise ``CacheError`` or one of its subclasses.

    After ``CacheDamaged`` the connection is closed and stays closed: SQLCipher's answers after a page
    it could not decrypt mean nothing.
    """

    def __init__(
        self,
        connection: Connection,
        path: Path,
        *,
        encrypted: bool,
        driver_error: type[Exception],
        authorizer: Authorizer,
        reconnect: Callable[..., Database],
        read_only: bool = False,
        is_another: bool = False,
    ) -> None:
        self.path = path
        self._log = path.with_name(f"{path.name}-wal")
        self.encrypted = encrypted
        self.read_only = read_only
        self._is_another = is_another
        self.checkpointer = False
        self._reconnect = reconnect
        self._connection: Connection | None = connection
        self._authorizer = authorizer
        self._damage: str | None = None
        self._damage_callbacks: list[Callable[[], None]] = []
        self._failures = (driver_error, MemoryError, OverflowError)
        self._durable: bool | None = None  # of the open transaction; None: no transaction is open
        self._moving_log = False
        self.witness: Witness | None = None
        """Knows outside the file what it must hold; those of :meth:`open_another` share it."""

    @property
    def in_memory(self) -> bool:
        """Tell whether no file holds the database: then there is one connection to it."""
        return self.path == MEMORY

    @property
    def closed(self) -> bool:
        """Tell whether the connection was closed, by :meth:`close` or by damage."""
        return self._connection is None

    @property
    def in_transaction(self) -> bool:
        """Tell whether the caller is inside :meth:`transaction`."""
        return self._durable is not None

    def open_another(self) -> Database:
        """Open one more connection to the same file, for another thread; the caller closes it.

        Raises ``CacheReplaced`` if another file is in its place, and what ``database_opener.connect`` raises.
        """
        self._live()
        if self.witness is not None:  # else closing it would move this log into another file
            self.witness.require_same_file(writing=True)
        opened = self._reconnect(page_cache=_SECOND_CACHE, is_another=True)
        opened.witness = self.witness
        return opened

    def open_without_log(self) -> Database:
        """Open the main file alone, as it is without its log, for reading; raises as :meth:`open_another`."""
        return self._reconnect(read_only=True, without_log=True, page_cache=_NO_CACHE)

    async def run_aside(self, work: Callable[[Database], _Result]) -> _Result:
        """Return what ``work`` returns: a long query, run in a thread through a connection of its own.

        A database in memory has one connection: there it is run at once. Raises what ``work`` raises.
        """
        if self.in_memory:
            return work(self)

        def call() -> _Result:
            with closing(self.open_another()) as opened:
                return work(opened)

        try:
            return await run_in_thread(call)
        except CacheDamaged as damage:
            self.mark_damaged(damage.message)
            raise

    def reopen(self, *, read_only: bool) -> Database:
        """Open the same file, even if this connection is closed; raises as ``database_opener.connect``.

        A process has one view of the WAL index: it cannot be read-only and writable at the same time.
        """
        return self._reconnect(read_only=read_only)

    def mark_damaged(self, damage: str) -> None:
        """Close the connection for good because the file is damaged; run the callbacks once.

        A file in the place of the one that was opened is not damage.
        """
        if self.witness is not None and self.witness.replaced:
            return
        first, self._damage = self._damage is None, damage
        self.close()
        for callback in self._damage_callbacks if first else ():
            callback()

    def on_damage(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when damage is found, in the thread that finds it; at once if it was found."""
        self._damage_callbacks.append(callback)
        if self._damage is not None:
            callback()

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a query."""
        found: list[Row] = self._do(lambda c, p: c.execute(sql, p).fetchall(), parameters)
        if reads_texts(sql) and any(map(may_be_cut, found)):  # defence: damage-cuts-none-of-several
            self.require_authentic()
        return found

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """Return the first row of a query, or None."""
        found: Row | None = self._do(lambda c, p: c.execute(sql, p).fetchone(), parameters)
        # defence: damage-cuts-no-text
        if reads_texts(sql) and found is not None and may_be_cut(found):
            self.require_authentic()
        return found

    def number(self, sql: str, parameters: Parameters = ()) -> int:
        """Return the one integer a query answers; 0 if it answers nothing."""
        found = self.row(sql, parameters)
        return int(found[0]) if found and found[0] is not None else 0

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement; return the number of rows it changed (-1 where that means nothing).

        Outside a transaction it commits by itself, without waiting for the disk.
        """
        changed: int = self._do(lambda c, p: c.execute(sql, p).rowcount, parameters)
        return changed

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement once per row of parameters, an ``INSERT ... VALUES`` of many rows in portions.

        Return the number of rows it changed.
        """
        rest, changed = list(rows), 0
        for size in _PORTIONS:
            whole = len(rest) - len(rest) % size
            portion = portion_of(sql, size) if whole else sql
            if portion != sql:
                cuts = range(0, whole, size)
                changed += self._run_each(
                    portion, [[*chain.from_iterable(rest[at : at + size])] for at in cuts]
                )
                rest = rest[whole:]
        return changed + (self._run_each(sql, rest) if rest else 0)

    def _run_each(self, sql: str, rows: list[Sequence[Any]]) -> int:
        changed: int = self._do(lambda c, p: c.executemany(sql, p).rowcount, rows)
        return changed

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Run one write transaction: all of it or, on any exception, nothing.

        ``durable`` waits until the disk has it (power loss included); otherwise a power cut may
        undo the newest transactions, never tear one. Raises ``RuntimeError`` if nested, and
        ``CacheError`` if the database is read-only.
        """
        if self.read_only:
            raise CacheError("the database is open read-only")
        if self._durable is not None:
            msg = "transactions do not nest"
            raise RuntimeError(msg)
        if self.witness is not None:
            self.witness.require_same_file(writing=True)
        if durable:
            self.run("PRAGMA synchronous = FULL")
        self.run("BEGIN IMMEDIATE")  # defence: chain-writer IMMEDIATE=DEFERRED
        self._durable = durable
        flushed: Callable[[], None] = _nothing
        try:
            yield
            if durable:
                flushed = self.before_flush()
            self.run("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._durable = None
            if durable:
                with suppress(
                    CacheError
                ):  # or what commits by itself afterwards would be flushed, too
                    self.run("PRAGMA synchronous = NORMAL")
        flushed()
        if self.checkpointer:
            self._move_long_log()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read the file as it is at the first query, whatever others write. Does not nest."""
        self.run("BEGIN")
        try:
            yield
        finally:
            self._roll_back()

    def moment(self) -> AbstractContextManager[None]:
        """Read the file as it is at one moment: inside the caller's transaction if one is open, else in a :meth:`snapshot`."""
        return nullcontext() if self.in_transaction else self.snapshot()

    @contextmanager
    def join_or_begin(self, *, durable: bool = False) -> Iterator[None]:
        """Join the caller's transaction if one is open, else run a new one.

        Raises ``RuntimeError`` if ``durable`` is asked for inside one that is not.
        """
        if durable and self._durable is False:
            msg = "this needs a durable transaction"
            raise RuntimeError(msg)
        with self.transaction(durable=durable) if self._durable is None else nullcontext():
            yield

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Raise ``CacheBusy`` at once inside the ``with`` block while another process is writing."""
        self._live().set_busy_timeout(0.0)
        try:
            yield
        finally:
            if self._connection is not None:
                self._connection.set_busy_timeout(BUSY_SECONDS)

    @contextmanager
    def schema_change(self) -> Iterator[None]:
        """Let a new database create tables inside the ``with`` block."""
        with self._authorizer.schema_change():
            yield

    def stamp(self) -> tuple[int, int]:
        """Return a value that changes whenever anything is written, by any connection."""
        return self.number("PRAGMA data_version"), self._live().total_changes

    def user_version(self) -> int:
        """Return the schema version in the file; 0 in a new file."""
        return self.number("PRAGMA user_version")

    def before_flush(self) -> Callable[[], None]:
        """Remember what a flush of the log puts on the disk; return what is called after it. Raises ``CacheError``."""
        return _nothing if self.witness is None else self.witness.before_flush(self)

    def set_checkpointer(self, wanted: bool) -> None:  # noqa: FBT001 - reads as a setter
        """Set whether this connection moves the WAL into the main file. At most one of all may."""
        self._live()
        self.checkpointer = wanted

    def checkpoint(self) -> bool:
        """Move the whole WAL into the main file and empty it; False if readers prevented it."""
        return write_ahead_log.move_log(self)

    def _move_long_log(self) -> None:
        """Move a long WAL into the main file. Never raises: the commit before counts."""
        if self._moving_log or not reaches(self._log, CHECKPOINT_PAGES, page_size=_PAGE_SIZE):
            return
        self._moving_log = True
        try:
            write_ahead_log.move_what_can_be(self)
        finally:
            self._moving_log = False

    def require_authentic(self) -> None:
        """Check that every page of the main file is authentic, also while others write to it.

        SQLCipher reads a page that is not as zeros. That is no error for SQLite at the end of a long row, and
        with SQLCipher 4.19 none in a copy of all pages. Raises ``CacheDamaged``.
        """
        if self._do(lambda c, _: self._has_bad_page(c), ()):
            self.mark_damaged(_NOT_AUTHENTIC)
            self._live()

    def copy_pages(
        self, target: Connection, *, pages: int, after_step: Callable[[int, int], object]
    ) -> None:
        """Copy every page to an empty database, so many at a time; see ``database_opener.copy``."""
        self._do(lambda c, _: copy_pages(c, target, pages=pages, after_step=after_step), ())

    def shrink(self) -> None:
        """Free the pages that are cached in memory."""
        self.run("PRAGMA shrink_memory")

    def size_bytes(self) -> int:
        """Return the bytes on disk of the main file and its WAL."""
        total = 0
        if self.in_memory:
            return total
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                total += self.path.with_name(self.path.name + suffix).stat().st_size
        return total

    def close(self) -> None:
        """Close the file. Idempotent; never raises. The last connection of all moves the log into the main file."""
        number = 0
        if self.witness is not None and self._is_closed_in_order():
            with suppress(CacheError), self.without_waiting():
                number = write_ahead_log.number_next(self)
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self._failures):
                connection.close()
        if not self._log.exists():
            write_ahead_log.note_done(self, number)

    def _is_closed_in_order(self) -> bool:
        return self._connection is not None and self._damage is None and not self._is_another

    def _roll_back(self) -> None:
        # A full disk may already have rolled back; a damaged file has closed the connection.
        if self._connection is not None and self._connection.in_transaction:
            with suppress(*self._failures):
                self._connection.execute("ROLLBACK")

    def _do(self, action: Callable[[Connection, Any], Any], parameters: Any) -> Any:
        connection = self._live()
        if self.witness is not None and self._durable is None:
            self.witness.require_same_file(writing=False)
        try:
            return action(connection, parameters)
        except UnicodeEncodeError:
            return self._do(action, storable(parameters))
        except self._failures as error:
            raise self._failed(error) from None

    def _live(self) -> Connection:
        if self._connection is None:
            raise CacheDamaged(self._damage) if self._damage else CacheError("the cache is closed")
        return self._connection

    def _failed(self, error: BaseException) -> CacheError:
        meaning = translate(error, writing=self._durable is not None)
        if type(meaning) is CacheError and self._connection is not None:
            meaning = self._damage_behind_error(self._connection) or meaning
        if isinstance(meaning, CacheDamaged):
            if self.witness is not None:
                self.witness.require_same_file(writing=True)
            self.mark_damaged(meaning.message)
        return meaning

    def _has_bad_page(self, connection: Connection) -> bool:
        """Tell whether a page of the main file is not authentic; one that the log has too may be torn."""
        bad = self.encrypted
        for _ in range(MOST_CHECKS if bad else 0):
            lines = connection.execute(_CHECK_PAGES).fetchall()
            numbers = {int(number) for (line,) in lines for number in _PAGE.findall(line)}
            bad = bool(lines) and not (numbers and numbers <= pages_in_log(self._log))
            if not bad:
                break
        return bad

    def _damage_behind_error(self, connection: Connection) -> CacheDamaged | None:
        """Return the damage behind a "logic error": SQLCipher answers so after some unreadable pages."""
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if self._has_bad_page(connection):
                return CacheDamaged(_NOT_AUTHENTIC)
        except self._failures as error:
            meaning = translate(error, writing=False)
            if isinstance(meaning, CacheDamaged):
                return meaning
            if getattr(error, "sqlite_errorcode", 0) == SQL_ERROR:
                return CacheDamaged("the database stopped being readable")
        return None


def _nothing() -> None:
    """Do nothing after a flush of which nobody outside keeps an account."""


_CHECK_PAGES = "PRAGMA cipher_integrity_check"
_PAGE = re.compile(r"page (\d+)")
_NOT_AUTHENTIC = "a page of the database is not authentic"
