"""Replace the passphrase or raw key: wrap the same data key in a new slot, then remove the old slot.

If the recovery key or the keychain opened the cache, its slot stays, and the new key replaces the
passphrase or raw key that is lost. The data key stays the same: whoever has copied the key file and knew
the old key can still open that copy, and with it the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_notarium.account.database_creation import kdf_policy
from mcp_notarium.account.key_changes import (
    DEFAULTS,
    ChangeOptions,
    apply_change,
    find_account,
    require_openable,
)
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots, slot_changes, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import SlotsRefused, WeakPassphrase, WrongKey
from mcp_notarium.crypto.kdf import KdfPolicy, Parameters
from mcp_notarium.crypto.key_file_codec import KeyFile, Slot
from mcp_notarium.crypto.slot_changes import describe_slot
from mcp_notarium.files.private_files import disk_errors
from mcp_notarium.keys.credentials import KEYCHAIN, FoundKey
from mcp_notarium.keys.key_file_store import NOT_COPIED
from mcp_notarium.secret import Secret

NEEDED_BY_CLIENTS = (
    "Every client configuration that holds the old key needs the new one before its next start."
)
OLD_COPIES = (
    "Old copies of the key file (backups) still open with the old key, and they open the database."
)


@dataclass(frozen=True, slots=True)
class ProvenKey:
    """Hold the present key, proven: which slot it opens. ``key`` knows where it came from."""

    keyfile: KeyFile
    key: FoundKey
    slot: Slot

    @property
    def by_keychain(self) -> bool:
        """Check whether the keychain gave the key; it may be in a slot of type raw all the same."""
        return self.key.origin == KEYCHAIN

    def slots_to_replace(self, slot_ids: Sequence[int] | None = None) -> tuple[Slot, ...]:
        """List the slots that a new key replaces. Raises as ``slot_changes.slots_to_replace`` does."""
        return slot_changes.slots_to_replace(
            self.keyfile, self.slot, by_keychain=self.by_keychain, slot_ids=slot_ids
        )


@dataclass(frozen=True, slots=True)
class RotationResult:
    """Hold what was done. ``proven``: the database was opened with what was written.

    ``slot`` is the new one, ``gone`` those it replaced; ``others`` are the slots that opened before and
    still do.
    """

    sequence: int
    proven: bool
    slot: Slot
    gone: tuple[Slot, ...]
    others: tuple[Slot, ...]
    notices: tuple[str, ...]


def prove_key(settings: Config, *, options: ChangeOptions = DEFAULTS) -> ProvenKey:
    """Prove the present key (of the settings, or ``options.old``) before anybody is asked for a new one.

    Raises ``LockedError`` (start-up's verdicts) and changes nothing.
    """
    find_account(settings)
    with disk_errors("the key file cannot be read"):
        keyfile, _, found = require_openable(
            options.inspector(settings).inspect(now=options.clock(), opens=False)
        )
    slot = key_slots.open_slot(keyfile, found.passphrase, bounds=options.bounds).slot
    return ProvenKey(keyfile, found, slot)


def rotate_passphrase(
    settings: Config,
    *,
    new: Secret,
    parameters: Parameters | KdfPolicy | None = None,
    allow_weak: bool = False,
    slot_ids: Sequence[int] | None = None,
    keychain: str = "",
    current: ProvenKey | None = None,
    options: ChangeOptions = DEFAULTS,
) -> RotationResult:
    """Rotate the key: let ``new`` open the cache instead of the old key.

    ``new`` is a passphrase or a raw key; ``parameters`` are those of its KDF (None: :func:`kdf_policy`). ``slot_ids``
    are the slots to replace, if not those of ``slot_changes.slots_to_replace``; ``keychain`` is the name of
    the keychain that alone has ``new``; ``current`` what :func:`prove_key` has found already. Raises
    ``WeakPassphrase``, ``MalformedKey``, ``SlotsRefused`` and ``LockedError`` (start-up's verdicts, or
    BUSY) with nothing changed.
    """
    require_new(new, account=settings.account.name, allow_weak=allow_weak)
    now, current = int(options.clock()), current or prove_key(settings, options=options)
    # The same key under other KDF parameters replaces itself, wherever it is kept.
    slot_stays = current.by_keychain and new != current.key.passphrase
    gone = slot_changes.slots_to_replace(
        current.keyfile, current.slot, by_keychain=slot_stays, slot_ids=slot_ids
    )

    def make(before: KeyFile, _data_key: DataKey, key: Secret) -> KeyFile:
        return slot_changes.rewrap(
            before,
            old=key,
            new=new,
            parameters=parameters or kdf_policy(settings),
            now=now,
            by_keychain=slot_stays,
            slot_ids=[slot.id for slot in gone],
            keychain=keychain,
            bounds=options.bounds,
        )

    if current.slot in gone:
        done = apply_change(settings, make, instead=new, options=options)
    else:
        done = apply_change(settings, make, also_opens=(new,), options=options)
    ids = {slot.id for slot in done.before.slots}
    return RotationResult(
        sequence=done.after.sequence,
        proven=done.proven,
        slot=next(slot for slot in done.after.slots if slot.id not in ids),
        gone=gone,
        others=still_opening(done.before, done.after),
        notices=_notices(gone, copied=done.copied),
    )


def _notices(gone: Sequence[Slot], *, copied: bool) -> tuple[str, ...]:
    notices = (NEEDED_BY_CLIENTS, OLD_COPIES) if gone else ()
    return notices if copied else (*notices, NOT_COPIED)


def still_opening(before: KeyFile, after: KeyFile) -> tuple[Slot, ...]:
    """List the slots that opened before a change and open after it."""
    ids = {slot.id for slot in before.slots}
    return tuple(slot for slot in after.slots if slot.id in ids)


def require_unused(current: ProvenKey, new: Secret) -> None:
    """Refuse a key that opens the cache already: it would change nothing. Raises ``SlotsRefused``."""
    try:
        slot = key_slots.open_slot(current.keyfile, new).slot
    except WrongKey:
        return
    raise SlotsRefused(
        f"this key opens the cache already ({describe_slot(slot)}); nothing was changed",
        resolution_hint="Give another one. With `--kdf` and `--keep-key` only the key derivation changes.",
    )


def require_strong(new: Secret, *, account: str, allow_weak: bool) -> None:
    """Refuse a new passphrase that could be guessed. Raises ``WeakPassphrase``, ``MalformedKey``."""
    reason = user_key.weakness(new, account=account)
    if reason and not allow_weak:
        raise WeakPassphrase(reason)


def require_new(new: Secret, *, account: str, allow_weak: bool) -> None:
    """Refuse a weak passphrase and a recovery key, whose place is on paper, not in configurations.

    Raises as :func:`require_strong`, and ``SlotsRefused``.
    """
    require_strong(new, account=account, allow_weak=allow_weak)
    if user_key.read(new).kind == "recovery":
        raise SlotsRefused(
            "a recovery key cannot be the new key",
            resolution_hint="Choose a passphrase, or take a key of `mcp-notarium generate-key`; "
            "`mcp-notarium keys recovery create` makes recovery keys.",
        )
