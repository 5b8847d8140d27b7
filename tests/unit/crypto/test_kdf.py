import pytest
from argon2.exceptions import HashingError
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id as SecondArgon2id
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from mcp_notarium.config.common_variables import COMMON
from mcp_notarium.crypto import kdf
from mcp_notarium.crypto.errors import KdfOutOfMemory, KeyFileDamaged
from mcp_notarium.errors import Verdict
from mcp_notarium.secret import Secret
from support.cheap_costs import CHEAPEST

SALT = bytes(range(16))
WORDS = Secret("violet kettle under seven maps")
pytestmark = pytest.mark.usefixtures("production_costs")


def test_argon2id_at_production_cost_agrees_with_a_second_implementation():
    cost = kdf.Argon2id()
    second = SecondArgon2id(salt=SALT, length=32, iterations=3, lanes=4, memory_cost=65536).derive(
        WORDS.reveal()
    )
    assert kdf.derive(WORDS, salt=SALT, parameters=cost).reveal() == second


def test_pbkdf2_agrees_with_a_second_implementation():
    second = PBKDF2HMAC(hashes.SHA512(), 32, SALT, 210_000).derive(WORDS.reveal())
    assert kdf.derive(WORDS, salt=SALT, parameters=kdf.Pbkdf2Sha512(210_000)).reveal() == second


def test_a_random_key_is_not_stretched_but_bound_to_its_salt():
    random_key = Secret(bytes(32))
    one = kdf.derive(random_key, salt=SALT, parameters=kdf.HkdfSha256())
    other = kdf.derive(random_key, salt=bytes(16), parameters=kdf.HkdfSha256())
    assert one != other
    assert one != random_key


def test_the_default_is_the_floor_of_production():
    assert kdf.RANGES[kdf.Argon2id][0] == kdf.Argon2id()
    assert kdf.refuse(kdf.Argon2id()) is None
    assert kdf.refuse(kdf.Pbkdf2Sha512()) is None


def test_each_name_that_can_be_set_is_an_algorithm_with_bounds_and_its_setting_has_the_same():
    known = {variable.name: variable for variable in COMMON}
    assert known["DB_ENCRYPTION_KDF"].words == kdf.NAMES
    assert known["DB_ENCRYPTION_KDF"].default == kdf.NAMES[0]
    assert [kind.name for kind in kdf.RANGES] == [*kdf.NAMES]
    rounds = known["DB_ENCRYPTION_KDF_ITERATIONS"]
    low, high = kdf.RANGES[kdf.Pbkdf2Sha512]
    assert (low, high) == (kdf.Pbkdf2Sha512(rounds.minimum), kdf.Pbkdf2Sha512(rounds.maximum))
    assert kdf.Pbkdf2Sha512(int(rounds.default)) == kdf.Pbkdf2Sha512()


@pytest.mark.attack(6)
@pytest.mark.parametrize(
    "weak",
    [
        kdf.Argon2id(memory_kib=65_535),
        kdf.Argon2id(time_cost=2),
        kdf.Argon2id(lanes=3),
        kdf.Argon2id(memory_kib=0, time_cost=0, lanes=0),
        kdf.Pbkdf2Sha512(209_999),
        kdf.Pbkdf2Sha512(0),
        CHEAPEST,
    ],
)
def test_production_refuses_a_cost_below_its_floor(weak):
    with pytest.raises(KeyFileDamaged, match="out of bounds"):
        kdf.derive(WORDS, salt=SALT, parameters=weak)


@pytest.mark.attack(5)
@pytest.mark.parametrize(
    "bomb",
    [
        kdf.Argon2id(memory_kib=2**31),
        kdf.Argon2id(memory_kib=1_048_577),
        kdf.Argon2id(time_cost=17),
        kdf.Argon2id(lanes=17),
        kdf.Pbkdf2Sha512(10_000_001),
    ],
)
def test_a_bomb_is_refused_before_any_work(bomb, monkeypatch):
    def exploded(**_cost):
        pytest.fail("work was begun")

    monkeypatch.setattr("argon2.low_level.hash_secret_raw", exploded)
    monkeypatch.setattr("hashlib.pbkdf2_hmac", lambda *_given: exploded())
    with pytest.raises(KeyFileDamaged):
        kdf.derive(WORDS, salt=SALT, parameters=bomb)


def test_missing_memory_is_reported_and_no_lower_cost_is_tried(monkeypatch):
    tries = []

    def failing(**cost):
        tries.append(cost["memory_cost"])
        raise HashingError("Memory allocation error")

    monkeypatch.setattr("argon2.low_level.hash_secret_raw", failing)
    with pytest.raises(KdfOutOfMemory) as refused:
        kdf.derive(WORDS, salt=SALT, parameters=kdf.Argon2id())
    assert tries == [65_536]
    assert refused.value.verdict is Verdict.CRYPTO_UNSUITABLE


def test_argon2_memory_must_be_enough_for_its_lanes():
    assert kdf.Argon2id(memory_kib=16, time_cost=1, lanes=4).fault


def test_a_passphrase_typed_decomposed_is_the_same_key():
    composed = kdf.normalise_passphrase(Secret("stra\u00dfe \u00e9"))
    assert kdf.normalise_passphrase(Secret("stra\u00dfe e\u0301")) == composed
    assert composed.reveal() == "stra\u00dfe \u00e9".encode()


def test_a_random_key_costs_nothing_and_says_so():
    assert (str(kdf.HkdfSha256()), kdf.HkdfSha256().work) == ("none needed (random key)", 0)


@pytest.mark.parametrize("found", [{"algorithm": "argon2id"}, {"algorithm": "other"}, {}, None])
def test_a_slot_without_all_parameters_of_its_algorithm_is_damaged(found):
    with pytest.raises(KeyFileDamaged, match="unknown key derivation"):
        kdf.from_fields(found, int)
