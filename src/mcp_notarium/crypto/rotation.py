"""Changing the passphrase as a table of steps, and what a half-done change needs to be at rest.

Only the wrapping changes: the data key and the database stay as they are. ``keys/rotate.py`` takes
the steps; start-up and the next rotation take what :func:`settle` says. Nothing here does anything.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum

from mcp_notarium.crypto import kdf, keyslots, userkey
from mcp_notarium.crypto.kdf import RandomBytes
from mcp_notarium.crypto.keyslots import KeyFile, Slot, SlotType
from mcp_notarium.secret import Secret


class Step(StrEnum):
    """The steps of a change of passphrase, in order; each is also a place to crash at."""

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
    """One step: what it does, and which passphrase opens the cache after a crash behind it."""

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


def rewrap(
    keyfile: KeyFile,
    *,
    old: Secret,
    new: Secret,
    parameters: kdf.Parameters,
    now: int,
    bounds: kdf.Bounds = kdf.PRODUCTION,
    random_bytes: RandomBytes = secrets.token_bytes,
) -> KeyFile:
    """The key file in which ``new`` stands for ``old``; every other slot stays.

    Raises ``WrongKey`` if ``old`` opens nothing, ``MalformedKey``.
    """
    opened = keyslots.open_slot(keyfile, old, bounds=bounds)
    slot = keyslots.new_slot(
        keyfile,
        opened.data_key,
        new,
        parameters=parameters,
        type_=_type_after(opened.slot, new),
        label=opened.slot.label,
        bounds=bounds,
        random_bytes=random_bytes,
    )
    others = tuple(one for one in keyfile.slots if one.id != opened.slot.id)
    return keyslots.replace_slots(keyfile, opened.data_key, slots=(*others, slot), rotated=now)


def _type_after(old: Slot, new: Secret) -> SlotType | None:
    """The keychain's slot stays the keychain's, where the new key can be; None: as the key says."""
    stays = old.type is SlotType.KEYRING and userkey.read(new).kind == "raw"
    return SlotType.KEYRING if stays else None


class Settle(StrEnum):
    """What brings a folder to rest after a crash."""

    RESTORE_MAIN = "restore_main"
    """Write the key file again from its copy."""
    REFRESH_COPY = "refresh_copy"
    """Write the copy again from the key file: it is missing, damaged or of another sequence."""
    REMOVE_STRAYS = "remove_strays"
    """Remove temporary files of a change that never reached its commit point."""


def settle(*, main: KeyFile | None, copy: KeyFile | None, strays: bool) -> tuple[Settle, ...]:
    """What to do, given what can be read (None: missing or damaged). Nothing if neither can.

    The key file always wins over its copy: the rename of the key file is the commit point.
    """
    if main is None and copy is None:
        return ()
    found = []
    if main is None:
        found.append(Settle.RESTORE_MAIN)
    elif copy != main:
        found.append(Settle.REFRESH_COPY)
    if strays:
        found.append(Settle.REMOVE_STRAYS)
    return tuple(found)
