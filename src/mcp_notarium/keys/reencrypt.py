"""Gives a cache a new data key: a new database, row by row, and a new key file that opens it.

The old generation counts until the prepared key file is renamed, the new one from then on; there is
no moment with neither. Nobody else may have the cache open. Afterwards old copies of the key file,
with whatever key, open nothing that lies in the folder.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from mcp_notarium.cache.copying import Told
from mcp_notarium.cache.database import Database, companions
from mcp_notarium.crypto import keyslots
from mcp_notarium.crypto.datakey import DataKey
from mcp_notarium.crypto.failures import SlotsRefused
from mcp_notarium.crypto.kdf import Parameters
from mcp_notarium.crypto.keyslots import KeyFile, Slot, SlotState, SlotType
from mcp_notarium.keys import anew, creating, keychain, keyfile
from mcp_notarium.keys.anew import Step
from mcp_notarium.keys.changing import Given, nothing_there, openable
from mcp_notarium.keys.files import disk_errors, sync_folder
from mcp_notarium.keys.folder import AccountFolder, trusted
from mcp_notarium.keys.locks import Presence, key_lock
from mcp_notarium.keys.looking import Observer, OpeningSettings
from mcp_notarium.keys.rotate import demand_strong
from mcp_notarium.keys.unlock import Found
from mcp_notarium.secret import Secret

_UNUSABLE = "the cache cannot be written anew"


@dataclass(frozen=True, slots=True)
class Reencrypted:
    """What was done. ``dropped``: slots whose secret was not at hand, so they open nothing now.

    ``copied``: the key file's copy was written; else the next start does that.
    """

    generation: str
    notes: int
    dropped: tuple[Slot, ...]
    keychain: bool
    copied: bool


def reencrypt(
    settings: OpeningSettings,
    *,
    new: Secret | None = None,
    parameters: Parameters | None = None,
    allow_weak: bool = False,
    drop_others: bool = False,
    told: Told = lambda _done, _of: None,
    given: Given | None = None,
) -> Reencrypted:
    """Write the cache anew under a new data key, which ``new`` (None: the same key) opens.

    Slots cannot follow without their secret; the keychain's is asked for. ``drop_others`` lets the
    rest go. Raises ``SlotsRefused`` otherwise, ``CacheFull``, and ``LockedError`` (start-up's
    verdicts; BUSY names who has the cache open), with the old cache as it was.
    """
    given = given or Given()
    if new is not None:
        demand_strong(new, allow_weak=allow_weak)
    folder = trusted(settings.account_dir)
    if not folder.path.is_dir():
        raise nothing_there()
    with disk_errors(_UNUSABLE), key_lock(folder, timeout=given.timeout):
        presence = Presence(folder)
        try:
            anew.be_alone(presence, folder)
            given.at(Step.ALONE)
            return _Work(settings, given, folder, told).done(
                new, parameters or creating.parameters(settings), drop_others=drop_others
            )
        finally:
            presence.release()


@dataclass(frozen=True, slots=True)
class _Old:
    """What is to be replaced."""

    database: Database
    keyfile: KeyFile
    key: Secret
    slot: Slot


@dataclass(frozen=True, slots=True)
class _Work:
    settings: OpeningSettings
    given: Given
    folder: AccountFolder
    told: Told

    def done(self, new: Secret | None, parameters: Parameters, *, drop_others: bool) -> Reencrypted:
        """Everything between the locks."""
        key = None if self.given.old is None else Found(self.given.old, "the key given")
        observer = Observer(
            self.settings, bounds=self.given.bounds, system=self.given.system, key=key
        )
        with closing(observer.look(now=self.given.clock())) as scene:
            before, data_key_before, found = openable(scene)
            if scene.database is None:
                raise nothing_there()
            if scene.files is not None:
                keyfile.bring_to_rest(self.folder, scene.files, now=self.given.clock())
            anew.set_leftovers_aside(self.folder, before, now=self.given.clock())
            slot = keyslots.open_slot(before, found.passphrase, bounds=self.given.bounds).slot
            if slot.type is SlotType.KEYRING and new is None:
                raise _keychain_alone()
            old = _Old(scene.database, before, found.passphrase, slot)
            by_keychain = self._by_keychain(old)
            dropped = _dropped(old, carried={slot.id, by_keychain[0] if by_keychain else 0})
            if dropped and not drop_others:
                raise _would_drop(dropped)
            anew.demand_room(self.folder, old.database)
            made, data_key = self._made(old, new or found.passphrase, parameters, by_keychain)
            carry = anew.Carry(
                data_key_before, before.generation, self.given.clock(), "reencrypted"
            )
            notes = anew.write(
                self.folder,
                old.database,
                made,
                data_key,
                told=self.told,
                at=self.given.at,
                carry=carry,
            )
        copied = self._switched(before, made)
        return Reencrypted(made.generation, notes, dropped, by_keychain is not None, copied)

    def _by_keychain(self, old: _Old) -> tuple[int, Secret] | None:
        """The keychain's slot and secret, if there is one that was not used to come in."""
        keyring = [s for s in old.keyfile.slots if s.type is SlotType.KEYRING and s != old.slot]
        if not keyring or self.given.system is None:
            return None
        secret = self.given.system.get(keychain.KEY, self.settings.owner_hash)
        if secret is None:
            return None
        opened = keyslots.open_slot(old.keyfile, secret, bounds=self.given.bounds).slot
        return (opened.id, secret) if opened.type is SlotType.KEYRING else None

    def _made(
        self,
        old: _Old,
        key: Secret,
        parameters: Parameters,
        by_keychain: tuple[int, Secret] | None,
    ) -> tuple[KeyFile, DataKey]:
        """The next key file, with the slots whose secrets are at hand; nothing is written yet."""
        data_key, bounds = DataKey.generate(), self.given.bounds
        stays = key == old.key
        made = keyslots.build(
            data_key=data_key,
            passphrase=key,
            parameters=old.slot.kdf if stays else parameters,
            username=self.settings.username,
            now=int(self.given.clock()),
            bounds=bounds,
        )
        if by_keychain is not None:
            label = next(s.label for s in old.keyfile.slots if s.id == by_keychain[0])
            made = keyslots.add_slot(
                made,
                data_key,
                by_keychain[1],
                parameters=parameters,
                type_=SlotType.KEYRING,
                label=label,
                bounds=bounds,
            )
        return made, data_key

    def _switched(self, before: KeyFile, made: KeyFile) -> bool:
        """Let the new generation count, then remove the old one; whether there is a copy."""
        copied = keyfile.commit(self.folder, made, at=self.given.at)
        for file in (*companions(self.folder.database(before.generation)), self.folder.certificate):
            file.unlink(missing_ok=True)
        sync_folder(self.folder.path)
        self.given.at(Step.REMOVE)
        return copied


def _dropped(old: _Old, *, carried: set[int]) -> tuple[Slot, ...]:
    return tuple(
        slot
        for slot in old.keyfile.slots
        if slot.id not in carried and slot.state is not SlotState.DISABLED
    )


def _would_drop(dropped: tuple[Slot, ...]) -> SlotsRefused:
    named = ", ".join(f"slot {slot.id} ({slot.type.value})" for slot in dropped)
    return SlotsRefused(
        f"with a new data key these would open nothing any more: {named}",
        resolution_hint="Their keys are not at hand. Add --drop-other-keys to let them go, and make "
        "them anew afterwards (`mcp-notarium keys`).",
    )


def _keychain_alone() -> SlotsRefused:
    return SlotsRefused(
        "the keychain's key would be the only one that opens the new cache",
        resolution_hint="Come in by another key (--ask-old), or give a new one.",
    )
