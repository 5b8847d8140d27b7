"""Make key files from fixed randomness, and forge them: change fields, correct the checksum."""

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

from mcp_notarium.crypto import canonical_json, kdf, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.secret import Secret
from support.account import OWNER, PASSPHRASE
from support.cheap_costs import CHEAPEST

NOW = 1_763_683_200
DATA_KEY = DataKey(Secret(bytes(range(32))))
RAW_KEY = Secret("raw:" + bytes(range(100, 132)).hex())


class StepRow(NamedTuple):
    """A step of a key change, and which key opens the cache after a crash following it."""

    step: str
    opens: str


_BEFORE = ("lock", "unwrap", "build", "write", "sync", "verify")
_AFTER = (
    *("switch", "sync_folder", "write_copy", "sync_copy", "verify_copy", "switch_copy"),
    *("sync_folder_copy", "prove"),
)
REWRAP = (
    *(StepRow(step, "old") for step in _BEFORE),
    *(StepRow(step, "new") for step in _AFTER),
)


@contextmanager
def fixed_randomness(seed: str = "") -> Iterator[None]:
    """Randomness that is the same every time and different at every call."""
    calls = iter(range(1, 1000))

    def random_bytes(size: int) -> bytes:
        return hashlib.sha256(f"{seed}{next(calls)}".encode()).digest()[:size]

    with patch.object(secrets, "token_bytes", random_bytes):
        yield


def add_slot(keyfile: KeyFile, data_key: DataKey, key: Secret, **options) -> KeyFile:
    """The key file with one more slot."""
    slot = key_slots.new_slot(keyfile, data_key, key, **options)
    return key_slots.replace_slots(keyfile, data_key, slots=(*keyfile.slots, slot))


def cheap(passphrase: Secret | None = None, *, parameters: kdf.Parameters = CHEAPEST) -> KeyFile:
    """A key file that opens with PASSPHRASE (or what is given) at the cheapest cost."""
    with fixed_randomness():
        return key_slots.build(
            data_key=DATA_KEY,
            passphrase=passphrase or Secret(PASSPHRASE),
            parameters=parameters,
            owner_hash=OWNER,
            now=NOW,
        )


def forged(raw: bytes, change: Callable[[dict], object]) -> bytes:
    """The same file with fields changed by somebody who knows how to fix the checksum."""
    fields = json.loads(raw)
    change(fields)
    return with_sum(fields)


def with_sum(fields: dict) -> bytes:
    """Fields as bytes with a fitting checksum."""
    fields.pop("sum", None)
    fields["sum"] = hashlib.sha256(canonical_json.encode(fields)).hexdigest()
    return canonical_json.encode(fields)


def b64(value: bytes) -> str:
    """Base64 as the format writes it."""
    return base64.b64encode(value).decode()
