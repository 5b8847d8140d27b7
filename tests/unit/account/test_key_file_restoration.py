"""The key file of a backup, or a copy of the file, put back only where it fits."""

import shutil
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.account import backup, key_changes, user_key_rotation
from mcp_notarium.crypto import key_file_codec
from mcp_notarium.crypto.errors import WrongKey
from mcp_notarium.errors import CacheDamaged, ConfigError, LockedError, Verdict
from mcp_notarium.secret import Secret
from support.account import (
    OTHER,
    PASSPHRASE,
    fingerprint,
    folder_of,
    made,
    open_cheaply,
)
from support.cheap_costs import CHEAPEST

KEY = Secret(PASSPHRASE)


def backed_up(config, path):
    with closing(open_cheaply(config)) as opened:
        backup.back_up(opened, None, path, now=1_763_683_200.0)
    return path


def kept_alone(config, path):
    return Path(shutil.copy(folder_of(config).key_file, path))


@pytest.fixture(params=[backed_up, kept_alone])
def copied(request):
    """What makes a backup, or a copy of the key file."""
    return request.param


def restore(config, path, key=KEY, **options):
    return backup.restore_key_file(config, path, key, **options)


def refused(config, error, path, key=KEY):
    before = fingerprint(config.account_dir)
    with pytest.raises(error) as caught:
        restore(config, path, key)
    assert fingerprint(config.account_dir) == before
    return caught.value


@pytest.mark.parametrize("damage", ["gone", "cut", "copy gone too"])
def test_a_lost_or_damaged_key_file_is_put_back(copied, tmp_path, damage):
    config = made(tmp_path)
    copy, folder = copied(config, tmp_path / "copy"), folder_of(config)
    whole = folder.key_file.read_bytes()
    if damage == "cut":
        folder.key_file.write_bytes(folder.key_file.read_bytes()[:100])
        folder.key_copy.write_bytes(b"")
    else:
        folder.key_file.unlink()
    if damage == "copy gone too":
        folder.key_copy.unlink()
    done = restore(config, copy)
    open_cheaply(config).close()
    assert folder.key_file.read_bytes() == folder.key_copy.read_bytes() == whole
    assert (done.quarantine is None) is (damage == "copy gone too")


def test_what_was_there_is_kept(copied, tmp_path):
    config = made(tmp_path)
    copy, folder = copied(config, tmp_path / "copy"), folder_of(config)
    folder.key_file.write_bytes(b"damaged")
    done = restore(config, copy)
    assert (done.quarantine / folder.key_file.name).read_bytes() == b"damaged"


def test_a_replaced_key_cannot_be_restored_from_an_older_copy(copied, tmp_path):
    config = made(tmp_path)
    copy = copied(config, tmp_path / "copy")
    user_key_rotation.rotate_passphrase(config, new=Secret(OTHER), parameters=CHEAPEST)
    error = refused(config, LockedError, copy)
    assert error.verdict is Verdict.ROLLBACK_SEEN
    assert "number 1" in error.message
    assert "number 2" in error.message


def test_a_newer_copy_than_the_key_file_is_taken(copied, tmp_path):
    config = made(tmp_path)
    folder = folder_of(config)
    old = folder.key_file.read_bytes()
    key_changes.add(config, Secret(OTHER), parameters=CHEAPEST)
    copy = copied(config, tmp_path / "copy")
    folder.key_file.write_bytes(old)
    folder.key_copy.write_bytes(old)
    restore(config, copy)
    open_cheaply(replace(config, db_key=Secret(OTHER))).close()


def test_a_copy_of_another_cache_is_refused(copied, tmp_path):
    config = made(tmp_path)
    other = made(tmp_path / "other")
    error = refused(config, LockedError, copied(other, tmp_path / "copy"))
    assert error.verdict is Verdict.DATABASE_MISSING


def test_a_copy_that_names_our_database_and_is_of_another_cache_is_refused(copied, tmp_path):
    config, other = made(tmp_path), made(tmp_path / "other")
    copy = copied(other, tmp_path / "copy")
    foreign = key_file_codec.parse(folder_of(other).key_file.read_bytes())
    ours = key_file_codec.parse(folder_of(config).key_file.read_bytes())
    shutil.copy(
        folder_of(config).database(ours.generation), folder_of(config).database(foreign.generation)
    )
    refused(config, CacheDamaged, copy)


def test_the_wrong_key_and_a_damaged_copy_are_distinguished(copied, tmp_path):
    config = made(tmp_path)
    copy = copied(config, tmp_path / "copy")
    refused(config, WrongKey, copy, Secret(OTHER))
    copy.write_bytes(copy.read_bytes()[:-1])
    assert "copy is damaged" in refused(config, ConfigError, copy).message
    refused(config, ConfigError, tmp_path / "nowhere")


def test_a_copy_that_the_disk_does_not_take_is_written_by_the_next_start(copied, tmp_path):
    config = made(tmp_path)
    copy = copied(config, tmp_path / "copy")

    def fail(name):
        if name == "write_copy":
            folder_of(config).key_copy.write_bytes(b"damaged")
            raise OSError(28, "No space left on device")

    assert not restore(config, copy, at=fail).copied
    open_cheaply(config).close()
    folder = folder_of(config)
    assert folder.key_copy.read_bytes() == folder.key_file.read_bytes()


@pytest.mark.parametrize("step", ["kept", "write", "verify", "switch"])
def test_a_disk_that_fills_up_leaves_a_cache_that_opens(copied, tmp_path, step):
    config = made(tmp_path)
    copy = copied(config, tmp_path / "copy")

    def fail(name):
        if name == step:
            raise OSError(28, "No space left on device")

    with pytest.raises(Exception, match="disk"):
        restore(config, copy, at=fail)
    open_cheaply(config).close()


def test_where_neither_key_file_nor_database_is_whole_the_way_out_is_named(copied, tmp_path):
    config = made(tmp_path)
    copy, folder = copied(config, tmp_path / "copy"), folder_of(config)
    (generation,) = folder.generations()
    folder.key_file.unlink()
    folder.key_copy.unlink()
    folder.database(generation).write_bytes(bytes(8192))
    error = refused(config, CacheDamaged, copy)
    assert "mcp-notarium reset-cache" in error.resolution_hint


def test_the_key_file_in_a_backup_is_the_one_in_force_to_the_byte(tmp_path):
    config = made(tmp_path)
    with zipfile.ZipFile(backed_up(config, tmp_path / "copy")) as archive:
        folder = folder_of(config)
        assert archive.read(folder.key_file.name) == folder.key_file.read_bytes()
