"""List, add, disable, enable and remove the key slots of a cache.

Every change goes through ``key_changes``: the key that opened the cache must still open it afterwards, so
no single command locks its user out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from mcp_notarium.account import startup_outcomes
from mcp_notarium.account.database_creation import kdf_policy
from mcp_notarium.account.inspection import Inspector
from mcp_notarium.account.key_changes import (
    DEFAULTS,
    ChangeOptions,
    ChangeResult,
    apply_change,
    missing_cache_error,
    require_openable,
)
from mcp_notarium.account.slot_rotation import require_strong
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots, slot_changes, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged, MalformedKey, SlotsRefused, WrongKey
from mcp_notarium.crypto.kdf import PRODUCTION, Bounds, Parameters
from mcp_notarium.crypto.key_file_codec import (
    MOST_SLOTS,
    KeyFile,
    Slot,
    SlotState,
    SlotType,
    is_label,
)
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files.account_folder import check_folder
from mcp_notarium.files.private_files import disk_errors
from mcp_notarium.keys import key_file_store
from mcp_notarium.keys.credentials import FoundKey
from mcp_notarium.secret import Secret

SlotChange = Callable[[KeyFile, DataKey, int], KeyFile]
"""Function of ``slot_changes`` that changes the slot with this id."""


@dataclass(frozen=True, slots=True)
class SlotList:
    """Hold the slots as they stand in the key file.

    ``opened_by`` is the id of the slot that the given key opens; None: no key was given, or it
    opens none. Without a key nothing proves that the list is as it was written; ``uncertain``: the
    copy beside it says that it is newer, and no key tells whether that is true.
    """

    keyfile: KeyFile
    opened_by: int | None
    uncertain: bool = False


def list_slots(settings: Config, key: Secret | None, *, bounds: Bounds = PRODUCTION) -> SlotList:
    """Read the key file (or its copy, if that is all there is). Changes nothing.

    Raises ``LockedError`` if there is none, it is lost, damaged or forged, or the folder is unsafe,
    and if the key vouches for a copy that is newer.
    """
    folder = check_folder(settings.account_dir)
    with disk_errors("the key file cannot be read"):
        files = key_file_store.load(folder, bounds=bounds)
    found = files.valid
    if found is None:
        # No key is tried here, so any will do; nothing is asked of a keychain.
        inspector = Inspector(
            settings, bounds=bounds, key=FoundKey(Secret("none is tried"), "a key")
        )
        require_openable(inspector.inspect(now=0, opens=False))
        raise missing_cache_error()
    opened = None
    with suppress(MalformedKey):  # the configured key can be no key at all; it opens nothing then
        if key is not None:
            opened = _find_proven_slot(found, key, files.copy_ahead, bounds)
    return SlotList(found, opened, uncertain=files.copy_ahead is not None and opened is None)


def rollback_error() -> LockedError:
    """Return the error for an old key file that was put back."""
    return LockedError(
        Verdict.ROLLBACK_SEEN,
        "the key file is older than its copy `notarium_keys.json.bak`",
        resolution_hint=startup_outcomes.COPY_BACK,
    )


def _find_proven_slot(
    main: KeyFile, key: Secret, copy: KeyFile | None, bounds: Bounds
) -> int | None:
    """Find the slot that the key opens; return its id, None if it opens none.

    Raises ``KeyFileDamaged`` (forged), and ``LockedError`` if the key proves a newer ``copy``: it opens
    the copy, or the key file that the copy grew from.
    """
    opened, forged = None, None
    try:
        opened = key_slots.open_slot(main, key, bounds=bounds)
    except WrongKey:
        pass
    except KeyFileDamaged as error:
        forged = error
    if copy is not None:
        if opened is not None and key_slots.has_valid_mac(copy, opened.data_key):
            raise rollback_error()
        with suppress(WrongKey, KeyFileDamaged):
            key_slots.unlock(copy, key, bounds=bounds)
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
        if _find_opened_slot(before, new, options.bounds) is not None:
            raise SlotsRefused("this key opens the cache already")
        slot = key_slots.new_slot(
            before,
            data_key,
            new,
            parameters=parameters or _cost_of_costliest(before, settings),
            type_=type_,
            label=label,
            bounds=options.bounds,
        )
        return key_slots.replace_slots(
            before, data_key, slots=(*before.slots, slot), bounds=options.bounds
        )

    return apply_change(settings, make, also_opens=(new,), options=options)


def _cost_of_costliest(before: KeyFile, settings: Config) -> Parameters:
    """Return the cost of one more passphrase: an attacker guesses the cheapest one."""
    opening = (slot.kdf for slot in before.slots if slot.state is not SlotState.DISABLED)
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


def change_slot(
    settings: Config, slot_id: int, change: SlotChange, *, options: ChangeOptions = DEFAULTS
) -> ChangeResult:
    """Disable, enable, mark or remove a slot. Raises as ``apply_change``, and ``SlotsRefused``."""

    def make(before: KeyFile, data_key: DataKey, key: Secret) -> KeyFile:
        after = change(before, data_key, slot_id)
        if _find_opened_slot(after, key, options.bounds) is None:
            raise SlotsRefused(
                f"slot {slot_id} is the slot that your key opened",
                resolution_hint="Use --ask-key and give another key that opens the cache: that proves "
                "that one is left.",
            )
        return after

    return apply_change(settings, make, options=options)


def recovery_slot(settings: Config, typed: str, *, bounds: Bounds = PRODUCTION) -> Slot:
    """Find the slot that a recovery key opens, by opening it. Changes nothing.

    Raises ``MalformedKey`` for a typing error, ``WrongKey``, and as :func:`list_slots` does.
    """
    key = user_key.write_recovery_key(user_key.read_recovery_key(typed).reveal())
    found = list_slots(settings, key, bounds=bounds)
    if found.opened_by is None:
        raise WrongKey
    return slot_changes.find_slot(found.keyfile, found.opened_by)


def _find_opened_slot(found: KeyFile, key: Secret, bounds: Bounds) -> int | None:
    try:
        return key_slots.open_slot(found, key, bounds=bounds).slot.id
    except WrongKey:
        return None
