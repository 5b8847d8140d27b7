"""The head start: the key file is unlocked once, beforehand, and nothing is decided by it."""

import os
import threading
from dataclasses import replace

import pytest

from mcp_notarium.account import opener
from mcp_notarium.account.early_unlock import EarlyUnlock
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.errors import KdfOutOfMemory, KeyFileDamaged, WrongKey
from mcp_notarium.crypto.kdf import TEST_BOUNDS
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.keys import key_file as keyfile
from mcp_notarium.secret import Secret
from support.account import account, open_cheaply
from support.keyfiles import forged

PATIENCE = 10.0


@pytest.fixture
def config(tmp_path):
    open_cheaply(account(tmp_path)).close()
    return account(tmp_path)


@pytest.fixture
def unlocked(monkeypatch):
    """The passphrases that were tried."""
    tried = []
    unlock = key_slots.unlock

    def noting(found, passphrase, *, bounds):
        tried.append(passphrase)
        return unlock(found, passphrase, bounds=bounds)

    monkeypatch.setattr(key_slots, "unlock", noting)
    return tried


def key_file(config):
    return keyfile.load(AccountFolder(config.account_dir), bounds=TEST_BOUNDS).valid


def begun(config):
    start = EarlyUnlock(config, bounds=TEST_BOUNDS)
    start.begin()
    return start


def ended(config):
    start = begun(config)
    start._thread.join()
    return start


def opened(config, start):
    return opener.open_cache(config, bounds=TEST_BOUNDS, unlock=start.unlock)


def test_a_cache_is_opened_with_what_was_unlocked_beforehand(config, unlocked):
    cache = opened(config, begun(config))
    cache.close()
    assert unlocked == [config.db_key], "once"


def test_it_is_taken_over_once(config, unlocked):
    start = ended(config)
    first = start.unlock(key_file(config), config.db_key, bounds=TEST_BOUNDS)
    second = start.unlock(key_file(config), config.db_key, bounds=TEST_BOUNDS)
    assert first.secret() == second.secret()
    assert len(unlocked) == 2


def test_a_wrong_key_is_refused_with_the_same_words(config, unlocked):
    wrong = replace(config, db_key=Secret("another passphrase altogether"))
    with pytest.raises(LockedError) as ahead:
        opened(wrong, begun(wrong))
    assert unlocked == [wrong.db_key]
    with pytest.raises(LockedError) as alone:
        opener.open_cache(wrong, bounds=TEST_BOUNDS)
    assert ahead.value.to_dict() == alone.value.to_dict()
    assert ahead.value.verdict is Verdict.WRONG_KEY


def test_another_passphrase_is_tried_by_itself(config, unlocked):
    start = ended(config)
    with pytest.raises(WrongKey):
        start.unlock(key_file(config), Secret("another passphrase altogether"), bounds=TEST_BOUNDS)
    assert len(unlocked) == 2


def test_a_key_file_that_was_changed_meanwhile_is_unlocked_by_itself(config, unlocked):
    start = ended(config)
    another = replace(key_file(config), schema_floor=0)
    with pytest.raises(KeyFileDamaged):
        start.unlock(another, config.db_key, bounds=TEST_BOUNDS)
    assert len(unlocked) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"db_encryption": False},
        {"db_key": None},
        {"db_key_yields": True},
        {"account_dir": "missing"},
        {"account_dir": "a file"},
    ],
    ids=str,
)
def test_nothing_is_tried_where_the_settings_do_not_decide(config, tmp_path, unlocked, changes):
    found, key = key_file(config), config.db_key
    if (place := changes.get("account_dir")) is not None:
        changes = {"data_dir": tmp_path / place}
        if place == "a file":
            changes["data_dir"].touch(mode=0o600)
    start = EarlyUnlock(replace(config, **changes), bounds=TEST_BOUNDS)
    start.begin()
    if start._thread.ident is not None:
        start._thread.join()
    assert unlocked == []
    start.unlock(found, key, bounds=TEST_BOUNDS)
    assert unlocked == [key]


def opened_to_all(folder):
    folder.chmod(0o777)


def replaced_by_a_link(folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def with_a_pipe_for_a_key_file(folder):
    for name in ("notarium_keys.json", "notarium_keys.json.bak"):
        (folder / name).unlink()
        os.mkfifo(folder / name, 0o600)


@pytest.mark.skipif(os.name != "posix", reason="modes, links and pipes of POSIX")
@pytest.mark.parametrize(
    "change",
    [opened_to_all, replaced_by_a_link, with_a_pipe_for_a_key_file],
    ids=lambda f: f.__name__,
)
def test_nothing_unsafe_is_read(config, unlocked, change):
    change(config.account_dir)
    start = begun(config)
    start._thread.join(PATIENCE)
    assert not start._thread.is_alive()
    assert unlocked == []


def refused(config, **options):
    with pytest.raises(LockedError) as error:
        opener.open_cache(config, bounds=TEST_BOUNDS, **options)
    return error.value.to_dict()


def test_a_forged_key_file_is_refused_with_the_same_words(config, unlocked):
    folder = AccountFolder(config.account_dir)
    for path in (folder.key_file, folder.key_copy):
        path.write_bytes(forged(path.read_bytes(), lambda fields: fields.update(created=1)))
    alone = refused(config)
    unlocked.clear()
    assert refused(config, unlock=begun(config).unlock) == alone
    assert unlocked == [config.db_key]


def test_too_little_memory_is_met_once_and_said(config, monkeypatch):
    def full(*_args, **_kwargs):
        tried.append(1)
        raise KdfOutOfMemory(65536)

    tried = []
    monkeypatch.setattr(key_slots, "unlock", full)
    start = ended(config)
    with pytest.raises(KdfOutOfMemory):
        start.unlock(key_file(config), config.db_key, bounds=TEST_BOUNDS)
    assert tried == [1]


def test_what_nobody_takes_over_is_forgotten(config, unlocked):
    start = ended(config)
    start.forget()
    assert start._outcome is None
    opened(config, start).close()
    assert len(unlocked) == 2


def test_a_system_without_threads_left_does_without(config, monkeypatch, unlocked):
    def none_left(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        start = begun(config)
    opened(config, start).close()
    assert unlocked == [config.db_key]


def test_what_goes_wrong_beforehand_does_no_harm(config, monkeypatch, unlocked):
    def broken(*_args, **_kwargs):
        raise OSError("no such luck")

    with monkeypatch.context() as patched:
        patched.setattr(keyfile, "load", broken)
        start = ended(config)
    opened(config, start).close()
    assert unlocked == [config.db_key]
