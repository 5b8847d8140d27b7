import hmac
import pickle

import pytest

from mcp_notarium.crypto.data_key import DataKey, unwrap_key, wrap_key
from mcp_notarium.secret import Secret

KEY = DataKey(Secret(bytes(range(32))))
SALT = bytes(range(16))
WRAPPING = Secret(b"k" * 32)


def test_the_database_key_is_sqlciphers_160_digit_form():
    spec = KEY.database_key(SALT).reveal_text()
    encryption, mac = KEY.subkey("db-enc").reveal(), KEY.page_mac_key().reveal()
    assert spec == f"x'{encryption.hex()}{mac.hex()}{SALT.hex()}'"
    assert len(spec) == 163


def test_every_purpose_has_its_own_key_and_none_is_the_data_key():
    keys = [KEY.subkey(p).reveal() for p in ("db-enc", "db-mac", "key-file-mac", "owner", "audit")]
    assert len({*keys, KEY.secret().reveal()}) == 6


def test_subkeys_are_hkdf_sha256_with_the_programs_label():
    prk = hmac.digest(bytes(32), KEY.secret().reveal(), "sha256")
    by_hand = hmac.digest(prk, b"mcp-notarium/v1/db-mac\x01", "sha256")
    assert KEY.page_mac_key().reveal() == by_hand


@pytest.mark.parametrize("purpose", ["", "Owner", "db enc", "db/enc", "1", "\u00f6"])
def test_a_purpose_is_a_plain_word(purpose):
    with pytest.raises(ValueError):
        KEY.subkey(purpose)


@pytest.mark.parametrize("salt", [b"", bytes(15), bytes(17)])
def test_a_salt_of_another_length_is_refused_because_it_would_become_a_passphrase(salt):
    with pytest.raises(ValueError):
        KEY.database_key(salt)


@pytest.mark.parametrize("length", [0, 16, 31, 33, 64])
def test_a_data_key_has_32_bytes(length):
    assert len(DataKey.generate().secret().reveal()) == 32
    with pytest.raises(ValueError):
        DataKey(Secret(bytes(length)))


def test_a_data_key_shows_nothing_and_is_not_pickled():
    assert "00010203" not in f"{KEY!r} {KEY} {KEY!s}"
    with pytest.raises(TypeError):
        pickle.dumps(KEY)
    with pytest.raises(TypeError):
        hash(KEY)


def test_generated_data_keys_differ_and_equal_ones_are_equal():
    assert DataKey.generate() != DataKey.generate()
    assert DataKey(Secret(bytes(range(32)))) == KEY
    assert Secret(bytes(range(32))) != KEY


def test_what_is_wrapped_comes_out_again():
    wrapped = wrap_key(WRAPPING, KEY.secret(), nonce=bytes(12), aad=b"here")
    assert len(wrapped) == 48
    assert unwrap_key(WRAPPING, wrapped, nonce=bytes(12), aad=b"here") == KEY.secret()


def test_nothing_comes_out_for_another_key_nonce_place_or_a_flipped_bit():
    wrapped = wrap_key(WRAPPING, KEY.secret(), nonce=bytes(12), aad=b"here")
    flipped = bytes([wrapped[0] ^ 1]) + wrapped[1:]
    assert unwrap_key(Secret(b"o" * 32), wrapped, nonce=bytes(12), aad=b"here") is None
    assert unwrap_key(WRAPPING, wrapped, nonce=b"n" * 12, aad=b"here") is None
    assert unwrap_key(WRAPPING, wrapped, nonce=bytes(12), aad=b"there") is None
    assert unwrap_key(WRAPPING, flipped, nonce=bytes(12), aad=b"here") is None
    assert unwrap_key(WRAPPING, wrapped[:-1], nonce=bytes(12), aad=b"here") is None
    assert unwrap_key(WRAPPING, b"", nonce=bytes(12), aad=b"here") is None
