"""A change of the passphrase never makes guessing cheaper by itself."""

import itertools

import pytest

from mcp_notarium.crypto.kdf import Argon2id, HkdfSha256, KdfPolicy, Pbkdf2Sha512

FLOOR, DEAR, WIDE = Argon2id(), Argon2id(262_144, 5, 4), Argon2id(65_536, 3, 8)
ROUNDS, MANY = Pbkdf2Sha512(310_000), Pbkdf2Sha512(900_000)


def after(*costs, algorithm="argon2id", explicit=False):
    given = KdfPolicy(algorithm, explicit=explicit, costs=(ROUNDS,))
    return given.parameters_for(costs)


@pytest.mark.parametrize(
    ("costs", "algorithm", "explicit", "then"),
    [
        ((), "argon2id", False, FLOOR),
        ((), "pbkdf2-sha512", False, ROUNDS),
        ((HkdfSha256(),), "argon2id", False, FLOOR),
        ((HkdfSha256(),), "pbkdf2-sha512", True, ROUNDS),
        ((FLOOR,), "argon2id", False, FLOOR),
        ((DEAR,), "argon2id", False, DEAR),
        ((DEAR,), "argon2id", True, DEAR),
        ((DEAR, WIDE), "argon2id", False, Argon2id(262_144, 5, 8)),
        ((Argon2id(8, 1, 1),), "argon2id", False, FLOOR),
        ((DEAR,), "pbkdf2-sha512", False, DEAR),
        ((DEAR,), "pbkdf2-sha512", True, ROUNDS),
        ((MANY,), "argon2id", False, MANY),
        ((MANY,), "argon2id", True, FLOOR),
        ((MANY,), "pbkdf2-sha512", True, MANY),
        ((Pbkdf2Sha512(210_000),), "argon2id", False, ROUNDS),
        ((MANY, DEAR), "argon2id", False, DEAR),
        ((MANY, HkdfSha256()), "argon2id", False, MANY),
    ],
)
def test_the_cost_of_a_new_passphrase(costs, algorithm, explicit, then):
    assert after(*costs, algorithm=algorithm, explicit=explicit) == then


def test_with_the_same_algorithm_it_never_becomes_cheaper():
    argon = [Argon2id(*each) for each in itertools.product((65_536, 131_072), (3, 9), (4, 16))]
    for one, other, explicit in itertools.product(argon, argon, (True, False)):
        then = after(one, other, explicit=explicit)
        for cost in (one, other):
            assert then.memory_kib >= cost.memory_kib
            assert then.time_cost >= cost.time_cost
            assert then.lanes >= cost.lanes
