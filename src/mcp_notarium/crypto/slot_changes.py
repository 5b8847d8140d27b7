"""Change the slots of a key file, one pure function per change; name the steps of writing it.

Each function returns the next key file (sequence + 1, new MAC) or raises ``SlotsRefused`` and changes
nothing. A slot never changes its secret; it is added, replaced or removed. The data key and the
database stay as they are. ``account/key_changes`` runs the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from mcp_notarium.crypto import kdf, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import SlotsRefused
from mcp_notarium.crypto.kdf import KdfPolicy
from mcp_notarium.crypto.key_file_codec import KeyFile, Slot, SlotType
from mcp_notarium.secret import Secret

PERSONAL_SLOTS = (SlotType.PASSPHRASE, SlotType.RAW)
"""Slots whose secret a person keeps and gives to clients; the others are for recovery."""


class KeyChangeStep(StrEnum):
    """Name the steps of a key change, in order; tests crash after each."""

    LOCK = "lock"
    """Take the key lock; a second change is refused."""
    UNWRAP = "unwrap"
    """Read the key file and unwrap the data key with the old key."""
    BUILD = "build"
    """Wrap it with the new key, sequence + 1."""
    WRITE = "write"
    """Unwrap the new key file with every key that must open it, then write it under a temporary name."""
    SYNC = "sync"
    VERIFY = "verify"
    """Read it back and compare it."""
    SWITCH = "switch"
    """Rename it over the key file: the commit point. From here on the new key opens."""
    SYNC_FOLDER = "sync_folder"
    WRITE_COPY = "write_copy"
    SYNC_COPY = "sync_copy"
    VERIFY_COPY = "verify_copy"
    SWITCH_COPY = "switch_copy"
    """Rename it over the copy; the old key is gone."""
    SYNC_FOLDER_COPY = "sync_folder_copy"
    PROVE = "prove"
    """Open the database with what was just written."""


def find_slot(keyfile: KeyFile, slot_id: int) -> Slot:
    """Return the slot with this id. Raises ``SlotsRefused`` if there is none."""
    for slot in keyfile.slots:
        if slot.id == slot_id:
            return slot
    ids = ", ".join(str(slot.id) for slot in keyfile.slots)
    raise SlotsRefused(f"there is no slot {slot_id}; there are {ids}")


def describe_slot(slot: Slot) -> str:
    """Describe a slot for a person: number, label, type, and its state if it is not active.

    The label stands before the type: quoted text after the word passphrase is redacted outside of
    terminals, as a passphrase would be.
    """
    words = [f'"{slot.label}"'] if slot.label else []
    words += [slot.type.value]
    return f"slot {slot.id} ({', '.join(words)})"


def remove(keyfile: KeyFile, data_key: DataKey, slot_id: int) -> KeyFile:
    """Remove a slot. Older copies of the key file still have it."""
    gone = find_slot(keyfile, slot_id)
    # defence: removed-slot-opens-nothing =True
    kept = tuple(slot for slot in keyfile.slots if slot.id != gone.id)
    return key_slots.replace_slots(keyfile, data_key, slots=kept)


def slots_to_replace(
    keyfile: KeyFile,
    slot: Slot,
    *,
    by_keychain: bool = False,
    slot_ids: Sequence[int] | None = None,
) -> tuple[Slot, ...]:
    """Return the slots that a new key replaces. ``slot`` is the one that the old key has opened.

    An old passphrase or raw key is replaced itself. A recovery key stays, and so does the key in the keychain
    (``by_keychain``: the old key came from there). They replace the one passphrase or raw key of the file, if it has any.
    The caller can name the slots by ``slot_ids`` instead. Raises ``SlotsRefused`` if the choice is not clear, or a named
    slot cannot be replaced.
    """
    if slot_ids is not None:
        named = tuple(find_slot(keyfile, number) for number in dict.fromkeys(slot_ids))
        for one in named:
            if one.type not in PERSONAL_SLOTS or (by_keychain and one.id == slot.id):
                raise _irreplaceable(one)
        return named
    if slot.type in PERSONAL_SLOTS and not by_keychain:
        return (slot,)
    others = tuple(one for one in keyfile.slots if one.type in PERSONAL_SLOTS and one.id != slot.id)
    if len(others) > 1:
        candidates = "; ".join(map(describe_slot, others))
        raise SlotsRefused(
            f"it is not clear which key the new one replaces: {candidates}",
            resolution_hint="Name it by --slot (several times for several), or open the cache with the "
            "key that is to go (--ask-old).",
        )
    return others


def rewrap(
    keyfile: KeyFile,
    *,
    old: Secret,
    new: Secret,
    parameters: kdf.Parameters | KdfPolicy,
    now: int,
    by_keychain: bool = False,
    slot_ids: Sequence[int] | None = None,
    keychain: str = "",
    bounds: kdf.Bounds = kdf.PRODUCTION,
) -> KeyFile:
    """Return the key file with a slot for ``new`` in place of :func:`slots_to_replace`.

    The key changes at ``now``, unless ``new`` is ``old`` with other KDF parameters. ``keychain`` is the name of the
    keychain if only that has ``new``. Raises as :func:`slots_to_replace`, ``WrongKey`` if ``old`` opens nothing, and
    ``MalformedKey``.
    """
    opened = key_slots.open_slot(keyfile, old, bounds=bounds)
    gone = slots_to_replace(keyfile, opened.slot, by_keychain=by_keychain, slot_ids=slot_ids)
    if isinstance(parameters, KdfPolicy):
        parameters = parameters.parameters_for(slot.kdf for slot in gone)
    slot = key_slots.new_slot(
        keyfile,
        opened.data_key,
        new,
        parameters=parameters,
        type_=SlotType.KEYCHAIN if keychain else None,
        label=keychain or (gone[0].label if gone else ""),
        bounds=bounds,
    )
    slots = (*(one for one in keyfile.slots if one not in gone), slot)
    rotated = None if new == old else now  # the same key with other KDF parameters is no new key
    return key_slots.replace_slots(
        keyfile, opened.data_key, slots=slots, rotated=rotated, bounds=bounds
    )


def _irreplaceable(slot: Slot) -> SlotsRefused:
    hint = {
        SlotType.RECOVERY: "`mcp-notarium keys recovery create` makes another one; then "
        "`mcp-notarium keys remove` takes this one away.",
    }.get(slot.type, "`mcp-notarium rotate-key --keychain` gives the keychain another key.")
    return SlotsRefused(
        f"{describe_slot(slot)} cannot be replaced by a typed key", resolution_hint=hint
    )
