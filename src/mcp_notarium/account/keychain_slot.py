"""Add, remove and rotate the key slot whose random key is in the OS keychain.

It protects a stolen disk or backup, not against programs of the same user. It is never the only key that
opens the cache: resetting or reinstalling the keychain must not lose the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from mcp_notarium.account import slot_management, slot_rotation
from mcp_notarium.account.key_changes import DEFAULTS, ChangeOptions, ChangeResult
from mcp_notarium.config import Config
from mcp_notarium.crypto import user_key
from mcp_notarium.crypto.errors import SlotsRefused, WrongKey
from mcp_notarium.crypto.key_file_codec import KeyFile, Slot, SlotType
from mcp_notarium.errors import LockedError
from mcp_notarium.keys import keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret


def enable_keychain(
    settings: Config, system: Keychain, *, options: ChangeOptions = DEFAULTS
) -> ChangeResult:
    """Add a keychain slot beside the key that opens the cache now; it is labelled with the keychain's name.

    The key of the settings (or ``options.old``) must open it. A random key in the keychain that opens
    nothing is reused: an interrupted run has left it. Raises ``SlotsRefused`` if the
    keychain holds another key for this account, ``LockedError`` (KEYCHAIN_UNUSABLE, start-up's
    verdicts); the keychain is left as it was then.
    """
    options = replace(options, system=system)
    require_free_keychain(settings, system, options=options)
    with _store_secret(settings, system, options) as secret:
        return slot_management.add(
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
    slot_id = slot_management.list_slots(settings, secret, bounds=options.bounds).opened_by
    changed = (
        None if slot_id is None else slot_management.remove(settings, slot_id, options=options)
    )
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
    ``slot_rotation.rotate_passphrase``. At every moment the keychain's entry opens the cache, or the
    present key that stands elsewhere does. Returns the new key file. Raises as :func:`enable_keychain` does, and
    ``SlotsRefused`` if the keychain would be the only way in.
    """
    options = replace(options, system=system)
    owner = settings.owner_hash
    stored = system.get(keychain.KEY, owner)
    if stored is not None and from_keychain:
        return _exchange(settings, system, stored, user_key.generate(), options)
    require_free_keychain(settings, system, options=options)
    current = slot_rotation.prove_key(settings, options=options)
    _require_another(current.keyfile, without=current.slots_to_replace(slot_ids))
    with _store_secret(settings, system, options) as secret:
        slot_rotation.rotate_passphrase(
            settings,
            new=secret,
            slot_ids=slot_ids,
            keychain=system.name,
            current=current,
            options=options,
        )
    return slot_management.list_slots(settings, None, bounds=options.bounds).keyfile


def require_free_keychain(
    settings: Config, system: Keychain, *, options: ChangeOptions = DEFAULTS
) -> None:
    """Refuse a keychain whose key for this account may be in use. Raises ``SlotsRefused``."""
    stored = system.get(keychain.KEY, settings.owner_hash)
    if stored is not None and not _is_unused(settings, stored, options):
        raise SlotsRefused(
            "the keychain holds a key for this account already",
            resolution_hint="`mcp-notarium keychain disable` takes it out; then try again.",
        )


def _require_another(keyfile: KeyFile, *, without: Sequence[Slot]) -> None:
    """Demand a slot that needs no keychain, beside these. Raises ``SlotsRefused``."""
    left = (one for one in keyfile.slots if one not in without)
    if all(slot.type is SlotType.KEYCHAIN for slot in left):
        raise SlotsRefused(
            "the keychain's key would be the only one that opens the cache",
            resolution_hint="`mcp-notarium keys recovery create` makes a key on paper; then try "
            "again. `mcp-notarium keychain enable` lets the keychain open the cache beside your "
            "key.",
        )


def _exchange(
    settings: Config,
    system: Keychain,
    stored: Secret,
    secret: Secret,
    options: ChangeOptions,
) -> KeyFile:
    """Exchange the keychain's key: both keys open until the keychain, their only place, has the new one."""
    found = slot_management.list_slots(settings, stored, bounds=options.bounds)
    old = next((slot for slot in found.keyfile.slots if slot.id == found.opened_by), None)
    if old is None:
        raise WrongKey
    _require_another(found.keyfile, without=[old])
    added = slot_management.add(
        settings, secret, label=system.name, type_=SlotType.KEYCHAIN, options=options
    )
    system.set(keychain.KEY, settings.owner_hash, secret)
    try:
        _require_stored(system, settings.owner_hash, secret)
    except SlotsRefused:
        system.set(keychain.KEY, settings.owner_hash, stored)
        slot_management.remove(
            settings, added.after.slots[-1].id, options=replace(options, old=stored)
        )
        raise
    for slot_id in (old.id, *_find_lost_slots(found.keyfile, old)):
        after = slot_management.remove(
            settings, slot_id, options=replace(options, old=secret)
        ).after
    return after


def _find_lost_slots(found: KeyFile, old: Slot) -> list[int]:
    """List other slots of this keychain: an interrupted run made them, and the key is lost."""
    return [
        slot.id
        for slot in found.slots
        if slot.type is SlotType.KEYCHAIN and slot.label == old.label and slot.id != old.id
    ]


def _is_unused(settings: Config, stored: Secret, options: ChangeOptions) -> bool:
    """Check whether this is a random key that opens no slot."""
    found = slot_management.list_slots(settings, stored, bounds=options.bounds)
    return user_key.read(stored).kind == "raw" and found.opened_by is None


@contextmanager
def _store_secret(settings: Config, system: Keychain, options: ChangeOptions) -> Iterator[Secret]:
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
                listed = slot_management.list_slots(settings, secret, bounds=options.bounds)
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
