"""Re-encrypt a whole database under a new data key.

Nobody else may have the cache open. Re-encrypting makes a new generation, row by row, and a new key file that opens it.
The old one is active until the prepared key file is renamed, the new one from then on. Afterwards old copies of the
key file, with whatever key, open nothing that is in use; they may still open what is in the quarantine.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.account import generation
from mcp_notarium.account.audit_anchor import Anchor, audit_keys
from mcp_notarium.account.copies import list_copies, make_copy, remove_others
from mcp_notarium.account.generation import GenerationWriter, Step, SwitchResult, kdf_policy
from mcp_notarium.account.key_changes import (
    DEFAULTS,
    ChangeOptions,
    find_account,
    missing_cache_error,
    require_openable,
)
from mcp_notarium.account.user_key_rotation import ProvenKey, prove_key, require_new
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import SlotsRefused, WrongKey
from mcp_notarium.crypto.kdf import KdfPolicy, Parameters
from mcp_notarium.crypto.key_file_codec import KeyFile, Slot, SlotType
from mcp_notarium.crypto.key_slots import PERSONAL_SLOTS, describe_slot
from mcp_notarium.errors import (
    CacheError,
    InvalidRequest,
    LockedError,
)
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.locks import ServerLock
from mcp_notarium.files.private_files import disk_errors, sync_folder
from mcp_notarium.keys import key_file_store, keychain
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.audit_log import AuditTable
from mcp_notarium.storage.database_opener import companions
from mcp_notarium.storage.table_copy import OnProgress
from mcp_notarium.system import SYSTEM

_UNUSABLE = "the cache cannot be re-encrypted"
_GIVE = "Give a new key (--ask-new, --new-key-file, --new-key-stdin or --generate)."


@dataclass(frozen=True, slots=True)
class ReencryptionResult:
    """Hold what was done."""

    notes: int
    """Number of notes."""
    dropped: tuple[Slot, ...]
    """Slots whose secret is not known, so they are gone."""
    carried: tuple[Slot, ...]
    """Those that were kept."""
    gone: tuple[Slot, ...]
    """Those that the new one replaced."""
    slot: Slot | None
    """The new one, None without a new key."""
    state: SwitchResult
    """Result of the switch: whether the ``old`` database is gone."""
    old: Path
    """The old database."""
    quarantined: quarantine.FoundDatabases
    """Folders of the quarantine with databases that old copies of the key file may open."""


def find_dropped_slots(
    settings: Config, *, replacing: bool, options: ChangeOptions = DEFAULTS
) -> tuple[ProvenKey, tuple[Slot, ...]]:
    """Find the slots that would be dropped, and prove the present key; ``replacing``: with a new key.

    For naming them before anything begins. Raises as :func:`reencrypt`, and changes nothing.
    """
    current = prove_key(settings, options=options)
    _require_worth_it(current, replacing=replacing)
    folder = check_folder(settings.account_dir)
    _require_no_kept_copy(folder)
    with disk_errors(_UNUSABLE):
        server_lock = ServerLock(folder)
    try:
        server_lock.exclude()
    finally:
        server_lock.release()
    carried = _find_carried(settings, options, current, replacing=replacing)
    return current, _find_dropped(current, carried, replacing=replacing)


def reencrypt(
    settings: Config,
    *,
    new: Secret | None = None,
    parameters: Parameters | KdfPolicy | None = None,
    allow_weak: bool = False,
    on_progress: OnProgress = lambda _done, _of: None,
    options: ChangeOptions = DEFAULTS,
) -> ReencryptionResult:
    """Re-encrypt the cache under a new data key, which ``new`` (None: the same key) opens.

    Slots whose secret is known are kept, with number, label and cost: the one that opened the cache, unless ``new``
    replaces it, and the keychain's; :func:`find_dropped_slots` tells which are not. Raises ``SlotsRefused`` if no key of
    a person would be left, ``CacheFull``, and ``LockedError`` (start-up's verdicts; BUSY names who has the cache open),
    with the old cache as it was. Its ``state`` has what fails after the new one is active.
    """
    if new is not None:
        require_new(new, account=settings.account.name, allow_weak=allow_weak)
    folder = find_account(settings)
    with generation.hold_alone(settings, folder, options, on_progress, _UNUSABLE) as writer:
        return _reencrypt(writer, new, parameters or kdf_policy(settings))


def dropped_slots_error(dropped: tuple[Slot, ...]) -> SlotsRefused:
    """Return the error that names the slots that would be dropped."""
    named = ", ".join(describe_slot(slot) for slot in dropped)
    return SlotsRefused(
        f"with a new data key these would open nothing any more: {named}",
        resolution_hint="Their keys are not known here. Add --drop-other-keys to let them go, and add "
        "new ones afterwards (`mcp-notarium keys`).",
    )


_Carried = dict[int, Secret]
"""Number of a slot that is kept -> its secret."""


def _reencrypt(
    writer: GenerationWriter, new: Secret | None, parameters: Parameters | KdfPolicy
) -> ReencryptionResult:
    """Do everything that needs the locks."""
    settings, folder, options = writer.settings, writer.folder, writer.options
    now = options.clock()
    _require_no_kept_copy(folder)
    with closing(options.inspector(settings).inspect(now=now)) as inspection:
        before, old_key, found = require_openable(inspection)
        if inspection.database is None or inspection.files is None:
            raise missing_cache_error()
        key_file_store.finish_interrupted_change(folder, inspection.files, now=now)
        generation.remove_retired(folder, inspection.database, before)
        writer.quarantine_unknown(before)
        slot = key_slots.open_slot(before, found.passphrase).slot
        current = ProvenKey(before, found, slot)
        _require_worth_it(current, replacing=new is not None)
        carried = _find_carried(settings, options, current, replacing=new is not None)
        dropped = _find_dropped(current, carried, replacing=new is not None)
        writer.require_space(inspection.database)
        quarantined = quarantine.find_databases(folder)
        new_keyfile, data_key = _build(writer, current, carried, new, parameters)
        notes = writer.copy(
            inspection.database, new_keyfile, data_key, old_key=old_key, replaces=before.generation
        )
    replaced = companions(folder.database(before.generation))

    def clear() -> None:
        for file in replaced:
            SYSTEM.remove(file)
        sync_folder(folder.path)
        options.at(Step.REMOVE)

    had_copies = bool(list_copies(folder))
    state = writer.switch(new_keyfile, replaced=replaced, clear=clear)
    _write_anchor(folder, new_keyfile, data_key)
    options.at(Step.ANCHOR)
    if had_copies:
        _renew_copies(writer, new_keyfile, data_key)
    return ReencryptionResult(
        notes=notes,
        dropped=dropped,
        carried=tuple(one for one in new_keyfile.slots if one.id in carried),
        gone=() if new is None or slot.id in carried else (slot,),
        slot=next((one for one in new_keyfile.slots if one.id not in carried), None),
        state=state,
        old=folder.database(before.generation),
        quarantined=quarantined,
    )


def _write_anchor(folder: AccountFolder, new_keyfile: KeyFile, data_key: DataKey) -> None:
    """Write the anchor of the active generation, alone in the folder. Never raises.

    The old anchor is that of the generation before. The next clean stop of a server writes the new one if that fails
    here.
    """
    path, key = (
        folder.database(new_keyfile.generation),
        data_key.database_key(new_keyfile.database_salt),
    )
    keys = audit_keys(data_key)
    with (
        suppress(CacheError, LockedError, OSError),
        closing(database_opener.connect(path, key)) as opened,
    ):
        anchor = Anchor(folder, new_keyfile.generation, keys.anchor)
        anchor.write(AuditTable(opened, keys.chain_mac), opened)
        opened.set_checkpointer(True)
        opened.checkpoint()


def _renew_copies(writer: GenerationWriter, new_keyfile: KeyFile, data_key: DataKey) -> None:
    """Replace the copies of the database, which the old data key opens, by one of the new database."""
    settings, folder = writer.settings, writer.folder
    tables, keep = settings.store.tables, settings.store.copies(settings.store_settings)
    made = None
    path = folder.database(new_keyfile.generation)
    with suppress(CacheError, OSError):
        if tables is not None and keep:
            key = data_key.database_key(new_keyfile.database_salt)
            now = writer.options.clock()
            with closing(database_opener.connect(path, key)) as opened:
                made = make_copy(folder, opened, data_key, tables, keep=keep, now=now)
    remove_others(folder, made)


def _build(
    writer: GenerationWriter,
    current: ProvenKey,
    carried: _Carried,
    new: Secret | None,
    parameters: Parameters | KdfPolicy,
) -> tuple[KeyFile, DataKey]:
    """Build the next key file, with the slots whose secrets are known; nothing is written yet."""
    data_key = DataKey.generate()
    frame = key_slots.start_for_new_data_key(
        current.keyfile, data_key, owner_hash=writer.settings.owner_hash
    )
    slots = [
        key_slots.rewrap_slot(frame, data_key, slot, carried[slot.id])
        for slot in current.keyfile.slots
        if slot.id in carried
    ]
    if new is not None:
        before = _replaced_slots(current, carried)
        if isinstance(parameters, KdfPolicy):
            parameters = parameters.parameters_for(slot.kdf for slot in before)
        label = (
            before[0].label
            if before and (not _is_added_beside(current) or len(before) == 1)
            else ""
        )
        slots.append(key_slots.new_slot(frame, data_key, new, parameters=parameters, label=label))
    rotated = None if new is None else int(writer.options.clock())
    new_keyfile = key_slots.replace_slots(frame, data_key, slots=tuple(slots), rotated=rotated)
    return new_keyfile, data_key


def _is_added_beside(current: ProvenKey) -> bool:
    """Check whether a new key is added to the one that was used, instead of replacing it."""
    return current.by_keychain or current.slot.type in {SlotType.KEYCHAIN, SlotType.RECOVERY}


def _replaced_slots(current: ProvenKey, carried: _Carried) -> tuple[Slot, ...]:
    """List the slots for whose secrets people now type the new key: the one that was used comes first.

    Dropped slots count, too: a cost that was raised must not be lost with its passphrase.
    """
    typed = (
        slot
        for slot in current.keyfile.slots
        if slot.id not in carried and slot.type in PERSONAL_SLOTS
    )
    return tuple(sorted(typed, key=lambda slot: slot.id != current.slot.id))


def _find_carried(
    settings: Config, options: ChangeOptions, current: ProvenKey, *, replacing: bool
) -> _Carried:
    """Find the slots to keep: the one that was used, if it stays, and the keychain's."""
    carried = (
        {}
        if replacing and not _is_added_beside(current)
        else {current.slot.id: current.key.passphrase}
    )
    in_keychain = [
        s for s in current.keyfile.slots if s.type is SlotType.KEYCHAIN and s != current.slot
    ]
    if not in_keychain or options.system is None:
        return carried
    secret = options.system.get(keychain.KEY, settings.owner_hash)
    with suppress(WrongKey):
        if secret is not None:
            opened = key_slots.open_slot(current.keyfile, secret).slot
            if opened.type is SlotType.KEYCHAIN:
                carried[opened.id] = secret
    return carried


def _find_dropped(current: ProvenKey, carried: _Carried, *, replacing: bool) -> tuple[Slot, ...]:
    replaced = {current.slot.id} if replacing else set()
    return tuple(
        slot for slot in current.keyfile.slots if slot.id not in carried and slot.id not in replaced
    )


def _require_no_kept_copy(folder: AccountFolder) -> None:
    """Refuse while a copy has what a repair could not read: no key would open it afterwards."""
    for copy in list_copies(folder):
        if copy.kept:
            name = copy.path.name
            raise InvalidRequest(
                f"{name} has what a repair could not read, and a re-encryption would remove it; "
                "nothing was changed",
                resolution_hint=f"`mcp-notarium restore {name}` puts it in the place of the notebook. Delete "
                "it from `copies/` if nothing is missing, and run this command again.",
            )


def _require_worth_it(current: ProvenKey, *, replacing: bool) -> None:
    """Refuse where the same key alone would be a bad key for the new cache. Raises ``SlotsRefused``."""
    if replacing:
        return
    if current.slot.type in {SlotType.KEYCHAIN, SlotType.RECOVERY}:
        which = "keychain's" if current.slot.type is SlotType.KEYCHAIN else "recovery"
        raise SlotsRefused(
            f"the {which} key would be the only one that opens the new cache",
            resolution_hint=f"{_GIVE} --ask-old lets you come in by another key.",
        )
