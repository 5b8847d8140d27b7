"""Make, open and replace the slots of a key file. ``key_file_codec`` has the file's bytes.

A key is tested by unwrapping a slot, never by trying the database. The data key is proven twice: by
the slot's own tag, and by the MAC over the whole file, made with a key derived from it.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, replace

from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.crypto.data_key import NONCE_SIZE, DataKey, unwrap_key, wrap_key
from mcp_notarium.crypto.errors import KeyFileDamaged, SlotsRefused, WrongKey
from mcp_notarium.crypto.key_file_codec import (
    MOST_SLOTS,
    KeyFile,
    Slot,
    SlotType,
    slot_aad,
)
from mcp_notarium.secret import Secret

_OPENED_BY: dict[user_key.Kind, tuple[SlotType, ...]] = {
    "passphrase": (SlotType.PASSPHRASE,),
    "raw": (SlotType.RAW, SlotType.KEYCHAIN),
    "recovery": (SlotType.RECOVERY,),
}


@dataclass(frozen=True, slots=True)
class OpenedSlot:
    """Hold a data key and the slot that opened."""

    data_key: DataKey
    slot: Slot


def build(
    *,
    data_key: DataKey,
    passphrase: Secret,
    parameters: kdf.Parameters,
    owner_hash: str,
    now: int,
    bounds: kdf.Bounds = kdf.PRODUCTION,
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
    slot = new_slot(
        empty,
        data_key,
        passphrase,
        parameters=parameters,
        label="",
        bounds=bounds,
    )
    return _with_mac(replace(empty, slots=(slot,)), data_key)


def unlock(keyfile: KeyFile, passphrase: Secret, *, bounds: kdf.Bounds = kdf.PRODUCTION) -> DataKey:
    """Return the data key. Raises ``WrongKey``, ``MalformedKey``, ``KeyFileDamaged`` (forged)."""
    return open_slot(keyfile, passphrase, bounds=bounds).data_key


def open_slot(
    keyfile: KeyFile, passphrase: Secret, *, bounds: kdf.Bounds = kdf.PRODUCTION
) -> OpenedSlot:
    """Return the data key and the slot that opened. Raises as :func:`unlock`."""
    key = user_key.read(passphrase)
    for slot in keyfile.slots:
        if slot.type not in _OPENED_BY[key.kind]:
            continue
        wrapping_key = kdf.derive(key.material, salt=slot.salt, parameters=slot.kdf, bounds=bounds)
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
    keyfile: KeyFile,
    data_key: DataKey,
    *,
    slots: tuple[Slot, ...],
    rotated: int | None = None,
    bounds: kdf.Bounds = kdf.PRODUCTION,
) -> KeyFile:
    """Replace the slots of a key file; next sequence, new MAC.

    Raises ``SlotsRefused`` if there are too many slots, if they cost more work together than the reader
    accepts, or if no slot opens without the OS keychain: resetting a keychain must never lose
    the notes.
    """
    if len(slots) > MOST_SLOTS:
        raise SlotsRefused(f"a key file has at most {MOST_SLOTS} slots")
    if not bounds.permits_together(slot.kdf for slot in slots):
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
    bounds: kdf.Bounds = kdf.PRODUCTION,
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
    return _wrap(keyfile, data_key, slot, key.material, bounds)


def rewrap_slot(
    keyfile: KeyFile,
    data_key: DataKey,
    slot: Slot,
    secret: Secret,
    *,
    bounds: kdf.Bounds = kdf.PRODUCTION,
) -> Slot:
    """Wrap the data key of another key file in a slot; its number, label and cost stay.

    ``secret`` opens the slot. Raises ``MalformedKey``.
    """
    salt, nonce = secrets.token_bytes(kdf.SALT_SIZE), secrets.token_bytes(NONCE_SIZE)
    fresh = replace(slot, salt=salt, nonce=nonce)
    return _wrap(keyfile, data_key, fresh, user_key.read(secret).material, bounds)


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


def _wrap(
    keyfile: KeyFile, data_key: DataKey, slot: Slot, material: Secret, bounds: kdf.Bounds
) -> Slot:
    wrapping_key = kdf.derive(material, salt=slot.salt, parameters=slot.kdf, bounds=bounds)
    aad = slot_aad(vault_id=keyfile.vault_id, slot=slot)
    wrapped = wrap_key(wrapping_key, data_key.secret(), nonce=slot.nonce, aad=aad)
    return replace(slot, wrapped=wrapped)


def _owner_tag(data_key: DataKey, owner_hash: str) -> bytes:
    return hmac.digest(data_key.subkey("owner").reveal(), owner_hash.encode(), "sha256")


def _mac(keyfile: KeyFile, data_key: DataKey) -> bytes:
    return hmac.digest(data_key.subkey("key-file-mac").reveal(), keyfile.mac_input(), "sha256")


def _with_mac(keyfile: KeyFile, data_key: DataKey) -> KeyFile:
    return replace(keyfile, mac=_mac(keyfile, data_key))
