"""List the steps of a key change, and decide what a half-done change needs.

Only the wrapping changes: the data key and the database stay as they are. ``account/key_rotation.py``
runs the steps; start-up and the next rotation do what :func:`plan_rest` returns. This module does nothing itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mcp_notarium.crypto import kdf, key_slots, slot_changes
from mcp_notarium.crypto.errors import SlotsRefused
from mcp_notarium.crypto.kdf import RandomBytes
from mcp_notarium.crypto.kdf_policy import KdfPolicy
from mcp_notarium.crypto.key_slots import KeyFile, Slot, SlotState, SlotType
from mcp_notarium.crypto.slot_changes import described
from mcp_notarium.secret import Secret

PERSONAL_SLOTS = (SlotType.PASSPHRASE, SlotType.RAW)
"""Slots whose secret a person keeps and gives to clients; the others are for recovery."""


class Step(StrEnum):
    """Name the steps of a key change, in order; tests crash after each."""

    LOCK = "lock"
    UNWRAP = "unwrap"
    BUILD = "build"
    WRITE = "write"
    SYNC = "sync"
    VERIFY = "verify"
    SWITCH = "switch"
    SYNC_FOLDER = "sync_folder"
    WRITE_COPY = "write_copy"
    SYNC_COPY = "sync_copy"
    VERIFY_COPY = "verify_copy"
    SWITCH_COPY = "switch_copy"
    SYNC_FOLDER_COPY = "sync_folder_copy"
    PROVE = "prove"


@dataclass(frozen=True, slots=True)
class Row:
    """Hold a step: what it does, and which passphrase opens the cache after a crash following it."""

    step: Step
    sentence: str
    opens: str


REWRAP = (
    Row(Step.LOCK, "take the key lock; a second rotation is refused", "old"),
    Row(Step.UNWRAP, "read the key file and unwrap the data key with the old passphrase", "old"),
    Row(Step.BUILD, "wrap it with the new passphrase, sequence + 1", "old"),
    Row(Step.WRITE, "write the new key file under a temporary name", "old"),
    Row(Step.SYNC, "flush it to the disk", "old"),
    Row(Step.VERIFY, "read it back and unwrap it with the new passphrase", "old"),
    Row(Step.SWITCH, "rename it over the key file: the commit point", "new"),
    Row(Step.SYNC_FOLDER, "flush the folder", "new"),
    Row(Step.WRITE_COPY, "write the same under another temporary name", "new"),
    Row(Step.SYNC_COPY, "flush it to the disk", "new"),
    Row(Step.VERIFY_COPY, "read it back and compare", "new"),
    Row(Step.SWITCH_COPY, "rename it over the copy; the old passphrase is gone", "new"),
    Row(Step.SYNC_FOLDER_COPY, "flush the folder", "new"),
    Row(Step.PROVE, "open the database with what was just written", "new"),
)


class AmbiguousSlot(SlotsRefused):
    """Several slots could be the one that a new key replaces."""

    def __init__(self, candidates: Sequence[Slot]) -> None:
        named = "; ".join(described(slot) for slot in candidates)
        super().__init__(
            f"it is not clear which key the new one takes the place of: {named}",
            resolution_hint="Say so by --slot (several times for several), or come in by the key "
            "that is to go (--ask-old).",
        )
        self.candidates = tuple(candidates)


def slots_to_replace(
    keyfile: KeyFile, slot: Slot, *, kept: bool = False, wanted: Sequence[int] | None = None
) -> tuple[Slot, ...]:
    """Return the slots that a new key replaces, if ``slot`` is the one that was opened.

    A key that a person types for clients replaces itself. The recovery key and the keychain's key
    (``kept``: the opened slot is the keychain's, whatever its type) stay; then the passphrase or raw key
    beside them is replaced, or none if there is none. ``wanted`` names the slots instead. Raises
    ``AmbiguousSlot`` if there are several, ``SlotsRefused`` if one of ``wanted`` cannot be replaced.
    """
    if wanted is not None:
        chosen = tuple(slot_changes.find_slot(keyfile, number) for number in dict.fromkeys(wanted))
        for one in chosen:
            if one.type not in PERSONAL_SLOTS or (kept and one.id == slot.id):
                raise _stays(one)
        return chosen
    if slot.type in PERSONAL_SLOTS and not kept:
        return (slot,)
    beside = tuple(
        one
        for one in keyfile.slots
        if one.type in PERSONAL_SLOTS and one.state is not SlotState.DISABLED and one.id != slot.id
    )
    if len(beside) > 1:
        raise AmbiguousSlot(beside)
    return beside


def rewrap(
    keyfile: KeyFile,
    *,
    old: Secret,
    new: Secret,
    parameters: kdf.Parameters | KdfPolicy,
    now: int,
    kept: bool = False,
    wanted: Sequence[int] | None = None,
    keychain: str = "",
    bounds: kdf.Bounds = kdf.PRODUCTION,
    random_bytes: RandomBytes = secrets.token_bytes,
) -> KeyFile:
    """Return the key file with a slot for ``new`` in place of :func:`slots_to_replace`.

    ``now`` becomes the time of the last key change, unless ``new`` is ``old`` with other KDF parameters;
    ``keychain`` is the name of the keychain that alone has ``new``, if one has. Raises ``WrongKey``
    if ``old`` opens nothing, ``MalformedKey``, and as :func:`slots_to_replace`.
    """
    opened = key_slots.open_slot(keyfile, old, bounds=bounds)
    gone = slots_to_replace(keyfile, opened.slot, kept=kept, wanted=wanted)
    if isinstance(parameters, KdfPolicy):
        parameters = parameters.parameters_for(slot.kdf for slot in gone)
    slot = key_slots.new_slot(
        keyfile,
        opened.data_key,
        new,
        parameters=parameters,
        type_=SlotType.KEYRING if keychain else None,
        label=keychain or (gone[0].label if gone else ""),
        bounds=bounds,
        random_bytes=random_bytes,
    )
    slots = (*(one for one in keyfile.slots if one not in gone), slot)
    rotated = None if new == old else now  # the same key with other KDF parameters is no new key
    return key_slots.replace_slots(
        keyfile, opened.data_key, slots=slots, rotated=rotated, bounds=bounds
    )


def _stays(slot: Slot) -> SlotsRefused:
    hint = {
        SlotType.RECOVERY: "`mcp-notarium keys recovery create` makes another one; then "
        "`mcp-notarium keys remove` takes this one away.",
    }.get(slot.type, "`mcp-notarium rotate-key --keychain` gives the keychain another key.")
    return SlotsRefused(
        f"{described(slot)} does not give way to a key that is typed", resolution_hint=hint
    )


class RestStep(StrEnum):
    """Name what completes or undoes a key change after a crash."""

    RESTORE_MAIN = "restore_main"
    """Write the key file again from its copy."""
    REFRESH_COPY = "refresh_copy"
    """Write the copy again from the key file: it is missing, damaged or of another sequence."""
    REMOVE_STRAYS = "remove_strays"
    """Remove temporary files of a change that never reached its commit point."""


def plan_rest(*, main: KeyFile | None, copy: KeyFile | None, strays: bool) -> tuple[RestStep, ...]:
    """Return what to do, given what can be read (None: missing or damaged); nothing if neither can.

    The key file always wins over its copy: the rename of the key file is the commit point.
    """
    if main is None and copy is None:
        return ()
    found = []
    if main is None:
        found.append(RestStep.RESTORE_MAIN)
    elif copy != main:
        found.append(RestStep.REFRESH_COPY)
    if strays:
        found.append(RestStep.REMOVE_STRAYS)
    return tuple(found)
