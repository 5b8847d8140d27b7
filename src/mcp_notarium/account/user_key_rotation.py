"""Replace the key that opens an account: a passphrase or raw key, or the random key that the OS keychain holds.

The same data key is wrapped in a new slot, then the old slot is removed. The slot of a recovery key or of the keychain
stays when that has opened the cache: the new key replaces the passphrase or raw key that is lost. A person who knows the
old key and has a copy of the key file can still open that copy, and with it the database.

The keychain's key protects a stolen disk or backup, not against programs of the same user. It is never the only key
that opens the cache: resetting or reinstalling the keychain must not lose the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from mcp_notarium.account import key_changes
from mcp_notarium.account.generation import kdf_policy
from mcp_notarium.account.key_changes import (
    DEFAULTS,
    ChangeOptions,
    ChangeResult,
    apply_change,
    find_account,
    require_openable,
    require_strong,
)
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import SlotsRefused, WrongKey
from mcp_notarium.crypto.kdf import KdfPolicy, Parameters
from mcp_notarium.crypto.key_file_codec import KeyFile, Slot, SlotType
from mcp_notarium.crypto.key_slots import describe_slot
from mcp_notarium.errors import LockedError
from mcp_notarium.files.private_files import disk_errors
from mcp_notarium.keys import keychain
from mcp_notarium.keys.key_file_store import NOT_COPIED
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.keys.secret_places import KEYCHAIN, FoundKey
from mcp_notarium.secret import Secret

NEEDED_BY_CLIENTS = (
    "Every client configuration that holds the old key needs the new one before its next start."
)
OLD_COPIES = (
    "Old copies of the key file (backups) still open with the old key, and they open the database."
)


@dataclass(frozen=True, slots=True)
class ProvenKey:
    """Hold the present key, proven: which slot it opens."""

    keyfile: KeyFile
    key: FoundKey
    """Knows where it came from."""
    slot: Slot

    @property
    def by_keychain(self) -> bool:
        """Check whether the keychain gave the key; it may be in a slot of type raw all the same."""
        return self.key.origin == KEYCHAIN

    def slots_to_replace(self, slot_ids: Sequence[int] | None = None) -> tuple[Slot, ...]:
        """List the slots that a new key replaces. Raises as ``key_slots.slots_to_replace`` does."""
        return key_slots.slots_to_replace(
            self.keyfile, self.slot, by_keychain=self.by_keychain, slot_ids=slot_ids
        )


@dataclass(frozen=True, slots=True)
class RotationResult:
    """Hold what was done."""

    sequence: int
    proven: bool
    """The database was opened with what was written."""
    slot: Slot
    """The new one."""
    gone: tuple[Slot, ...]
    """Those that it replaced."""
    others: tuple[Slot, ...]
    """Those that opened before and still do."""
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
    slot = key_slots.open_slot(keyfile, found.passphrase).slot
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
    """Rotate the key: let ``new``, a passphrase or a raw key, open the cache instead of the old key.

    ``parameters`` None: :func:`kdf_policy` chooses the cost. ``slot_ids`` and ``keychain``: as for
    ``key_slots.rewrap``. ``current``: what :func:`prove_key` has found already. Raises ``WeakPassphrase``,
    ``MalformedKey``, ``SlotsRefused`` and ``LockedError`` (start-up's verdicts, or BUSY) with nothing changed.
    """
    require_new(new, account=settings.account.name, allow_weak=allow_weak)
    now, current = int(options.clock()), current or prove_key(settings, options=options)
    # The same key under other KDF parameters replaces itself, wherever it is kept.
    slot_stays = current.by_keychain and new != current.key.passphrase
    gone = key_slots.slots_to_replace(
        current.keyfile, current.slot, by_keychain=slot_stays, slot_ids=slot_ids
    )

    def make(before: KeyFile, _data_key: DataKey, key: Secret) -> KeyFile:
        return key_slots.rewrap(
            before,
            old=key,
            new=new,
            parameters=parameters or kdf_policy(settings),
            now=now,
            by_keychain=slot_stays,
            slot_ids=[slot.id for slot in gone],
            keychain=keychain,
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


def enable_keychain(
    settings: Config, system: Keychain, *, options: ChangeOptions = DEFAULTS
) -> ChangeResult:
    """Add a keychain slot to the key that opens the cache now; it is labelled with the keychain's name.

    The key of the settings (or ``options.old``) must open it. A random key in the keychain that opens
    nothing is reused: an interrupted run has left it. Raises ``SlotsRefused`` if the
    keychain holds another key for this account, ``LockedError`` (KEYCHAIN_UNUSABLE, start-up's
    verdicts); the keychain is left as it was then.
    """
    options = replace(options, system=system)
    require_free_keychain(settings, system)
    with _store_secret(settings, system) as secret:
        return key_changes.add(
            settings, secret, label=system.name, type_=SlotType.KEYCHAIN, options=options
        )


def disable_keychain(
    settings: Config, system: Keychain, *, options: ChangeOptions = DEFAULTS
) -> ChangeResult | None:
    """Remove the keychain's slot, then its entry; None if the entry opened nothing.

    Raises ``SlotsRefused`` if there is no entry, or if it is the key that opened the cache just now.
    """
    options = replace(options, system=system)
    secret = system.get(keychain.KEY, settings.owner_hash)
    if secret is None:
        raise SlotsRefused(
            "the keychain holds no key for this account", resolution_hint="No action is needed."
        )
    slot_id = key_changes.list_slots(settings, secret).opened_by
    changed = None if slot_id is None else key_changes.remove(settings, slot_id, options=options)
    system.delete(keychain.KEY, settings.owner_hash)
    return changed


def rotate_into_keychain(
    settings: Config,
    system: Keychain,
    *,
    from_keychain: bool,
    slot_ids: Sequence[int] | None = None,
    options: ChangeOptions = DEFAULTS,
) -> KeyFile:
    """Replace the present key by a random one that only the keychain holds.

    ``from_keychain``: the keychain holds the present key, too; ``slot_ids`` as for
    :func:`rotate_passphrase`. At every moment the keychain's entry opens the cache, or the
    present key that stands elsewhere does. Returns the new key file. Raises as :func:`enable_keychain` does, and
    ``SlotsRefused`` if the keychain would be the only way in.
    """
    options = replace(options, system=system)
    owner = settings.owner_hash
    stored = system.get(keychain.KEY, owner)
    if stored is not None and from_keychain:
        return _exchange(settings, system, stored, user_key.generate(), options)
    require_free_keychain(settings, system)
    current = prove_key(settings, options=options)
    _require_another(current.keyfile, without=current.slots_to_replace(slot_ids))
    with _store_secret(settings, system) as secret:
        rotate_passphrase(
            settings,
            new=secret,
            slot_ids=slot_ids,
            keychain=system.name,
            current=current,
            options=options,
        )
    return key_changes.list_slots(settings, None).keyfile


def require_free_keychain(settings: Config, system: Keychain) -> None:
    """Refuse a keychain whose key for this account may be in use. Raises ``SlotsRefused``."""
    stored = system.get(keychain.KEY, settings.owner_hash)
    if stored is not None and not _is_unused(settings, stored):
        raise SlotsRefused(
            "the keychain holds a key for this account already",
            resolution_hint="`mcp-notarium keychain disable` takes it out; then try again.",
        )


def _require_another(keyfile: KeyFile, *, without: Sequence[Slot]) -> None:
    """Demand another slot than these that needs no keychain. Raises ``SlotsRefused``."""
    left = (one for one in keyfile.slots if one not in without)
    if all(slot.type is SlotType.KEYCHAIN for slot in left):
        raise SlotsRefused(
            "the keychain's key would be the only one that opens the cache",
            resolution_hint="`mcp-notarium keys recovery create` makes a key on paper; then try "
            "again. `mcp-notarium keychain enable` lets the keychain open the cache beside your "
            "key.",
        )


def _exchange(
    settings: Config, system: Keychain, stored: Secret, secret: Secret, options: ChangeOptions
) -> KeyFile:
    """Exchange the keychain's key: both keys open until the keychain, their only place, has the new one."""
    found = key_changes.list_slots(settings, stored)
    old = next((slot for slot in found.keyfile.slots if slot.id == found.opened_by), None)
    if old is None:
        raise WrongKey
    _require_another(found.keyfile, without=[old])
    added = key_changes.add(
        settings, secret, label=system.name, type_=SlotType.KEYCHAIN, options=options
    )
    system.set(keychain.KEY, settings.owner_hash, secret)
    try:
        _require_stored(system, settings.owner_hash, secret)
    except SlotsRefused:
        system.set(keychain.KEY, settings.owner_hash, stored)
        key_changes.remove(settings, added.after.slots[-1].id, options=replace(options, old=stored))
        raise
    for slot_id in (old.id, *_find_lost_slots(found.keyfile, old)):
        after = key_changes.remove(settings, slot_id, options=replace(options, old=secret)).after
    return after


def _find_lost_slots(found: KeyFile, old: Slot) -> list[int]:
    """List other slots of this keychain: an interrupted run made them, and the key is lost."""
    return [
        slot.id
        for slot in found.slots
        if slot.type is SlotType.KEYCHAIN and slot.label == old.label and slot.id != old.id
    ]


def _is_unused(settings: Config, stored: Secret) -> bool:
    """Check whether this is a random key that opens no slot."""
    found = key_changes.list_slots(settings, stored)
    return user_key.read(stored).kind == "raw" and found.opened_by is None


@contextmanager
def _store_secret(settings: Config, system: Keychain) -> Iterator[Secret]:
    """Store a random key in the keychain, or reuse that of an interrupted run; remove it after a failure.

    It stays if the change is active, or may be: the keychain is then the only place of a key that
    opens the cache.
    """
    owner = settings.owner_hash
    stored = system.get(keychain.KEY, owner)
    secret = stored or user_key.generate()
    system.set(keychain.KEY, owner, secret)
    try:
        _require_stored(system, owner, secret)
        yield secret
    except BaseException:
        if stored is None:
            with suppress(LockedError):
                listed = key_changes.list_slots(settings, secret)
                if listed.opened_by is None:
                    system.delete(keychain.KEY, owner)
        raise


def _require_stored(system: Keychain, owner: str, secret: Secret) -> None:
    """Check that the keychain returns the secret: some return nothing, or another one."""
    if system.read_back(keychain.KEY, owner) != secret:
        raise SlotsRefused(
            "the keychain did not keep what it was given",
            resolution_hint="Use DB_ENCRYPTION_KEY or DB_ENCRYPTION_KEY_FILE instead.",
        )
