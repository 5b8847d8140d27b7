"""The keychain as one way into the cache: a random key that nobody has to know, in a slot of its own.

It protects a stolen disk or backup, not against programs of the same user. It is never the only way
in: a keychain that is reset, or reinstalled, must not be the end of a cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcp_notarium.crypto import userkey
from mcp_notarium.crypto.failures import SlotsRefused
from mcp_notarium.crypto.keyslots import SlotType
from mcp_notarium.keys import keychain, slots
from mcp_notarium.keys.changing import Changed, Given
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.keys.looking import OpeningSettings
from mcp_notarium.secret import Secret


@dataclass(frozen=True, slots=True)
class Enabled:
    """The slot that was made. ``backend``: the keychain's name."""

    changed: Changed
    slot_id: int
    backend: str


def enable(settings: OpeningSettings, system: Keychain, *, given: Given | None = None) -> Enabled:
    """Let the keychain open the cache, beside the key that opens it now.

    The key of the settings (or ``given.old``) must open it. Raises ``SlotsRefused`` if the keychain
    holds a key for this account already, ``LockedError`` (KEYCHAIN_UNUSABLE, start-up's verdicts);
    the keychain is left as it was then.
    """
    given = replace(given or Given(), system=system)
    if system.get(keychain.KEY, settings.owner_hash) is not None:
        raise SlotsRefused(
            "the keychain holds a key for this account already",
            resolution_hint="`mcp-notarium keychain disable` takes it out; then enable it again.",
        )
    backend = system.name
    secret = userkey.generate()
    system.set(keychain.KEY, settings.owner_hash, secret)
    try:
        _demand_kept(system, settings.owner_hash, secret)
        changed = slots.add(settings, secret, label=backend, type_=SlotType.KEYRING, given=given)
    except BaseException:
        system.delete(keychain.KEY, settings.owner_hash)
        raise
    return Enabled(changed, changed.after.slots[-1].id, backend)


def disable(
    settings: OpeningSettings, system: Keychain, *, given: Given | None = None
) -> Changed | None:
    """Take the keychain's slot away, then its entry; None if the entry opened nothing.

    Raises ``SlotsRefused`` if there is no entry, or if it is the key that was used to come in.
    """
    given = replace(given or Given(), system=system)
    secret = system.get(keychain.KEY, settings.owner_hash)
    if secret is None:
        raise SlotsRefused(
            "the keychain holds no key for this account", resolution_hint="Nothing is to be done."
        )
    slot_id = slots.listing(settings, secret, bounds=given.bounds).opened_by
    changed = None if slot_id is None else slots.remove(settings, slot_id, given=given)
    system.delete(keychain.KEY, settings.owner_hash)
    return changed


def _demand_kept(system: Keychain, owner: str, secret: Secret) -> None:
    """Some keychains take a secret and give back nothing, or another one."""
    if system.read_back(keychain.KEY, owner) != secret:
        raise SlotsRefused(
            "the keychain did not keep what it was given",
            resolution_hint="Use DB_ENCRYPTION_KEY or DB_ENCRYPTION_KEY_FILE instead.",
        )
