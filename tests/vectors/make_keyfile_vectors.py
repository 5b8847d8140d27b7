"""Write the golden key files: one file per rule of docs/format.md, from fixed randomness.

``python tests/vectors/make_keyfile_vectors.py`` writes them again; a difference in git means that
the format on disk has changed. Each file has a short head, an empty line and the key file itself.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_notarium.crypto import kdf, key_file_codec, key_slots, user_key
from mcp_notarium.crypto.key_file_codec import KeyFile, SlotType
from mcp_notarium.secret import Secret
from support.account import OTHER, OWNER, PASSPHRASE
from support.keyfiles import (
    DATA_KEY,
    NOW,
    RAW_KEY,
    add_slot,
    b64,
    fixed_randomness,
    forged,
    with_sum,
)

FOLDER = Path(__file__).parent / "keyfiles"
UMLAUTS = "f\u00fcnf leise M\u00f6wen am Kai"
WORDS = Secret(PASSPHRASE)
PAPER = user_key.write_recovery_key(bytes(range(100, 120)))


def build(passphrase: Secret = WORDS, parameters: kdf.Parameters | None = None) -> KeyFile:
    with fixed_randomness():
        return key_slots.build(
            data_key=DATA_KEY,
            passphrase=passphrase,
            parameters=parameters or kdf.Argon2id(),
            owner_hash=OWNER,
            now=NOW,
        )


def good() -> dict[str, tuple[str, str, bytes]]:
    """Name -> what is expected, the key, the file: those that open."""
    argon = build()
    with fixed_randomness("rotated"):
        rotated = key_slots.rewrap(
            argon,
            old=WORDS,
            new=Secret(OTHER),
            parameters=kdf.Argon2id(),
            now=NOW + 86_400,
        )
    with fixed_randomness("second"):
        two = add_slot(argon, DATA_KEY, RAW_KEY, parameters=kdf.Argon2id())
    raw = build(RAW_KEY)
    with fixed_randomness("keychain"):
        by_keychain = add_slot(
            argon,
            DATA_KEY,
            RAW_KEY,
            parameters=kdf.Argon2id(),
            type_=SlotType.KEYCHAIN,
            label="Secret Service",
        )
    with fixed_randomness("paper"):
        on_paper = add_slot(argon, DATA_KEY, PAPER, parameters=kdf.Argon2id(), label="on paper")
    files = {
        "opens_argon2id": (PASSPHRASE, argon),
        "opens_pbkdf2": (PASSPHRASE, build(parameters=kdf.Pbkdf2Sha512())),
        "opens_raw_key": (RAW_KEY.reveal_text(), raw),
        "opens_after_rotation": (OTHER, rotated),
        "opens_second_slot": (RAW_KEY.reveal_text(), two),
        "opens_keychain_slot": (RAW_KEY.reveal_text(), by_keychain),
        "opens_recovery_slot": (PAPER.reveal_text(), on_paper),
        "opens_recovery_slot_as_typed": (
            PAPER.reveal_text().lower().replace("-", " ").replace("0", "o"),
            on_paper,
        ),
        "opens_composed_passphrase": (UMLAUTS, build(Secret(UMLAUTS))),
        "opens_decomposed_passphrase": (
            "fu\u0308nf leise Mo\u0308wen am Kai",
            build(Secret(UMLAUTS)),
        ),
    }
    return {
        name: ("opens", key, key_file_codec.serialise(keyfile))
        for name, (key, keyfile) in files.items()
    }


def refused() -> dict[str, tuple[str, str, bytes]]:
    """Name -> what is expected, the key, the file: those that must not open."""
    raw = key_file_codec.serialise(build(RAW_KEY))
    argon = key_file_codec.serialise(build())
    key = RAW_KEY.reveal_text()

    def slot(**changes: object) -> Callable[[dict], object]:
        return lambda fields: fields["slots"][0].update(changes)

    def cost(**changes: object) -> Callable[[dict], object]:
        return lambda fields: fields["slots"][0]["kdf"].update(changes)

    def top(**changes: object) -> Callable[[dict], object]:
        return lambda fields: fields.update(changes)

    def eight_at_half_the_ceiling(fields: dict) -> None:
        cost(memory_kib=524_288, time_cost=16)(fields)
        fields["slots"] = [fields["slots"][0] | {"id": number} for number in range(1, 9)]

    fields = json.loads(raw)
    return {
        "wrong_key": ("wrong key", "raw:" + "00" * 32, raw),
        "wrong_kind_of_key": ("wrong key", PASSPHRASE, raw),
        "wrong_recovery_key": (
            "wrong key",
            user_key.write_recovery_key(bytes(20)).reveal_text(),
            argon,
        ),
        "wrong_slot_type": ("wrong key", key, forged(raw, slot(type="keychain"))),
        "wrong_slot_salt": ("wrong key", key, forged(raw, slot(salt=b64(bytes(16))))),
        "wrong_slot_id": ("wrong key", key, forged(raw, slot(id=2))),
        "wrong_vault": ("wrong key", key, forged(raw, top(vault="0" * 32))),
        "forged_generation": ("damaged", key, forged(raw, top(generation="0" * 16))),
        "forged_sequence": ("damaged", key, forged(raw, top(sequence=9))),
        "forged_database_salt": ("damaged", key, forged(raw, top(database_salt=b64(bytes(16))))),
        "forged_owner_tag": ("damaged", key, forged(raw, top(owner_tag=b64(bytes(32))))),
        "forged_label": ("damaged", key, forged(raw, slot(label="mine"))),
        "forged_mac": ("damaged", key, forged(raw, top(mac=b64(bytes(32))))),
        "memory_below_floor": ("damaged", PASSPHRASE, forged(argon, cost(memory_kib=65_535))),
        "memory_bomb": ("damaged", PASSPHRASE, forged(argon, cost(memory_kib=2**31))),
        "work_bomb": ("damaged", PASSPHRASE, forged(argon, eight_at_half_the_ceiling)),
        "time_below_floor": ("damaged", PASSPHRASE, forged(argon, cost(time_cost=2))),
        "extra_field": ("damaged", key, forged(raw, top(extra=1))),
        "missing_field": (
            "damaged",
            key,
            with_sum({n: v for n, v in fields.items() if n != "mac"}),
        ),
        "no_slots": ("damaged", key, forged(raw, top(slots=[]))),
        "duplicate_field": ("damaged", key, raw.replace(b"{", b'{"created":1,', 1)),
        "fraction": ("damaged", key, raw.replace(b'"sequence":1', b'"sequence":1.0')),
        "white_space": ("damaged", key, raw + b"\n"),
        "flipped_bit": ("damaged", key, raw.replace(b'"sequence":1', b'"sequence":3')),
        "cut": ("damaged", key, raw[:-1]),
        "empty": ("damaged", key, b""),
        "newer_version": ("newer", key, forged(raw, top(version=2, whatever="else"))),
    }


def vectors() -> dict[str, bytes]:
    """File name -> content."""
    found = {}
    for name, (expected, key, raw) in (good() | refused()).items():
        head = {"expect": expected, "key": key, "owner": OWNER}
        if expected == "opens":
            head["data_key"] = DATA_KEY.secret().reveal().hex()
        lines = "".join(f"{part}: {json.dumps(value)}\n" for part, value in head.items())
        found[f"{name}.keyfile"] = lines.encode() + b"\n" + raw
    return found


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, content in vectors().items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
