"""Gives a cache a new data key: a new database, row by row, and a new key file that opens it.

The old generation counts until the prepared key file is renamed, the new one from then on; there is
no moment with neither. Nobody else may have the cache open. Afterwards old copies of the key file,
with whatever key, open nothing that is in use; what the quarantine has, they may still open.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.account import new_generation
from mcp_notarium.account.inspection import Observer, OpeningSettings
from mcp_notarium.account.key_changes import Given, nothing_there, openable
from mcp_notarium.account.key_rotation import WayIn, demand_new, stretching, way_in
from mcp_notarium.account.new_generation import InForce, Step, be_alone
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import SlotsRefused, WrongKey
from mcp_notarium.crypto.kdf import Parameters
from mcp_notarium.crypto.kdf_policy import Stretching
from mcp_notarium.crypto.key_slots import KeyFile, Slot, SlotState, SlotType
from mcp_notarium.crypto.rotation_steps import TYPED
from mcp_notarium.crypto.slot_changes import described
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder, trusted
from mcp_notarium.files.locks import Presence, key_lock
from mcp_notarium.files.private_files import disk_errors, sync_folder
from mcp_notarium.keys import key_file, keychain
from mcp_notarium.keys.key_sources import Found
from mcp_notarium.secret import Secret
from mcp_notarium.storage.database import companions
from mcp_notarium.storage.table_copy import Told

_UNUSABLE = "the cache cannot be written anew"
_GIVE = "Give a new key (--ask-new, --new-key-file, --new-key-stdin or --generate)."


@dataclass(frozen=True, slots=True)
class Reencrypted:
    """What was done. ``dropped``: slots whose secret was not at hand, so they are gone.

    ``carried`` are those that followed (``keychain``: the keychain's is among them), ``gone`` the one
    whose place ``slot``, the new one, has taken; None without a new key. ``state`` says whether the
    ``old`` database is gone. ``set_aside``: folders of the quarantine with databases that old copies of
    the key file may open.
    """

    generation: str
    notes: int
    dropped: tuple[Slot, ...]
    carried: tuple[Slot, ...]
    gone: tuple[Slot, ...]
    slot: Slot | None
    state: InForce
    old: Path
    set_aside: tuple[Path, ...]

    @property
    def keychain(self) -> bool:
        """Whether the keychain's slot is among those that followed."""
        return any(slot.type is SlotType.KEYRING for slot in self.carried)


def left_behind(
    settings: OpeningSettings, *, replacing: bool, given: Given | None = None
) -> tuple[WayIn, tuple[Slot, ...]]:
    """The key of now, proven, and the slots that would not follow; ``replacing``: with a new key.

    For naming them before anything begins. Raises as :func:`reencrypt`, and changes nothing.
    """
    given = given or Given()
    came = way_in(settings, given=given)
    _demand_worth_it(came, replacing=replacing)
    folder = trusted(settings.account_dir)
    with disk_errors(_UNUSABLE):
        presence = Presence(folder)
    try:
        be_alone(presence, folder)
    finally:
        presence.release()
    carried = _carried(settings, given, came, replacing=replacing)
    return came, _dropped(came, carried, replacing=replacing)


def reencrypt(
    settings: OpeningSettings,
    *,
    new: Secret | None = None,
    parameters: Parameters | Stretching | None = None,
    allow_weak: bool = False,
    drop_others: bool = False,
    told: Told = lambda _done, _of: None,
    given: Given | None = None,
) -> Reencrypted:
    """Write the cache anew under a new data key, which ``new`` (None: the same key) opens.

    Slots follow, with number, label, state and cost, whose secret is at hand: the one that was used
    to come in, unless ``new`` takes its place, and the keychain's. ``drop_others`` lets the rest go.
    Raises ``SlotsRefused`` otherwise, ``CacheFull``, and ``LockedError`` (start-up's verdicts; BUSY
    names who has the cache open), with the old cache as it was. Once the new one counts, what fails
    is in its ``state``.
    """
    given = given or Given()
    if new is not None:
        demand_new(new, allow_weak=allow_weak)
    folder = trusted(settings.account_dir)
    if not folder.path.is_dir():
        raise nothing_there()
    with disk_errors(_UNUSABLE), key_lock(folder, timeout=given.timeout):
        presence = Presence(folder)
        try:
            be_alone(presence, folder)
            given.at(Step.ALONE)
            return _Work(settings, given, folder, told).done(
                new, parameters or stretching(settings), drop_others=drop_others
            )
        finally:
            presence.release()


def would_drop(dropped: tuple[Slot, ...]) -> SlotsRefused:
    """The refusal that names what would not follow."""
    named = ", ".join(described(slot) for slot in dropped)
    return SlotsRefused(
        f"with a new data key these would open nothing any more: {named}",
        resolution_hint="Their keys are not at hand. Add --drop-other-keys to let them go, and make "
        "them anew afterwards (`mcp-notarium keys`).",
    )


_Carried = dict[int, Secret]
"""Number of a slot that follows -> its secret."""


@dataclass(frozen=True, slots=True)
class _Work:
    settings: OpeningSettings
    given: Given
    folder: AccountFolder
    told: Told

    def done(
        self, new: Secret | None, parameters: Parameters | Stretching, *, drop_others: bool
    ) -> Reencrypted:
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
                key_file.bring_to_rest(self.folder, scene.files, now=self.given.clock())
            new_generation.finish_retiring(self.folder, scene.database, before)
            new_generation.set_leftovers_aside(self.folder, before, now=self.given.clock())
            slot = key_slots.open_slot(before, found.passphrase, bounds=self.given.bounds).slot
            came, is_new = WayIn(before, found, slot), new is not None
            _demand_worth_it(came, replacing=is_new)
            carried = _carried(self.settings, self.given, came, replacing=is_new)
            dropped = _dropped(came, carried, replacing=is_new)
            if dropped and not drop_others:
                raise would_drop(dropped)
            new_generation.demand_room(self.folder, scene.database)
            set_aside = quarantine.with_databases(self.folder)
            made, data_key = self._made(came, carried, new, parameters)
            carry = new_generation.Carry(
                data_key_before, before.generation, self.given.clock(), "reencrypted"
            )
            notes = new_generation.write(
                self.folder,
                scene.database,
                made,
                data_key,
                told=self.told,
                at=self.given.at,
                carry=carry,
                retires=before.generation,
            )
        state = self._switched(before, made)
        new_generation.anchor_end(self.folder, made, data_key)
        self.given.at(Step.ANCHOR)
        return Reencrypted(
            generation=made.generation,
            notes=notes,
            dropped=dropped,
            carried=tuple(one for one in made.slots if one.id in carried),
            gone=() if new is None or slot.id in carried else (slot,),
            slot=next((one for one in made.slots if one.id not in carried), None),
            state=state,
            old=self.folder.database(before.generation),
            set_aside=set_aside,
        )

    def _made(
        self,
        came: WayIn,
        carried: _Carried,
        new: Secret | None,
        parameters: Parameters | Stretching,
    ) -> tuple[KeyFile, DataKey]:
        """The next key file, with the slots whose secrets are at hand; nothing is written yet."""
        data_key, bounds = DataKey.generate(), self.given.bounds
        frame = key_slots.renewed(came.keyfile, data_key, username=self.settings.username)
        slots = [
            key_slots.rewrapped(frame, data_key, slot, carried[slot.id], bounds=bounds)
            for slot in came.keyfile.slots
            if slot.id in carried
        ]
        if new is not None:
            before = _stood_for(came, carried)
            if isinstance(parameters, Stretching):
                parameters = parameters.in_place_of(slot.kdf for slot in before)
            label = before[0].label if before and (not _stays(came) or len(before) == 1) else ""
            slots.append(
                key_slots.new_slot(
                    frame, data_key, new, parameters=parameters, label=label, bounds=bounds
                )
            )
        rotated = None if new is None else int(self.given.clock())
        made = key_slots.replace_slots(
            frame, data_key, slots=tuple(slots), rotated=rotated, bounds=bounds
        )
        return made, data_key

    def _switched(self, before: KeyFile, made: KeyFile) -> InForce:
        """Let the new generation count, then remove the old one."""
        replaced = companions(self.folder.database(before.generation))

        def clear() -> None:
            for file in (*replaced, self.folder.pending_marker):
                file.unlink(missing_ok=True)
            sync_folder(self.folder.path)
            self.given.at(Step.REMOVE)

        return new_generation.switch(
            self.folder, made, replaced=replaced, clear=clear, at=self.given.at
        )


def _stays(came: WayIn) -> bool:
    """Whether a new key does not take the place of the one that was used, but stands beside it."""
    return came.by_keychain or came.slot.type in {SlotType.KEYRING, SlotType.RECOVERY}


def _stood_for(came: WayIn, carried: _Carried) -> tuple[Slot, ...]:
    """The slots for whose secrets people now type the new key: the one used to come in is first.

    A calibrated cost is not lost with the passphrase, so those that are dropped count, too.
    """
    typed = (
        slot
        for slot in came.keyfile.slots
        if slot.id not in carried and slot.type in TYPED and slot.state is not SlotState.DISABLED
    )
    return tuple(sorted(typed, key=lambda slot: slot.id != came.slot.id))


def _carried(settings: OpeningSettings, given: Given, came: WayIn, *, replacing: bool) -> _Carried:
    """The slots that follow: the one that was used, if it stays, and the keychain's."""
    carried = {} if replacing and not _stays(came) else {came.slot.id: came.key.passphrase}
    keyring = [s for s in came.keyfile.slots if s.type is SlotType.KEYRING and s != came.slot]
    if not keyring or given.system is None:
        return carried
    secret = given.system.get(keychain.KEY, settings.owner_hash)
    with suppress(WrongKey):
        if secret is not None:
            opened = key_slots.open_slot(came.keyfile, secret, bounds=given.bounds).slot
            if opened.type is SlotType.KEYRING:
                carried[opened.id] = secret
    return carried


def _dropped(came: WayIn, carried: _Carried, *, replacing: bool) -> tuple[Slot, ...]:
    replaced = {came.slot.id} if replacing else set()
    return tuple(
        slot for slot in came.keyfile.slots if slot.id not in carried and slot.id not in replaced
    )


def _demand_worth_it(came: WayIn, *, replacing: bool) -> None:
    """Raises ``SlotsRefused`` where the same key alone would be a bad key for the new cache."""
    if replacing:
        return
    if came.slot.state is SlotState.COMPROMISED:
        raise SlotsRefused(
            f"{described(came.slot)} is the one you came in by: whoever knows its key would open the "
            "new cache too",
            resolution_hint=f"{_GIVE} --ask-old lets you come in by another key.",
        )
    if came.slot.type in {SlotType.KEYRING, SlotType.RECOVERY}:
        which = "keychain's" if came.slot.type is SlotType.KEYRING else "recovery"
        raise SlotsRefused(
            f"the {which} key would be the only one that opens the new cache",
            resolution_hint=f"{_GIVE} --ask-old lets you come in by another key.",
        )
