"""Slots added and removed: pure functions on key files."""

from dataclasses import replace

import pytest

from mcp_notarium.crypto import kdf, key_file_codec, key_slots, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged, SlotsRefused, WrongKey
from mcp_notarium.crypto.key_file_codec import SlotType
from mcp_notarium.secret import Secret
from support.cheap_costs import CHEAPEST
from support.keyfiles import add_slot

PASSPHRASE = Secret("violet kettle under seven maps")
RAW = user_key.generate()
PAPER = user_key.generate_recovery_key()
DATA_KEY = DataKey(Secret(bytes(range(32))))


def made():
    keyfile = key_slots.build(
        data_key=DATA_KEY,
        passphrase=PASSPHRASE,
        parameters=CHEAPEST,
        owner_hash="ab" * 32,
        now=1_763_683_200,
    )
    for key, type_ in ((RAW, SlotType.KEYCHAIN), (PAPER, None)):
        keyfile = add_slot(keyfile, DATA_KEY, key, parameters=CHEAPEST, type_=type_)
    return keyfile


def opens(keyfile, key):
    try:
        return key_slots.unlock(keyfile, key) == DATA_KEY
    except WrongKey:
        return False


def test_each_kind_of_key_opens_its_own_slot():
    keyfile = made()
    types = [slot.type for slot in keyfile.slots]
    assert types == [SlotType.PASSPHRASE, SlotType.KEYCHAIN, SlotType.RECOVERY]
    for number, key in enumerate((PASSPHRASE, RAW, PAPER), 1):
        assert key_slots.open_slot(keyfile, key).slot.id == number


def test_a_key_file_with_every_kind_of_slot_is_read_back():
    keyfile = made()
    assert key_file_codec.parse(key_file_codec.serialise(keyfile)) == keyfile


def test_only_a_passphrase_is_stretched():
    costs = [type(slot.kdf) for slot in made().slots]
    assert costs == [kdf.Argon2id, kdf.HkdfSha256, kdf.HkdfSha256]


def test_a_passphrase_makes_no_slot_of_the_keychain():
    with pytest.raises(ValueError, match="no keychain slot"):
        key_slots.new_slot(
            made(), DATA_KEY, PASSPHRASE, parameters=CHEAPEST, type_=SlotType.KEYCHAIN
        )


def test_another_database_has_the_same_keys_and_no_other_file_of_keys():
    before = made()
    after = key_slots.next_generation(before, DATA_KEY)
    assert after.generation != before.generation
    assert after.database_salt != before.database_salt
    assert (after.sequence, after.slots) == (before.sequence + 1, before.slots)
    assert opens(after, PASSPHRASE)
    with pytest.raises(KeyFileDamaged, match="changed by somebody"):
        opens(replace(after, database_salt=before.database_salt), PASSPHRASE)


def test_a_new_data_key_has_a_key_file_of_its_own_that_the_same_passphrase_opens():
    before, new_key = made(), DataKey.generate()
    begun = key_slots.start_for_new_data_key(before, new_key, owner_hash="ab" * 32)
    slot = key_slots.rewrap_slot(begun, new_key, before.slots[0], PASSPHRASE)
    after = key_slots.replace_slots(begun, new_key, slots=(slot,))
    assert key_slots.unlock(after, PASSPHRASE) == new_key
    assert key_slots.belongs_to(after, new_key, "ab" * 32)
    assert not key_slots.belongs_to(after, DATA_KEY, "ab" * 32)
    assert (after.vault_id != before.vault_id, after.sequence) == (True, 1)
    old, now = before.slots[0], after.slots[0]
    assert (now.id, now.type, now.label, now.kdf) == (old.id, old.type, old.label, old.kdf)
    assert {now.salt, now.nonce}.isdisjoint({old.salt, old.nonce})
    with pytest.raises(WrongKey):  # a slot of the old key file opens nothing here
        key_slots.unlock(replace(after, slots=before.slots), PASSPHRASE)


def test_a_replaced_passphrase_costs_what_the_policy_asks_and_never_less_than_before():
    policy = kdf.KdfPolicy("argon2id", explicit=False, costs=(kdf.Argon2id(16, 1, 1),))
    after = key_slots.rewrap(
        made(), old=PASSPHRASE, new=Secret("other words"), parameters=policy, now=1
    )
    assert after.slots[-1].kdf == kdf.Argon2id(16, 1, 1)
    cheaper = replace(policy, costs=(CHEAPEST,))
    again = key_slots.rewrap(
        after,
        old=Secret("other words"),
        new=PASSPHRASE,
        parameters=cheaper,
        now=2,
    )
    assert again.slots[-1].kdf == kdf.Argon2id(16, 1, 1)


def test_slots_whose_work_together_no_reader_accepts_are_neither_written_nor_read():
    """A wrong passphrase is tried on every slot."""
    keyfile, ceiling = made(), kdf.RANGES[kdf.Argon2id][1]
    dear = replace(keyfile.slots[0], kdf=ceiling)
    key_slots.replace_slots(keyfile, DATA_KEY, slots=(dear,))
    raw = key_file_codec.serialise(replace(keyfile, slots=(dear,), mac=bytes(32)))
    assert key_file_codec.parse(raw).slots == (dear,)
    both = (dear, replace(dear, id=2))
    with pytest.raises(SlotsRefused, match="too long") as refused:
        key_slots.replace_slots(keyfile, DATA_KEY, slots=both)
    assert "generate-key" in refused.value.resolution_hint
    with pytest.raises(KeyFileDamaged, match="too much work together"):
        key_file_codec.parse(key_file_codec.serialise(replace(keyfile, slots=both, mac=bytes(32))))


def test_a_removed_slot_is_gone_and_the_others_stay():
    left = key_slots.remove(made(), DATA_KEY, 1)
    assert [slot.id for slot in left.slots] == [2, 3]
    assert not opens(left, PASSPHRASE)
    assert opens(left, RAW)


def test_one_active_slot_that_needs_no_keychain_always_stays():
    left = key_slots.remove(made(), DATA_KEY, 1)
    with pytest.raises(SlotsRefused, match="needs no keychain"):
        key_slots.remove(left, DATA_KEY, 3)


def test_a_slot_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(SlotsRefused, match="no slot 9; there are 1, 2, 3"):
        key_slots.remove(made(), DATA_KEY, 9)


@pytest.mark.parametrize(
    ("new", "type_"),
    [
        (user_key.generate(), SlotType.RAW),
        (Secret("a new passphrase of words"), SlotType.PASSPHRASE),
    ],
)
def test_a_rotation_by_the_keychains_key_leaves_the_keychains_slot_as_it_is(new, type_):
    before = made()
    keychain = next(slot for slot in before.slots if slot.type is SlotType.KEYCHAIN)
    after = key_slots.rewrap(before, old=RAW, new=new, parameters=CHEAPEST, now=1_763_683_300)
    assert keychain in after.slots
    assert (after.slots[-1].type, after.slots[-1].label) == (type_, before.slots[0].label)
    assert opens(after, new)
    assert opens(after, RAW)
