"""Whose place a new key takes: pure, and one table."""

from dataclasses import replace

import pytest

from mcp_notarium.crypto import kdf, key_slots
from mcp_notarium.crypto.errors import SlotsRefused
from mcp_notarium.crypto.key_file_codec import Slot, SlotType
from mcp_notarium.logs.redaction import Redactor
from support.keyfiles import cheap

PASSPHRASE, RAW = SlotType.PASSPHRASE, SlotType.RAW
KEYRING, RECOVERY = SlotType.KEYCHAIN, SlotType.RECOVERY


def slot(number, type_, label=""):
    return Slot(number, type_, label, kdf.HkdfSha256(), b"", b"", b"")


def keyfile(*types):
    """A key file with slots of these types, numbered from 1."""
    slots = tuple(slot(number, each) for number, each in enumerate(types, 1))
    return replace(cheap(), slots=slots)


def gone(types, came, **options):
    found = keyfile(*types)
    return [one.id for one in key_slots.slots_to_replace(found, found.slots[came - 1], **options)]


@pytest.mark.parametrize(
    ("types", "came", "then"),
    [
        ([PASSPHRASE], 1, [1]),
        ([RAW], 1, [1]),
        ([PASSPHRASE, PASSPHRASE, RECOVERY, KEYRING], 2, [2]),
        ([PASSPHRASE, RECOVERY], 2, [1]),
        ([RAW, RECOVERY], 2, [1]),
        ([PASSPHRASE, KEYRING], 2, [1]),
        ([PASSPHRASE, RECOVERY, KEYRING, RECOVERY], 2, [1]),
        ([RECOVERY], 1, []),
        ([KEYRING, RECOVERY], 1, []),
    ],
)
def test_a_typed_key_replaces_itself_and_the_ways_back_stay(types, came, then):
    assert gone(types, came) == then


def test_a_raw_key_that_the_keychain_keeps_stays_like_any_key_of_the_keychain():
    assert gone([RAW], 1, by_keychain=True) == []
    assert gone([RAW, PASSPHRASE], 1, by_keychain=True) == [2]


def test_where_several_could_be_lost_none_is_guessed():
    with pytest.raises(SlotsRefused) as unclear:
        gone([PASSPHRASE, RAW, RECOVERY], 3)
    assert "slot 1 (passphrase); slot 2 (raw)" in unclear.value.message
    assert gone([PASSPHRASE, RAW, RECOVERY], 3, slot_ids=[2]) == [2]
    assert gone([PASSPHRASE, RAW, RECOVERY], 3, slot_ids=[2, 1, 2]) == [2, 1]
    assert gone([PASSPHRASE, RAW, RECOVERY], 3, slot_ids=[]) == []


@pytest.mark.parametrize(
    ("types", "wanted", "options", "said"),
    [
        ([PASSPHRASE, RECOVERY], 2, {}, "keys recovery create"),
        ([PASSPHRASE, KEYRING], 2, {}, "rotate-key --keychain"),
        ([RAW, RECOVERY], 1, {"by_keychain": True}, "rotate-key --keychain"),
        ([PASSPHRASE], 7, {}, "keys list"),
    ],
)
def test_what_cannot_give_way_is_refused_with_the_way_that_can(types, wanted, options, said):
    with pytest.raises(SlotsRefused) as refused:
        gone(types, 1, slot_ids=[wanted], **options)
    assert said in refused.value.resolution_hint


def test_a_slot_is_named_with_all_that_a_person_knows_it_by():
    named = key_slots.describe_slot
    assert named(slot(2, RECOVERY, label="on paper")) == 'slot 2 ("on paper", recovery)'
    assert named(slot(3, RAW)) == "slot 3 (raw)"


@pytest.mark.parametrize("type_", SlotType)
def test_a_label_survives_the_redaction(type_):
    said = f"{key_slots.describe_slot(slot(3, type_, label='the laptop'))} still opens the cache"
    assert Redactor(bytes(16)).redact_text(said) == said
    assert "the laptop" in said
