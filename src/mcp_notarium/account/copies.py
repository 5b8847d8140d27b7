"""Keep verified copies of a database whose notes are nowhere else, in ``copies/`` of the account's folder.

A copy is a database under the same data key: every key of the account opens it. Its name tells when it was made, and
the number of the notes' last change. The oldest go first. One that a repair with losses has *kept* stays until
the user removes it.

A copy is made while calls are served, after the start and once a day, and when the server stops. A stop has little time: what
it cannot copy is copied after the next start, so each change gets into a copy, however large the notebook is.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.generation import OpenedCache
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.errors import CacheDamaged, CacheError, LockedError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import busy_error, hold_lock
from mcp_notarium.files.private_files import open_regular, require_free, sync_folder
from mcp_notarium.storage import database_opener, integrity
from mcp_notarium.storage.audit_log import AuditTable
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.integrity import SALT_SIZE
from mcp_notarium.stores.kind import LentTables
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.logs import Logger


OLD = 7
"""Days after which a changed notebook needs a new copy."""
MAKE = "`mcp-notarium restore --make` makes one."
_DAY = 86_400
_NAME = re.compile(r"(\d{8}T\d{6}Z)-(\d+)(\.kept)?\.sqlite\.encrypted")
_STAMP = "%Y%m%dT%H%M%SZ"
_END = ".sqlite.encrypted"
_KEPT = ".kept"
_UNFINISHED = ".new-"
_RECORDS = "SELECT max(number) FROM audit"
_ALL = 1_000_000
_ROOM = 2
"""Multiple of its size that must be free: a copy must not take the space that saves need."""

FIRST_SECONDS = 30.0
"""Seconds after the start until what was not copied before is copied: the first calls come first."""
EVERY_SECONDS = 86_400.0
"""Seconds between two copies of a server that does not stop."""
_VERIFYING = 1.6
"""Time to copy and verify, as a multiple of the time to copy."""


@dataclass(frozen=True, slots=True, order=True)
class DatabaseCopy:
    """Describe a copy of a database."""

    change: int
    """The number of the notes' last change in it."""
    at: float
    """Time of making, in epoch seconds."""
    path: Path
    kept: bool = False
    """Later copies do not push it out."""

    def open(self, data_key: DataKey) -> Database:
        """Open the copy without changing it. Raises ``CacheError`` and ``OSError``."""
        key = data_key.database_key(read_salt(self.path))
        return database_opener.connect(self.path, key, read_only=True)

    def is_authentic(self, data_key: DataKey) -> bool:
        """Tell whether every page can be read and was written under the data key."""
        try:
            require_authentic(self.path, data_key)
        except (CacheError, OSError):
            return False
        return True


def list_copies(folder: AccountFolder) -> list[DatabaseCopy]:
    """List the copies, newest first."""
    found = []
    for path in folder.copies.iterdir() if folder.copies.is_dir() else ():
        if (name := _NAME.fullmatch(path.name)) is not None:
            made = datetime.strptime(name[1], _STAMP).replace(tzinfo=UTC)
            found.append(DatabaseCopy(int(name[2]), made.timestamp(), path, name[3] is not None))
    return sorted(found, reverse=True)


def copy_after_changes(
    opened: OpenedCache,
    tables: LentTables,
    *,
    keep: int,
    now: float,
    after_step: Callable[[int, int], object] = lambda _copied, _pages: None,
) -> Path | None:
    """Copy the database, if its notes have changed since the newest copy; return the copy.

    Servers may write to it meanwhile: it is copied through a connection of its own, as it is at one moment.
    None if there is nothing to do, or while another process makes a copy. ``after_step``: see
    ``database_opener.copy``. Raises ``CacheError`` (``CacheDamaged`` if a page of the database cannot be
    read) and ``OSError`` with the older copies as they were.
    """
    folder, data_key = opened.anchor.folder, opened.data_key
    if data_key is None or keep == 0:
        return None
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(folder.copies_lock, _being_copied, timeout=0))
        except LockedError:
            return None
        source = stack.enter_context(closing(opened.database.open_another()))
        newest = next(iter(list_copies(folder)), None)
        change = read_last_change(source, tables)
        if newest is not None and newest.change == change and _opens(newest, data_key):
            return None
        return make_copy(
            folder, source, data_key, tables, keep=keep, now=now, after_step=after_step
        )


def copy_displaced(
    opened: OpenedCache,
    tables: LentTables,
    *,
    now: float,
    after_step: Callable[[int, int], object] = lambda _copied, _pages: None,
) -> Path | None:
    """Copy an open database in whose place another file was put: it is the newest, and its file has no name any more.

    None if its newest notes are in a copy already, or nobody can tell what it must hold. The copy must hold all
    that the anchor knows, in a whole chain. No other copy is removed. Raises as :func:`copy_after_changes`.
    """
    folder, data_key, database = opened.anchor.folder, opened.data_key, opened.database
    said = opened.anchor.read_alone()
    if data_key is None or said is None:
        return None

    def demand_newest(copy: Database) -> None:
        table = AuditTable(copy, audit_keys(data_key).chain_mac)
        if integrity.walk(copy) or not table.verify(anchored=said.head).whole:
            raise CacheError("the open database is not the newest state")

    database.witness = None  # it refuses all statements by now
    with hold_lock(folder.copies_lock, _being_copied, timeout=0):
        newest = next(iter(list_copies(folder)), None)
        if newest is not None and newest.change >= read_last_change(database, tables):
            return None
        return make_copy(
            *(folder, database, data_key, tables),
            keep=_ALL,
            now=now,
            after_step=after_step,
            demand=demand_newest,
        )


def make_copy(
    folder: AccountFolder,
    source: Database,
    data_key: DataKey,
    tables: LentTables,
    *,
    keep: int,
    now: float,
    after_step: Callable[[int, int], object] = lambda _copied, _pages: None,
    demand: Callable[[Database], None] | None = None,
) -> Path:
    """Copy a database and verify every page of the copy; then remove the oldest copies.

    ``demand`` raises if the opened copy is not what is wanted. The caller makes no other copy at the same time. Raises as :func:`copy_after_changes`.
    """
    folder.copies.mkdir(mode=0o700, exist_ok=True)
    _remove_unfinished(folder)
    require_free(folder.path, _ROOM * source.size_bytes(), "no copy was made")
    unfinished = folder.copies / f"{_UNFINISHED}{secrets.token_hex(8)}"
    key = data_key.database_key(secrets.token_bytes(SALT_SIZE))
    try:
        with source.snapshot():
            change = read_last_change(source, tables)
            database_opener.copy(source, unfinished, key, after_step=after_step)
        try:
            require_authentic(unfinished, data_key)  # defence: copies-verified-first
        except CacheDamaged as error:  # the database itself is undamaged
            raise CacheError("the copy cannot be read back as it was written") from error
        if demand is not None:
            with closing(database_opener.connect(unfinished, key, read_only=True)) as copy:
                demand(copy)
        stamp = datetime.fromtimestamp(now, UTC).strftime(_STAMP)
        target = folder.copies / f"{stamp}-{change}{_END}"
        SYSTEM.move(unfinished, target)
        sync_folder(folder.copies)
        sync_folder(folder.path)
    except BaseException:
        SYSTEM.remove(unfinished)
        raise
    others = [one for one in list_copies(folder) if one.path != target and not one.kept]
    for old in others[keep - 1 :]:
        SYSTEM.remove(old.path)
    return target


def _being_copied() -> LockedError:
    return busy_error("another process is copying the database")


def describe_age(
    opened: OpenedCache, tables: LentTables, *, began: float, now: float
) -> str | None:
    """Say that notes have changed since a copy that is old by now; None if not.

    ``began``: since when the database is used, as far as is known; without a copy its age counts.
    """
    newest = next(iter(list_copies(opened.anchor.folder)), None)
    days = int((now - (newest.at if newest else began)) / _DAY)
    if days < OLD or (newest and newest.change == read_last_change(opened.database, tables)):
        return None
    if newest is None:
        return f"The notebook is {days} days old or more, and there is no copy of it: {MAKE}"
    return f"Notes have changed since the newest copy of the notebook, {days} days ago: {MAKE}"


def find_age_notice(notices: Iterable[str]) -> str | None:
    """Return what :func:`describe_age` has said of a database, if that is among the notices of its opening."""
    return next((one for one in notices if one.endswith(MAKE)), None)


def keep_newest(folder: AccountFolder, data_key: DataKey) -> None:
    """Let no later copy push out the newest that can be read, or the newest at all if none can.

    It may be the only one with what a repair could not read. Raises ``OSError``.
    """
    found = list_copies(folder)
    copy = next((one for one in found if one.is_authentic(data_key)), next(iter(found), None))
    if copy is not None and not copy.kept:
        name = copy.path.name.removesuffix(_END) + _KEPT + _END
        SYSTEM.move(copy.path, copy.path.with_name(name))
        sync_folder(folder.copies)


def describe_kept(folder: AccountFolder) -> tuple[str, ...]:
    """Say of each copy that a repair has kept why it is there, and the way back."""
    return tuple(
        f"A repair could not read everything. {one.path.name} of before stays until you delete it: "
        f"`mcp-notarium restore {one.path.name}` puts it in the place of the notebook."
        for one in list_copies(folder)
        if one.kept
    )


def remove_others(folder: AccountFolder, kept: Path | None) -> None:
    """Remove every copy but ``kept``."""
    for old in list_copies(folder):
        if old.path != kept:
            SYSTEM.remove(old.path)
    _remove_unfinished(folder)


def read_salt(path: Path) -> bytes:
    """Return the salt at the beginning of a copy: it may be of an earlier generation."""
    with open_regular(path) as file:
        return file.read(SALT_SIZE)


def require_authentic(path: Path, data_key: DataKey) -> None:
    """Check that every page was written under the data key. Raises ``CacheDamaged`` and ``OSError``."""
    found = integrity.sample(path, data_key.page_mac_key(), read_salt(path), every=True)
    if found.bad or found.torn or not found.good:
        raise CacheDamaged("a page of the copy is not authentic")


def describe_failure(error: CacheError | LockedError | OSError) -> str:
    """Return why no copy was made, without a path."""
    if not isinstance(error, OSError):
        return error.message
    return error.strerror or type(error).__name__


def read_last_change(database: Database, tables: LentTables) -> int:
    """Return the number of the last change of the notes in a database."""
    return database.number(tables.last_change)


def read_file_cost(database: Database, tables: LentTables) -> tuple[int, int] | None:
    """Return how many files the notes in a database have, and the bytes that they take; None where they have none there."""
    row = database.row(tables.files) if tables.files else None
    return None if row is None else (row[0], row[1])


def _opens(copy: DatabaseCopy, data_key: DataKey) -> bool:
    """Tell by a few pages whether this data key opens a copy: re-encryption may have been cut short."""
    try:
        found = integrity.sample(copy.path, data_key.page_mac_key(), read_salt(copy.path))
    except OSError:
        return False
    return found.good > 0 and not found.bad


def _remove_unfinished(folder: AccountFolder) -> None:
    """Remove what a process has left that was killed while it made a copy."""
    with suppress(FileNotFoundError):
        for path in folder.copies.glob(f"{_UNFINISHED}*"):
            SYSTEM.remove(path)


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
            path = copy_displaced(
                self._opened, self._tables, now=time.time(), after_step=_give_up_after(seconds)
            )
        except _OutOfTime:
            self._log.warning("cache.not_copied", message="there was no time for it")
        except (CacheError, LockedError, OSError) as error:
            message = describe_failure(error)
            self._log.warning("cache.not_copied", message=message)
        else:
            if path is not None:
                self._log.warning("cache.rescued", message=f"The newest notes are in {path.name}.")

    def _copy(self, after_step: Callable[[int, int], object]) -> Path | None:
        try:
            return copy_after_changes(
                self._opened, self._tables, keep=self._keep, now=time.time(), after_step=after_step
            )
        except _OutOfTime:
            self._log.info("cache.copy_left")
        except CacheDamaged:
            raise
        except (CacheError, OSError) as error:
            message = describe_failure(error)
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


@dataclass(frozen=True, slots=True)
class Copies:
    """Find the copy of a local notebook that has what its database lacks."""

    folder: AccountFolder
    data_key: DataKey | None
    tables: LentTables | None
    """Those of the notebook. None: another store, which has no copies."""

    @property
    def fetched(self) -> bool:
        """Tell whether the notes are at a store, too."""
        return self.tables is None

    def newest(self) -> str:
        """Return the name of the newest copy, '' if there is none."""
        return next((one.path.name for one in self._list()), "")

    def with_newer_notes(self, database: Database) -> str:
        """Return the name of the newest copy if its notes are newer than those of the database, else ''."""
        newest = next(iter(self._list()), None)
        if newest is None or self.tables is None:
            return ""
        return newest.path.name if newest.change > read_last_change(database, self.tables) else ""

    def with_records_after(self, upto: int) -> tuple[str, int]:
        """Return the name of the copy with the most audit records, and its last number; '' if that is none after ``upto``."""
        key, best = self.data_key, ("", upto)
        if key is None:
            return best
        for copy in self._list():
            with suppress(CacheError, LockedError, OSError), closing(copy.open(key)) as opened:
                best = max(best, (copy.path.name, opened.number(_RECORDS)), key=itemgetter(1))
        return best

    def _list(self) -> list[DatabaseCopy]:
        return [] if self.tables is None else list_copies(self.folder)
