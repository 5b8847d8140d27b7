"""A cache re-encrypted under a new data key: the same notes, other bytes, no old way in."""

import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import backup, key_changes, purge, reencryption, user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.cli import doctor_checks
from mcp_notarium.crypto import (
    kdf,
    key_slots,
    user_key,
)
from mcp_notarium.crypto.errors import SlotsRefused, WeakPassphrase
from mcp_notarium.crypto.kdf import KdfPolicy
from mcp_notarium.crypto.key_file_codec import SlotType
from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.errors import CacheDamaged, CacheFull, LockedError, NotariumError, Verdict
from mcp_notarium.files.quarantine import FoundDatabases
from mcp_notarium.keys import keychain
from mcp_notarium.secret import Secret
from mcp_notarium.storage import table_copy
from mcp_notarium.storage.integrity import PAGE_SIZE, sample
from mcp_notarium.storage.note_table import NoteTable
from support import account_child, keychains
from support.account import (
    OTHER,
    PASSPHRASE,
    account,
    fingerprint,
    folder_of,
    keyfile_of,
    made,
    open_cheaply,
)
from support.cheap_costs import CHEAPEST

NEW = Secret(OTHER)
OLD = Secret("two slow trains cross the valley")


def revision(number):
    return Revision(
        id=f"n{number}",
        etag="1",
        server_version=1,
        content=Content(text=f"note number {number}\n", tags=("x",), trash=False),
        created_at=1.0,
        modified_at=2.0,
        raw=b"{}",
    )


def filled(folder):
    """An account with notes, some of them removed again."""
    config = made(folder)
    with closing(open_cheaply(config)) as opened, opened.database.transaction():
        notes = NoteTable(opened.database)
        notes.apply(revision(number) for number in range(60))
        notes.apply(Tombstone(f"n{number}") for number in range(0, 60, 3))
    return config


def reencrypted(config, **others):
    others = {"parameters": CHEAPEST} | others
    return reencryption.reencrypt(config, **others)


def texts(config, **options):
    with closing(open_cheaply(config, **options)) as opened:
        return dict(opened.database.rows("SELECT id, text FROM notes ORDER BY pk"))


def refused(config, error, **options):
    before, notes = fingerprint(config.account_dir), texts(config)
    with pytest.raises(error) as caught:
        reencrypted(config, **options)
    after = fingerprint(config.account_dir)
    assert {name: after.get(name) for name in before} == before
    more = {name.removesuffix("-wal").removesuffix("-shm") for name in after}
    assert {name for name in more - before.keys() if "notarium_" in name} == set(), "not tidied up"
    assert texts(config) == notes
    return caught.value


def test_the_notes_are_there_under_another_key_and_generation(tmp_path):
    config = filled(tmp_path)
    before, notes = keyfile_of(config), texts(config)
    done = reencrypted(config)
    after = keyfile_of(config)
    assert texts(config) == notes
    assert done.notes == len(notes) == 40
    assert done.dropped == ()
    assert after.generation != before.generation
    assert after.vault_id != before.vault_id
    with pytest.raises(NotariumError):
        key_slots.unlock(replace(after, slots=before.slots), Secret(PASSPHRASE))


def test_the_data_key_of_an_old_copy_fits_no_page_of_the_new_database(tmp_path):
    config = filled(tmp_path)
    before = keyfile_of(config)
    reencrypted(config)
    after = keyfile_of(config)
    database = folder_of(config).database(after.generation)
    old, new = (key_slots.unlock(one, Secret(PASSPHRASE)) for one in (before, after))
    pages = range(1, database.stat().st_size // PAGE_SIZE + 1)
    for key, bad in ((old, tuple(pages)), (new, ())):
        for salt in (before.database_salt, after.database_salt):
            found = sample(database, key.page_mac_key(), salt, every=True)
            assert found.bad_pages == bad


def test_no_file_of_the_old_generation_is_in_the_folder(tmp_path):
    config = filled(tmp_path)
    old = keyfile_of(config).generation
    reencrypted(config)
    names = [path.name for path in config.account_dir.rglob("*")]
    assert not [name for name in names if old in name or name.endswith((".tmp", ".new"))]
    assert folder_of(config).key_copy.read_bytes() == folder_of(config).key_file.read_bytes()


def test_an_old_copy_of_the_key_file_opens_nothing_any_more(tmp_path):
    config = filled(tmp_path)
    copy = tmp_path / "copy"
    shutil.copy(folder_of(config).key_file, copy)
    reencrypted(config)
    with pytest.raises(LockedError) as error:
        backup.restore_key_file(config, copy, Secret(PASSPHRASE))
    assert error.value.verdict is Verdict.DATABASE_MISSING


def test_a_new_key_may_be_given_at_once(tmp_path):
    config = filled(tmp_path)
    notes = texts(config)
    reencrypted(config, new=NEW)
    assert texts(replace(config, db_key=NEW)) == notes
    with pytest.raises(LockedError) as error:
        texts(config)
    assert error.value.verdict is Verdict.WRONG_KEY


def test_a_weak_new_key_is_refused(tmp_path):
    refused(filled(tmp_path), WeakPassphrase, new=Secret("secret"))


def test_the_wrong_key_changes_nothing(tmp_path):
    error = refused(filled(tmp_path), LockedError, options=ChangeOptions(old=NEW))
    assert error.verdict is Verdict.WRONG_KEY


def test_keys_that_are_not_at_hand_are_named_before_they_are_dropped(tmp_path):
    config, paper = filled(tmp_path), user_key.generate_recovery_key()
    key_changes.add(config, paper)
    named = reencryption.dropped_slots_error(
        reencryption.find_dropped_slots(config, replacing=False)[1]
    )
    assert "slot 2 (recovery)" in named.message
    done = reencrypted(config)
    assert [slot.id for slot in done.dropped] == [2]
    assert len(keyfile_of(config).slots) == 1


def test_the_slot_of_the_keychain_follows(tmp_path):
    config, system = filled(tmp_path), keychains.working()
    options = ChangeOptions(system=system)
    user_key_rotation.enable_keychain(config, system)
    notes = texts(config)
    done = reencrypted(config, options=options)
    assert done.dropped == ()
    assert SlotType.KEYCHAIN in {slot.type for slot in done.carried}
    by_keychain = replace(config, db_key=None, db_key_origin="", keychain=True)
    assert texts(by_keychain, system=system) == notes
    with pytest.raises(SlotsRefused, match="only one"):
        reencrypted(by_keychain, options=options)


def described(config):
    return [(slot.id, slot.type, slot.label) for slot in keyfile_of(config).slots]


def test_what_is_known_of_a_slot_is_kept(tmp_path):
    config, system = filled(tmp_path), keychains.working()
    options = ChangeOptions(system=system, clock=lambda: 1_700_000_000.0)
    change = {"parameters": kdf.Pbkdf2Sha512(7), "options": options}
    user_key_rotation.rotate_passphrase(config, new=OLD, **change)
    by_old = replace(config, db_key=OLD)
    user_key_rotation.rotate_passphrase(by_old, new=Secret(PASSPHRASE), **change)
    user_key_rotation.enable_keychain(config, system, options=options)
    before = keyfile_of(config)
    done = reencrypted(config, options=replace(options, clock=lambda: 1_800_000_000.0))
    after = keyfile_of(config)
    for name in ("id", "type", "label", "kdf"):
        assert [getattr(one, name) for one in after.slots] == [
            getattr(one, name) for one in before.slots
        ]
    assert (after.created, after.rotated) == (before.created, 1_700_000_000)
    assert [slot.id for slot in done.carried] == [3, 4]
    assert (done.gone, done.slot, done.dropped) == ((), None, ())


def test_a_new_key_has_the_label_of_the_old_one_and_the_day_of_today(tmp_path):
    config = filled(tmp_path)
    key_changes.add(config, OLD, label="the laptop", parameters=CHEAPEST)
    options = ChangeOptions(old=OLD, clock=lambda: 1_800_000_000.0)
    done = reencrypted(config, new=NEW, options=options)
    assert described(config) == [(3, "passphrase", "the laptop")]
    assert keyfile_of(config).rotated == 1_800_000_000
    assert ([slot.id for slot in done.gone], done.slot.id) == ([2], 3)


def test_the_recovery_key_that_was_used_follows_and_is_not_the_only_one(tmp_path):
    config, paper = filled(tmp_path), user_key.generate_recovery_key()
    key_changes.add(config, paper, label="on paper")
    options = ChangeOptions(old=paper)
    assert "only one" in refused(config, SlotsRefused, options=options).message
    done = reencrypted(config, new=NEW, options=options)
    assert described(config) == [
        (2, "recovery", "on paper"),
        (3, "passphrase", ""),
    ]
    assert [slot.id for slot in done.dropped] == [1]
    for key in (paper, NEW):
        assert texts(replace(config, db_key=key))


def test_the_keychain_keeps_its_own_key_beside_a_new_one(tmp_path):
    config, system = filled(tmp_path), keychains.working()
    options = ChangeOptions(system=system)
    user_key_rotation.enable_keychain(config, system)
    kept = system.read_back(keychain.KEY, config.owner_hash)
    alone = replace(config, db_key=None, db_key_origin="", keychain=True)
    reencrypted(alone, new=NEW, options=options)
    assert [one[1] for one in described(config)] == ["keychain", "passphrase"]
    assert system.read_back(keychain.KEY, config.owner_hash) == kept
    assert texts(alone, system=system) == texts(replace(config, db_key=NEW))


def test_a_key_of_the_keychain_that_opens_nothing_blocks_no_other_key(tmp_path):
    config, system = filled(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    system.set(keychain.KEY, config.owner_hash, user_key.generate())
    options = ChangeOptions(system=system)
    assert [slot.id for slot in reencrypted(config, options=options).dropped] == [2]


def test_slots_that_would_not_follow_are_known_before_the_work_begins(tmp_path):
    config, paper = filled(tmp_path), user_key.generate_recovery_key()
    key_changes.add(config, paper)
    before = fingerprint(config.account_dir)
    came, dropped = reencryption.find_dropped_slots(config, replacing=False)
    assert (came.slot.id, [slot.id for slot in dropped]) == (1, [2])
    options = ChangeOptions(old=paper)
    came, dropped = reencryption.find_dropped_slots(config, replacing=True, options=options)
    assert (came.slot.id, [slot.id for slot in dropped]) == (2, [1])
    assert fingerprint(config.account_dir) == before


@pytest.mark.slow("waits two seconds for the lock of a running server")
def test_while_a_server_runs_it_is_refused_and_the_server_is_named(tmp_path):
    config = filled(tmp_path)
    child = account_child.start(tmp_path)
    try:
        error = refused(config, LockedError)
        assert error.verdict is Verdict.BUSY
        assert f"process {child.pid}" in error.message
    finally:
        child.communicate("end\n", timeout=30)
    reencrypted(config)


def test_too_little_space_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
    config = filled(tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=10_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    error = refused(config, CacheFull)
    assert error.details["free"] == 10_000


@pytest.mark.attack(19)
@pytest.mark.parametrize("step", ["prepare", "create", "copy", "verify"])
def test_a_disk_that_fills_up_leaves_the_old_cache_and_nothing_else(tmp_path, step):
    config = filled(tmp_path)

    def fail(name):
        if name == step:
            raise OSError(28, "No space left on device")

    refused(config, CacheFull, options=ChangeOptions(at=fail))
    assert len(folder_of(config).generations()) == 1
    assert not folder_of(config).prepared_key_file.exists()


def test_a_copy_that_differs_never_counts(tmp_path, monkeypatch):
    config = filled(tmp_path)
    real = table_copy.copy_into

    def lossy(source, target, **options):
        real(source, target, **options)
        with target.transaction():
            target.run("DELETE FROM sync_metadata WHERE key = 'created_at'")

    monkeypatch.setattr(table_copy, "copy_into", lossy)
    error = refused(config, CacheDamaged)
    assert "differs" in error.message
    assert len(folder_of(config).generations()) == 1


def test_a_copy_whose_index_is_wrong_never_counts(tmp_path, monkeypatch):
    config = filled(tmp_path)
    real = table_copy.copy_into

    def lossy(source, target, **options):
        real(source, target, **options)
        with target.transaction():
            target.run("INSERT INTO notes_fts(notes_fts) VALUES ('delete-all')")

    monkeypatch.setattr(table_copy, "copy_into", lossy)
    assert "is damaged" in refused(config, CacheDamaged).message


def test_databases_that_no_key_file_names_are_quarantined(tmp_path):
    config = filled(tmp_path)
    folder = folder_of(config)
    unknown_file = folder.database("0" * 16)
    unknown_file.write_bytes(b"somebody's")
    unknown_file.chmod(0o600)
    reencrypted(config)
    assert not unknown_file.exists()
    assert [path.read_bytes() for path in folder.quarantine.rglob("*0000*")] == [b"somebody's"]


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_files_beside_a_database_that_was_never_created_are_quarantined_too(tmp_path, suffix):
    config = filled(tmp_path)
    folder = folder_of(config)
    orphan = folder.path / (folder.database("0" * 16).name + suffix)
    orphan.touch(mode=0o600)
    reencrypted(config)
    assert not orphan.exists()
    assert [path.name for path in folder.quarantine.rglob("*0000*")] == [orphan.name]


def test_databases_in_the_quarantine_are_named(tmp_path):
    config = filled(tmp_path)
    assert reencrypted(config).quarantined == FoundDatabases()
    purge.reset_account(config)
    open_cheaply(config).close()
    (place,) = reencrypted(config).quarantined.databases
    assert place.parent == folder_of(config).quarantine
    (seen,) = [one for one in doctor_checks.check_folder(config) if one.name == "quarantine"]
    assert f"encrypted databases in {place.name}" in seen.seen
    assert "may still open" in seen.hint


def test_a_folder_of_the_quarantine_that_cannot_be_listed_is_named_and_hinders_nothing(tmp_path):
    config = filled(tmp_path)
    purge.reset_account(config)
    open_cheaply(config).close()
    quarantined = folder_of(config).quarantine
    deep = quarantined / "20200101T000000Z"  # listed before the other one
    (deep / "/".join("d" * 130)).mkdir(parents=True)
    found = reencrypted(config).quarantined
    (unlisted,) = found.unlisted
    assert len(found.databases) == 1
    assert str(deep) in " ".join(unlisted.describe())
    seen = [one for one in doctor_checks.check_folder(config) if one.name == "quarantine"]
    assert [one.state for one in seen] == ["ok", "warn"]
    assert str(deep) in seen[1].seen
    assert any(
        "cannot be checked" in one.seen
        for one in doctor_checks.check_folder(config)
        if one.name == "permissions"
    )


@pytest.mark.parametrize("by", ["recovery", "keychain", "passphrase"])
def test_the_cost_and_label_of_a_passphrase_that_is_dropped_are_not_lost(tmp_path, by):
    config, system, paper = filled(tmp_path), keychains.working(), user_key.generate_recovery_key()
    dear = replace(CHEAPEST, memory_kib=CHEAPEST.memory_kib * 2, time_cost=2)
    key_changes.add(config, OLD, label="mine", parameters=dear)
    by_old = ChangeOptions(old=OLD)
    key_changes.remove(config, 1, options=by_old)
    key_changes.add(config, paper, label="on paper", options=by_old)
    if by == "keychain":
        user_key_rotation.enable_keychain(config, system, options=by_old)
    came = {"recovery": ChangeOptions(old=paper), "passphrase": by_old}
    options = came.get(by, ChangeOptions(system=system))
    done = reencryption.reencrypt(
        replace(config, db_key=None, db_key_origin="", keychain=True)
        if by == "keychain"
        else config,
        new=NEW,
        parameters=KdfPolicy("argon2id", explicit=False, costs=(CHEAPEST,)),
        options=options,
    )
    assert done.slot is not None
    assert (done.slot.kdf, done.slot.label) == (dear, "mine")


def test_progress_is_reported(tmp_path):
    progress = []
    reencrypted(filled(tmp_path), on_progress=lambda done, total: progress.append((done, total)))
    assert progress[-1][0] == progress[-1][1] > 40


def test_where_there_is_no_cache_nothing_is_made(tmp_path):
    with pytest.raises(LockedError):
        reencrypted(account(tmp_path))
    assert not folder_of(account(tmp_path)).path.exists()
