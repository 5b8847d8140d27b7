"""Test that reading any key file ends in a refusal or in exactly what was written."""

import json
import resource
import sys
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_notarium.crypto import kdf, key_file_codec, key_slots
from mcp_notarium.crypto.errors import KeyFileDamaged, KeyFileNewer, SlotsRefused, WrongKey
from mcp_notarium.crypto.key_file_codec import SlotType
from mcp_notarium.secret import Secret
from support.account import PASSPHRASE
from support.cheap_costs import CHEAPEST
from support.keyfiles import DATA_KEY, RAW_KEY, add_slot, cheap, forged

WORDS = Secret(PASSPHRASE)
BOTH = add_slot(cheap(), DATA_KEY, RAW_KEY, parameters=CHEAPEST)
RAW = key_file_codec.serialise(BOTH)


def parse(raw):
    return key_file_codec.parse(raw)


@pytest.mark.attack(2)
def test_every_single_flipped_bit_is_damage_and_never_a_wrong_key():
    for place in range(len(RAW)):
        for bit in range(8):
            flipped = RAW[:place] + bytes([RAW[place] ^ (1 << bit)]) + RAW[place + 1 :]
            with pytest.raises(KeyFileDamaged):
                parse(flipped)


@pytest.mark.attack(3)
def test_every_truncation_is_damage():
    for length in range(len(RAW)):
        with pytest.raises(KeyFileDamaged):
            parse(RAW[:length])


def test_every_lengthening_is_damage():
    for more in (b"\x00", b" ", b"\n", b"}", b"{}", RAW):
        with pytest.raises(KeyFileDamaged):
            parse(RAW + more)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_damage(raw):
    with pytest.raises(KeyFileDamaged):
        parse(raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("A" * 22 + "=="),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
FIELDS = sorted(json.loads(RAW))
SLOT_FIELDS = sorted(json.loads(RAW)["slots"][0])


@settings(max_examples=300, deadline=None)
@given(field=st.sampled_from(FIELDS), value=json_values)
def test_any_value_in_any_field_is_refused_or_does_not_open(field, value):
    assert_never_opens(forged(RAW, lambda fields: fields.update({field: value})), RAW_KEY)


@settings(max_examples=300, deadline=None)
@given(field=st.sampled_from(SLOT_FIELDS), value=json_values, slot=st.integers(0, 1))
def test_any_value_in_any_slot_field_is_refused_or_does_not_open(field, value, slot):
    def change(fields):
        fields["slots"][slot].update({field: value})

    assert_never_opens(forged(RAW, change), RAW_KEY)


def assert_never_opens(raw, key):
    """A forged file is refused as such; only the unchanged one opens."""
    if raw == RAW:
        return
    try:
        opened = key_slots.unlock(parse(raw), key)
    except (KeyFileDamaged, KeyFileNewer, WrongKey):
        return
    pytest.fail(f"opened: {opened!r}")


@settings(max_examples=100, deadline=None)
@given(name=st.text(min_size=1, max_size=12), value=json_values)
def test_a_field_that_is_not_of_the_format_is_refused(name, value):
    if name in FIELDS or name in SLOT_FIELDS:
        return
    with pytest.raises(KeyFileDamaged):
        parse(forged(RAW, lambda fields: fields.update({name: value})))
    with pytest.raises(KeyFileDamaged):
        parse(forged(RAW, lambda fields: fields["slots"][0].update({name: value})))


@pytest.mark.attack(4)
def test_every_duplicated_field_is_refused():
    text = RAW.decode()
    fields = json.loads(RAW)
    for name in FIELDS:
        value = json.dumps(fields[name], sort_keys=True, separators=(",", ":"))
        twice = text.replace("{", f'{{"{name}":{value},', 1)
        assert json.loads(twice) == fields
        with pytest.raises(KeyFileDamaged):
            parse(twice.encode())


@pytest.mark.parametrize("inside", ["slot", "cost"])
def test_every_field_duplicated_further_down_is_refused(inside):
    fields = json.loads(RAW)
    part = fields["slots"][0] if inside == "slot" else fields["slots"][0]["kdf"]
    whole = json.dumps(part, sort_keys=True, separators=(",", ":"))
    for name, value in part.items():
        one = json.dumps({name: value}, sort_keys=True, separators=(",", ":"))[1:-1]
        twice = RAW.decode().replace(whole, f"{{{one},{whole[1:]}", 1)
        assert json.loads(twice) == fields
        assert twice.encode() != RAW
        with pytest.raises(KeyFileDamaged):
            parse(twice.encode())


@settings(max_examples=100, deadline=None)
@given(field=st.sampled_from(sorted(json.loads(RAW)["slots"][0]["kdf"])), value=json_values)
def test_any_value_in_any_field_of_the_cost_is_refused_or_does_not_open(field, value):
    def change(fields):
        fields["slots"][0]["kdf"].update({field: value})

    assert_never_opens(forged(RAW, change), RAW_KEY)


def test_swapped_slots_do_not_open():
    def swap_contents(fields):
        one, other = fields["slots"]
        for name in ("wrapped", "nonce", "salt"):
            one[name], other[name] = other[name], one[name]

    def swap_order(fields):
        fields["slots"].reverse()

    def swap_numbers(fields):
        one, other = fields["slots"]
        one["id"], other["id"] = other["id"], one["id"]
        fields["slots"].reverse()

    for swap in (swap_contents, swap_order, swap_numbers):
        for key in (WORDS, RAW_KEY):
            assert_never_opens(forged(RAW, swap), key)


@pytest.mark.usefixtures("production_costs")
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    memory=st.integers(-1, 2**53 - 1),
    time_cost=st.integers(-1, 2**53 - 1),
    lanes=st.integers(-1, 2**53 - 1),
)
def test_no_cost_from_a_file_is_worked_with_outside_the_bounds(memory, time_cost, lanes):
    cost = kdf.Argon2id(memory, time_cost, lanes)
    refused = kdf.refuse(cost) is not None
    within = 65_536 <= memory <= 1_048_576 and 3 <= time_cost <= 16 and 4 <= lanes <= 16
    assert refused is not within


def slots_at_ceiling(fields, count):
    """So many slots, each of which may be in a key file."""
    most = {"memory_kib": 1_048_576, "time_cost": 16, "lanes": 4, "algorithm": "argon2id"}
    return [fields["slots"][0] | {"id": number, "kdf": most} for number in range(1, count + 1)]


def test_one_slot_at_the_ceiling_is_read():
    assert key_file_codec.parse(forged(RAW, lambda f: f.update(slots=slots_at_ceiling(f, 1))))


def slot_of_cost(number, cost):
    """A slot of this cost; nothing is stretched for it."""
    first = BOTH.slots[0]
    return replace(first, id=number, type=SlotType.PASSPHRASE, kdf=cost)


costs = st.builds(
    kdf.Argon2id, st.sampled_from([65_536, 524_288, 1_048_576]), st.integers(3, 16)
) | st.builds(kdf.Pbkdf2Sha512, st.sampled_from([210_000, 4_999_999, 5_000_000, 10_000_000]))


@settings(max_examples=200, deadline=None)
@given(st.lists(costs, min_size=1, max_size=8))
def test_what_is_written_is_read_again_and_costs_no_more_than_one_slot_may(chosen):
    slots = tuple(slot_of_cost(n, each) for n, each in enumerate(chosen, start=1))
    work = sum(
        Fraction(cost.memory_kib * cost.time_cost, 1 << 24)
        if isinstance(cost, kdf.Argon2id)
        else Fraction(cost.iterations, 10_000_000)
        for cost in chosen
    )
    if work <= 1:
        after = key_slots.replace_slots(BOTH, DATA_KEY, slots=slots)
        assert key_file_codec.parse(key_file_codec.serialise(after)) == after
        return
    with pytest.raises(SlotsRefused, match="too long"):
        key_slots.replace_slots(BOTH, DATA_KEY, slots=slots)
    with pytest.raises(KeyFileDamaged, match="together"):
        key_file_codec.parse(key_file_codec.serialise(replace(BOTH, slots=slots)))


BOMBS = {
    "memory": forged(RAW, lambda f: f["slots"][0]["kdf"].update(memory_kib=2**31)),
    "time": forged(RAW, lambda f: f["slots"][0]["kdf"].update(time_cost=2**31)),
    "depth": b'{"a":' * 13_000,
    "list depth": b"[" * 65_536,
    "digits": b'{"a":' + b"9" * 65_000 + b"}",
    "size": b" " * (64 * 1024 + 1),
    "slots": forged(RAW, lambda f: f.update(slots=f["slots"] * 50)),
    "slots at the ceiling": forged(RAW, lambda f: f.update(slots=slots_at_ceiling(f, 8))),
    "names": b"{" + b",".join(b'"%d":0' % n for n in range(7000)) + b"}",
}


@pytest.mark.attack(4, 5)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_quickly_and_without_much_memory(bomb):
    before, called = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []

    def seen(frame, event, given):
        if event in {"call", "c_call"}:
            called.append(frame.f_code.co_name if event == "call" else given.__name__)

    sys.setprofile(seen)
    try:
        with pytest.raises(KeyFileDamaged):
            key_slots.unlock(key_file_codec.parse(BOMBS[bomb]), WORDS)
    finally:
        sys.setprofile(None)
    assert 0 < len(called) < 30_000
    assert not {"hash_secret_raw", "pbkdf2_hmac"} & {*called}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


@settings(max_examples=60, deadline=None)
@given(
    passphrase=st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
    )
)
def test_any_passphrase_opens_what_was_made_with_it(passphrase):
    if not passphrase.strip() or passphrase.startswith("raw:"):
        return
    key = Secret(passphrase)
    keyfile = parse(key_file_codec.serialise(cheap(key)))
    assert key_slots.unlock(keyfile, key) == DATA_KEY
