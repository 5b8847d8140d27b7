"""Back up the key file to a safe place, and restore it.

A copy opens with every key that opened the cache when it was made, also with keys that were changed since.
Whoever has the copy, such a key and the database can read the notes.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.account import startup_outcomes
from mcp_notarium.account.key_changes import record_restored
from mcp_notarium.account.slot_management import list_slots, rollback_error
from mcp_notarium.config import Config
from mcp_notarium.crypto import canonical_json, key_file_codec, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.crypto.kdf import PRODUCTION, Bounds
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import CacheDamaged, ConfigError, LockedError, Verdict
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.locks import ServerLock, key_lock
from mcp_notarium.files.private_files import (
    StepHook,
    create_private,
    disk_errors,
    ignore_step,
    read_private,
    replace_private,
)
from mcp_notarium.keys import key_file_store
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener


def back_up(
    settings: Config,
    to: Path,
    *,
    key: Secret | None = None,
    bounds: Bounds = PRODUCTION,
    at: StepHook = ignore_step,
) -> KeyFile:
    """Write the key file to ``to``, a new file of mode 0600, flushed; return what was written.

    ``key`` is needed only where the copy beside the key file says that it is newer: it proves whether
    that is true. Raises ``ConfigError`` if something is there already or it cannot be written, and
    ``LockedError`` if there is no key file that could be copied; nothing new is left then.
    """
    listed = list_slots(settings, key, bounds=bounds)
    if listed.uncertain:
        raise rollback_error()
    found = listed.keyfile
    try:
        create_private(to, key_file_codec.serialise(found), at=at)
    except OSError as error:
        raise ConfigError(
            f"the copy cannot be written: {os_errors.describe(error)}",
            resolution_hint="Give the path of a new file, in a folder you can write to and on a disk "
            "with free space.",
        ) from error
    return found


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """Hold what was restored. ``quarantine``: where the key file that was there has gone, if any.

    ``copied``: its copy was written; else the next start does that.
    """

    keyfile: KeyFile
    quarantine: Path | None
    copied: bool


def restore(
    settings: Config,
    copy: Path,
    key: Secret,
    *,
    bounds: Bounds = PRODUCTION,
    at: StepHook = ignore_step,
) -> RestoreResult:
    """Restore a copy of the key file, after ``key`` has opened the database with it.

    A copy of another cache is refused, and one that is older than what the database has been opened
    with: a key that was changed must not open it again. Raises ``LockedError`` and
    ``ConfigError`` with the key file as it was.
    """
    backup = _read(copy, bounds)
    data_key = key_slots.unlock(backup, key, bounds=bounds)
    folder = check_folder(settings.account_dir)
    if not folder.database(backup.generation).exists():
        raise LockedError(
            Verdict.DATABASE_MISSING,
            "the database this copy belongs to is not here",
            resolution_hint=f"Put `{folder.database(backup.generation).name}` back first, or take "
            "another copy.",
        )

    def opens(changed: KeyFile) -> None:
        if key_slots.unlock(changed, key, bounds=bounds) != data_key:
            raise KeyFileDamaged("the new key file does not open")

    with disk_errors("the key file cannot be put back"), key_lock(folder):
        _require_newest(folder, backup, data_key, bounds)
        _require_fit(folder, backup, data_key)
        quarantined = _copy_to_quarantine(folder, now=time.time())
        at("kept")
        copied = key_file_store.store(folder, backup, check=opens, bounds=bounds, at=at)
        record_restored(folder, backup, data_key, at=time.time())
    return RestoreResult(backup, quarantined, copied)


def _require_newest(
    folder: AccountFolder, backup: KeyFile, data_key: DataKey, bounds: Bounds
) -> None:
    """Raise if a newer key file of the same data key lies there."""
    there = key_file_store.load(folder, bounds=bounds)
    for found in (there.main.keyfile, there.copy.keyfile):
        newer = found is not None and found.sequence > backup.sequence
        if found is not None and newer and key_slots.has_valid_mac(found, data_key):
            raise _older_error(backup, found.sequence, "that lies there")


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
            resolution_hint=startup_outcomes.BEGIN_ANEW,
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


def _read(copy: Path, bounds: Bounds) -> KeyFile:
    try:
        with copy.open("rb") as file:
            raw = file.read(canonical_json.LARGEST + 1)
    except OSError as error:
        raise ConfigError(
            f"the copy cannot be read: {os_errors.describe(error)}",
            resolution_hint="Give the path of a file made by `mcp-notarium keys backup`.",
        ) from error
    try:
        return key_file_codec.parse(raw, bounds=bounds)
    except KeyFileDamaged as error:
        raise ConfigError(
            f"the copy is damaged or no key file: {error.reason}",
            resolution_hint="Take another file made by `mcp-notarium keys backup`. Nothing was "
            "changed.",
        ) from error


_BINDING_ROWS = "SELECT key, value FROM sync_metadata WHERE key IN ('vault_id', 'key_sequence')"
