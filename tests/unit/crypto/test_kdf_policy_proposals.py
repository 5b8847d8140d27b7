"""What is proposed for machines of different speed and memory."""

import pytest

from mcp_notarium.crypto.kdf import PRODUCTION, Argon2id, HkdfSha256, Pbkdf2Sha512, propose

MIB = 1024


def machine(seconds_per_64_mib_pass):
    """A machine on which the time grows with memory and passes, and what it was asked to try."""
    tried = []

    def measure(parameters):
        tried.append(parameters)
        return seconds_per_64_mib_pass * parameters.memory_kib / (64 * MIB) * parameters.time_cost

    return measure, tried


def test_memory_is_raised_before_passes():
    measure, _ = machine(0.02)
    best = propose(measure, target=1.0, most_memory_kib=256 * MIB)
    assert best.parameters == Argon2id(memory_kib=256 * MIB, time_cost=12, lanes=4)
    assert best.seconds == pytest.approx(0.96)


def test_memory_goes_as_far_as_the_time_allows():
    measure, _ = machine(0.02)
    best = propose(measure, target=0.5, most_memory_kib=4096 * MIB)
    assert best.parameters == Argon2id(memory_kib=512 * MIB, time_cost=3, lanes=4)


def test_a_slow_machine_keeps_the_floor():
    measure, tried = machine(5.0)
    assert propose(measure, target=1.0, most_memory_kib=4096 * MIB).parameters == Argon2id()
    assert len(tried) <= 3


@pytest.mark.parametrize("memory_mib", [1, 64, 127])
def test_little_memory_never_lowers_the_floor(memory_mib):
    measure, tried = machine(0.001)
    best = propose(measure, target=1.0, most_memory_kib=memory_mib * MIB)
    assert best.parameters.memory_kib == 64 * MIB
    assert {one.memory_kib for one in tried} == {64 * MIB}


def test_nothing_above_the_ceiling_is_even_tried():
    measure, tried = machine(0.0)
    best = propose(measure, target=60.0, most_memory_kib=64 * 1024 * MIB)
    assert all(PRODUCTION.refuses(one) is None for one in tried)
    assert best.parameters == Argon2id(memory_kib=1024 * MIB, time_cost=16, lanes=4)


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ((HkdfSha256(),) * 7, Argon2id(memory_kib=1024 * MIB, time_cost=16)),
        ((Argon2id(memory_kib=1024 * MIB, time_cost=8),), Argon2id(1024 * MIB, 8)),
        ((Argon2id(), Pbkdf2Sha512(5_000_000)), Argon2id(1024 * MIB, 7)),
        ((Argon2id(memory_kib=1024 * MIB, time_cost=15),), Argon2id(256 * MIB, 4)),
        ((Argon2id(memory_kib=1024 * MIB, time_cost=16),), Argon2id()),
    ],
)
def test_the_proposed_cost_fits_beside_the_other_slots_of_the_key_file(beside, expected):
    measure, tried = machine(0.0)
    best = propose(measure, target=1.0, most_memory_kib=1024 * MIB, beside=beside)
    assert best.parameters == expected
    assert best.parameters == Argon2id() or PRODUCTION.permits_together([expected, *beside])
    assert tried[-1] == expected


def test_eight_passphrases_of_a_second_each_find_room_where_that_fills_2_gib():
    measure, _ = machine(1 / 32)
    best = propose(measure, target=1.0, most_memory_kib=512 * MIB).parameters
    assert best == Argon2id(memory_kib=512 * MIB, time_cost=4)
    assert PRODUCTION.permits_together([best] * 8)
