"""Slots of a real cache: every change proven, nobody locked out, running servers undisturbed."""

from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import key_changes
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import kdf, key_file_codec, user_key
from mcp_notarium.crypto.errors import MalformedKey, SlotsRefused, WeakPassphrase, WrongKey
from mcp_notarium.crypto.key_file_codec import MOST_SLOTS, SlotType
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.secret import Secret
from support import cheap_stretching
from support.account import (
    OTHER,
    PASSPHRASE,
    account,
    fingerprint,
    folder_of,
    made,
    open_cheaply,
    opens,
)
from support.cheap_costs import CHEAPEST
from support.keyfiles import REWRAP

NEW = Secret(OTHER)
COPYING = [
    row for row in REWRAP if row.step.endswith("_copy") or row.step == "sync_folder"
]  # behind the commit point


def add(config, key=NEW, **options):
    return key_changes.add(config, key, **({"parameters": CHEAPEST} | options))


def test_a_free_slot_is_demanded_before_anybody_types(tmp_path):
    config = made(tmp_path)
    for number in range(2, MOST_SLOTS + 1):
        key_changes.require_free_slot(key_changes.list_slots(config, None).keyfile)
        add(config, Secret(f"{OTHER} {number}"))
    with pytest.raises(SlotsRefused, match="all are in use"):
        key_changes.require_free_slot(key_changes.list_slots(config, None).keyfile)


def refused(config, error, action):
    before = fingerprint(config.account_dir)
    with pytest.raises(error) as caught:
        action()
    assert fingerprint(config.account_dir) == before
    return caught.value


@pytest.mark.parametrize(
    "key",
    [NEW, user_key.generate(), user_key.generate_recovery_key()],
    ids=["words", "raw", "paper"],
)
def test_an_added_key_opens_and_so_does_the_one_before(tmp_path, key):
    config = made(tmp_path)
    done = add(config, key, label="spare")
    assert done.proven
    assert opens(config, key)
    assert opens(config, Secret(PASSPHRASE))
    assert done.after.slots[-1].label == "spare"
    folder = folder_of(config)
    assert folder.key_copy.read_bytes() == folder.key_file.read_bytes()


def test_a_server_that_is_running_notices_nothing(tmp_path):
    config = made(tmp_path)
    with closing(open_cheaply(config)) as opened:
        add(config)
        key_changes.remove(config, 1, options=ChangeOptions(old=NEW))
        opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', 'written')")
    with closing(open_cheaply(replace(config, db_key=NEW))) as again:
        assert again.database.row("SELECT value FROM sync_metadata WHERE key = 'mark'")


def test_the_listing_says_which_slot_the_key_opens(tmp_path):
    config = made(tmp_path)
    add(config)
    assert key_changes.list_slots(config, Secret(PASSPHRASE)).opened_by == 1
    assert key_changes.list_slots(config, NEW).opened_by == 2
    assert key_changes.list_slots(config, Secret("some other words")).opened_by is None
    assert key_changes.list_slots(config, None).opened_by is None


def test_without_a_cache_there_is_nothing_to_list(tmp_path):
    with pytest.raises(LockedError) as error:
        key_changes.list_slots(account(tmp_path), None)
    assert error.value.verdict is Verdict.DATABASE_MISSING


def test_a_forged_key_file_is_not_listed_as_if_it_were_true(tmp_path):
    config = made(tmp_path)
    add(config)
    folder = folder_of(config)
    keyfile = key_file_codec.parse(folder.key_file.read_bytes())
    forged = replace(keyfile, slots=(keyfile.slots[0],))
    folder.key_file.write_bytes(key_file_codec.serialise(forged))
    with pytest.raises(LockedError) as error:
        key_changes.list_slots(config, Secret(PASSPHRASE))
    assert error.value.verdict is Verdict.KEY_FILE_DAMAGED


def test_a_key_that_opens_already_is_not_added_again(tmp_path):
    config = made(tmp_path)
    error = refused(config, SlotsRefused, lambda: add(config, Secret(PASSPHRASE)))
    assert "already" in error.message


def test_a_weak_passphrase_is_added_on_demand_only(tmp_path):
    config = made(tmp_path)
    refused(config, WeakPassphrase, lambda: add(config, Secret("secret")))
    add(config, Secret("secret"), allow_weak=True)
    assert opens(config, Secret("secret"))


def test_there_are_at_most_eight_slots(tmp_path):
    config = made(tmp_path)
    for _ in range(7):
        add(config, user_key.generate())
    error = refused(config, SlotsRefused, lambda: add(config, user_key.generate()))
    assert "at most 8" in error.message


@pytest.mark.attack(47)
def test_a_slot_taken_away_opens_nothing_and_the_others_do(tmp_path):
    config = made(tmp_path)
    add(config)
    key_changes.remove(config, 2)
    assert not opens(config, NEW)
    assert opens(config, Secret(PASSPHRASE))


def test_the_slot_that_opened_the_cache_cannot_be_removed(tmp_path):
    config = made(tmp_path)
    add(config)
    error = refused(config, SlotsRefused, lambda: key_changes.remove(config, 1))
    assert "--ask-key" in error.resolution_hint
    key_changes.remove(config, 1, options=ChangeOptions(old=NEW))
    assert not opens(config, Secret(PASSPHRASE))


def test_the_last_slot_stays(tmp_path):
    config = made(tmp_path)
    refused(config, SlotsRefused, lambda: key_changes.remove(config, 1))


@pytest.mark.parametrize("key", ["not the key at all", OTHER])
def test_with_a_wrong_key_nothing_is_changed(tmp_path, key):
    config = made(tmp_path)
    options = ChangeOptions(old=Secret(key))
    error = refused(config, LockedError, lambda: add(config, user_key.generate(), options=options))
    assert error.verdict is Verdict.WRONG_KEY


@pytest.mark.parametrize("row", COPYING, ids=lambda row: row.step)
def test_a_change_whose_copy_cannot_be_written_is_no_failure(tmp_path, row):
    config = made(tmp_path)

    def fail(step):
        if step == row.step:
            raise OSError(28, "No space left on device")

    assert not add(config, options=ChangeOptions(at=fail)).copied
    assert opens(config, Secret(PASSPHRASE))
    assert opens(config, NEW)
    assert not list(config.account_dir.glob(".*.tmp"))


@pytest.mark.parametrize(
    "row", [one for one in REWRAP if one not in COPYING], ids=lambda row: row.step
)
def test_a_change_that_fails_at_any_step_leaves_a_cache_that_opens(tmp_path, row):
    config = made(tmp_path)

    def fail(step):
        if step == row.step:
            raise OSError(28, "No space left on device")

    with pytest.raises(Exception, match="disk"):
        add(config, options=ChangeOptions(at=fail))
    assert opens(config, Secret(PASSPHRASE))
    assert opens(config, NEW) is (row.opens == "new")
    assert not list(config.account_dir.glob(".*.tmp"))


def test_a_recovery_key_is_proven_by_opening(tmp_path):
    config, paper = made(tmp_path), user_key.generate_recovery_key()
    add(config, paper, label="on paper")
    typed = paper.reveal_text().lower().replace("-", " ")
    slot = key_changes.recovery_slot(config, typed)
    assert (slot.id, slot.type) == (2, SlotType.RECOVERY)
    with pytest.raises(WrongKey):
        key_changes.recovery_slot(config, user_key.generate_recovery_key().reveal_text())
    with pytest.raises(MalformedKey):
        key_changes.recovery_slot(config, typed[:-1] + ("y" if typed[-1] == "z" else "z"))
    key_changes.remove(config, 2)
    with pytest.raises(WrongKey):
        key_changes.recovery_slot(config, typed)


def test_a_lost_passphrase_is_replaced_with_the_recovery_key(tmp_path):
    config, paper = made(tmp_path), user_key.generate_recovery_key()
    add(config, paper)
    back_in = ChangeOptions(old=paper)
    add(config, NEW, options=back_in)
    key_changes.remove(config, 1, options=back_in)
    assert opens(config, NEW)
    assert opens(config, paper)
    assert not opens(config, Secret(PASSPHRASE))


@pytest.mark.parametrize("lost", ["both gone", "both damaged", "one gone, one damaged"])
@pytest.mark.parametrize("on_unreadable", ["refuse", "rebuild"])
def test_a_lost_key_file_is_named_as_such_with_the_way_back(tmp_path, lost, on_unreadable):
    config = made(tmp_path, on_unreadable=on_unreadable)
    folder = folder_of(config)
    for path in (folder.key_file, folder.key_copy):
        path.write_bytes(path.read_bytes()[:100])
    if lost != "both damaged":
        folder.key_file.unlink()
    if lost == "both gone":
        folder.key_copy.unlink()
    for action in (
        lambda: key_changes.list_slots(config, None),
        lambda: add(config),
    ):
        error = refused(config, LockedError, action)
        assert error.verdict is Verdict.KEY_FILE_DAMAGED
        assert "mcp-notarium restore --key-file" in error.resolution_hint


def test_an_unencrypted_cache_has_no_slots(tmp_path):
    config = made(tmp_path, db_encryption=False)
    error = refused(config, LockedError, lambda: key_changes.list_slots(config, None))
    assert error.verdict is Verdict.MODE_MISMATCH


@pytest.mark.parametrize(
    ("stays", "then"),
    [
        (True, kdf.Argon2id(memory_kib=65_536, time_cost=4, lanes=4)),
        (False, kdf.Argon2id()),
    ],
)
def test_one_more_passphrase_is_as_dear_as_the_dearest_that_opens(
    tmp_path, monkeypatch, stays, then
):
    cheap_stretching.install(monkeypatch.setattr)
    config = made(tmp_path)
    dear = kdf.Argon2id(memory_kib=16, time_cost=4, lanes=1)
    add(config, Secret("two slow trains cross the valley"), parameters=dear)
    if not stays:
        key_changes.remove(config, 2)
    done = key_changes.add(config, NEW)
    assert done.after.slots[-1].kdf == then


@pytest.mark.parametrize("label", ["b\u00fcro", "x" * 65, "two\nlines"])
def test_what_cannot_be_a_label_is_refused_as_that_and_no_damage(tmp_path, label):
    config = made(tmp_path)
    before = fingerprint(config.account_dir)
    with pytest.raises(SlotsRefused, match="label"):
        add(config, label=label)
    assert fingerprint(config.account_dir) == before
