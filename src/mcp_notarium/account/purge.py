"""Destroys a cache for good: its keys first, so that what is left of the data is noise.

Crypto-shredding: without any copy of the key file and a key, no byte of the database can be read, on
this disk or in a backup of the database alone. The notes stay at the note service.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.account import file_facts, new_generation
from mcp_notarium.account.inspection import OpeningSettings
from mcp_notarium.account.key_changes import Given
from mcp_notarium.errors import LockedError, Unfinished, Verdict
from mcp_notarium.files import erasure, os_errors
from mcp_notarium.files.account_folder import AccountFolder, trusted
from mcp_notarium.files.locks import Presence, key_lock
from mcp_notarium.files.private_files import disk_errors, sync_folder
from mcp_notarium.keys import key_file, keychain
from mcp_notarium.keys.keychain import Keychain

_UNUSABLE = "the cache cannot be destroyed"
_AGAIN = "Run `mcp-notarium purge` again where the keychain can be asked, or delete them there."


@dataclass(frozen=True, slots=True)
class Shredded:
    """How many files were erased, and whether the keychain was asked and has no entries any more.

    ``unasked`` says why it could not be asked: entries may still be in it. ``absent`` says what to do if
    one of another session was in use: none runs in this one. None of the three: it is switched off.
    """

    files: int
    keychain: bool
    unasked: LockedError | None = None
    absent: str = ""


def may_hold_unsent_text(settings: OpeningSettings, *, given: Given | None = None) -> bool:
    """Whether a write may be inside that the note service has not confirmed. Needs no key."""
    given = given or Given()
    folder = trusted(settings.account_dir)
    if not folder.path.is_dir():
        return False
    with disk_errors(_UNUSABLE):
        files = key_file.load(folder, bounds=given.bounds)
        plain = folder.plain_database.exists()
        anything = plain or bool(folder.generations())
        return anything and not file_facts.nothing_pending(folder, files, plain=plain)


def shred(
    settings: OpeningSettings, system: Keychain | None, *, given: Given | None = None
) -> Shredded:
    """Erase every key file and database of the account, the quarantine's too. No key is needed.

    Key files go first: whatever happens then, the databases stay unreadable. Raises ``LockedError``
    (BUSY names who has the cache open; UNSAFE_PATH) with nothing erased, ``Unfinished`` with a part of
    it erased, and can be run again: also where no file is left, for the sake of a keychain that could
    not be asked before.
    """
    given = given or Given()
    folder = trusted(settings.account_dir)
    erased = 0
    if folder.path.is_dir():
        with disk_errors(_UNUSABLE), key_lock(folder, timeout=given.timeout):
            presence = Presence(folder)
            try:
                new_generation.be_alone(presence, folder)
                erased = _erase(folder, given)
            finally:
                presence.release()
    if system is None:
        return Shredded(erased, keychain=False)
    try:
        if system.missing:
            left = (
                f"If one of another session was in use, {_entries(settings.owner_hash)}. {_AGAIN}"
            )
            return Shredded(erased, keychain=False, absent=left)
        for kind in (keychain.KEY, keychain.TOKEN):
            system.delete(kind, settings.owner_hash)
    except LockedError as error:
        return Shredded(erased, keychain=False, unasked=_unasked(error, settings.owner_hash))
    return Shredded(erased, keychain=True)


def _erase(folder: AccountFolder, given: Given) -> int:
    """Erase everything; how many files that were. Raises ``Unfinished`` from the first one on."""
    erased, files = 0, list(_files(folder))
    try:
        for file in files:
            erased += erasure.erase(file)
            given.at(file.name)
        _remove_empty_folders(folder.quarantine)
        sync_folder(folder.path)
    except OSError as error:
        if not list(_files(folder)) and not folder.quarantine.exists():
            return len(files)
        raise Unfinished(
            f"not everything is destroyed ({os_errors.failure(error)}): {_standing(folder, given)}",
            resolution_hint="Run `mcp-notarium purge` again when the disk is well: it goes on "
            "where it stopped.",
        ) from error
    return erased


def _standing(folder: AccountFolder, given: Given) -> str:
    """What can still be done with what is left."""
    opens = None
    with suppress(OSError):
        opens = key_file.load(folder, bounds=given.bounds).valid
    if opens is not None and folder.database(opens.generation).exists():
        return "the cache is still there, with a key file that opens it"
    if folder.plain_database.exists() or folder.plain_remains.exists():
        return "unencrypted files are left"
    if opens is not None:
        return "the database is gone, and a key file is left"
    return "the keys are gone, and no byte of what is left can be read"


def _unasked(error: LockedError, owner: str) -> LockedError:
    """The refusal of a keychain that is here and could not be asked."""
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
        f"`:{keychain.account(owner)}`) may still be in it"
    )


def _files(folder: AccountFolder) -> Iterator[Path]:
    """Every file of ours but the locks, keys first, and of them those last that count.

    So everything is as it was until the last of them goes, and then nothing opens any more.
    """
    found = [path for path in folder.path.rglob("*") if path.is_symlink() or path.is_file()]
    ours = sorted(path for path in found if path.suffix != ".lock")
    keys = [path for path in ours if "notarium_keys" in path.name]
    yield from sorted(keys, key=lambda path: path in {folder.key_file, folder.key_copy})
    yield from (path for path in ours if path not in keys)


def _remove_empty_folders(top: Path) -> None:
    if top.is_dir():
        for inner in top.iterdir():
            inner.rmdir()
        top.rmdir()
