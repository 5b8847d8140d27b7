"""The head start: the key file is unlocked once, beforehand, and nothing is decided by it."""

from dataclasses import replace

import pytest

from mcp_notarium.crypto import keyslots
from mcp_notarium.crypto.failures import KeyFileDamaged, WrongKey
from mcp_notarium.crypto.kdf import TEST_BOUNDS
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.keys import keyfile, opening
from mcp_notarium.keys.folder import AccountFolder
from mcp_notarium.keys.head_start import HeadStart
from mcp_notarium.secret import Secret
from support.account import account, open_cheaply


@pytest.fixture
def config(tmp_path):
    open_cheaply(account(tmp_path)).close()
    return account(tmp_path)


@pytest.fixture
def unlocked(monkeypatch):
    """The passphrases that were tried."""
    tried = []
    unlock = keyslots.unlock

    def noting(found, passphrase, *, bounds):
        tried.append(passphrase)
        return unlock(found, passphrase, bounds=bounds)

    monkeypatch.setattr(keyslots, "unlock", noting)
    return tried


def key_file(config):
    return keyfile.load(AccountFolder(config.account_dir), bounds=TEST_BOUNDS).valid


def begun(config):
    start = HeadStart(config, bounds=TEST_BOUNDS)
    start.begin()
    return start


def ended(config):
    start = begun(config)
    start._thread.join()
    return start


def opened(config, start):
    return opening.open_cache(config, bounds=TEST_BOUNDS, unlock=start.unlock)


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
        opening.open_cache(wrong, bounds=TEST_BOUNDS)
    assert ahead.value.to_dict() == alone.value.to_dict()
    assert ahead.value.verdict is Verdict.WRONG_KEY


def test_another_passphrase_is_tried_by_itself(config, unlocked):
    start = ended(config)
    with pytest.raises(WrongKey):
        start.unlock(key_file(config), Secret("another passphrase altogether"), bounds=TEST_BOUNDS)
    assert len(unlocked) == 2


def test_a_key_file_that_was_changed_meanwhile_is_unlocked_by_itself(config, unlocked):
    start = ended(config)
    forged = replace(key_file(config), schema_floor=0)
    with pytest.raises(KeyFileDamaged):
        start.unlock(forged, config.db_key, bounds=TEST_BOUNDS)
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
    start = HeadStart(replace(config, **changes), bounds=TEST_BOUNDS)
    start.begin()
    if start._thread.ident is not None:
        start._thread.join()
    assert unlocked == []
    start.unlock(found, key, bounds=TEST_BOUNDS)
    assert unlocked == [key]


def test_a_folder_that_others_can_write_to_is_not_read(config, unlocked):
    config.account_dir.chmod(0o777)
    ended(config)
    assert unlocked == []


def test_whatever_goes_wrong_beforehand_is_met_again(config, monkeypatch, unlocked):
    def broken(*_args, **_kwargs):
        raise OSError("no such luck")

    with monkeypatch.context() as patched:
        patched.setattr(keyfile, "load", broken)
        start = ended(config)
    opened(config, start).close()
    assert unlocked == [config.db_key]
