"""Apply a change of slots to the key file under the key lock: check, write, record.

Only the key file is written; running servers keep the data key and notice nothing. It is opened before it
is written, and read back before it is active. The database is opened before anything is written, because
it alone knows whether the key file is the newest one, and once more afterwards. After a crash the folder
has the old key file or the new one, and the next start cleans up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp_notarium import __version__
from mcp_notarium.account import startup_table
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.database_creation import record_key_sequence
from mcp_notarium.account.inspection import Inspection, Inspector
from mcp_notarium.account.startup_outcomes import Locked, Open
from mcp_notarium.audit.chain import AuditEntry, Facts
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.crypto.kdf import PRODUCTION, Bounds
from mcp_notarium.crypto.key_file_codec import KeyFile, Slot
from mcp_notarium.crypto.slot_changes import KeyChangeStep
from mcp_notarium.errors import CacheBusy, CacheError, CacheFull, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.locks import KEY_LOCK_SECONDS, ServerLock, key_lock
from mcp_notarium.files.private_files import StepHook, disk_errors, ignore_step
from mcp_notarium.keys import key_file_store
from mcp_notarium.keys.credentials import FoundKey
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.audit_table import AuditTable

CLIENT: Final = f"mcp-notarium {__version__} (command line)"
"""Name of the command line in the audit log."""
_UNUSABLE = "the key file cannot be changed"


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Hold the options of every key-file change.

    ``old`` replaces the key of the settings, ``system`` is the keychain. The others are for tests: limits of
    the key derivation, the clock, and a hook to crash at a step.
    """

    old: Secret | None = None
    bounds: Bounds = PRODUCTION
    timeout: float = KEY_LOCK_SECONDS
    system: Keychain | None = None
    clock: Callable[[], float] = time.time
    at: StepHook = ignore_step

    def inspector(self, settings: Config) -> Inspector:
        """Return an inspector that tries ``old`` or, without it, the key of the settings."""
        key = None if self.old is None else FoundKey(self.old, "the key given")
        return Inspector(settings, bounds=self.bounds, keychain=self.system, key=key)


DEFAULTS = ChangeOptions()
"""Options of a change with the key of the settings."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """Hold what was written. ``proven``: the database was opened with it.

    ``copied``: its copy was written, too; else the next start does that. What was written is active,
    whatever these two say.
    """

    before: KeyFile
    after: KeyFile
    proven: bool
    copied: bool


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

    The key that opened the cache must open it afterwards, ``instead`` of it if that is given, and
    so must ``also_opens``. Raises ``LockedError`` (start-up's verdicts, or BUSY) and what ``make``
    raises, with nothing changed.
    """
    folder, now = find_account(settings), int(options.clock())
    with disk_errors(_UNUSABLE), key_lock(folder, timeout=options.timeout):
        options.at(KeyChangeStep.LOCK)
        server_lock = ServerLock(folder).share()
        try:
            with closing(options.inspector(settings).inspect(now=now)) as inspection:
                before, data_key, found = require_openable(inspection)
                if inspection.database is not None:
                    record_key_sequence(inspection.database, before)
            options.at(KeyChangeStep.UNWRAP)
            if inspection.files is not None:
                key_file_store.finish_interrupted_change(
                    inspection.folder, inspection.files, now=now
                )
            after = make(before, data_key, found.passphrase)
            proof = instead or found.passphrase

            def check(changed: KeyFile) -> None:
                for key in (proof, *also_opens):
                    if key_slots.unlock(changed, key, bounds=options.bounds) != data_key:
                        raise KeyFileDamaged("the new key file does not open")

            options.at(KeyChangeStep.BUILD)
            copied = key_file_store.store(
                inspection.folder, after, check=check, bounds=options.bounds, at=options.at
            )
            proven = _prove(settings, options, proof, before, now=now)
        finally:
            server_lock.release()
        options.at(KeyChangeStep.PROVE)
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
            after, _, _ = require_openable(inspection)
            if inspection.database is None:
                return False
            record_key_sequence(inspection.database, after)
            _record_change(inspection, before, at=now)
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
    # Whoever calls this never rebuilds, whatever the settings say.
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


def _record_change(inspection: Inspection, before: KeyFile, *, at: float) -> None:
    """Record how the active key file differs from ``before``: which slots, never their secrets.

    A full disk or a busy database is ignored: the key file's number in the next record shows the gap.
    """
    if inspection.database is None or inspection.keyfile is None:
        return
    table = AuditTable(inspection.database, audit_keys(inspection.data_key).chain_mac)
    entry = AuditEntry(
        at=at, act="keys.changed", client=CLIENT, facts=_differences(before, inspection.keyfile)
    )
    with suppress(CacheBusy, CacheFull):
        table.append([entry], durable=True)


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
    path = folder.database(restored.generation)
    slots = [_describe_slot(slot) for slot in restored.slots]
    facts = {"sequence": restored.sequence, "slots": slots}
    with (
        suppress(CacheError, LockedError),
        closing(
            database_opener.connect(path, data_key.database_key(restored.database_salt))
        ) as opened,
    ):
        table = AuditTable(opened, audit_keys(data_key).chain_mac)
        entry = AuditEntry(at=at, act="keys.restored", client=CLIENT, facts=facts)
        table.append([entry], durable=True)
