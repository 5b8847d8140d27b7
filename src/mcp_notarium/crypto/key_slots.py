"""Make, open and change the slots of a key file, and name the steps of writing it. ``key_file_codec`` has its bytes.

A key is tested by unwrapping a slot, never by trying the database. The data key is proven twice: by
the slot's own tag, and by the MAC over the whole file, made with a key derived from it.

Each change is one pure function. It returns the next key file (sequence + 1, new MAC) or raises ``SlotsRefused`` and changes
nothing. A slot never changes its secret; it is added, replaced or removed. The data key and the
database stay as they are. ``account/key_changes`` runs the steps.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.crypto.data_key import NONCE_SIZE, DataKey, unwrap_key, wrap_key
from mcp_notarium.crypto.errors import KeyFileDamaged, SlotsRefused, WrongKey
from mcp_notarium.crypto.kdf import KdfPolicy
from mcp_notarium.crypto.key_file_codec import MOST_SLOTS, KeyFile, Slot, SlotType, slot_aad
from mcp_notarium.secret import Secret

_OPENED_BY: dict[user_key.Kind, tuple[SlotType, ...]] = {
    "passphrase": (SlotType.PASSPHRASE,),
    "raw": (SlotType.RAW, SlotType.KEYCHAIN),
    "recovery": (SlotType.RECOVERY,),
}


PERSONAL_SLOTS = (SlotType.PASSPHRASE, SlotType.RAW)
"""Slots whose secret a person keeps and gives to clients; the others are for recovery."""


@dataclass(frozen=True, slots=True)
class OpenedSlot:
    """Hold a data key and the slot that opened."""

    data_key: DataKey
    slot: Slot


def build(
    *, data_key: DataKey, passphrase: Secret, parameters: kdf.Parameters, owner_hash: str, now: int
) -> KeyFile:
    """Make a new key file with one slot, sequence 1, new random identifiers and its MAC.

    ``parameters`` are for a passphrase; a raw key always gets a raw slot. Raises ``MalformedKey``.
    """
    empty = KeyFile(
        vault_id=secrets.token_hex(16),
        generation=secrets.token_hex(8),
        database_salt=secrets.token_bytes(kdf.SALT_SIZE),
        owner_tag=_owner_tag(data_key, owner_hash),
        sequence=1,
        created=now,
        rotated=None,
        slots=(),
    )
    slot = new_slot(empty, data_key, passphrase, parameters=parameters, label="")
    return _with_mac(replace(empty, slots=(slot,)), data_key)


def unlock(keyfile: KeyFile, passphrase: Secret) -> DataKey:
    """Return the data key. Raises ``WrongKey``, ``MalformedKey``, ``KeyFileDamaged`` (forged)."""
    return open_slot(keyfile, passphrase).data_key


def open_slot(keyfile: KeyFile, passphrase: Secret) -> OpenedSlot:
    """Return the data key and the slot that opened. Raises as :func:`unlock`."""
    key = user_key.read(passphrase)
    for slot in keyfile.slots:
        if slot.type not in _OPENED_BY[key.kind]:
            continue
        wrapping_key = kdf.derive(key.material, salt=slot.salt, parameters=slot.kdf)
        aad = slot_aad(vault_id=keyfile.vault_id, slot=slot)
        inner = unwrap_key(wrapping_key, slot.wrapped, nonce=slot.nonce, aad=aad)
        if inner is None:
            continue
        data_key = DataKey(inner)
        if not has_valid_mac(keyfile, data_key):  # defence: key-file-mac
            raise KeyFileDamaged("it was changed by somebody who does not have the key")
        return OpenedSlot(data_key, slot)
    raise WrongKey


def has_valid_mac(keyfile: KeyFile, data_key: DataKey) -> bool:
    """Check whether somebody with this data key wrote the key file as it is."""
    return hmac.compare_digest(keyfile.mac, _mac(keyfile, data_key))


def belongs_to(keyfile: KeyFile, data_key: DataKey, owner_hash: str) -> bool:
    """Check whether the key file was made for this account."""
    return hmac.compare_digest(keyfile.owner_tag, _owner_tag(data_key, owner_hash))


def replace_slots(
    keyfile: KeyFile, data_key: DataKey, *, slots: tuple[Slot, ...], rotated: int | None = None
) -> KeyFile:
    """Replace the slots of a key file; next sequence, new MAC.

    Raises ``SlotsRefused`` if there are too many slots, if they cost more work together than the reader
    accepts, or if no slot opens without the OS keychain: resetting a keychain must never lose
    the notes.
    """
    if len(slots) > MOST_SLOTS:
        raise SlotsRefused(f"a key file has at most {MOST_SLOTS} slots")
    if not kdf.permit_together(slot.kdf for slot in slots):
        raise SlotsRefused(
            "deriving a key for every slot of the key file would take too long",
            resolution_hint="Take a random key (`mcp-notarium generate-key`) for one more slot, "
            "or remove a slot with a passphrase; nothing was changed.",
        )
    if all(slot.type is SlotType.KEYCHAIN for slot in slots):  # defence: last-portable-key-stays
        raise SlotsRefused("a slot that needs no keychain must remain")
    changed = replace(
        keyfile,
        slots=slots,
        sequence=keyfile.sequence + 1,
        rotated=keyfile.rotated if rotated is None else rotated,
    )
    return _with_mac(changed, data_key)


def next_generation(keyfile: KeyFile, data_key: DataKey) -> KeyFile:
    """Name another database file under the same data key and slots; next sequence, new MAC."""
    changed = replace(
        keyfile,
        generation=secrets.token_hex(8),
        database_salt=secrets.token_bytes(kdf.SALT_SIZE),
        sequence=keyfile.sequence + 1,
    )
    return _with_mac(changed, data_key)


def new_slot(
    keyfile: KeyFile,
    data_key: DataKey,
    passphrase: Secret,
    *,
    parameters: kdf.Parameters,
    type_: SlotType | None = None,
    label: str = "",
) -> Slot:
    """Make a slot for this key file that opens with ``passphrase`` (of any kind), with the next id.

    ``type_`` KEYCHAIN marks a raw key that only the keychain holds; None: as the key's kind says.
    ``parameters`` are for a passphrase only.
    """
    key = user_key.read(passphrase)
    chosen = type_ or _OPENED_BY[key.kind][0]
    if chosen not in _OPENED_BY[key.kind]:
        raise ValueError(f"a {key.kind} key makes no {chosen} slot")
    slot = Slot(
        id=max((slot.id for slot in keyfile.slots), default=0) + 1,
        type=chosen,
        label=label,
        kdf=parameters if chosen is SlotType.PASSPHRASE else kdf.HkdfSha256(),
        salt=secrets.token_bytes(kdf.SALT_SIZE),
        nonce=secrets.token_bytes(NONCE_SIZE),
        wrapped=b"",
    )
    return _wrap(keyfile, data_key, slot, key.material)


def rewrap_slot(keyfile: KeyFile, data_key: DataKey, slot: Slot, secret: Secret) -> Slot:
    """Wrap the data key of another key file in a slot, which ``secret`` opens; the rest stays. Raises ``MalformedKey``."""
    salt, nonce = secrets.token_bytes(kdf.SALT_SIZE), secrets.token_bytes(NONCE_SIZE)
    fresh = replace(slot, salt=salt, nonce=nonce)
    return _wrap(keyfile, data_key, fresh, user_key.read(secret).material)


def start_for_new_data_key(keyfile: KeyFile, data_key: DataKey, *, owner_hash: str) -> KeyFile:
    """Start the key file for a new data key, with a new vault id and generation, without MAC.

    It still has the old slots, which open nothing: ``replace_slots`` puts others in and makes the MAC
    with sequence 1.
    """
    return replace(
        keyfile,
        vault_id=secrets.token_hex(16),
        generation=secrets.token_hex(8),
        database_salt=secrets.token_bytes(kdf.SALT_SIZE),
        owner_tag=_owner_tag(data_key, owner_hash),
        sequence=0,
        mac=b"",
    )


def _wrap(keyfile: KeyFile, data_key: DataKey, slot: Slot, material: Secret) -> Slot:
    wrapping_key = kdf.derive(material, salt=slot.salt, parameters=slot.kdf)
    aad = slot_aad(vault_id=keyfile.vault_id, slot=slot)
    wrapped = wrap_key(wrapping_key, data_key.secret(), nonce=slot.nonce, aad=aad)
    return replace(slot, wrapped=wrapped)


def _owner_tag(data_key: DataKey, owner_hash: str) -> bytes:
    return hmac.digest(data_key.subkey("owner").reveal(), owner_hash.encode(), "sha256")


def _mac(keyfile: KeyFile, data_key: DataKey) -> bytes:
    return hmac.digest(data_key.subkey("key-file-mac").reveal(), keyfile.mac_input(), "sha256")


def _with_mac(keyfile: KeyFile, data_key: DataKey) -> KeyFile:
    return replace(keyfile, mac=_mac(keyfile, data_key))


def find_slot(keyfile: KeyFile, slot_id: int) -> Slot:
    """Return the slot with this id. Raises ``SlotsRefused`` if there is none."""
    for slot in keyfile.slots:
        if slot.id == slot_id:
            return slot
    ids = ", ".join(str(slot.id) for slot in keyfile.slots)
    raise SlotsRefused(f"there is no slot {slot_id}; there are {ids}")


def describe_slot(slot: Slot) -> str:
    """Describe a slot for a person: number, label and type.

    The label stands before the type: quoted text after the word passphrase is redacted outside of
    terminals, as a passphrase would be.
    """
    words = [f'"{slot.label}"'] if slot.label else []
    words += [slot.type.value]
    return f"slot {slot.id} ({', '.join(words)})"


def remove(keyfile: KeyFile, data_key: DataKey, slot_id: int) -> KeyFile:
    """Remove a slot. Older copies of the key file still have it."""
    gone = find_slot(keyfile, slot_id)
    # defence: removed-slot-opens-nothing =True
    kept = tuple(slot for slot in keyfile.slots if slot.id != gone.id)
    return replace_slots(keyfile, data_key, slots=kept)


def slots_to_replace(
    keyfile: KeyFile,
    slot: Slot,
    *,
    by_keychain: bool = False,
    slot_ids: Sequence[int] | None = None,
) -> tuple[Slot, ...]:
    """Return the slots that a new key replaces. ``slot`` is the one that the old key has opened.

    An old passphrase or raw key is replaced itself. A recovery key stays, and so does the key in the keychain
    (``by_keychain``: the old key came from there). They replace the one passphrase or raw key of the file, if it has any.
    The caller can name the slots by ``slot_ids`` instead. Raises ``SlotsRefused`` if the choice is not clear, or a named
    slot cannot be replaced.
    """
    if slot_ids is not None:
        named = tuple(find_slot(keyfile, number) for number in dict.fromkeys(slot_ids))
        for one in named:
            if one.type not in PERSONAL_SLOTS or (by_keychain and one.id == slot.id):
                raise _irreplaceable(one)
        return named
    if slot.type in PERSONAL_SLOTS and not by_keychain:
        return (slot,)
    others = tuple(one for one in keyfile.slots if one.type in PERSONAL_SLOTS and one.id != slot.id)
    if len(others) > 1:
        candidates = "; ".join(map(describe_slot, others))
        raise SlotsRefused(
            f"it is not clear which key the new one replaces: {candidates}",
            resolution_hint="Name it by --slot (several times for several), or open the cache with the "
            "key that is to go (--ask-old).",
        )
    return others


def rewrap(
    keyfile: KeyFile,
    *,
    old: Secret,
    new: Secret,
    parameters: kdf.Parameters | KdfPolicy,
    now: int,
    by_keychain: bool = False,
    slot_ids: Sequence[int] | None = None,
    keychain: str = "",
) -> KeyFile:
    """Return the key file with a slot for ``new`` in place of :func:`slots_to_replace`.

    The key changes at ``now``, unless ``new`` is ``old`` with other KDF parameters. ``keychain`` is the name of the
    keychain if only that has ``new``. Raises as :func:`slots_to_replace`, ``WrongKey`` if ``old`` opens nothing, and
    ``MalformedKey``.
    """
    opened = open_slot(keyfile, old)
    gone = slots_to_replace(keyfile, opened.slot, by_keychain=by_keychain, slot_ids=slot_ids)
    if isinstance(parameters, KdfPolicy):
        parameters = parameters.parameters_for(slot.kdf for slot in gone)
    slot = new_slot(
        keyfile,
        opened.data_key,
        new,
        parameters=parameters,
        type_=SlotType.KEYCHAIN if keychain else None,
        label=keychain or (gone[0].label if gone else ""),
    )
    slots = (*(one for one in keyfile.slots if one not in gone), slot)
    rotated = None if new == old else now  # the same key with other KDF parameters is no new key
    return replace_slots(keyfile, opened.data_key, slots=slots, rotated=rotated)


def _irreplaceable(slot: Slot) -> SlotsRefused:
    hint = {
        SlotType.RECOVERY: "`mcp-notarium keys recovery create` makes another one; then "
        "`mcp-notarium keys remove` takes this one away."
    }.get(slot.type, "`mcp-notarium rotate-key --keychain` gives the keychain another key.")
    return SlotsRefused(
        f"{describe_slot(slot)} cannot be replaced by a typed key", resolution_hint=hint
    )
