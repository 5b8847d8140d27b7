"""Encrypt the cache of the plain mode, then erase the plain bytes.

The plain database is in force until the encrypted one is complete, compared and committed. Only then
is it renamed to a name that is never in force, overwritten and removed. The next run continues one
that was cut short.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path

from mcp_notarium.account import database_generation
from mcp_notarium.account.database_generation import Step, SwitchResult
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.account.slot_management import rollback_error
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.kdf import Parameters
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import InvalidRequest, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.locks import exclusive_locks
from mcp_notarium.files.private_files import StepHook, disk_errors, sync_folder
from mcp_notarium.keys import key_file
from mcp_notarium.keys.key_file import KeyFiles
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_files, migrations
from mcp_notarium.storage.database_files import Database, companions
from mcp_notarium.storage.table_copy import OnProgress

SURVIVES = (
    "On SSDs, copy-on-write file systems, in snapshots and in backups old bytes can survive, and so "
    "can what SQLite gave back to the file system before; only disk encryption and the end of those "
    "copies help there."
)
_UNUSABLE = "the cache cannot be encrypted"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class EncryptionResult:
    """Hold what is in force. ``notes``: how many there are in the encrypted cache.

    ``state`` says whether the unencrypted files are gone.
    """

    generation: str
    notes: int
    state: SwitchResult


def encrypt_plain(
    settings: Config,
    key: Secret,
    *,
    parameters: Parameters | None = None,
    told: OnProgress = lambda _done, _of: None,
    options: ChangeOptions | None = None,
) -> EncryptionResult:
    """Encrypt the plain cache under ``key``, then erase the plain one.

    Raises ``InvalidRequest`` if there is no plain cache, ``CacheFull``, ``CacheDamaged``, and
    ``LockedError`` (OTHER_OWNER, SCHEMA_NEWER, MIGRATION_FAILED, WRONG_KEY, MODE_MISMATCH, BUSY),
    with the plain cache as it was. Once the encrypted one is in force, what fails is in its ``state``.
    """
    options = options or ChangeOptions()
    folder = check_folder(settings.account_dir)
    if not folder.plain_database.is_file() and not folder.plain_remains.is_file():
        raise InvalidRequest(
            "there is no unencrypted cache here",
            resolution_hint="Nothing is to be done; `mcp-notarium status` tells what there is.",
        )
    cost = parameters or database_generation.kdf_parameters(settings)
    with disk_errors(_UNUSABLE), exclusive_locks(folder, timeout=options.timeout):
        options.at(Step.ALONE)
        work = _Work(settings, folder, key, cost, told, options)
        if not folder.plain_database.is_file():
            return work.encrypted_before()
        with _plain(folder, settings) as plain, _log(folder) as log:
            return work.encrypted(plain, log)


def _log(folder: AccountFolder) -> AbstractContextManager[FileIO | None]:
    """Open the log of the plain database: its bytes can be erased when its name is gone."""
    log = companions(folder.plain_database)[1]
    return FileIO(log, "r+") if log.exists() else nullcontext()


def _plain_files(folder: AccountFolder) -> tuple[Path, ...]:
    """List the files in which notes stand in clear."""
    return (*companions(folder.plain_database), folder.plain_remains)


def _erase_plain(
    folder: AccountFolder, plain: Database | None, log: FileIO | None, at: StepHook
) -> None:
    """Erase the plain database, under a name that is never taken for a cache.

    Its log is not touched before: after a crash SQLite would play half of it back.
    """
    if plain is not None:
        plain.close()  # which removes the log
    erase(folder.plain_remains)  # of an earlier run
    if folder.plain_database.exists():
        folder.plain_database.rename(folder.plain_remains)
        sync_folder(folder.path)
    at(Step.RETIRE)
    if log is not None:
        overwrite(log)
        log.close()
    for file in _plain_files(folder):
        erase(file)
    folder.pending_marker.unlink(missing_ok=True)
    at(Step.REMOVE)


def overwrite(file: FileIO) -> None:
    """Write zeros over an open file, whatever its name is by now, flush, cut it to nothing."""
    file.seek(0)
    left = os.fstat(file.fileno()).st_size
    while left > 0:
        left -= file.write(bytes(min(left, _CHUNK)))
    os.fsync(file.fileno())
    file.truncate(0)
    os.fsync(file.fileno())


def erase(path: Path) -> bool:
    """Overwrite a file and remove it; False if it was not there.

    Follows no link: what is not a regular file is only removed. Overwriting reaches as far as the
    file system lets it, see ``SURVIVES``. Raises ``OSError``.
    """
    flags = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    if not path.is_symlink() and path.is_file():
        with FileIO(os.open(path, flags), "wb") as file:
            overwrite(file)
    elif not path.is_symlink() and not path.exists():
        return False
    path.unlink()
    sync_folder(path.parent)
    return True


@contextmanager
def _plain(folder: AccountFolder, settings: Config) -> Iterator[Database]:
    """Open the plain database, if it is this account's and of this release."""
    with closing(database_files.connect(folder.plain_database, None)) as plain:
        state = migrations.state(plain)
        if not state.ours or state.newer_than() or state.older_than():
            raise LockedError(
                Verdict.SCHEMA_NEWER if state.newer_than() else Verdict.MIGRATION_FAILED,
                f"the unencrypted cache has schema {state.version}, this release has "
                f"{migrations.SCHEMA_VERSION}",
                resolution_hint="Start a server once with DB_ENCRYPTION=off and this release, then "
                "try again.",
            )
        owner = plain.row("SELECT value FROM sync_metadata WHERE key = 'owner_identity_hash'")
        if owner != (settings.owner_hash,):
            raise LockedError(
                Verdict.OTHER_OWNER,
                "the unencrypted cache belongs to another account",
                resolution_hint="Check SIMPLENOTE_USERNAME.",
            )
        # So that the main file is the whole of it; the log is not cut: its bytes are to be erased.
        plain.run("PRAGMA wal_checkpoint(FULL)")
        yield plain


@dataclass(frozen=True, slots=True)
class _Work:
    settings: Config
    folder: AccountFolder
    key: Secret
    parameters: Parameters
    told: OnProgress
    options: ChangeOptions

    def encrypted(self, plain: Database, log: FileIO | None) -> EncryptionResult:
        """Create the encrypted cache beside the plain one, or take that of an interrupted run."""
        options, folder = self.options, self.folder
        files = key_file.load(folder, bounds=options.bounds)
        counts = files.valid
        if counts is not None and folder.database(counts.generation).exists():
            return self._gone_on_with(files, counts, plain, log)
        database_generation.quarantine_leftovers(folder, counts, now=options.clock())
        database_generation.demand_room(folder, plain)
        data_key = DataKey.generate()
        made = key_slots.build(
            data_key=data_key,
            passphrase=self.key,
            parameters=self.parameters,
            username=self.settings.username,
            now=int(options.clock()),
            bounds=options.bounds,
        )
        carry = database_generation.AuditTransfer(None, "", options.clock(), "encrypted")
        notes = database_generation.write(
            folder, plain, made, data_key, told=self.told, at=options.at, carry=carry
        )
        clear = partial(_erase_plain, folder, plain, log, options.at)
        state = database_generation.switch(
            folder, made, replaced=_plain_files(folder), clear=clear, at=options.at
        )
        return EncryptionResult(made.generation, notes, state)

    def encrypted_before(self) -> EncryptionResult:
        """Take the encrypted cache of a run that was interrupted while it erased the plain one."""
        files = key_file.load(self.folder, bounds=self.options.bounds)
        counts = files.valid
        if counts is None or not self.folder.database(counts.generation).exists():
            raise LockedError(
                Verdict.DATABASE_MISSING,
                "the encrypted cache that has taken the place of the unencrypted one is not here",
                resolution_hint="Put it back, or run `mcp-notarium reset-cache`, which sets "
                "everything aside and loads a new one.",
            )
        return self._gone_on_with(files, counts, None, None)

    def _gone_on_with(
        self, files: KeyFiles, counts: KeyFile, plain: Database | None, log: FileIO | None
    ) -> EncryptionResult:
        """Compare, then do what is left: erase."""
        folder, options = self.folder, self.options
        data_key = key_slots.unlock(counts, self.key, bounds=options.bounds)
        ahead = files.copy_ahead
        if ahead is not None and key_slots.has_valid_mac(ahead, data_key):
            raise rollback_error()
        notes = _compared(folder, plain, counts, data_key)

        def at_rest() -> bool:
            key_file.finish_interrupted_change(folder, files, now=options.clock())
            sync_folder(folder.path)
            return True

        def clear() -> None:
            database_generation.quarantine_leftovers(folder, counts, now=options.clock())
            _erase_plain(folder, plain, log, options.at)

        state = database_generation.clear_replaced(at_rest, _plain_files(folder), clear)
        return EncryptionResult(counts.generation, notes, state)


def _compared(
    folder: AccountFolder, plain: Database | None, counts: KeyFile, data_key: DataKey
) -> int:
    """Count the notes of an encrypted cache that is in force already; its rows must be the same.

    ``plain`` None: an earlier run has compared them.
    """
    key = data_key.database_key(counts.database_salt)
    with closing(database_files.connect(folder.database(counts.generation), key)) as made:
        if plain is not None and not database_generation.has_same_rows(plain, made):
            raise LockedError(
                Verdict.MODE_MISMATCH,
                "an encrypted cache with other content lies beside the unencrypted one",
                resolution_hint="Look which of the two you want; `mcp-notarium reset-cache` sets "
                "both aside and loads a new one.",
            )
        return made.number("SELECT count(*) FROM notes")
