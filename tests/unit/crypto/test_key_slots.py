from dataclasses import replace

import pytest

from mcp_notarium.crypto import key_file_codec, key_slots
from mcp_notarium.crypto.errors import KeyFileDamaged, MalformedKey, SlotsRefused, WrongKey
from mcp_notarium.crypto.key_file_codec import SlotType
from mcp_notarium.errors import Verdict
from mcp_notarium.secret import Secret
from support.account import OWNER, PASSPHRASE
from support.cheap_costs import CHEAPEST
from support.keyfiles import DATA_KEY, RAW_KEY, add_slot, cheap, forged

WORDS = Secret(PASSPHRASE)
OTHER = Secret("nine hungry lamps by the river")


def unlock(keyfile, passphrase=WORDS):
    return key_slots.unlock(keyfile, passphrase)


def add(keyfile, passphrase):
    return add_slot(keyfile, DATA_KEY, passphrase, parameters=CHEAPEST)


def reread(keyfile):
    return key_file_codec.parse(key_file_codec.serialise(keyfile))


def test_the_right_passphrase_gives_the_data_key_back():
    assert unlock(reread(cheap())) == DATA_KEY


def test_a_wrong_passphrase_is_its_own_verdict():
    with pytest.raises(WrongKey) as refused:
        unlock(cheap(), OTHER)
    assert refused.value.verdict is Verdict.WRONG_KEY


def test_a_passphrase_typed_decomposed_opens():
    keyfile = cheap(Secret("f\u00fcnf kleine M\u00f6wen"))
    assert unlock(keyfile, Secret("fu\u0308nf kleine Mo\u0308wen")) == DATA_KEY


def test_a_raw_key_opens_without_any_stretching(monkeypatch):
    keyfile = cheap(RAW_KEY)
    assert keyfile.slots[0].type is SlotType.RAW
    monkeypatch.setattr("argon2.low_level.hash_secret_raw", pytest.fail)
    monkeypatch.setattr("hashlib.pbkdf2_hmac", pytest.fail)
    assert unlock(keyfile, RAW_KEY) == DATA_KEY


def test_a_raw_key_is_not_stretched_for_passphrase_slots_either(monkeypatch):
    both = add(cheap(), RAW_KEY)
    monkeypatch.setattr("argon2.low_level.hash_secret_raw", pytest.fail)
    assert unlock(both, RAW_KEY) == DATA_KEY


def test_a_raw_key_does_not_open_a_passphrase_slot_nor_the_other_way_round():
    with pytest.raises(WrongKey):
        unlock(cheap(), RAW_KEY)
    with pytest.raises(WrongKey):
        unlock(cheap(RAW_KEY), WORDS)


def test_a_malformed_raw_key_is_not_tried():
    with pytest.raises(MalformedKey):
        unlock(cheap(), Secret("raw:123"))


def test_two_files_made_alike_share_no_random_part():
    def build():
        return key_slots.build(
            data_key=DATA_KEY,
            passphrase=WORDS,
            parameters=CHEAPEST,
            owner_hash=OWNER,
            now=1,
        )

    one, other = build(), build()
    for part in ("vault_id", "generation", "database_salt"):
        assert getattr(one, part) != getattr(other, part)
    assert one.slots[0].salt != other.slots[0].salt
    assert len(one.slots[0].salt) * 8 == len(one.database_salt) * 8 == 128
    assert one.slots[0].nonce != other.slots[0].nonce
    assert one.slots[0].wrapped != other.slots[0].wrapped


@pytest.mark.usefixtures("production_costs")
def test_production_cost_cannot_be_undercut_when_building():
    with pytest.raises(KeyFileDamaged):
        key_slots.build(
            data_key=DATA_KEY,
            passphrase=WORDS,
            parameters=CHEAPEST,
            owner_hash=OWNER,
            now=1,
        )


def test_every_slot_opens_the_same_data_key():
    both = reread(add(add(cheap(), OTHER), RAW_KEY))
    assert [slot.id for slot in both.slots] == [1, 2, 3]
    assert unlock(both) == unlock(both, OTHER) == unlock(both, RAW_KEY) == DATA_KEY
    assert key_slots.open_slot(both, OTHER).slot.id == 2
    assert both.sequence == 3


def test_the_last_slot_that_needs_no_keychain_stays():
    keyfile = cheap()
    only = replace(keyfile.slots[0], type=SlotType.KEYCHAIN)
    with pytest.raises(SlotsRefused):
        key_slots.replace_slots(keyfile, DATA_KEY, slots=(only,))


def test_there_are_at_most_eight_slots():
    keyfile = cheap()
    for number in range(7):
        keyfile = add(keyfile, Secret(f"passphrase number {number}"))
    with pytest.raises(SlotsRefused):
        add(keyfile, OTHER)


FORGERIES = {
    "another generation": lambda f: f.update(generation="0" * 16),
    "another database salt": lambda f: f.update(database_salt="A" * 22 + "=="),
    "an older sequence": lambda f: f.update(sequence=1),
    "another owner": lambda f: f.update(owner_tag="A" * 43 + "="),
    "a lower floor": lambda f: f.update(schema_floor=0),
    "another time": lambda f: f.update(created=5),
    "another label": lambda f: f["slots"][0].update(label="mine"),
    "another MAC": lambda f: f.update(mac="A" * 43 + "="),
    "a slot removed": lambda f: f["slots"].pop(),
}


@pytest.mark.attack(8)
@pytest.mark.parametrize("case", FORGERIES)
def test_without_a_key_nothing_around_the_slots_can_be_changed(case):
    both = add(cheap(), OTHER)
    raw = forged(key_file_codec.serialise(both), FORGERIES[case])
    with pytest.raises(KeyFileDamaged, match="changed by somebody"):
        unlock(key_file_codec.parse(raw))


SLOT_FORGERIES = {
    "another cost": lambda f: f["slots"][0]["kdf"].update(time_cost=2),
    "another salt": lambda f: f["slots"][0].update(salt="A" * 22 + "=="),
    "another nonce": lambda f: f["slots"][0].update(nonce="A" * 16),
    "another id": lambda f: f["slots"][0].update(id=9),
    "another vault": lambda f: f.update(vault="0" * 32),
    "another wrapped key": lambda f: f["slots"][0].update(wrapped="A" * 64),
}


@pytest.mark.attack(6)
@pytest.mark.parametrize("case", SLOT_FORGERIES)
def test_a_slot_opens_only_where_and_at_the_cost_it_was_made_for(case):
    raw = forged(key_file_codec.serialise(cheap()), SLOT_FORGERIES[case])
    with pytest.raises(WrongKey):
        unlock(key_file_codec.parse(raw))


@pytest.mark.attack(8)
def test_a_slot_of_another_vault_does_not_open_here():
    mine = cheap()
    theirs = key_slots.build(
        data_key=DATA_KEY,
        passphrase=WORDS,
        parameters=CHEAPEST,
        owner_hash=OWNER,
        now=1,
    )
    with pytest.raises(WrongKey):
        unlock(replace(mine, slots=theirs.slots))


def test_the_owner_is_recognised_in_any_spelling_and_nobody_else():
    assert key_slots.belongs_to(cheap(), DATA_KEY, OWNER)
    assert not key_slots.belongs_to(cheap(), DATA_KEY, "ab" * 32)
