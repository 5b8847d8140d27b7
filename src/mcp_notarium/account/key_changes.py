"""Apply a change of slots to the key file under the key lock: check, write, record. List, add and remove slots.

Only the key file is written; running servers keep the data key and notice nothing. It is opened before it
is written, and read back before it is active. The database is opened before anything is written, because
it alone knows whether the key file is the newest one, and once more afterwards. After a crash the folder
has the old key file or the new one, and the next start cleans up. The key that opened the cache must still open it
afterwards, so no single command locks its user out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp_notarium import __version__
from mcp_notarium.account import startup_hints, startup_table
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.generation import kdf_policy, record_key_sequence
from mcp_notarium.account.inspection import Inspection, Inspector
from mcp_notarium.account.startup_outcomes import Locked, Open
from mcp_notarium.audit.chain import AuditEntry, Facts
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import (
    KeyFileDamaged,
    MalformedKey,
    SlotsRefused,
    WeakPassphrase,
    WrongKey,
)
from mcp_notarium.crypto.kdf import Parameters
from mcp_notarium.crypto.key_file_codec import MOST_SLOTS, KeyFile, Slot, SlotType, is_label
from mcp_notarium.errors import CacheBusy, CacheError, CacheFull, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.locks import KEY_LOCK_SECONDS, ServerLock, key_lock
from mcp_notarium.files.private_files import StepHook, disk_errors, ignore_step
from mcp_notarium.keys import key_file_store
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.keys.secret_places import FoundKey
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.audit_log import AuditTable
from mcp_notarium.storage.database import Database

CLIENT: Final = f"mcp-notarium {__version__} (command line)"
"""Name of the command line in the audit log."""
_UNUSABLE = "the key file cannot be changed"


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Hold the options of every key-file change."""

    old: Secret | None = None
    """Replaces the key of the settings."""
    timeout: float = KEY_LOCK_SECONDS
    """Seconds to wait for the key lock."""
    system: Keychain | None = None
    """The keychain."""
    clock: Callable[[], float] = time.time
    """For tests, as the next."""
    at: StepHook = ignore_step
    """Called at each step, so that a test can crash there."""

    def inspector(self, settings: Config) -> Inspector:
        """Return an inspector that tries ``old`` or, without it, the key of the settings."""
        key = None if self.old is None else FoundKey(self.old, "the key given")
        return Inspector(settings, keychain=self.system, key=key)


DEFAULTS = ChangeOptions()
"""Options of a change with the key of the settings."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """Hold what was written. It is active, whatever the fields say."""

    before: KeyFile
    after: KeyFile
    proven: bool
    """The database was opened with it."""
    copied: bool
    """Its copy was written, too; else the next start does that."""


Change = Callable[[KeyFile, DataKey, Secret], KeyFile]
"""Builder of the next key file from the present one, its data key, and the key that opened it."""


def apply_change(
    settings: Config,
    make: Change,
    *,
    also_opens: Sequence[Secret] = (),
    instead: Secret | None = None,
    options: ChangeOptions = DEFAULTS,
) -> ChangeResult:
    """Apply the change ``make`` under the key lock.

    The key that opened the cache must open it afterwards, or ``instead`` if there is one, and so must ``also_opens``.
    Raises ``LockedError`` (start-up's verdicts, or BUSY) and what ``make`` raises, with nothing changed.
    """
    folder, now = find_account(settings), int(options.clock())
    with disk_errors(_UNUSABLE), key_lock(folder, timeout=options.timeout):
        options.at("lock")
        server_lock = ServerLock(folder).share()
        try:
            with closing(options.inspector(settings).inspect(now=now)) as inspection:
                before, data_key, found = require_openable(inspection)
                if inspection.database is not None:
                    record_key_sequence(inspection.database, before)
            options.at("unwrap")
            if inspection.files is not None:
                key_file_store.finish_interrupted_change(
                    inspection.folder, inspection.files, now=now
                )
            after = make(before, data_key, found.passphrase)
            proof = instead or found.passphrase

            def check(changed: KeyFile) -> None:
                for key in (proof, *also_opens):
                    if key_slots.unlock(changed, key) != data_key:
                        raise KeyFileDamaged("the new key file does not open")

            options.at("build")
            copied = key_file_store.store(inspection.folder, after, check=check, at=options.at)
            proven = _prove(settings, options, proof, before, now=now)
        finally:
            server_lock.release()
        options.at("prove")
    return ChangeResult(before, after, proven, copied)


def _prove(
    settings: Config, options: ChangeOptions, key: Secret, before: KeyFile, *, now: int
) -> bool:
    """Open the database with the new key file and record the change; False if that fails.

    Never raises: the new key file is active, and a caller that gets an error would go on with the old
    key.
    """
    try:
        inspector = replace(options, old=key).inspector(settings)
        with closing(inspector.inspect(now=now)) as inspection:
            after, data_key, _ = require_openable(inspection)
            if inspection.database is None:
                return False
            record_key_sequence(inspection.database, after)
            facts = _differences(before, after)
            _record(inspection.database, data_key, "keys.changed", facts, at=now)
            return True
    except (CacheError, LockedError, OSError):
        return False


def find_account(settings: Config) -> AccountFolder:
    """Return the account's folder. Raises ``LockedError`` if it is unsafe or missing."""
    folder = check_folder(settings.account_dir)
    if not folder.path.is_dir():
        raise missing_cache_error()
    return folder


def require_openable(inspection: Inspection) -> tuple[KeyFile, DataKey, FoundKey]:
    """Return key file, data key and key. Raises start-up's refusal if the cache cannot be opened."""
    # No caller of this rebuilds, whatever the settings say.
    decision = startup_table.decide(replace(inspection.seen, on_unreadable="refuse"))
    if isinstance(decision, Locked):
        raise decision.error()
    if inspection.seen.plain:
        raise without_key_error()
    if not isinstance(decision, Open) or not (
        inspection.keyfile and inspection.data_key and inspection.key
    ):
        raise missing_cache_error()
    return inspection.keyfile, inspection.data_key, inspection.key


def without_key_error() -> LockedError:
    """Return the error for a cache that is not encrypted."""
    return LockedError(
        Verdict.MODE_MISMATCH,
        "this cache is not encrypted, so it has no key",
        resolution_hint="Remove DB_ENCRYPTION=off to use an encrypted cache.",
    )


def missing_cache_error() -> LockedError:
    """Return the error for a missing encrypted cache."""
    return LockedError(
        Verdict.DATABASE_MISSING,
        "there is no encrypted cache yet",
        resolution_hint="Start the server once (`mcp-notarium serve`); it makes one.",
    )


def _record(
    database: Database, data_key: DataKey | None, act: str, facts: Facts, *, at: float
) -> None:
    """Record a change of keys: which slots, never their secrets.

    A full disk or a busy database is ignored: the key file's number in the next record shows the gap.
    """
    entry = AuditEntry(at=at, act=act, client=CLIENT, facts=facts)
    with suppress(CacheBusy, CacheFull):
        AuditTable(database, audit_keys(data_key).chain_mac).append([entry], durable=True)


def _differences(before: KeyFile, after: KeyFile) -> Facts:
    """List what changed between two key files: slots by number and type."""
    old = {slot.id: slot for slot in before.slots}
    new = {slot.id: slot for slot in after.slots}
    facts: dict[str, Any] = {"sequence": after.sequence}
    parts = {
        "added": [new[number] for number in new.keys() - old.keys()],
        "removed": [old[number] for number in old.keys() - new.keys()],
    }
    return facts | {
        name: [_describe_slot(slot) for slot in sorted(slots, key=lambda slot: slot.id)]
        for name, slots in parts.items()
        if slots
    }


def _describe_slot(slot: Slot) -> str:
    return f"{slot.id} {slot.type.value}"


def record_restored(
    folder: AccountFolder, restored: KeyFile, data_key: DataKey, *, at: float
) -> None:
    """Record that a copy of the key file was restored. Ignores a database that cannot be written."""
    key = data_key.database_key(restored.database_salt)
    facts = {
        "sequence": restored.sequence,
        "slots": [_describe_slot(slot) for slot in restored.slots],
    }
    with (
        suppress(CacheError, LockedError),
        closing(database_opener.connect(folder.database(restored.generation), key)) as opened,
    ):
        _record(opened, data_key, "keys.restored", facts, at=at)


@dataclass(frozen=True, slots=True)
class SlotList:
    """Hold the slots as they stand in the key file. Nothing proves that they are as they were written unless there is a key."""

    keyfile: KeyFile
    opened_by: int | None
    """The id of the slot that the given key opens; None: no key was given, or it opens none."""
    uncertain: bool = False
    """The copy next to it says that it is newer, and no key tells whether that is true."""


def list_slots(settings: Config, key: Secret | None) -> SlotList:
    """Read the key file (or its copy, if that is all there is). Changes nothing.

    Raises ``LockedError`` if there is none, it is lost, damaged or forged, or the folder is unsafe,
    and if the key vouches for a copy that is newer.
    """
    folder = check_folder(settings.account_dir)
    with disk_errors("the key file cannot be read"):
        files = key_file_store.load(folder)
    found = files.valid
    if found is None:
        # No key is tried here, so any will do; nothing is asked of a keychain.
        inspector = Inspector(settings, key=FoundKey(Secret("none is tried"), "a key"))
        require_openable(inspector.inspect(now=0, opens=False))
        raise missing_cache_error()
    opened = None
    with suppress(MalformedKey):  # the configured key can be no key at all; it opens nothing then
        if key is not None:
            opened = _find_proven_slot(found, key, files.copy_ahead)
    return SlotList(found, opened, uncertain=files.copy_ahead is not None and opened is None)


def rollback_error() -> LockedError:
    """Return the error for an old key file that was put back."""
    return LockedError(
        Verdict.ROLLBACK_SEEN,
        "the key file is older than its copy `notarium_keys.json.bak`",
        resolution_hint=startup_hints.COPY_BACK,
    )


def _find_proven_slot(main: KeyFile, key: Secret, copy: KeyFile | None) -> int | None:
    """Find the slot that the key opens; return its id, None if it opens none.

    Raises ``KeyFileDamaged`` (forged), and ``LockedError`` if the key proves a newer ``copy``: it opens
    the copy, or the key file that the copy grew from.
    """
    opened, forged = None, None
    try:
        opened = key_slots.open_slot(main, key)
    except WrongKey:
        pass
    except KeyFileDamaged as error:
        forged = error
    if copy is not None:
        if opened is not None and key_slots.has_valid_mac(copy, opened.data_key):
            raise rollback_error()
        with suppress(WrongKey, KeyFileDamaged):
            key_slots.unlock(copy, key)
            raise rollback_error()
    if forged is not None:
        raise forged
    return None if opened is None else opened.slot.id


def add(
    settings: Config,
    new: Secret,
    *,
    label: str = "",
    parameters: Parameters | None = None,
    allow_weak: bool = False,
    type_: SlotType | None = None,
    options: ChangeOptions = DEFAULTS,
) -> ChangeResult:
    """Add a slot: a passphrase, a raw key or a recovery key.

    ``parameters`` are those of a passphrase's KDF; None: as the settings say, and with the same algorithm at
    least the cost of any passphrase that opens the cache.
    ``type_`` KEYCHAIN: a raw key that only the keychain holds. Raises as ``apply_change`` does, and
    ``WeakPassphrase``, ``MalformedKey``, ``SlotsRefused`` (it opens the cache already, there are too
    many, or that is no label).
    """
    require_label(label)
    require_strong(new, account=settings.account.name, allow_weak=allow_weak)

    def make(before: KeyFile, data_key: DataKey, _key: Secret) -> KeyFile:
        if _find_opened_slot(before, new) is not None:
            raise SlotsRefused("this key opens the cache already")
        slot = key_slots.new_slot(
            before,
            data_key,
            new,
            parameters=parameters or _cost_of_costliest(before, settings),
            type_=type_,
            label=label,
        )
        return key_slots.replace_slots(before, data_key, slots=(*before.slots, slot))

    return apply_change(settings, make, also_opens=(new,), options=options)


def require_strong(new: Secret, *, account: str, allow_weak: bool) -> None:
    """Refuse a new passphrase that could be guessed. Raises ``WeakPassphrase``, ``MalformedKey``."""
    reason = user_key.weakness(new, account=account)
    if reason and not allow_weak:
        raise WeakPassphrase(reason)


def _cost_of_costliest(before: KeyFile, settings: Config) -> Parameters:
    """Return the cost of one more passphrase: an attacker guesses the cheapest one."""
    opening = (slot.kdf for slot in before.slots)
    # The algorithm is that of the settings, because it replaces no other slot.
    return replace(kdf_policy(settings), explicit=True).parameters_for(opening)


def require_free_slot(found: KeyFile) -> None:
    """Check that a slot can be added, before anybody types or writes. Raises ``SlotsRefused``."""
    if len(found.slots) >= MOST_SLOTS:
        raise SlotsRefused(
            f"a key file has at most {MOST_SLOTS} slots, and all are in use",
            resolution_hint="`mcp-notarium keys list` shows them, `mcp-notarium keys remove N` takes "
            "one away; nothing was changed.",
        )


def require_label(label: str) -> None:
    """Check a slot's label, before anybody types or writes. Raises ``SlotsRefused``."""
    if not is_label(label):
        raise SlotsRefused(
            "a label has at most 64 ASCII characters, all of which can be seen",
            resolution_hint="Give another one; nothing was changed.",
        )


def remove(settings: Config, slot_id: int, *, options: ChangeOptions = DEFAULTS) -> ChangeResult:
    """Remove a slot. Raises as ``apply_change``, and ``SlotsRefused``."""

    def make(before: KeyFile, data_key: DataKey, key: Secret) -> KeyFile:
        after = key_slots.remove(before, data_key, slot_id)
        if _find_opened_slot(after, key) is None:
            raise SlotsRefused(
                f"slot {slot_id} is the slot that your key opened",
                resolution_hint="Use --ask-key and give another key that opens the cache: that proves "
                "that one is left.",
            )
        return after

    return apply_change(settings, make, options=options)


def recovery_slot(settings: Config, typed: str) -> Slot:
    """Find the slot that a recovery key opens, by opening it. Changes nothing.

    Raises ``MalformedKey`` for a typing error, ``WrongKey``, and as :func:`list_slots` does.
    """
    key = user_key.write_recovery_key(user_key.read_recovery_key(typed).reveal())
    found = list_slots(settings, key)
    if found.opened_by is None:
        raise WrongKey
    return key_slots.find_slot(found.keyfile, found.opened_by)


def _find_opened_slot(found: KeyFile, key: Secret) -> int | None:
    try:
        return key_slots.open_slot(found, key).slot.id
    except WrongKey:
        return None
