"""Read and write the bytes of a key file. ``docs/format.md`` says what every byte means.

Reading checks everything that can be checked without a key: size, form, checksum, version, names,
types, ranges, canonical bytes. ``key_slots`` opens it with a key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from mcp_notarium.crypto import canonical_json, kdf
from mcp_notarium.crypto.data_key import NONCE_SIZE, TAG_SIZE
from mcp_notarium.crypto.errors import KeyFileDamaged, KeyFileNewer

FORMAT = "mcp-notarium-keys"
VERSION = 1
PAGE_SIZE = 4096
MAC_SIZE = 32
MOST_SLOTS = 8
_GENERATION_DIGITS = 16
_LARGEST_NUMBER = 2**53 - 1
_LATEST = 253_402_300_799  # the end of the year 9999, where calendars of programs end
_Word = TypeVar("_Word", bound=StrEnum)
_LABEL = re.compile(r"[\x20-\x7e]{0,64}")


class SlotType(StrEnum):
    """Name the sources of the secret that opens a slot."""

    PASSPHRASE = "passphrase"  # noqa: S105 - a word of the format, not a password
    RAW = "raw"
    KEYCHAIN = "keychain"
    RECOVERY = "recovery"


class FileState(StrEnum):
    """Name the results of reading a key file (or its copy) without a key."""

    MISSING = "missing"
    OK = "ok"
    DAMAGED = "damaged"
    NEWER = "newer"


@dataclass(frozen=True, slots=True)
class Slot:
    """Hold the data key, wrapped once."""

    id: int
    type: SlotType
    label: str
    kdf: kdf.Parameters
    salt: bytes
    """16 bytes."""
    nonce: bytes
    """12 bytes."""
    wrapped: bytes
    """48 bytes."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """Hold one key file. Times are epoch seconds."""

    vault_id: str
    generation: str
    database_salt: bytes
    owner_tag: bytes
    sequence: int
    created: int
    rotated: int | None
    slots: tuple[Slot, ...]
    cipher_floor: int = 4
    schema_floor: int = 1
    mac: bytes = b""
    """Empty until it is made."""

    def mac_input(self) -> bytes:
        """Return the bytes that the MAC covers: everything but ``mac`` and ``sum``."""
        return canonical_json.encode(_body(self))


def is_label(text: str) -> bool:
    """Check whether a text may be a slot's label: at most 64 printable ASCII characters."""
    return _LABEL.fullmatch(text) is not None


def slot_aad(*, vault_id: str, slot: Slot) -> bytes:
    """Return the AAD that binds a wrapped key to its place and its cost."""
    place = {  # defence: slot-bound-to-its-cost -kdf
        "id": slot.id,
        "kdf": kdf.to_fields(slot.kdf),
        "salt": _b64(slot.salt),
        "type": slot.type.value,
    }
    return canonical_json.encode(  # defence: slot-bound-to-its-vault -vault
        {"format": FORMAT, "slot": place, "vault": vault_id, "version": VERSION}
    )


def serialise(keyfile: KeyFile) -> bytes:
    """Return the bytes of a key file with its MAC."""
    body = _body(keyfile) | {"mac": _b64(keyfile.mac)}
    return canonical_json.encode(body | {"sum": _checksum(body)})


def parse(raw: bytes) -> KeyFile:
    """Read bytes from disk. Raises ``KeyFileDamaged`` or ``KeyFileNewer`` and nothing else.

    The checksum is checked before the version: a flipped bit is damage, not another release.
    """
    found = canonical_json.decode(raw)
    written = found.pop("sum", None)
    # defence: key-file-checksum -written
    if found.get("format") != FORMAT or written != _checksum(found):
        raise KeyFileDamaged("its checksum does not match")
    version = found.get("version")
    if type(version) is not int or version < VERSION:
        raise KeyFileDamaged("it has no format version")
    if version > VERSION:
        raise KeyFileNewer(version)
    try:
        keyfile = _keyfile(found)
    except KeyError:
        raise KeyFileDamaged("a field is missing") from None
    if serialise(keyfile) != raw:  # defence: key-file-canonical-only
        raise KeyFileDamaged("it is not in canonical form, or has another field")
    return keyfile


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json.encode(body)).hexdigest()


def _body(keyfile: KeyFile) -> dict[str, Any]:
    return {
        "cipher_floor": keyfile.cipher_floor,
        "created": keyfile.created,
        "database_salt": _b64(keyfile.database_salt),
        "format": FORMAT,
        "generation": keyfile.generation,
        "owner_tag": _b64(keyfile.owner_tag),
        "page_size": PAGE_SIZE,
        "rotated": keyfile.rotated,
        "schema_floor": keyfile.schema_floor,
        "sequence": keyfile.sequence,
        "slots": [_slot_fields(slot) for slot in keyfile.slots],
        "vault": keyfile.vault_id,
        "version": VERSION,
    }


def _slot_fields(slot: Slot) -> dict[str, Any]:
    return {
        "id": slot.id,
        "kdf": kdf.to_fields(slot.kdf),
        "label": slot.label,
        "nonce": _b64(slot.nonce),
        "salt": _b64(slot.salt),
        "type": slot.type.value,
        "wrapped": _b64(slot.wrapped),
    }


def _keyfile(found: dict[str, Any]) -> KeyFile:
    if found["page_size"] != PAGE_SIZE:
        raise KeyFileDamaged("it names a page size that is not used")
    rotated = found["rotated"]
    return KeyFile(
        vault_id=_hex(found["vault"], 32),
        generation=_hex(found["generation"], _GENERATION_DIGITS),
        database_salt=_bytes(found["database_salt"], kdf.SALT_SIZE),
        owner_tag=_bytes(found["owner_tag"], MAC_SIZE),
        sequence=_number(found["sequence"], least=1),
        created=_number(found["created"], most=_LATEST),
        rotated=None if rotated is None else _number(rotated, most=_LATEST),
        slots=_slots(found["slots"]),
        cipher_floor=_number(found["cipher_floor"]),
        schema_floor=_number(found["schema_floor"]),
        mac=_bytes(found["mac"], MAC_SIZE),
    )


def _slots(found: Any) -> tuple[Slot, ...]:
    if not isinstance(found, list) or not 1 <= len(found) <= MOST_SLOTS:
        raise KeyFileDamaged("it has no slots, or too many")
    slots = tuple(_slot(one) for one in found)
    ids = [slot.id for slot in slots]
    if ids != sorted(set(ids)):
        raise KeyFileDamaged("its slots are not in order")
    if not kdf.permit_together(slot.kdf for slot in slots):  # defence: kdf-cost-of-all-slots
        raise KeyFileDamaged("its slots cost too much work together")
    return slots


def _slot(found: Any) -> Slot:
    if not isinstance(found, dict):
        raise KeyFileDamaged("a slot is not an object")
    if not isinstance(found["label"], str) or not is_label(found["label"]):
        raise KeyFileDamaged("a slot has an unreadable label")
    type_ = _parse_word(SlotType, found["type"])
    return Slot(
        id=_number(found["id"], least=1),
        type=type_,
        label=found["label"],
        kdf=_parameters(found["kdf"], type_),
        salt=_bytes(found["salt"], kdf.SALT_SIZE),
        nonce=_bytes(found["nonce"], NONCE_SIZE),
        wrapped=_bytes(found["wrapped"], kdf.KEY_SIZE + TAG_SIZE),
    )


def _parameters(found: Any, type_: SlotType) -> kdf.Parameters:
    """Parse the parameters of a slot: the right kind for its type, and within bounds."""
    parameters = kdf.from_fields(found, _number)
    # A passphrase needs a slow derivation, a random key does not.
    # defence: passphrase-is-stretched
    if (type_ is SlotType.PASSPHRASE) != parameters.for_passphrases:
        raise KeyFileDamaged("a slot's key derivation does not match its type")
    if reason := kdf.refuse(parameters):  # defence: kdf-cost-when-read
        raise KeyFileDamaged(reason)
    return parameters


def _number(value: Any, *, least: int = 0, most: int = _LARGEST_NUMBER) -> int:
    if type(value) is not int or not least <= value <= most:
        raise KeyFileDamaged("a number is out of range")
    return value


def _hex(value: Any, digits: int) -> str:
    if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value):
        raise KeyFileDamaged("an identifier is malformed")
    return value


def _parse_word(words: type[_Word], value: Any) -> _Word:
    try:
        return words(value)
    except ValueError:
        raise KeyFileDamaged("a word is unknown") from None


def _bytes(value: Any, size: int) -> bytes:
    try:
        found = base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise KeyFileDamaged("a binary field is malformed") from None
    if len(found) != size:
        raise KeyFileDamaged("a binary field has the wrong length")
    return found


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
