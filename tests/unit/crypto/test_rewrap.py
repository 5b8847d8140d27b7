import pytest

from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.errors import WrongKey
from mcp_notarium.secret import Secret
from support.account import OTHER, PASSPHRASE
from support.cheap_costs import CHEAPEST
from support.keyfiles import DATA_KEY, NOW, RAW_KEY, add_slot, cheap


def rewrap(keyfile, *, old=PASSPHRASE, new=OTHER):
    return key_slots.rewrap(
        keyfile,
        old=Secret(old) if isinstance(old, str) else old,
        new=Secret(new) if isinstance(new, str) else new,
        parameters=CHEAPEST,
        now=NOW + 5,
    )


def opens(keyfile, passphrase):
    try:
        key_slots.unlock(keyfile, passphrase)
    except WrongKey:
        return False
    return True


def test_after_a_rewrap_only_the_new_passphrase_opens_the_same_data_key():
    after = rewrap(cheap())
    assert not opens(after, Secret(PASSPHRASE))
    assert key_slots.unlock(after, Secret(OTHER)) == DATA_KEY


def test_a_rewrap_changes_slot_sequence_and_time_and_nothing_else():
    before, after = cheap(), rewrap(cheap())
    assert (after.sequence, after.rotated) == (2, NOW + 5)
    for name in ("vault_id", "generation", "database_salt", "owner_tag", "created"):
        assert getattr(after, name) == getattr(before, name)
    assert [slot.id for slot in after.slots] == [2]


def test_other_slots_stay_as_they_are():
    both = add_slot(cheap(), DATA_KEY, RAW_KEY, parameters=CHEAPEST)
    after = rewrap(both)
    assert both.slots[1] in after.slots
    assert opens(after, RAW_KEY)


def test_a_full_key_file_can_be_rewrapped():
    full = cheap()
    for number in range(7):
        full = add_slot(
            full,
            DATA_KEY,
            Secret(f"passphrase number {number}"),
            parameters=CHEAPEST,
        )
    assert opens(rewrap(full), Secret(OTHER))


def test_a_passphrase_can_give_way_to_a_raw_key_and_back():
    raw = rewrap(cheap(), new=RAW_KEY)
    assert opens(raw, RAW_KEY)
    assert opens(rewrap(raw, old=RAW_KEY, new=PASSPHRASE), Secret(PASSPHRASE))


def test_a_wrong_old_passphrase_changes_nothing():
    with pytest.raises(WrongKey):
        rewrap(cheap(), old="not the passphrase")
