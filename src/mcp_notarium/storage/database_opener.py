"""Create and open a database file: private mode, key, safe pragmas.

Only ``create`` makes a file; ``connect`` never does. Neither deletes or repairs anything, and neither
decides what to do about a file that cannot be opened. Keys have the driver's 160-digit form and are
never part of an SQL text.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.errors import ONE_MORE_TRY, CacheDamaged, LockedError, NotariumError, Verdict
from mcp_notarium.files.os_errors import close_holder
from mcp_notarium.files.private_files import flush_file, sync_folder
from mcp_notarium.secret import Secret
from mcp_notarium.storage import driver, schema_version
from mcp_notarium.storage.authorizer import Authorizer
from mcp_notarium.storage.database import BUSY_SECONDS, MEMORY, Database
from mcp_notarium.storage.integrity import PAGE_SIZE
from mcp_notarium.storage.write_ahead_log import has_header
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.storage.driver import Connection

__all__ = ["Database", "companions", "connect", "create"]

_READONLY, _READWRITE = 0x1, 0x2
_NAMED_BY_URI = 0x40
_NOFOLLOW = 0x01000000  # refuses a symbolic link at the end of the path and in every parent
_EXTENDED_CODES = 0x02000000  # tells a full disk from a damaged one
_CACHED_STATEMENTS = 256
_TEMP_STORE_MEMORY = 2
_KEY_FORM = re.compile(rb"x'[0-9a-f]{160}'")

_MIB = 1 << 20
PAGE_CACHE = 32 * _MIB
"""Bytes of pages that a connection keeps in memory, at most."""
_STEP_PAGES = _MIB // PAGE_SIZE
"""Pages that are copied in one step: some 10 ms."""


def companions(path: Path) -> tuple[Path, ...]:
    """Return the files that belong together: the database, its WAL, its shared-memory index.

    The last one is the rollback journal, which exists only while a database is being made.
    """
    return tuple(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-journal"))


def has_log(path: Path | None) -> bool:
    """Check whether a write-ahead log that is not empty lies next to the database."""
    log = path and companions(path)[1]
    return bool(log and log.exists() and log.stat().st_size > 0)


def create(
    path: Path,
    key: Secret | None,
    *,
    meta: Mapping[str, str],
    memory_security: bool = False,
) -> Database:
    """Create a new database with all tables; ``key`` None makes a plain one.

    ``meta`` becomes the first rows of ``sync_metadata``. Raises ``FileExistsError`` if anything
    exists at ``path`` (a dangling link included); leaves nothing behind when it fails.
    """
    _check_key_form(key)
    _create_private(path)
    database = None
    try:
        database = _open(path, key, memory_security=memory_security)
        schema_version.create_tables(database, meta=meta)
        # The page check at the next start reads the main file only.
        database.checkpoint()
        sync_folder(path.parent)
    except BaseException:
        if database is not None:
            database.close()
        for file in companions(path):
            SYSTEM.remove(file)
        raise
    return database


def create_in_memory(*, meta: Mapping[str, str]) -> Database:
    """Create a database in memory, which :meth:`Database.open_another` cannot open again."""
    database = _open(MEMORY, None, memory_security=False)
    schema_version.create_tables(database, meta=meta)
    return database


def connect(
    path: Path,
    key: Secret | None,
    *,
    memory_security: bool = False,
    read_only: bool = False,
    without_log: bool = False,
    is_another: bool = False,
    page_cache: int = PAGE_CACHE,
) -> Database:
    """Open an existing database; the caller has proved the key and checks the schema next.

    Raises ``LockedError`` (DATABASE_MISSING, UNSAFE_PATH) before the file is touched, and
    ``CacheDamaged``, ``CacheBusy`` or ``CacheFull`` when it does not open. A new connection does
    not checkpoint until ``set_checkpointer(True)``.

    * ``read_only``: change neither the file nor its log, not even by closing;
    * ``without_log``: read the main file alone;
    * ``is_another``: this process has a first connection to it;
    * ``page_cache``: bytes of pages that it keeps in memory.
    """
    _check_key_form(key)
    _require_private(path)
    return _open(
        path,
        key,
        memory_security=memory_security,
        read_only=read_only,
        without_log=without_log,
        is_another=is_another,
        page_cache=page_cache,
    )


def copy(
    source: Database, path: Path, key: Secret, *, after_step: Callable[[int, int], object]
) -> None:
    """Copy what ``source`` holds to a new file under this key, also while others write to it.

    Call it inside ``source.snapshot()``: outside, each write of another process restarts the copy.
    ``after_step`` is called after each MiB with the pages copied and those of all; what it raises ends the
    copy. The file is flushed when it returns, and gone when it raises; ``CacheDamaged``: a page of the source is not
    authentic.
    """
    _check_key_form(key)
    _create_private(path)
    target = driver.module().connect(
        os.fspath(path), flags=_READWRITE | _NOFOLLOW | _EXTENDED_CODES, isolation_level=None
    )
    try:
        try:
            target.execute("PRAGMA cipher_log_level = NONE")
            target.set_key(key.reveal_text())
            target.execute("PRAGMA journal_mode = OFF")
            target.execute("PRAGMA synchronous = OFF")
            source.copy_pages(target, pages=_STEP_PAGES, after_step=after_step)
            source.require_authentic()  # defence: damaged-page-not-copied
        finally:
            target.close()
        flush_file(path)
    except BaseException:
        SYSTEM.remove(path)
        raise


def _check_key_form(key: Secret | None) -> None:
    # Any other form is silently taken as a passphrase and locks the file with that very string.
    if key is not None and not _KEY_FORM.fullmatch(key.reveal()):
        msg = "a database key has the form x'<160 lower-case hex digits>'"
        raise ValueError(msg)


def _create_private(path: Path) -> None:
    if any(os.path.lexists(file) for file in companions(path)):
        # A WAL left alone would be deleted unread, or replayed into the new file.
        raise FileExistsError(errno.EEXIST, "a cache file is already there")
    # WAL and shared-memory index inherit its mode or list of rights, whatever the umask is.
    os.close(SYSTEM.open_private(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))


def _require_private(path: Path) -> None:
    """Refuse all but a private regular file. It opens nothing: closing would drop SQLite's locks."""
    try:
        found = path.lstat()  # defence: database-is-no-link lstat=stat
    except FileNotFoundError:
        raise LockedError(
            Verdict.DATABASE_MISSING,
            "the cache file is missing",
            resolution_hint="Restore it from a backup. If the notes are at a note store, "
            "`mcp-notarium reset-cache` loads all again.",
        ) from None
    reason = _unsafe(path, found)
    if reason:
        raise LockedError(
            Verdict.UNSAFE_PATH,
            f"the cache file {reason}",
            resolution_hint="Run `mcp-notarium doctor`; it names the file and what to change.",
        )
    if found.st_size < PAGE_SIZE:  # defence: empty-file-is-no-database
        # SQLite would take an empty file for a new database and start without any note.
        raise CacheDamaged("the cache file is shorter than one page")


def _unsafe(path: Path, found: os.stat_result) -> str | None:
    if SYSTEM.is_link(path, found):
        return "is a symbolic link"
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_nlink != 1:
        return "has a second name (hard link)"
    access = SYSTEM.access(path, found)
    if access.owner != "user":
        return "belongs to another user"
    return None if access.is_private else "is readable by others"


def _open(
    path: Path,
    key: Secret | None,
    *,
    memory_security: bool,
    read_only: bool = False,
    without_log: bool = False,
    is_another: bool = False,
    page_cache: int = PAGE_CACHE,
) -> Database:
    driver.require_suitable(driver.facts())
    _require_not_held(path)
    dbapi = driver.module()
    connection: Connection | None = None
    authorizer = Authorizer()
    try:
        connection = dbapi.connect(
            _read_only_uri(path, without_log=without_log) if read_only else os.fspath(path),
            # defence: connecting-makes-none _READWRITE=6
            flags=(_READONLY | _NAMED_BY_URI if read_only else _READWRITE)
            | _NOFOLLOW  # defence: sqlite-follows-no-link
            | _EXTENDED_CODES,  # without CREATE: never a silent new database
            isolation_level=None,
            timeout=BUSY_SECONDS,
            cached_statements=_CACHED_STATEMENTS,
            check_same_thread=False,
        )
    except dbapi.Error:
        raise _open_error(path) from None
    database = Database(
        connection,
        path,
        encrypted=key is not None,
        driver_error=dbapi.Error,
        authorizer=authorizer,
        read_only=read_only,
        is_another=is_another,
        reconnect=partial(
            connect,
            path,
            key,
            memory_security=memory_security,
            read_only=read_only,
            page_cache=page_cache,
        ),
    )
    try:
        _unlock(database, connection, key, memory_security=memory_security)
        _configure(database, page_cache)
        connection.set_authorizer(authorizer.authorize)  # defence: sql-authorizer
    except BaseException:
        database.close()
        raise
    return database


def _read_only_uri(path: Path, *, without_log: bool) -> str:
    """Return the URI under which SQLite reads a database and its WAL, and changes neither.

    Without a WAL the file is complete; ``without_log`` says so of any, and SQLite takes one without a header for
    none. With a WAL, SQLite shares the index that a server keeps, or makes
    one in memory if a killed server left it; the index file must exist, but may be empty. Raises
    ``LockedError`` if it does not exist and cannot be made.
    """
    _, log, index, _ = companions(path)
    name = f"{path.absolute().as_uri()}?mode=ro"
    empty = not log.exists() or (log.stat().st_size == 0 and not index.exists())
    if without_log or empty or (log.stat().st_size > 0 and not has_header(log)):
        return f"{name}&immutable=1"
    try:
        with suppress(FileExistsError):
            os.close(SYSTEM.open_private(index, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        raise LockedError(
            Verdict.UNSAFE_PATH,
            "beside the cache lies a log that a process has left, and it cannot be read in a folder "
            "that cannot be written to",
            resolution_hint="Copy the data folder to a place that can be written to, and set "
            "NOTARIUM_DATA_DIR to the copy.",
        ) from None
    return f"{name}&readonly_shm=1"


def _require_not_held(path: Path) -> None:
    """Refuse a file that another program keeps. SQLite would say that it cannot open it, or open it for reading alone."""
    if path != MEMORY and SYSTEM.is_held(path):  # defence: held-file-is-no-damage =False
        raise LockedError(
            Verdict.BUSY,
            "another program has the cache file open, and does not share it",
            resolution_hint=close_holder(path),
            agent_hint=ONE_MORE_TRY,
        )


def _open_error(path: Path) -> NotariumError:
    if path.parent.resolve() == path.parent.absolute():
        return CacheDamaged("the cache file cannot be opened")
    return LockedError(
        Verdict.UNSAFE_PATH,
        "a folder above the cache file is a symbolic link",
        resolution_hint="Give NOTARIUM_DATA_DIR without symbolic links.",
    )


def _unlock(
    database: Database, connection: Connection, key: Secret | None, *, memory_security: bool
) -> None:
    # defence: driver-log-off NONE=ERROR
    database.run("PRAGMA cipher_log_level = NONE")  # first: its own log goes to stderr
    if key is not None:
        if memory_security:
            database.run("PRAGMA cipher_memory_security = ON")
        connection.set_key(key.reveal_text())
    database.row("SELECT count(*) FROM sqlite_master")
    if key is not None and database.number("PRAGMA cipher_page_size") != PAGE_SIZE:
        raise CacheDamaged("the cache file has another page size than it was made with")


def _configure(database: Database, page_cache: int) -> None:
    for pragma in (
        # defence: temp-store-in-memory MEMORY=FILE
        "temp_store = MEMORY",  # the other setting writes notes to /var/tmp in clear
        f"cache_size = -{page_cache // 1024}",
        "mmap_size = 0",
        "secure_delete = ON",  # defence: deleted-text-wiped ON=OFF
        "foreign_keys = ON",
        "trusted_schema = OFF",
        "recursive_triggers = OFF",
        f"journal_size_limit = {16 * _MIB}",
        "wal_autocheckpoint = 0",  # see set_checkpointer
        "synchronous = NORMAL",
    ):
        database.run(f"PRAGMA {pragma}")
    if database.read_only:
        return
    if SYSTEM.flushes_fully:
        for pragma in ("fullfsync = ON", "checkpoint_fullfsync = ON"):
            database.run(f"PRAGMA {pragma}")
    mode = database.row("PRAGMA journal_mode = WAL")
    if (
        mode != ("memory" if database.in_memory else "wal",)
        or database.number("PRAGMA temp_store") != _TEMP_STORE_MEMORY  # defence: temp-store-checked
    ):
        raise CacheDamaged("the database does not accept its settings")
