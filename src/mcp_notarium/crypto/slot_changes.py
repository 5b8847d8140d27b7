"""Change the slots of a key file, one pure function per change.

Each returns the next key file (sequence + 1, new MAC) or raises ``SlotsRefused`` and changes nothing.
A slot never changes its secret; it is added, disabled, or removed.
"""

from __future__ import annotations

from dataclasses import replace

from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import SlotsRefused
from mcp_notarium.crypto.key_file_codec import KeyFile, Slot, SlotState


def find_slot(keyfile: KeyFile, slot_id: int) -> Slot:
    """Return the slot with this id. Raises ``SlotsRefused`` if there is none."""
    for slot in keyfile.slots:
        if slot.id == slot_id:
            return slot
    known = ", ".join(str(slot.id) for slot in keyfile.slots)
    raise SlotsRefused(f"there is no slot {slot_id}; there are {known}")


def described(slot: Slot) -> str:
    """Describe a slot for a person: number, label, type, and its state if it is not active.

    The label stands before the type: quoted text after the word passphrase is redacted outside of
    terminals, as a passphrase would be.
    """
    words = [f'"{slot.label}"'] if slot.label else []
    words += [slot.type.value]
    words += [slot.state.value] if slot.state is not SlotState.ACTIVE else []
    return f"slot {slot.id} ({', '.join(words)})"


def disable(keyfile: KeyFile, data_key: DataKey, slot_id: int) -> KeyFile:
    """Disable a slot; it stays and opens nothing any more."""
    return _in_state(keyfile, data_key, slot_id, SlotState.DISABLED)


def enable(keyfile: KeyFile, data_key: DataKey, slot_id: int) -> KeyFile:
    """Make a disabled or compromised slot active again."""
    return _in_state(keyfile, data_key, slot_id, SlotState.ACTIVE)


def mark_compromised(keyfile: KeyFile, data_key: DataKey, slot_id: int) -> KeyFile:
    """Mark a slot as compromised; it still opens, and every listing says that it should go."""
    return _in_state(keyfile, data_key, slot_id, SlotState.COMPROMISED)


def remove(keyfile: KeyFile, data_key: DataKey, slot_id: int) -> KeyFile:
    """Remove a slot. Older copies of the key file still have it."""
    gone = find_slot(keyfile, slot_id)
    kept = tuple(slot for slot in keyfile.slots if slot.id != gone.id)
    return key_slots.replace_slots(keyfile, data_key, slots=kept)


def _in_state(keyfile: KeyFile, data_key: DataKey, slot_id: int, state: SlotState) -> KeyFile:
    before = find_slot(keyfile, slot_id)
    if before.state is state:
        raise SlotsRefused(f"slot {slot_id} is {state.value} already")
    after = tuple(
        replace(slot, state=state) if slot.id == slot_id else slot for slot in keyfile.slots
    )
    return key_slots.replace_slots(keyfile, data_key, slots=after)
