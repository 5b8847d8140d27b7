import threading
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import key_changes, user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import kdf, key_file_codec, key_slots, user_key
from mcp_notarium.crypto.errors import MalformedKey, SlotsRefused, WeakPassphrase
from mcp_notarium.errors import CacheFull, LockedError, Verdict
from mcp_notarium.files import private_files
from mcp_notarium.files.locks import key_lock
from mcp_notarium.secret import Secret
from mcp_notarium.storage import integrity
from support import account_child, cheap_stretching
from support.account import (
    OTHER,
    PASSPHRASE,
    account,
    fingerprint,
    folder_of,
    keyfile_of,
    made,
    open_cheaply,
    opens,
)
from support.cheap_costs import CHEAPEST
from support.keyfiles import RAW_KEY, REWRAP

NEW = Secret(OTHER)
NOW = 1_763_683_200


def change(config, **options):
    asked = {"new": NEW, "parameters": CHEAPEST}
    asked |= {
        name: options.pop(name)
        for name in ("new", "parameters", "allow_weak", "slot_ids")
        if name in options
    }
    options = ChangeOptions(**({"clock": lambda: float(NOW)} | options))
    return user_key_rotation.rotate_passphrase(config, **asked, options=options)


def unchanged(config, error, **options):
    before = fingerprint(config.account_dir)
    with pytest.raises(error) as refused:
        change(config, **options)
    assert fingerprint(config.account_dir) == before
    return refused.value


def test_afterwards_the_new_passphrase_opens_and_the_old_one_does_not(tmp_path):
    config = made(tmp_path)
    done = change(config)
    assert (done.sequence, keyfile_of(config).rotated, done.proven) == (2, NOW, True)
    assert opens(config, NEW)
    assert not opens(config, Secret(PASSPHRASE))


def test_the_copy_keeps_no_way_in_for_the_old_passphrase(tmp_path):
    config = made(tmp_path)
    change(config)
    folder = folder_of(config)
    assert folder.key_copy.read_bytes() == folder.key_file.read_bytes()
    folder.key_file.unlink()
    assert not opens(config, Secret(PASSPHRASE))
    assert opens(config, NEW)


def test_the_database_is_not_rewritten_and_keeps_its_content(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', 'kept')")
        generation, data_key = opened.anchor.generation, opened.data_key
    change(config)
    with closing(open_cheaply(replace(config, db_key=NEW))) as again:
        assert (again.anchor.generation, again.data_key) == (generation, data_key)
        assert again.database.row("SELECT value FROM sync_metadata WHERE key = 'mark'") == ("kept",)


def test_the_way_of_stretching_can_be_changed_with_the_same_passphrase(tmp_path):
    config = made(tmp_path)
    change(config, new=Secret(PASSPHRASE), parameters=kdf.Pbkdf2Sha512(5))
    assert keyfile_of(config).slots[0].kdf == kdf.Pbkdf2Sha512(5)
    assert opens(config, Secret(PASSPHRASE))


def test_settings_that_somebody_has_made_say_how_the_new_passphrase_is_stretched(tmp_path):
    config = made(tmp_path, kdf="pbkdf2-sha512", kdf_chosen=True, kdf_iterations=1000)
    change(config, parameters=None)
    assert keyfile_of(config).slots[0].kdf == kdf.Pbkdf2Sha512(1000)


@pytest.mark.parametrize("cost", [kdf.Argon2id(65_544, 3, 4), kdf.Pbkdf2Sha512(310_001)])
def test_a_new_passphrase_is_stretched_no_less_and_no_otherwise_than_the_old_one(
    tmp_path, monkeypatch, cost
):
    cheap_stretching.install(monkeypatch.setattr)
    config = account(tmp_path)
    open_cheaply(config, kdf=cost).close()
    change(config, parameters=None)
    raw = folder_of(config).key_file.read_bytes()
    assert key_file_codec.parse(raw).slots[0].kdf == cost


def test_a_raw_key_can_take_its_place(tmp_path):
    config = made(tmp_path)
    change(config, new=RAW_KEY)
    assert opens(config, RAW_KEY)


def test_running_servers_go_on_and_lose_nothing(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as running:
        for number in range(20):
            old, new = (PASSPHRASE, OTHER) if number % 2 == 0 else (OTHER, PASSPHRASE)
            change(config, old=Secret(old), new=Secret(new))
            running.database.run(
                "INSERT INTO sync_metadata(key, value) VALUES (?, 'x')", (f"row {number}",)
            )
        assert integrity.check(running.database) == ()
    with closing(open_cheaply(config)) as again:
        count = again.database.number("SELECT count(*) FROM sync_metadata WHERE key LIKE 'row %'")
        assert count == 20


def test_the_database_remembers_the_change_at_once(tmp_path):
    config = made(tmp_path)
    folder = folder_of(config)
    old = folder.key_file.read_bytes()
    change(config)
    for path in (folder.key_file, folder.key_copy):
        path.write_bytes(old)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.ROLLBACK_SEEN


def test_an_old_key_file_put_back_is_refused_and_its_newer_copy_is_not_overwritten(tmp_path):
    config = made(tmp_path)
    folder = folder_of(config)
    old = folder.key_file.read_bytes()
    change(config)
    folder.key_file.write_bytes(old)
    before = fingerprint(config.account_dir)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.ROLLBACK_SEEN
    assert "restore --key-file`" in refused.value.resolution_hint
    assert fingerprint(config.account_dir) == before


def test_the_sentence_for_the_old_key_names_the_day_of_the_change(tmp_path):
    config = made(tmp_path)
    change(config)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert "2025-11-21" in refused.value.message


def test_a_wrong_old_passphrase_changes_nothing(tmp_path):
    error = unchanged(made(tmp_path), LockedError, old=Secret("not the old one"))
    assert error.verdict is Verdict.WRONG_KEY


@pytest.mark.parametrize("weak", ["short", "passwordpassword", "a" * 30])
def test_a_weak_new_passphrase_is_refused_unless_allowed(tmp_path, weak):
    config = made(tmp_path)
    error = unchanged(config, WeakPassphrase, new=Secret(weak))
    assert weak not in str(error.to_dict())
    change(config, new=Secret(weak), allow_weak=True)
    assert opens(config, Secret(weak))


@pytest.mark.parametrize("bad", ["", "raw:12"])
def test_a_malformed_new_key_is_refused_even_if_weak_ones_are_allowed(tmp_path, bad):
    unchanged(made(tmp_path), MalformedKey, new=Secret(bad), allow_weak=True)


@pytest.mark.attack(22)
def test_a_second_rotation_at_the_same_time_is_refused(tmp_path):
    config = made(tmp_path)
    with key_lock(folder_of(config)):
        error = unchanged(config, LockedError, timeout=0.05)
    assert error.verdict is Verdict.BUSY


@pytest.mark.attack(22)
def test_of_two_rotations_at_once_each_starts_from_what_the_other_left(tmp_path):
    config = made(tmp_path)
    results = []

    def attempt(new):
        try:
            results.append(change(config, new=new).sequence)
        except LockedError as error:
            results.append(error.verdict)

    threads = [
        threading.Thread(target=attempt, args=(Secret(f"{word} hungry lamps by the river"),))
        for word in ("eight", "seven")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert set(results) == {2, Verdict.WRONG_KEY}


def test_nothing_is_rotated_where_there_is_nothing(tmp_path):
    with pytest.raises(LockedError) as refused:
        change(account(tmp_path))
    assert refused.value.verdict is Verdict.DATABASE_MISSING
    assert not account(tmp_path).data_dir.exists()


def test_a_plain_cache_has_no_key_to_rotate(tmp_path):
    config = made(tmp_path, db_encryption=False)
    assert unchanged(config, LockedError).verdict is Verdict.MODE_MISMATCH


def test_a_damaged_database_is_said_before_anything_is_changed(tmp_path):
    config = made(tmp_path)
    (generation,) = folder_of(config).generations()
    folder_of(config).database(generation).write_bytes(b"rubbish" * 4096)
    assert unchanged(config, LockedError).verdict is Verdict.DATABASE_DAMAGED


def test_the_setting_that_rebuilds_does_not_make_a_rotation_rebuild(tmp_path):
    config = made(tmp_path, on_unreadable="rebuild")
    error = unchanged(config, LockedError, old=Secret("not the old one"))
    assert error.verdict is Verdict.WRONG_KEY


def test_a_missing_key_file_is_rotated_from_its_copy(tmp_path):
    config = made(tmp_path)
    folder_of(config).key_file.unlink()
    change(config)
    assert opens(config, NEW)


@pytest.mark.parametrize("step", [row.step for row in REWRAP if row.opens == "old"])
def test_a_full_disk_before_the_switch_leaves_the_old_passphrase_and_no_stray(tmp_path, step):
    config = made(tmp_path)

    def fail(name):
        if name == step:
            raise OSError(28, "No space left on device")

    unchanged(config, CacheFull, at=fail)
    assert opens(config, Secret(PASSPHRASE))


def test_a_disk_that_stores_nothing_is_noticed_before_the_switch(tmp_path, monkeypatch):
    config = made(tmp_path)
    real = private_files._write_temporary
    monkeypatch.setattr(
        private_files, "_write_temporary", lambda path, content, at: real(path, content[:-1], at)
    )
    unchanged(config, LockedError)
    monkeypatch.undo()
    assert opens(config, Secret(PASSPHRASE))


def test_a_key_file_that_does_not_open_with_the_new_key_never_takes_the_place(
    tmp_path, monkeypatch
):
    config = made(tmp_path)
    real = key_slots.rewrap

    def confused(*options, new, **named):
        return real(*options, new=Secret("another passphrase altogether"), **named)

    monkeypatch.setattr(key_slots, "rewrap", confused)
    error = unchanged(config, LockedError)
    assert error.verdict is Verdict.WRONG_KEY
    assert opens(config, Secret(PASSPHRASE))


def test_the_steps_are_those_of_the_table_in_its_order(tmp_path):
    steps = []
    change(made(tmp_path), at=steps.append)
    assert steps == [row.step for row in REWRAP]


def test_the_rotation_says_what_it_does_not_do(tmp_path):
    notices = " ".join(change(made(tmp_path)).notices)
    assert "configuration" in notices
    assert "backups" in notices


def test_a_server_started_during_a_rotation_sees_one_of_the_two(tmp_path):
    config = made(tmp_path)
    seen = []

    def look(step):
        seen.append((step, opens_readonly(config, PASSPHRASE), opens_readonly(config, OTHER)))

    change(config, at=look)
    for step, old, new in seen:
        row = next(row for row in REWRAP if row.step == step)
        assert (old, new) == (row.opens == "old", row.opens == "new")


def opens_readonly(config, passphrase):
    try:
        key_slots.unlock(keyfile_of(config), Secret(passphrase))
    except LockedError:
        return False
    return True


def test_a_rotation_beside_a_killed_servers_log_keeps_what_is_in_it(tmp_path):
    config = made(tmp_path)
    account_child.leave_log(tmp_path)
    change(config)
    with closing(open_cheaply(replace(config, db_key=NEW))) as opened:
        row = opened.database.row("SELECT value FROM sync_metadata WHERE key = 'mark'")
        assert row == ("written",)


RECOVERY_KEY = user_key.generate_recovery_key()
LOST = (Secret(PASSPHRASE), RECOVERY_KEY)


def with_recovery_key(tmp_path, *others):
    """A cache with a passphrase, a recovery key, and more."""
    config = made(tmp_path)
    for key, label in ((RECOVERY_KEY, "on paper"), *others):
        key_changes.add(config, key, label=label, parameters=CHEAPEST)
    return config


def test_the_recovery_key_sets_a_new_passphrase_and_stays(tmp_path):
    config = with_recovery_key(tmp_path)
    done = change(config, old=RECOVERY_KEY)
    assert [opens(config, key) for key in (*LOST, NEW)] == [False, True, True]
    found = {slot.type: slot for slot in keyfile_of(config).slots}
    assert (found["recovery"].id, found["recovery"].label) == (2, "on paper")
    assert found["passphrase"].label == ""
    assert [slot.id for slot in done.gone] == [1]
    assert [slot.id for slot in done.others] == [2]
    assert done.proven


def test_without_a_passphrase_beside_the_recovery_key_the_new_key_is_added(tmp_path):
    config = with_recovery_key(tmp_path)
    options = ChangeOptions(old=RECOVERY_KEY)
    key_changes.remove(config, 1, options=options)
    done = change(config, old=RECOVERY_KEY)
    assert done.gone == ()
    assert [opens(config, key) for key in (RECOVERY_KEY, NEW)] == [True, True]


def test_which_of_several_passphrases_is_lost_is_not_guessed(tmp_path):
    config = with_recovery_key(tmp_path, (Secret("two slow trains cross the valley"), "the laptop"))
    error = unchanged(config, SlotsRefused, old=RECOVERY_KEY)
    assert 'slot 1 (passphrase); slot 3 ("the laptop", passphrase)' in error.message
    assert "--slot" in error.resolution_hint
    change(config, old=RECOVERY_KEY, slot_ids=[3])
    assert opens(config, Secret(PASSPHRASE))
    assert keyfile_of(config).slots[-1].label == "the laptop"


def test_a_recovery_key_is_no_new_key(tmp_path):
    unchanged(with_recovery_key(tmp_path), SlotsRefused, new=user_key.generate_recovery_key())


def test_a_disk_that_fails_after_the_switch_fails_nothing_that_counts(tmp_path):
    config = with_recovery_key(tmp_path)

    def fail(name):
        if name == "write_copy":
            raise OSError(28, "No space left on device")

    change(config, old=RECOVERY_KEY, at=fail)
    assert [opens(config, key) for key in (*LOST, NEW)] == [False, True, True]


def test_the_old_key_is_proven_before_a_new_one_is_asked_for(tmp_path):
    config = with_recovery_key(tmp_path)
    before = fingerprint(config.account_dir)
    found = user_key_rotation.prove_key(config, options=ChangeOptions(old=RECOVERY_KEY))
    assert (found.slot.id, found.by_keychain) == (2, False)
    with pytest.raises(LockedError) as refused:
        user_key_rotation.prove_key(config, options=ChangeOptions(old=NEW))
    assert refused.value.verdict is Verdict.WRONG_KEY
    assert fingerprint(config.account_dir) == before
