"""Migrate a database to the program's schema, after copying it and checking the copy.

No other process has the file open meanwhile. The copy stays in the quarantine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from contextlib import closing
from pathlib import Path

from mcp_notarium.account import startup_table
from mcp_notarium.account.inspection import Inspector
from mcp_notarium.account.startup_outcomes import RESET_IF_FETCHED, Migrate
from mcp_notarium.config import Config
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import CacheBusy, CacheError, CacheFull, LockedError, Verdict
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder, check_folder, folder_errors
from mcp_notarium.files.locks import ServerLock
from mcp_notarium.files.private_files import sync_folder
from mcp_notarium.storage import database_opener, integrity, migrations
from mcp_notarium.storage.database import Database


def migrate(
    folder: AccountFolder,
    path: Path,
    data_key: DataKey | None,
    keyfile: KeyFile | None,
    *,
    now: float,
) -> Path:
    """Migrate a database after checking a copy; return the copy. Raises ``LockedError`` (MIGRATION_FAILED).

    The database was closed by its last user, which has moved the log into it.
    """
    if database_opener.has_log(path):
        raise _migration_error("a write-ahead log is left beside it")
    key = None
    if data_key is not None and keyfile is not None:
        key = data_key.database_key(keyfile.database_salt)
    try:
        copy = _copy_database(path, quarantine.create_folder(folder, now) / path.name)
        _check(path, copy, data_key, keyfile)
        with closing(database_opener.connect(path, key)) as opened:
            migrations.migrate(opened)
    except CacheError as error:
        raise _migration_error(error.message) from error
    return copy


def rehearse(settings: Config) -> None:
    """Take every step of the migration and undo it, so that a failure is known before a start.

    The database is as before. Does nothing where it is in use or needs no migration. Raises
    ``LockedError`` (MIGRATION_FAILED) if it does not go through, ``CacheFull`` if there is no space for
    it, and ``LockedError`` (BUSY) while another process holds the folder alone.
    """
    folder = check_folder(settings.account_dir)
    with folder_errors(folder):
        server_lock = ServerLock(folder)
        try:
            server_lock.share()
            with closing(Inspector(settings).inspect(now=time.time())) as inspection:
                if inspection.database is not None and isinstance(
                    startup_table.decide(inspection.seen), Migrate
                ):
                    _rehearse(inspection.database)
        finally:
            server_lock.release()


def _rehearse(database: Database) -> None:
    try:
        migrations.rehearse(database)
    except CacheBusy:
        return
    except CacheFull:
        raise
    except CacheError as error:
        raise _migration_error(error.message) from error


def _copy_database(path: Path, copy: Path) -> Path:
    descriptor = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with path.open("rb") as source, os.fdopen(descriptor, "wb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    sync_folder(copy.parent)
    return copy


def _check(path: Path, copy: Path, data_key: DataKey | None, keyfile: KeyFile | None) -> None:
    if _digest(path) != _digest(copy):
        raise _migration_error("the copy differs from the original")
    if data_key is None or keyfile is None:
        return
    found = integrity.sample(copy, data_key.page_mac_key(), keyfile.database_salt, every=True)
    if found.bad:
        raise _migration_error("the database has damaged pages")


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _migration_error(reason: str) -> LockedError:
    """Return the error for a cache that cannot be migrated."""
    return LockedError(
        Verdict.MIGRATION_FAILED,
        f"the database could not be brought to this release's schema: {reason}",
        resolution_hint="Nothing was lost. Go back to the release you had before."
        + RESET_IF_FETCHED,
    )
