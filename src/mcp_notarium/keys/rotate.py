"""Changes the key of a cache: the slot that the old key opens gives way to one for the new key.

It does not make a new data key: who has copied the key file and knew the old key can still open
that copy, and with it the database.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcp_notarium.crypto import rotation, userkey
from mcp_notarium.crypto.datakey import DataKey
from mcp_notarium.crypto.failures import WeakPassphrase
from mcp_notarium.crypto.kdf import Parameters
from mcp_notarium.crypto.keyslots import KeyFile, Slot, SlotState
from mcp_notarium.keys import creating
from mcp_notarium.keys.changing import Given, change
from mcp_notarium.keys.keyfile import NOT_COPIED
from mcp_notarium.keys.looking import OpeningSettings
from mcp_notarium.secret import Secret

KEPT_BY_OTHERS = (
    "Every client configuration that holds the old key needs the new one before its next start.",
    "Old copies of the key file (backups) still open with the old key, and they open the database.",
)


@dataclass(frozen=True, slots=True)
class Rotated:
    """What was done. ``proven``: the database was opened with what was written.

    ``others`` are the slots that opened before and still do.
    """

    sequence: int
    rotated: int
    proven: bool
    others: tuple[Slot, ...]
    notices: tuple[str, ...]


def rotate_passphrase(
    settings: OpeningSettings,
    *,
    new: Secret,
    parameters: Parameters | None = None,
    allow_weak: bool = False,
    given: Given | None = None,
) -> Rotated:
    """Let ``new`` open the cache instead of the old key.

    ``new`` is a passphrase or a raw key; ``parameters`` stretch it (None: as the settings say).
    Raises ``WeakPassphrase``, ``MalformedKey`` and ``LockedError`` (start-up's verdicts, or BUSY)
    with nothing changed.
    """
    given = given or Given()
    demand_strong(new, allow_weak=allow_weak)
    now = int(given.clock())

    def rewrapped(before: KeyFile, _data_key: DataKey, key: Secret) -> KeyFile:
        return rotation.rewrap(
            before,
            old=key,
            new=new,
            parameters=parameters or creating.parameters(settings),
            now=now,
            bounds=given.bounds,
        )

    done = change(settings, rewrapped, instead=new, given=given)
    kept = {slot.id for slot in done.before.slots} & {slot.id for slot in done.after.slots}
    return Rotated(
        sequence=done.after.sequence,
        rotated=now,
        proven=done.proven,
        others=tuple(
            slot
            for slot in done.after.slots
            if slot.id in kept and slot.state is not SlotState.DISABLED
        ),
        notices=KEPT_BY_OTHERS if done.copied else (*KEPT_BY_OTHERS, NOT_COPIED),
    )


def demand_strong(new: Secret, *, allow_weak: bool) -> None:
    """Raises ``WeakPassphrase`` for a new passphrase that could be guessed, ``MalformedKey``."""
    reason = userkey.weakness(new)
    if reason and not allow_weak:
        raise WeakPassphrase(reason)
