"""Test that every command that changes keys refuses an old key file and writes nothing.

Somebody who knows an exchanged key, and can write to the folder, would otherwise come in again. The
newest key file is known by its copy, and by the database, which remembers the highest number seen.
"""

import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import backup, key_changes, reencryption, repair, user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import (
    key_file_codec,
    key_slots,
    user_key,
)
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.keys import key_file_store
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener as databases
from support import keychains
from support.account import (
    OTHER,
    PASSPHRASE,
    fingerprint,
    folder_of,
    made,
    open_cheaply,
)
from support.cheap_costs import CHEAPEST

OLD, NEW = Secret(PASSPHRASE), Secret(OTHER)
THIRD = Secret("three quiet doors above the harbour")

COMMANDS = {
    "rotate": lambda c: user_key_rotation.rotate_passphrase(c, new=THIRD, parameters=CHEAPEST),
    "add": lambda c: key_changes.add(c, THIRD, parameters=CHEAPEST),
    "recovery": lambda c: key_changes.add(c, user_key.generate_recovery_key()),
    "remove": lambda c: key_changes.remove(c, 2),
    "keychain": lambda c: user_key_rotation.enable_keychain(c, keychains.working()),
    "rotate into the keychain": lambda c: user_key_rotation.rotate_into_keychain(
        c, keychains.working(), from_keychain=False
    ),
    "reencrypt": reencryption.reencrypt,
    "open": open_cheaply,
}


def rotated(tmp_path):
    """A cache with two keys whose first was exchanged; the key file of before lies beside it."""
    config = made(tmp_path)
    key_changes.add(config, user_key.generate())
    shutil.copy(folder_of(config).key_file, tmp_path / "old")
    user_key_rotation.rotate_passphrase(config, new=NEW, parameters=CHEAPEST)
    return config


def put_back(config, tmp_path, *, copy):
    folder = folder_of(config)
    shutil.copy(tmp_path / "old", folder.key_file)
    if copy:
        shutil.copy(tmp_path / "old", folder.key_copy)


def back_up(config, to):
    with closing(open_cheaply(config)) as opened:
        return backup.back_up(opened, None, to, now=1_763_683_200.0)


def refused(config, command):
    before = fingerprint(config.account_dir)
    with pytest.raises(LockedError) as caught:
        command(config)
    assert caught.value.verdict is Verdict.ROLLBACK_SEEN
    assert fingerprint(config.account_dir) == before
    return caught.value


@pytest.mark.attack(7)
@pytest.mark.parametrize("copy", [False, True], ids=["the copy is newer", "both are old"])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_works_on_an_old_key_file(tmp_path, command, copy):
    config = rotated(tmp_path)
    put_back(config, tmp_path, copy=copy)
    refused(config, command)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_new_key_is_not_called_wrong_where_the_copy_is_newer(tmp_path, command):
    config = rotated(tmp_path)
    put_back(config, tmp_path, copy=False)
    refused(replace(config, db_key=NEW), command)


@pytest.mark.parametrize("copy", [False, True])
def test_a_repair_does_not_take_an_old_key_file_over(tmp_path, copy):
    config = rotated(tmp_path)
    spoil_a_page(config)
    put_back(config, tmp_path, copy=copy)
    refused(config, repair.repair)


@pytest.mark.attack(7)
def test_the_copy_alone_tells_where_the_database_was_never_opened_again(tmp_path):
    config = rotated(tmp_path)
    forget_the_number(config)
    put_back(config, tmp_path, copy=False)
    for command in COMMANDS.values():
        refused(config, command)
    refused(config, lambda c: backup.restore_key_file(c, tmp_path / "old", OLD))


def test_the_way_out_that_is_named_works(tmp_path):
    config = rotated(tmp_path)
    put_back(config, tmp_path, copy=False)
    assert "restore --key-file" in refused(config, open_cheaply).resolution_hint
    new = replace(config, db_key=NEW)
    done = backup.restore_key_file(new, None, NEW)
    open_cheaply(new).close()
    kept = done.quarantine / folder_of(config).key_file.name
    assert kept.read_bytes() == (tmp_path / "old").read_bytes()


def test_a_copy_that_falsely_claims_to_be_newer_locks_nobody_out(tmp_path):
    config = made(tmp_path)
    folder = folder_of(config)
    real = key_file_codec.parse(folder.key_file.read_bytes())
    forged = key_file_codec.serialise(replace(real, sequence=real.sequence + 5))
    folder.key_copy.write_bytes(forged)
    key_changes.add(config, NEW, parameters=CHEAPEST)
    open_cheaply(config).close()
    [kept] = (config.account_dir / "quarantine").glob(f"*/{folder.key_copy.name}")
    assert kept.read_bytes() == forged


@pytest.mark.parametrize("step", ["switch", "switch_copy"])
def test_a_change_that_counts_is_not_called_a_failure(tmp_path, step):
    """Whoever is told that it failed goes on with the old key, and that opens nothing any more."""
    config = made(tmp_path)
    done = user_key_rotation.rotate_passphrase(
        config,
        new=NEW,
        parameters=CHEAPEST,
        options=ChangeOptions(at=lambda at: spoil_every_page(config) if at == step else None),
    )
    assert not done.proven
    found = key_changes.list_slots(config, NEW)
    assert found.opened_by is not None


def test_nothing_is_listed_or_copied_of_an_old_key_file(tmp_path):
    config = rotated(tmp_path)
    shutil.copy(tmp_path / "old", folder_of(config).key_file)
    to = tmp_path / "copied"
    for look in (
        lambda: key_changes.list_slots(config, OLD),
        lambda: key_changes.list_slots(config, NEW),
        lambda: back_up(config, to),
        lambda: back_up(replace(config, db_key=NEW), to),
    ):
        with pytest.raises(LockedError) as refused:
            look()
        assert refused.value.verdict is Verdict.ROLLBACK_SEEN
    assert not to.exists()
    assert key_changes.list_slots(config, None).uncertain
    assert key_changes.list_slots(config, THIRD).uncertain


def test_a_copy_that_falsely_claims_to_be_newer_does_not_prevent_a_backup(tmp_path):
    config = rotated(tmp_path)
    folder = folder_of(config)
    real = key_file_codec.parse(folder.key_file.read_bytes())
    folder.key_copy.write_bytes(key_file_codec.serialise(replace(real, sequence=real.sequence + 5)))
    assert not key_changes.list_slots(config, NEW).uncertain
    assert back_up(replace(config, db_key=NEW), tmp_path / "copied") == real


@pytest.mark.parametrize("key", [NEW, THIRD])
def test_the_slots_of_each_key_file_are_tried_once(tmp_path, monkeypatch, key):
    config = rotated(tmp_path)
    folder = folder_of(config)
    real = key_file_codec.parse(folder.key_file.read_bytes())
    folder.key_copy.write_bytes(key_file_codec.serialise(replace(real, sequence=real.sequence + 5)))
    tried = []
    open_slot = key_slots.open_slot

    def counted(keyfile, *given, **named):
        tried.append(keyfile.sequence)
        return open_slot(keyfile, *given, **named)

    monkeypatch.setattr(key_slots, "open_slot", counted)
    key_changes.list_slots(config, key)
    assert tried == [real.sequence, real.sequence + 5]


def test_a_copy_of_another_cache_is_just_replaced(tmp_path):
    config, other = made(tmp_path / "a"), made(tmp_path / "b")
    for _ in range(3):
        change_a_slot(other)
    shutil.copy(folder_of(other).key_file, folder_of(config).key_copy)
    open_cheaply(config).close()
    folder = folder_of(config)
    assert folder.key_copy.read_bytes() == folder.key_file.read_bytes()


def test_a_change_seen_half_done_is_no_rollback(tmp_path, monkeypatch):
    """Whoever reads while somebody else writes both files must not take it for an old one."""
    config = made(tmp_path)
    folder = folder_of(config)
    load = key_file_store.load
    read = key_file_store._read_file

    def changed_between(path):
        side = read(path)
        if path == folder.key_copy and not changed:
            changed.append(path)
            key_changes.add(config, NEW, parameters=CHEAPEST)
        return side

    changed = []
    monkeypatch.setattr(key_file_store, "_read_file", changed_between)
    assert load(folder).copy_ahead is None
    assert changed


def change_a_slot(config):
    done = key_changes.add(config, NEW, parameters=CHEAPEST)
    key_changes.remove(config, done.after.slots[-1].id)


def spoil_every_page(config):
    [path] = [file for file in config.account_dir.iterdir() if file.name.endswith(".encrypted")]
    path.write_bytes(bytes(path.stat().st_size))


def spoil_a_page(config):
    [path] = [file for file in config.account_dir.iterdir() if file.name.endswith(".encrypted")]
    raw = bytearray(path.read_bytes())
    raw[4096 * 8 + 100] ^= 1
    path.write_bytes(raw)


def forget_the_number(config):
    """What the database would be if nothing had opened it since the change."""
    folder = folder_of(config)
    found = key_file_codec.parse(folder.key_file.read_bytes())
    key = key_slots.unlock(found, NEW).database_key(found.database_salt)
    path = folder.database(found.generation)
    with closing(databases.connect(path, key)) as opened, opened.transaction():
        opened.run("UPDATE sync_metadata SET value = '1' WHERE key = 'key_sequence'")
