"""Test the golden key files: every later release and other readers can read them."""

import base64
import hashlib
import hmac
import importlib.util
import json
import unicodedata
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from mcp_notarium.crypto import key_file_codec, key_slots
from mcp_notarium.crypto.errors import KeyFileDamaged, KeyFileNewer, WrongKey
from mcp_notarium.secret import Secret

HERE = Path(__file__).parent
FILES = sorted((HERE / "keyfiles").glob("*.keyfile"))
REFUSALS = {"damaged": KeyFileDamaged, "newer": KeyFileNewer, "wrong key": WrongKey}


def read(path):
    """The head of a vector as a dict, and the key file's bytes."""
    head, _, raw = path.read_bytes().partition(b"\n\n")
    lines = (line.partition(": ") for line in head.decode().splitlines())
    return {name: json.loads(value) for name, _, value in lines}, raw


def opening(expected):
    return [path for path in FILES if read(path)[0]["expect"] == expected]


@pytest.mark.parametrize("path", opening("opens"), ids=lambda path: path.stem)
def test_a_golden_key_file_opens_and_belongs_to_its_owner(path):
    head, raw = read(path)
    keyfile = key_file_codec.parse(raw)
    data_key = key_slots.unlock(keyfile, Secret(head["key"]))
    assert data_key.secret().reveal().hex() == head["data_key"]
    assert key_slots.belongs_to(keyfile, data_key, head["owner"])
    assert key_file_codec.serialise(keyfile) == raw


@pytest.mark.attack(6)
@pytest.mark.usefixtures("production_costs")
@pytest.mark.parametrize(
    "path", [path for kind in REFUSALS for path in opening(kind)], ids=lambda path: path.stem
)
def test_a_bad_key_file_is_refused_as_it_should_be(path):
    head, raw = read(path)
    with pytest.raises(REFUSALS[head["expect"]]):
        key_slots.unlock(key_file_codec.parse(raw), Secret(head["key"]))


def test_the_generator_still_makes_the_same_bytes():
    place = HERE / "make_keyfile_vectors.py"
    spec = importlib.util.spec_from_file_location("make_keyfile_vectors", place)
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.vectors() == {path.name: path.read_bytes() for path in FILES}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def hkdf(secret, label, salt=None):
    return HKDF(hashes.SHA256(), 32, salt, label).derive(secret)


def raw_key(key):
    return bytes.fromhex(key.removeprefix("raw:"))


def on_paper(key):
    """A recovery key as docs/format.md says, by way of the other alphabet of base 32."""
    crockford, other = "0123456789ABCDEFGHJKMNPQRSTVWXYZ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    typed = key.upper().replace("O", "0").replace("I", "1").replace("L", "1")
    letters = "".join(letter for letter in typed if letter in crockford)
    secret = base64.b32decode(letters[:32].translate(str.maketrans(crockford, other)))
    digest = hashlib.sha256(b"mcp-notarium/v1/recovery-check" + secret).digest()
    bits = f"{int.from_bytes(digest[:3], 'big') >> 4:020b}"
    check = "".join(crockford[int(bits[at : at + 5], 2)] for at in range(0, 20, 5))
    assert letters[32:] == check
    return secret


def stretched(key, slot):
    """The wrapping key as docs/format.md says, with another implementation than ours."""
    salt, cost = base64.b64decode(slot["salt"]), slot["kdf"]
    if cost["algorithm"] == "hkdf-sha256":
        secret = on_paper(key) if slot["type"] == "recovery" else raw_key(key)
        return hkdf(secret, b"mcp-notarium/v1/slot", salt)
    words = unicodedata.normalize("NFC", key).encode()
    if cost["algorithm"] == "pbkdf2-sha512":
        return PBKDF2HMAC(hashes.SHA512(), 32, salt, cost["iterations"]).derive(words)
    return Argon2id(
        salt=salt,
        length=32,
        iterations=cost["time_cost"],
        lanes=cost["lanes"],
        memory_cost=cost["memory_kib"],
    ).derive(words)


@pytest.mark.parametrize("path", opening("opens"), ids=lambda path: path.stem)
def test_a_reader_written_from_the_document_alone_opens_it_too(path):
    head, raw = read(path)
    fields = json.loads(raw)
    checksum = fields.pop("sum")
    assert hashlib.sha256(canonical(fields)).hexdigest() == checksum
    slot = fields["slots"][-1]
    place = {name: slot[name] for name in ("id", "kdf", "salt", "type")}
    aad = canonical(
        {
            "format": "mcp-notarium-keys",
            "slot": place,
            "vault": fields["vault"],
            "version": 1,
        }
    )
    data_key = AESGCM(stretched(head["key"], slot)).decrypt(
        base64.b64decode(slot["nonce"]), base64.b64decode(slot["wrapped"]), aad
    )
    assert data_key.hex() == head["data_key"]
    mac = base64.b64decode(fields.pop("mac"))
    mac_key = hkdf(data_key, b"mcp-notarium/v1/key-file-mac")
    assert hmac.digest(mac_key, canonical(fields), "sha256") == mac
    owner = hmac.digest(hkdf(data_key, b"mcp-notarium/v1/owner"), head["owner"].encode(), "sha256")
    assert base64.b64decode(fields["owner_tag"]) == owner
