"""Purge an account folder, its keys first; or reset it: move everything to the quarantine.

Destroying the keys is what protects: without any copy of the key file and a key, no byte of the
database can be read, on this disk or in a backup of the database alone. Nothing is overwritten, so an
unencrypted cache may stay readable on the disk. The notes stay at the note store.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mcp_notarium.account import opener
from mcp_notarium.account.key_changes import DEFAULTS, ChangeOptions
from mcp_notarium.config import Config
from mcp_notarium.config.settings import default_data_dir
from mcp_notarium.errors import LockedError, NotariumError, Unfinished, Verdict
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.locks import exclusive_locks
from mcp_notarium.files.private_files import disk_errors, is_there, sync_folder
from mcp_notarium.keys import key_file_store, keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.system import SYSTEM

_UNUSABLE = "the cache cannot be destroyed"
_AGAIN = "Run `mcp-notarium purge` again where the keychain can be asked, or delete them there."


@dataclass(slots=True)
class _Contents:
    """Hold what is in the folder of an account."""

    files: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    """The folders in one come after it."""
    unseen: OSError | None = None
    """Error behind which there may be more."""


def reset_account(settings: Config) -> Path | None:
    """Move the account's cache and key file to the quarantine, readable or not.

    Returns the folder they went to, None if there was nothing. Raises ``LockedError`` (UNSAFE_PATH,
    or BUSY while anybody has the cache open) with nothing moved, and ``Unfinished``.
    """
    folder = check_folder(settings.account_dir)
    if not folder.path.is_dir():
        return None
    with disk_errors("the cache folder cannot be used"), exclusive_locks(folder):
        return quarantine.move_all(folder, now=time.time())


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """Hold how many files were removed, and what became of the keychain's entries; nothing if it is switched off."""

    files: int
    keychain_cleared: bool
    """The keychain was asked and has no entries any more."""
    keychain_error: LockedError | None = None
    """It could not be asked, and entries may still be in it."""
    keychain_hint: str = ""
    """No keychain runs in this session; what to do if one of another session was in use."""


def may_hold_unsent_text(settings: Config) -> bool:
    """Decide whether a write may be inside that the note store has not confirmed.

    False if there is no database, or it can be opened and holds no journal entry.
    """
    folder = check_folder(settings.account_dir)
    if not (folder.plain_database.exists() or folder.generations()):
        return False
    with suppress(NotariumError), closing(opener.open_cache(settings, read_only=True)) as opened:
        return JournalTable(opened.database).count() > 0
    return True


def purge_account(
    settings: Config, system: Keychain | None, *, options: ChangeOptions = DEFAULTS
) -> PurgeResult:
    """Remove every key file and database of the account, the quarantine's too. No key is needed.

    Key files go first, and for good: whatever happens then, the databases stay unreadable. Can be run
    again, also where no file is left: a keychain that could not be asked before is asked then.
    Raises ``LockedError`` (BUSY names who has the cache open; UNSAFE_PATH) with nothing removed, and
    ``Unfinished`` with a part of it removed.
    """
    folder = check_folder(settings.account_dir)
    removed = 0
    if folder.path.is_dir():
        with disk_errors(_UNUSABLE), exclusive_locks(folder, timeout=options.timeout):
            removed = _remove_all(folder, options)
            with suppress(OSError):  # one that somebody holds
                _remove_locks(folder)
        # Not before the locks are closed: Windows keeps their names as long.
        _remove_account_folder(folder)
    if system is None:
        return PurgeResult(removed, keychain_cleared=False)
    try:
        if system.missing:
            hint = (
                f"If one of another session was in use, {_entries(settings.owner_hash)}. {_AGAIN}"
            )
            return PurgeResult(removed, keychain_cleared=False, keychain_hint=hint)
        for kind in (keychain.KEY, keychain.TOKEN):
            system.delete(kind, settings.owner_hash)
    except LockedError as error:
        unasked = _keychain_unusable(error, settings.owner_hash)
        return PurgeResult(removed, keychain_cleared=False, keychain_error=unasked)
    return PurgeResult(removed, keychain_cleared=True)


def _remove_all(folder: AccountFolder, options: ChangeOptions) -> int:
    """Return how many files were removed. Raises ``Unfinished`` from the first one on."""
    found = _find_contents(folder)
    removed = 0
    try:
        for file in found.files:
            removed += _remove(file)
            options.at(file.name)
        for inner in reversed(found.folders):
            _remove_folder(inner)
        sync_folder(folder.path)
        if found.unseen is not None:  # defence: unseen-rest-told =False
            raise found.unseen
    except OSError as error:
        if _find_contents(folder) == _Contents():
            return len(found.files)
        raise Unfinished(
            f"not everything is destroyed ({os_errors.describe_with_path(error)}): "
            f"{_describe_remains(folder)}",
            resolution_hint="Run `mcp-notarium purge` again when the cause is mended: it goes on where it stopped.",
        ) from error
    return removed


def _remove_locks(folder: AccountFolder) -> None:
    """Remove the locks. Who waits for one makes another file."""
    for lock in folder.path.glob("*.lock"):
        SYSTEM.remove(lock)


def _remove_folder(folder: Path) -> None:
    """Remove a folder that is empty; one stays in which somebody has begun something new, or which Windows deletes later."""
    try:
        SYSTEM.remove_empty(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES):
            raise


def _remove_account_folder(folder: AccountFolder) -> None:
    with suppress(OSError):
        SYSTEM.remove_empty(folder.path)
        if folder.path.parent == default_data_dir(os.environ):
            folder.path.parent.rmdir()


def _remove(path: Path) -> bool:
    """Remove a file, or a link and not what it leads to, for good; False if it was not there."""
    if not is_there(path):
        return False
    SYSTEM.remove(path)
    sync_folder(path.parent)  # a key must not come back after its database has gone
    return True


def _describe_remains(folder: AccountFolder) -> str:
    """Say what can still be done with what is left."""
    opens = None
    with suppress(OSError):
        opens = key_file_store.load(folder).valid
    if opens is not None and folder.database(opens.generation).exists():
        return "the cache is still there, with a key file that opens it"
    if folder.plain_database.exists():
        return "unencrypted files are left"
    if opens is not None:
        return "the database is gone, and a key file is left"
    return "the keys are gone, and nothing that is left can be read"


def _keychain_unusable(error: LockedError, owner: str) -> LockedError:
    """Return the error for a keychain that is here and could not be asked."""
    reason = str(error.details.get("reason", error.message))
    return LockedError(
        Verdict.KEYCHAIN_UNUSABLE,
        f"the keychain could not be asked ({reason}); {_entries(owner)}",
        resolution_hint=_AGAIN,
        details={"reason": reason},
    )


def _entries(owner: str) -> str:
    return (
        f"entries `{keychain.KEY}` and `{keychain.TOKEN}` of `{keychain.SERVICE}` (both end in "
        f"`:{keychain.entry_account(owner)}`) may still be in it"
    )


def _find_contents(folder: AccountFolder) -> _Contents:
    """List the files but our locks: keys first, and of them those last that are active.

    So the cache opens until the last of them goes, and nothing opens after that.
    """
    found = _Contents()

    def note(_folder: Path, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            found.unseen = error

    try:
        for path, one in SYSTEM.walk(folder.path, unseen=note):
            if one.is_dir(follow_symlinks=False):
                found.folders.append(path)
            elif path.parent != folder.path or path.suffix != ".lock":
                found.files.append(path)
    except OSError as error:
        found.unseen = error
    active = {folder.key_file, folder.key_copy}
    found.files.sort()
    # defence: keys-removed-first
    found.files.sort(key=lambda path: ("notarium_keys" not in path.name, path in active))
    return found
