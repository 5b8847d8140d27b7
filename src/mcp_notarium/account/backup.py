"""Write one file with all of an account that cannot be fetched again, and restore it, on another machine too.

The file is a zip of two that are encrypted already: a verified copy of the database, and the key file, whose every key
opens it. What is restored goes the way of the copies in ``copies/``. Only the key file is put back if it alone is lost
or old.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from mcp_notarium.account import copies, opener, repair, startup_hints
from mcp_notarium.account.generation import OpenedCache
from mcp_notarium.account.key_changes import DEFAULTS, ChangeOptions, record_restored
from mcp_notarium.account.repair import Restored
from mcp_notarium.config import Config
from mcp_notarium.crypto import canonical_json, key_file_codec, key_slots, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged, WrongKey
from mcp_notarium.crypto.key_file_codec import KeyFile, SlotType
from mcp_notarium.errors import (
    CacheDamaged,
    CacheError,
    CacheFull,
    ConfigError,
    InvalidRequest,
    LockedError,
    NotariumError,
    Verdict,
)
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import (
    AccountFolder,
    check_folder,
    create_folder,
    path_length,
)
from mcp_notarium.files.locks import ServerLock, exclusive_locks, key_lock
from mcp_notarium.files.private_files import (
    StepHook,
    disk_errors,
    ignore_step,
    is_there,
    name_unfinished,
    open_regular,
    output_errors,
    read_private,
    remove_unfinished,
    replace_private,
    require_free,
    sync_folder,
)
from mcp_notarium.keys import key_file_store
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.integrity import SALT_SIZE
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.storage.table_copy import OnProgress
from mcp_notarium.stores.kind import LentTables
from mcp_notarium.system import SYSTEM

_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR
_KEY_FILE = "notarium_keys.json"
_ZIP = b"PK"
_DATABASE = re.compile(r"\d{8}T\d{6}Z-\d+\.sqlite\.encrypted")
_ROOM = 3
"""Multiple of the database's size that must be free while a backup is written."""
_BINDING_ROWS = "SELECT key, value FROM sync_metadata WHERE key IN ('vault_id', 'key_sequence')"
_ANEW = "`mcp-notarium purge`, `mcp-notarium setup --no-recovery`, and this command again."
_IN_ORDER = (
    "In this order: `mcp-notarium export PATH` takes its notes out, `mcp-notarium purge` removes it, `mcp-notarium "
    "setup --no-recovery` makes it again, this command restores the backup, `mcp-notarium import PATH` adds the notes."
)
_BROKEN = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, UnicodeError, KeyError)


def back_up(
    opened: OpenedCache,
    tables: LentTables | None,
    to: Path,
    *,
    now: float,
    on_progress: OnProgress = lambda _done, _of: None,
) -> KeyFile:
    """Write the backup to ``to``, a new file of mode 0600; return the key file in it. Servers may run.

    Raises ``ConfigError`` if something is there or it cannot be written, and ``CacheError``; nothing is left.
    """
    folder, data_key = opened.anchor.folder, opened.data_key
    keyfile = key_file_store.load(folder).valid
    if data_key is None or keyfile is None or not key_slots.has_valid_mac(keyfile, data_key):
        raise ConfigError(
            "only an encrypted database with its key file can be backed up",
            resolution_hint="Run `mcp-notarium export PATH` to have the notes of an unencrypted one elsewhere.",
        )
    with _new_file(to) as (copy, archive):
        with closing(opened.database.open_another()) as source, source.snapshot():
            require_free(to.parent, _ROOM * source.size_bytes(), "no backup was written")
            change = 0 if tables is None else copies.read_last_change(source, tables)
            key = data_key.database_key(secrets.token_bytes(SALT_SIZE))
            database_opener.copy(source, copy, key, after_step=on_progress)
        copies.require_authentic(copy, data_key)  # defence: backup-read-back
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        with (
            os.fdopen(SYSTEM.open_private(archive, _NEW), "r+b") as file,
            zipfile.ZipFile(file, "w") as written,
        ):
            written.writestr(_KEY_FILE, key_file_codec.serialise(keyfile))
            written.write(copy, f"{stamp}-{change}.sqlite.encrypted")
            written.close()
            file.flush()
            SYSTEM.flush(file.fileno())
        SYSTEM.remove(copy)
        sync_folder(to.parent)  # a kill from here on leaves nothing next to the backup
        SYSTEM.move(archive, to)
        sync_folder(to.parent)
    return keyfile


def has_recovery_key(keyfile: KeyFile) -> bool:
    """Tell whether a recovery key opens the backup with this key file."""
    return any(slot.type is SlotType.RECOVERY for slot in keyfile.slots)


@contextmanager
def _new_file(to: Path) -> Iterator[tuple[Path, Path]]:
    """Give the paths of two temporary files, and remove them at the end; first those of a killed call.

    Raises ``ConfigError`` if something is there or it cannot be written.
    """
    paths = name_unfinished(to), name_unfinished(to)
    try:
        with output_errors(to, "the backup"):
            if is_there(to):  # defence: backup-overwrites-nothing
                raise FileExistsError(to)
            _require_short(paths[0])
            remove_unfinished(to)
            yield paths
    finally:
        for path in paths:
            SYSTEM.remove(path)


def _require_short(path: Path) -> None:
    """Raise ``ConfigError`` for a path that SQLite does not take."""
    most, length = SYSTEM.longest_path, path_length(path) + len("-journal")
    if most is not None and length > most:  # defence: too-long-backup-told =False
        raise ConfigError(
            f"the path of the backup is {length - most} characters too long; nothing was written",
            resolution_hint="Give a shorter path.",
        )


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

    Raises as :func:`repair.restore`, and ``InvalidRequest`` if it is no undamaged backup. A key file that
    was put in place stays, so that the restoration can be repeated.
    """
    folder = check_folder(settings.account_dir)
    try:
        with open_regular(path, follow=True) as file, zipfile.ZipFile(file) as archive:
            if any(one.compress_type for one in archive.infolist()):  # ours are not compressed
                raise _no_backup(path)
            names = [name for name in archive.namelist() if _DATABASE.fullmatch(name)]
            keyfile = _read_member(archive)
            if len(names) != 1:
                raise _no_backup(path)
            data_key, key = _unlock(settings, keyfile, options)
            replaces = _has_other_keys(folder, data_key)
            if replaces:
                _require_unused(settings)
            create_folder(folder)
            with archive.open(names[0]) as member:
                _place_copy(folder, member, names[0])
    except (*_BROKEN, KeyFileDamaged) as error:
        raise _no_backup(path) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # a place in the file that cannot be
            raise _no_backup(path) from error
        if error.errno in os_errors.FULL:
            raise CacheFull("the backup cannot be put in its place") from error
        raise InvalidRequest(
            f"the backup cannot be read, or not be put in its place: {os_errors.describe(error)}",
            resolution_hint="Give the path of a file that `mcp-notarium backup` has written.",
        ) from error
    try:
        if replaces:
            _set_aside(folder, names[0], data_key, options, path)
        _place_key_file(folder, keyfile, data_key)
        return repair.restore(
            settings, name=names[0], options=replace(options, old=key), on_progress=on_progress
        )
    finally:
        with suppress(OSError):  # what stays is a copy like others; the backup itself is kept
            SYSTEM.remove(folder.copies / names[0])


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
        data_key = key_slots.unlock(keyfile, key)
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
    # defence: backup-of-other-owner -belongs_to
    if not valid or not key_slots.belongs_to(keyfile, data_key, settings.owner_hash):
        raise InvalidRequest(
            "the backup is of another account; nothing was changed",
            resolution_hint="Use --account, or the settings that the account had (store, name, address).",
        )
    return data_key, key


def _place_copy(folder: AccountFolder, member: IO[bytes], name: str) -> None:
    """Put the database of the backup among the copies, where ``repair`` demands that each page is authentic."""
    folder.copies.mkdir(mode=0o700, exist_ok=True)
    unfinished = folder.copies / f".new-{secrets.token_hex(8)}"
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with os.fdopen(SYSTEM.open_private(unfinished, flags), "wb") as out:
            shutil.copyfileobj(member, out, 1 << 20)
            out.flush()
            SYSTEM.flush(out.fileno())
        SYSTEM.move(unfinished, folder.copies / name)
        sync_folder(folder.copies)
    except BaseException:
        SYSTEM.remove(unfinished)
        raise


def _has_other_keys(folder: AccountFolder, data_key: DataKey) -> bool:
    """Tell whether the account that is here has another data key."""
    with disk_errors("the key file cannot be read"):
        there = key_file_store.load(folder).valid
    return there is not None and not key_slots.has_valid_mac(there, data_key)


def _require_unused(settings: Config) -> None:
    """Raise ``InvalidRequest`` unless the account that is here, as `setup` makes it, holds nothing of its own."""
    tables = settings.store.tables
    with (
        suppress(NotariumError),
        closing(
            opener.open_cache(replace(settings, on_unreadable="refuse"), read_only=True)
        ) as opened,
    ):
        changed = tables is not None and copies.read_last_change(opened.database, tables)
        # defence: backup-keeps-account-keys =True
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
        copies.require_authentic(folder.copies / copy, data_key)  # defence: damaged-backup-no-room
    except (CacheError, OSError) as error:
        raise _no_backup(backup) from error
    with disk_errors("the account here cannot be moved"), exclusive_locks(folder):
        own = [one.path for one in copies.list_copies(folder) if one.path.name != copy]
        quarantine.move(folder, [*own, *quarantine.list_files(folder)], now=options.clock())


def _place_key_file(folder: AccountFolder, keyfile: KeyFile, data_key: DataKey) -> None:
    """Use the key file of the backup where none is. One that is here stays, if it is of the same data key."""
    with key_lock(folder):
        there = key_file_store.load(folder).valid
        if there is None:
            key_file_store.store(folder, keyfile, check=lambda _changed: None)
        elif not key_slots.has_valid_mac(there, data_key):
            raise InvalidRequest(
                "the account here was given other keys meanwhile; nothing was changed",
                resolution_hint="Run the command again.",
            )


@dataclass(frozen=True, slots=True)
class RestoredKeyFile:
    """Hold what was restored."""

    keyfile: KeyFile
    quarantine: Path | None
    """The folder in the quarantine that has the key file of before; None: there was none."""
    copied: bool
    """Its copy was written; else the next start does that."""


def restore_key_file(
    settings: Config, path: Path | None, key: Secret, *, at: StepHook = ignore_step
) -> RestoredKeyFile:
    """Restore the key file of a backup, or a copy of the file itself, once ``key`` has opened the database with it.

    ``path`` None: the copy next to the key file. A copy of another cache is refused, and one that is
    older than what the database has been opened with: a key that was changed must not open it again. Raises
    ``LockedError`` and ``ConfigError`` with the key file as it was.
    """
    folder = check_folder(settings.account_dir)
    backup = _read_key_file(path or folder.key_copy)
    data_key = key_slots.unlock(backup, key)
    if not folder.database(backup.generation).exists():
        raise LockedError(
            Verdict.DATABASE_MISSING,
            "the database that this key file belongs to is not here",
            resolution_hint=f"Put `{folder.database(backup.generation).name}` back first, take another copy, or "
            "restore a whole backup: `mcp-notarium restore --backup PATH`.",
        )

    def opens(changed: KeyFile) -> None:
        if key_slots.unlock(changed, key) != data_key:
            raise KeyFileDamaged("the new key file does not open")

    with disk_errors("the key file cannot be put back"), key_lock(folder):
        there = key_file_store.load(folder)
        for found in (there.main.keyfile, there.copy.keyfile):
            newer = found is not None and found.sequence > backup.sequence
            if found is not None and newer and key_slots.has_valid_mac(found, data_key):
                raise _older_error(backup, found.sequence, "that lies there")
        _require_fit(folder, backup, data_key)
        quarantined = _copy_to_quarantine(folder, now=time.time())
        at("kept")
        copied = key_file_store.store(folder, backup, check=opens, at=at)
        record_restored(folder, backup, data_key, at=time.time())
    return RestoredKeyFile(backup, quarantined, copied)


def _older_error(backup: KeyFile, newest: int, which: str) -> LockedError:
    return LockedError(
        Verdict.ROLLBACK_SEEN,
        f"this copy is older (number {backup.sequence}) than the key file {which} (number {newest})",
        resolution_hint="Take a newer copy: keys that were changed or removed since this one "
        "was made would open the notes again.",
    )


def _require_fit(folder: AccountFolder, backup: KeyFile, data_key: DataKey) -> None:
    """Raise unless the database opens with this key file and was never opened with a newer one."""
    server_lock = ServerLock(folder)
    try:
        server_lock.share()
        path = folder.database(backup.generation)
        with closing(
            database_opener.connect(path, data_key.database_key(backup.database_salt))
        ) as opened:
            seen: dict[str, str] = dict(opened.rows(_BINDING_ROWS))
    except CacheDamaged as error:
        raise CacheDamaged(
            "the database does not open with this copy: it is damaged, or of another cache",
            resolution_hint=startup_hints.BEGIN_ANEW,
        ) from error
    finally:
        server_lock.release()
    if seen.get("vault_id") != backup.vault_id:
        raise LockedError(
            Verdict.ROLLBACK_SEEN,
            "the database says that it belongs to another key file",
            resolution_hint="Take a copy that was made of this cache.",
        )
    if int(seen.get("key_sequence", "0")) > backup.sequence:
        raise _older_error(backup, int(seen["key_sequence"]), "the database was last opened with")


def _copy_to_quarantine(folder: AccountFolder, *, now: float) -> Path | None:
    """Copy what is there into the quarantine; the originals stay until they are replaced."""
    found = {
        path.name: content
        for path in (folder.key_file, folder.key_copy)
        if (content := read_private(path, most=canonical_json.LARGEST)) is not None
    }
    if not found:
        return None
    target = quarantine.create_folder(folder, now)
    for name, content in found.items():
        replace_private(target / name, content)
    return target


def _read_key_file(path: Path) -> KeyFile:
    """Read the key file in a backup, or a key file. Raises ``ConfigError``."""
    try:
        with open_regular(path, follow=True) as file:
            raw = file.read(canonical_json.LARGEST + 1)
            if raw.startswith(_ZIP):
                with zipfile.ZipFile(file) as archive:
                    return _read_member(archive)
        return key_file_codec.parse(raw)
    except OSError as error:
        raise ConfigError(
            f"the copy cannot be read: {os_errors.describe(error)}",
            resolution_hint="Give the path of a file that `mcp-notarium backup` has written.",
        ) from error
    except (*_BROKEN, KeyFileDamaged) as error:
        raise ConfigError(
            f"the copy is damaged or no key file: {getattr(error, 'reason', 'it is no backup')}",
            resolution_hint="Take another file that `mcp-notarium backup` has written. Nothing was changed.",
        ) from error


def _read_member(archive: zipfile.ZipFile) -> KeyFile:
    with archive.open(_KEY_FILE) as member:
        return key_file_codec.parse(member.read(canonical_json.LARGEST + 1))
