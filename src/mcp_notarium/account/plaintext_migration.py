"""Encrypt an unencrypted cache, then erase its plain bytes.

The plain database is active until the encrypted one is complete, compared and committed. Only then
is it renamed to a name that is never active, overwritten and removed. The next run continues one
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

from mcp_notarium.account import generation_writer
from mcp_notarium.account.database_creation import kdf_policy
from mcp_notarium.account.generation_writer import GenerationWriter, Step, SwitchResult
from mcp_notarium.account.key_changes import DEFAULTS, ChangeOptions
from mcp_notarium.account.slot_management import rollback_error
from mcp_notarium.account.startup_outcomes import OTHER_ACCOUNT, RESET_IF_FETCHED
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.kdf import Parameters
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import InvalidRequest, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.private_files import StepHook, sync_folder
from mcp_notarium.keys import key_file_store
from mcp_notarium.keys.key_file_store import KeyFiles
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener, migrations
from mcp_notarium.storage.database_opener import Database, companions
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
    """Hold how many notes the encrypted cache has; ``state``: whether the unencrypted files are gone."""

    notes: int
    state: SwitchResult


def encrypt_plain(
    settings: Config,
    key: Secret,
    *,
    parameters: Parameters | None = None,
    on_progress: OnProgress = lambda _done, _of: None,
    options: ChangeOptions = DEFAULTS,
) -> EncryptionResult:
    """Encrypt the plain cache under ``key``, then erase the plain one.

    Raises ``InvalidRequest`` if there is no plain cache, ``CacheFull``, ``CacheDamaged``, and
    ``LockedError`` (OTHER_OWNER, SCHEMA_NEWER, MIGRATION_FAILED, WRONG_KEY, MODE_MISMATCH, BUSY),
    with the plain cache as it was. Once the encrypted one is active, what fails is in its ``state``.
    """
    folder = check_folder(settings.account_dir)
    if not folder.plain_database.is_file() and not folder.plain_remains.is_file():
        raise InvalidRequest(
            "there is no unencrypted cache here",
            resolution_hint="No action is needed; `mcp-notarium status` tells what there is.",
        )
    cost = parameters or kdf_policy(settings).parameters_for()
    with generation_writer.hold_alone(settings, folder, options, on_progress, _UNUSABLE) as writer:
        files = key_file_store.load(folder, bounds=options.bounds)
        keyfile = files.valid
        if keyfile is not None and not folder.database(keyfile.generation).exists():
            keyfile = None
        if not folder.plain_database.is_file():
            if keyfile is None:
                raise _missing_encrypted_error()
            return _finish_interrupted(writer, files, keyfile, key)
        with _open_plain(folder, settings) as plain, _open_log(folder) as log:
            if keyfile is not None:
                return _finish_interrupted(writer, files, keyfile, key, plain=plain, log=log)
            writer.quarantine_unknown(files.valid)
            return _encrypt(writer, plain, log, key, cost)


def _open_log(folder: AccountFolder) -> AbstractContextManager[FileIO | None]:
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


def erase(path: Path) -> None:
    """Overwrite a file and remove it, if it is there.

    Follows no link: what is not a regular file is only removed. Overwriting reaches as far as the
    file system lets it, see ``SURVIVES``. Raises ``OSError``.
    """
    flags = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    if not path.is_symlink() and path.is_file():
        with FileIO(os.open(path, flags), "wb") as file:
            overwrite(file)
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def _open_plain(folder: AccountFolder, settings: Config) -> Iterator[Database]:
    """Open the plain database, if it is this account's and of this release."""
    with closing(database_opener.connect(folder.plain_database, None)) as plain:
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
                resolution_hint=OTHER_ACCOUNT,
            )
        # So that the main file is the whole of it; the log is not cut: its bytes are to be erased.
        plain.run("PRAGMA wal_checkpoint(FULL)")
        yield plain


def _encrypt(
    writer: GenerationWriter,
    plain: Database,
    log: FileIO | None,
    key: Secret,
    parameters: Parameters,
) -> EncryptionResult:
    """Create the encrypted cache beside the plain one, then erase that."""
    folder, options = writer.folder, writer.options
    writer.require_space(plain)
    data_key = DataKey.generate()
    keyfile = key_slots.build(
        data_key=data_key,
        passphrase=key,
        parameters=parameters,
        owner_hash=writer.settings.owner_hash,
        now=int(options.clock()),
        bounds=options.bounds,
    )
    notes = writer.copy(plain, keyfile, data_key, old_key=None, replaces="", why="encrypted")
    clear = partial(_erase_plain, folder, plain, log, options.at)
    state = writer.switch(keyfile, replaced=_plain_files(folder), clear=clear)
    return EncryptionResult(notes, state)


def _missing_encrypted_error() -> LockedError:
    return LockedError(
        Verdict.DATABASE_MISSING,
        "the encrypted cache that has taken the place of the unencrypted one is not here",
        resolution_hint="Put it back." + RESET_IF_FETCHED,
    )


def _finish_interrupted(
    writer: GenerationWriter,
    files: KeyFiles,
    keyfile: KeyFile,
    key: Secret,
    *,
    plain: Database | None = None,
    log: FileIO | None = None,
) -> EncryptionResult:
    """Compare the encrypted cache of an interrupted run with the plain one, then do what is left: erase.

    ``plain`` None: that run was erasing it, after it had compared them.
    """
    folder, options = writer.folder, writer.options
    data_key = key_slots.unlock(keyfile, key, bounds=options.bounds)
    ahead = files.copy_ahead
    if ahead is not None and key_slots.has_valid_mac(ahead, data_key):
        raise rollback_error()
    notes = _compare_and_count(folder, plain, keyfile, data_key)

    def make_durable() -> bool:
        key_file_store.finish_interrupted_change(folder, files, now=options.clock())
        sync_folder(folder.path)
        return True

    def clear() -> None:
        writer.quarantine_unknown(keyfile)
        _erase_plain(folder, plain, log, options.at)

    state = generation_writer.clear_replaced(make_durable, _plain_files(folder), clear)
    return EncryptionResult(notes, state)


def _compare_and_count(
    folder: AccountFolder, plain: Database | None, keyfile: KeyFile, data_key: DataKey
) -> int:
    """Count the notes of an encrypted cache that is active already; its rows must be the same.

    ``plain`` None: an earlier run has compared them.
    """
    key = data_key.database_key(keyfile.database_salt)
    with closing(database_opener.connect(folder.database(keyfile.generation), key)) as encrypted:
        if plain is not None and not generation_writer.has_same_rows(plain, encrypted):
            raise LockedError(
                Verdict.MODE_MISMATCH,
                "an encrypted cache with other content lies beside the unencrypted one",
                resolution_hint="Look which of the two you want, and move the other one out of the "
                "data folder." + RESET_IF_FETCHED,
            )
        return encrypted.number("SELECT count(*) FROM notes")
