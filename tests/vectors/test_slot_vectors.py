"""Change a slot of a real key file in the ways of Wycheproof: tag, nonce, salt, AAD and sizes.

The checksum is made to fit, as by an attacker who can write the file, and the file is read and opened as at each start.
"""

import base64

import pytest

from mcp_notarium.crypto import kdf, key_file_codec, key_slots
from mcp_notarium.crypto.data_key import TAG_SIZE, unwrap_key, wrap_key
from mcp_notarium.crypto.errors import KeyFileDamaged, MalformedKey, WrongKey
from mcp_notarium.secret import Secret
from support.account import PASSPHRASE
from support.cheap_costs import CHEAPEST
from support.keyfiles import DATA_KEY, b64, cheap, forged

COSTS = [CHEAPEST, kdf.Pbkdf2Sha512(1)]
BITS = (0, 1, 7, 8, 31, 32, 33, 63, 64, 71, 77, 80, 96, 97, 103, 120, 121, 126, 127)
TAGS = {
    **{f"bit {bit}": 1 << bit for bit in BITS},
    "bits 0 and 64": 1 | 1 << 64,
    "bits 31 and 63": 1 << 31 | 1 << 63,
    "bits 63 and 127": 1 << 63 | 1 << 127,
    "all bits": (1 << 128) - 1,
    "highest bits of all bytes": int("80" * 16, 16),
    "lowest bits of all bytes": int("01" * 16, 16),
}
"""Bits of the tag that are flipped; bit 0 is the lowest of the first byte."""


def open_(raw, key=PASSPHRASE):
    keyfile = key_file_codec.parse(raw)
    return key_slots.unlock(keyfile, Secret(key))


def changed(field, change, cost=CHEAPEST):
    """The bytes of a key file, with the bytes of one field of its slot replaced."""

    def replace(fields):
        slot = fields["slots"][0]
        slot[field] = b64(change(base64.b64decode(slot[field])))

    return forged(key_file_codec.serialise(cheap(parameters=cost)), replace)


def with_tag(change):
    return lambda wrapped: wrapped[:-TAG_SIZE] + change(wrapped[-TAG_SIZE:])


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_the_slot_opens_as_it_was_written(cost):
    assert open_(changed("wrapped", bytes, cost)) == DATA_KEY


@pytest.mark.attack(6)
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("case", TAGS)
def test_a_slot_with_a_modified_tag_does_not_open(case, cost):
    def flip(tag):
        return (int.from_bytes(tag, "little") ^ TAGS[case]).to_bytes(TAG_SIZE, "little")

    with pytest.raises(WrongKey):
        open_(changed("wrapped", with_tag(flip), cost))


@pytest.mark.attack(6)
@pytest.mark.parametrize("tag", [bytes(TAG_SIZE), b"\xff" * TAG_SIZE], ids=["zeros", "ones"])
def test_a_slot_with_a_guessed_tag_does_not_open(tag):
    with pytest.raises(WrongKey):
        open_(changed("wrapped", with_tag(lambda _tag: tag)))


@pytest.mark.attack(6)
@pytest.mark.parametrize("size", [0, 4, 8, 12, 13, 15, 17, 32])
def test_a_slot_with_a_tag_of_another_length_is_damaged(size):
    with pytest.raises(KeyFileDamaged, match="wrong length"):
        open_(changed("wrapped", with_tag(lambda tag: (tag * 2)[:size])))


@pytest.mark.attack(6)
@pytest.mark.parametrize("size", [0, 1, 8, 11, 13, 16, 128])
def test_a_slot_with_a_nonce_of_another_length_is_damaged(size):
    with pytest.raises(KeyFileDamaged, match="wrong length"):
        open_(changed("nonce", lambda nonce: (nonce * 12)[:size]))


@pytest.mark.attack(6)
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("at", range(12))
def test_a_slot_with_another_nonce_does_not_open(at, cost):
    def flip(nonce):
        return nonce[:at] + bytes([nonce[at] ^ 128]) + nonce[at + 1 :]

    with pytest.raises(WrongKey):
        open_(changed("nonce", flip, cost))


@pytest.mark.attack(6)
@pytest.mark.parametrize("zeros", [b"", b"\0\0", bytes(17)])
def test_a_salt_that_hmac_would_pad_to_the_same_is_damaged(zeros):
    """HKDF takes salts that differ in zeros at their end for the same one, so only one length is read."""
    with pytest.raises(KeyFileDamaged, match="wrong length"):
        open_(changed("salt", lambda salt: salt[:-1] + zeros))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 4096, 1 << 20])
def test_every_byte_of_a_long_aad_counts(size):
    key, nonce, aad = Secret(b"k" * 32), bytes(12), b"a" * size
    wrapped = wrap_key(key, DATA_KEY.secret(), nonce=nonce, aad=aad)
    assert unwrap_key(key, wrapped, nonce=nonce, aad=aad) == DATA_KEY.secret()
    assert unwrap_key(key, wrapped, nonce=nonce, aad=aad + b"\0") is None
    for at in {0, size // 2, size - 1} if size else ():
        other = aad[:at] + b"b" + aad[at + 1 :]
        assert unwrap_key(key, wrapped, nonce=nonce, aad=other) is None


@pytest.mark.attack(6)
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("key", [PASSPHRASE + " ", PASSPHRASE + "\n", PASSPHRASE[:-1]])
def test_a_passphrase_that_differs_at_its_end_does_not_open(key, cost):
    with pytest.raises(WrongKey):
        open_(changed("wrapped", bytes, cost), key)


@pytest.mark.attack(6)
@pytest.mark.parametrize("zeros", ["\0", "\0" * 90])
def test_a_passphrase_that_hmac_would_pad_to_the_same_is_refused(zeros):
    with pytest.raises(MalformedKey, match="zero character"):
        open_(changed("wrapped", bytes, kdf.Pbkdf2Sha512(1)), PASSPHRASE + zeros)
