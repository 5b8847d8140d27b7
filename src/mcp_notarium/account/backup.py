"""Write one file with all of an account that cannot be fetched again, and restore it, on another machine too.

The file is a zip of two that are encrypted already: a verified copy of the database, and the key file, whose every
key opens it. What is restored goes the way of the copies in ``copies/``.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from mcp_notarium.account import database_copies, opener, restoration
from mcp_notarium.account.key_changes import DEFAULTS, ChangeOptions
from mcp_notarium.account.restoration import Restored
from mcp_notarium.account.startup_actions import OpenedCache
from mcp_notarium.config import Config
from mcp_notarium.crypto import canonical_json, key_file_codec, key_slots, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged, WrongKey
from mcp_notarium.crypto.kdf import PRODUCTION, Bounds
from mcp_notarium.crypto.key_file_codec import KeyFile, SlotState, SlotType
from mcp_notarium.errors import (
    CacheError,
    CacheFull,
    ConfigError,
    InvalidRequest,
    LockedError,
    NotariumError,
    Verdict,
)
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import AccountFolder, check_folder, create_folder
from mcp_notarium.files.locks import exclusive_locks, key_lock
from mcp_notarium.files.private_files import (
    FULL,
    disk_errors,
    name_unfinished,
    open_regular,
    remove_unfinished,
    sync_folder,
)
from mcp_notarium.keys import key_file_store
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.integrity import SALT_SIZE
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.storage.table_copy import OnProgress
from mcp_notarium.stores.kind import LentTables

_KEY_FILE = "notarium_keys.json"
_DATABASE = re.compile(r"\d{8}T\d{6}Z-\d+\.sqlite\.encrypted")
_ROOM = 3
"""How many times the size of the database must be free while a backup is written."""
_ANEW = "`mcp-notarium purge`, `mcp-notarium setup --no-recovery`, and this command again."
_IN_ORDER = (
    "In this order: `mcp-notarium export PATH` takes its notes out, `mcp-notarium purge` removes it, `mcp-notarium "
    "setup --no-recovery` makes it again, this command restores the backup, `mcp-notarium import PATH` adds the notes."
)
_BROKEN = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    UnicodeDecodeError,
    KeyError,
)


def back_up(
    opened: OpenedCache,
    tables: LentTables | None,
    to: Path,
    *,
    now: float,
    bounds: Bounds = PRODUCTION,
    on_progress: OnProgress = lambda _done, _of: None,
) -> KeyFile:
    """Write the backup to ``to``, a new file of mode 0600; return the key file in it. Servers may run.

    Raises ``ConfigError`` if something is there or it cannot be written, and ``CacheError``; nothing is left.
    """
    folder, data_key = opened.anchor.folder, opened.data_key
    keyfile = key_file_store.load(folder, bounds=bounds).valid
    if data_key is None or keyfile is None or not key_slots.has_valid_mac(keyfile, data_key):
        raise ConfigError(
            "only an encrypted database with its key file can be backed up",
            resolution_hint="Run `mcp-notarium migrate-plaintext` first, or `mcp-notarium doctor`.",
        )
    with _write_errors(to), _unfinished(to) as (copy, archive):
        with closing(opened.database.open_another()) as source, source.snapshot():
            _require_free(to, source.size_bytes())
            change = 0 if tables is None else database_copies.read_last_change(source, tables)
            key = data_key.database_key(secrets.token_bytes(SALT_SIZE))
            database_opener.copy(source, copy, key, after_step=on_progress)
        database_copies.require_authentic(copy, data_key)
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        with (
            os.fdopen(os.open(archive, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "r+b") as file,
            zipfile.ZipFile(file, "w") as written,
        ):
            written.writestr(_KEY_FILE, key_file_codec.serialise(keyfile))
            written.write(copy, f"{stamp}-{change}.sqlite.encrypted")
            written.close()
            file.flush()
            os.fsync(file.fileno())
        archive.rename(to)
        sync_folder(to.parent)
    return keyfile


def _require_free(to: Path, size: int) -> None:
    """Leave room for saves beside the copy and the file."""
    free = shutil.disk_usage(to.parent).free
    if free < _ROOM * size:
        raise CacheFull(
            "there is no space for a backup; nothing was written",
            details={"needed": _ROOM * size, "free": free},
        )


def has_recovery_key(keyfile: KeyFile) -> bool:
    """Tell whether a recovery key opens the backup with this key file."""
    return any(
        slot.type is SlotType.RECOVERY and slot.state is not SlotState.DISABLED
        for slot in keyfile.slots
    )


@contextmanager
def _unfinished(to: Path) -> Iterator[tuple[Path, Path]]:
    """Give the paths of two temporary files, and remove them at the end; first those of a killed call."""
    if os.path.lexists(to):
        raise FileExistsError(to)
    remove_unfinished(to)
    paths = name_unfinished(to), name_unfinished(to)
    try:
        yield paths
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


@contextmanager
def _write_errors(to: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise ConfigError(
            f"{to} is there already; nothing was written",
            resolution_hint="Give the path of a new file.",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"the backup cannot be written: {os_errors.describe(error)}",
            resolution_hint="Give the path of a new file, in a folder you can write to and on a disk with "
            "free space.",
        ) from error


def restore(
    settings: Config,
    path: Path,
    *,
    options: ChangeOptions = DEFAULTS,
    on_progress: OnProgress = lambda _done, _of: None,
) -> Restored:
    """Restore a backup of this account. ``options.old`` must open it.

    An account that is here keeps its key file if that is of the same data key. One with another, as `setup` makes
    it on a new machine, goes to the quarantine as a whole if it holds nothing of its own.

    Raises as :func:`restoration.restore`, and ``InvalidRequest`` if it is no undamaged backup. A key file that
    was put in place stays, so that the restoration can be repeated.
    """
    folder = check_folder(settings.account_dir)
    try:
        with open_regular(path, follow=True) as file, zipfile.ZipFile(file) as archive:
            if any(one.compress_type for one in archive.infolist()):  # ours are not compressed
                raise _no_backup(path)
            names = [name for name in archive.namelist() if _DATABASE.fullmatch(name)]
            with archive.open(_KEY_FILE) as member:
                keyfile = key_file_codec.parse(
                    member.read(canonical_json.LARGEST + 1), bounds=options.bounds
                )
            if len(names) != 1:
                raise _no_backup(path)
            data_key, key = _unlock(settings, keyfile, options)
            replaces = _has_other_keys(folder, data_key, options.bounds)
            if replaces:
                _require_unused(settings, options)
            create_folder(folder)
            with archive.open(names[0]) as member:
                _place_copy(folder, member, names[0])
    except (*_BROKEN, KeyFileDamaged) as error:
        raise _no_backup(path) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # a place in the file that cannot be
            raise _no_backup(path) from error
        if error.errno in FULL:
            raise CacheFull("the disk is full: the backup cannot be put in its place") from error
        raise InvalidRequest(
            f"the backup cannot be read, or not be put in its place: {os_errors.describe(error)}",
            resolution_hint="Give the path of a file that `mcp-notarium backup` has written.",
        ) from error
    try:
        if replaces:
            _set_aside(folder, names[0], data_key, options, path)
        _place_key_file(folder, keyfile, data_key, options.bounds)
        return restoration.restore(
            settings, name=names[0], options=replace(options, old=key), on_progress=on_progress
        )
    finally:
        (folder.copies / names[0]).unlink(missing_ok=True)  # the backup itself is kept


def _no_backup(path: Path) -> InvalidRequest:
    return InvalidRequest(
        f"{path} is damaged, or no backup of an account; nothing was changed",
        resolution_hint="Give the path of a file that `mcp-notarium backup` has written.",
    )


def _unlock(settings: Config, keyfile: KeyFile, options: ChangeOptions) -> tuple[DataKey, Secret]:
    """Return data key and key. Raises ``LockedError`` and ``InvalidRequest``."""
    key = options.old
    if key is None:
        raise LockedError(
            Verdict.KEY_MISSING,
            "there is no key to open the backup with; nothing was changed",
            resolution_hint="Add --ask-key, and type a key of that time or the recovery key.",
        )
    try:
        data_key = key_slots.unlock(keyfile, key, bounds=options.bounds)
    except WrongKey:
        typo = user_key.explain_typo(key.reveal_text())
        raise LockedError(
            Verdict.WRONG_KEY,
            "the key does not open this backup"
            + (f": {typo}" if typo else "; nothing was changed"),
            resolution_hint="Compare each group with the paper, and type it again."
            if typo
            else "With --ask-key type a key that opened the account when the backup was made, or the recovery key.",
        ) from None
    valid = key_slots.has_valid_mac(keyfile, data_key)
    if not valid or not key_slots.belongs_to(keyfile, data_key, settings.owner_hash):
        raise InvalidRequest(
            "the backup is of another account; nothing was changed",
            resolution_hint="Use --account, or the settings that the account had (store, name, address).",
        )
    return data_key, key


def _place_copy(folder: AccountFolder, member: IO[bytes], name: str) -> None:
    """Put the database of the backup among the copies, where ``restoration`` demands that each page is authentic."""
    folder.copies.mkdir(mode=0o700, exist_ok=True)
    unfinished = folder.copies / f".new-{secrets.token_hex(8)}"
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as out:
            shutil.copyfileobj(member, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(folder.copies / name)
        sync_folder(folder.copies)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _has_other_keys(folder: AccountFolder, data_key: DataKey, bounds: Bounds) -> bool:
    """Tell whether the account that is here has another data key."""
    with disk_errors("the key file cannot be read"):
        there = key_file_store.load(folder, bounds=bounds).valid
    return there is not None and not key_slots.has_valid_mac(there, data_key)


def _require_unused(settings: Config, options: ChangeOptions) -> None:
    """Raise ``InvalidRequest`` unless the account that is here, as `setup` makes it, holds nothing of its own."""
    tables = settings.store.tables
    with (
        suppress(NotariumError),
        closing(
            opener.open_cache(
                replace(settings, on_unreadable="refuse"),
                bounds=options.bounds,
                read_only=True,
            )
        ) as opened,
    ):
        changed = tables is not None and database_copies.read_last_change(opened.database, tables)
        if not changed and not JournalTable(opened.database).count():
            return
    raise InvalidRequest(
        "the account here has other keys than the backup, and may hold notes or changes that are nowhere else; "
        "nothing was changed",
        resolution_hint=_IN_ORDER
        if tables
        else f"`mcp-notarium sync` stores them; or give them up: {_ANEW}",
    )


def _set_aside(
    folder: AccountFolder, copy: str, data_key: DataKey, options: ChangeOptions, backup: Path
) -> None:
    """Move the account that is here to the quarantine, once every page of the backup is authentic."""
    try:
        database_copies.require_authentic(folder.copies / copy, data_key)
    except (CacheError, OSError) as error:
        raise _no_backup(backup) from error
    with disk_errors("the account here cannot be moved"), exclusive_locks(folder):
        own = [one.path for one in database_copies.list_copies(folder) if one.path.name != copy]
        quarantine.move(folder, [*own, *quarantine.list_files(folder)], now=options.clock())


def _place_key_file(
    folder: AccountFolder, keyfile: KeyFile, data_key: DataKey, bounds: Bounds
) -> None:
    """Use the key file of the backup where none is. One that is here stays, if it is of the same data key."""
    with key_lock(folder):
        there = key_file_store.load(folder, bounds=bounds).valid
        if there is None:
            key_file_store.store(folder, keyfile, check=lambda _changed: None, bounds=bounds)
        elif not key_slots.has_valid_mac(there, data_key):
            raise InvalidRequest(
                "the account here was given other keys meanwhile; nothing was changed",
                resolution_hint="Run the command again.",
            )
