from dataclasses import replace

import pytest

from mcp_notarium.errors import LockedError
from mcp_notarium.keys.keychain import KEY, TOKEN
from mcp_notarium.keys.secret_places import KEYCHAIN, StoredToken, find_passphrase
from mcp_notarium.secret import Secret
from mcp_notarium.storage.sync_state import SyncState
from support import keychains
from support.account import account, open_cheaply

OWNER = "ab" * 32


def test_the_settings_decide_before_the_keychain(tmp_path):
    system = keychains.working()
    system.set(KEY, account(tmp_path).owner_hash, Secret("kept"))
    found = find_passphrase(account(tmp_path, keychain=True), system=system)
    assert found.origin == "DB_ENCRYPTION_KEY"
    assert found.passphrase != Secret("kept")


def test_the_keychain_is_asked_when_the_settings_have_no_key(tmp_path):
    system = keychains.working()
    system.set(KEY, account(tmp_path).owner_hash, Secret("kept"))
    found = find_passphrase(account(tmp_path, keychain=True, db_key=None), system=system)
    assert (found.passphrase, found.origin) == (Secret("kept"), KEYCHAIN)


def test_a_key_in_the_working_folder_comes_after_the_keychain(tmp_path):
    config = account(tmp_path, keychain=True, db_key_yields=True, db_key_origin="KEY of /x/.env")
    system = keychains.working()
    found = find_passphrase(config, system=system)
    assert (found.passphrase, found.origin) == (config.db_key, "KEY of /x/.env")
    system = keychains.working()
    system.set(KEY, account(tmp_path).owner_hash, Secret("kept"))
    found = find_passphrase(config, system=system)
    assert (found.passphrase, found.origin) == (Secret("kept"), KEYCHAIN)
    without = replace(config, keychain=False)
    assert find_passphrase(without, system=system).passphrase == config.db_key


@pytest.mark.attack(46)
def test_a_keychain_that_may_hold_a_key_is_not_skipped_for_a_key_in_the_working_folder(tmp_path):
    with pytest.raises(LockedError):
        find_passphrase(
            account(tmp_path, keychain=True, db_key_yields=True), system=keychains.locked()
        )


def test_nothing_is_found_where_nothing_is(tmp_path):
    without = account(tmp_path, keychain=True, db_key=None)
    assert find_passphrase(without, system=keychains.working()) is None
    assert find_passphrase(replace(without, keychain=False), system=keychains.locked()) is None


@pytest.mark.attack(46)
def test_a_locked_keychain_stops_the_search(tmp_path):
    with pytest.raises(LockedError):
        find_passphrase(account(tmp_path, keychain=True, db_key=None), system=keychains.locked())


@pytest.fixture
def encrypted(tmp_path):
    opened = open_cheaply(account(tmp_path))
    yield SyncState(opened.database)
    opened.close()


@pytest.fixture
def plain(tmp_path):
    opened = open_cheaply(account(tmp_path, db_encryption=False))
    yield SyncState(opened.database)
    opened.close()


def test_a_token_goes_into_the_keychain_and_nowhere_else(encrypted):
    system = keychains.working()
    tokens = StoredToken(encrypted, owner=OWNER, system=system)
    assert tokens.load() is None
    tokens.store(Secret("t1"))
    assert tokens.load() == Secret("t1")
    assert encrypted.login_token() is None
    assert system.get(TOKEN, OWNER) == Secret("t1")
    assert StoredToken(encrypted, owner=OWNER, system=system).load() == Secret("t1")


@pytest.mark.parametrize("system", [None, keychains.locked()])
def test_without_a_usable_keychain_a_token_goes_into_the_encrypted_cache(encrypted, system):
    tokens = StoredToken(encrypted, owner=OWNER, system=system)
    tokens.store(Secret("t1"))
    assert encrypted.login_token() == Secret("t1")
    assert StoredToken(encrypted, owner=OWNER).load() == Secret("t1")
    assert tokens.persistent


def test_without_encryption_a_token_stays_in_memory(plain):
    tokens = StoredToken(plain, owner=OWNER)
    tokens.store(Secret("t1"))
    assert tokens.load() == Secret("t1")
    assert not tokens.persistent
    assert StoredToken(plain, owner=OWNER).load() is None


def test_storing_in_the_keychain_removes_an_older_token_from_the_cache(encrypted):
    StoredToken(encrypted, owner=OWNER).store(Secret("old"))
    StoredToken(encrypted, owner=OWNER, system=keychains.working()).store(Secret("new"))
    assert encrypted.login_token() is None


@pytest.mark.parametrize("unusable", [None, keychains.locked()])
def test_a_login_made_while_the_keychain_was_locked_is_not_hidden_by_the_older_one_in_it(
    encrypted, unusable
):
    system = keychains.working()
    StoredToken(encrypted, owner=OWNER, system=system).store(Secret("old"))
    StoredToken(encrypted, owner=OWNER, system=unusable).store(Secret("new"))
    assert StoredToken(encrypted, owner=OWNER, system=system).load() == Secret("new")


@pytest.mark.parametrize("system", [None, keychains.working()])
def test_storing_and_forgetting_a_login_is_noticed_wherever_it_is_kept(encrypted, system):
    tokens = StoredToken(encrypted, owner=OWNER, system=system)
    seen = [encrypted.login_changes()]
    tokens.store(Secret("t1"))
    seen.append(encrypted.login_changes())
    tokens.forget()
    seen.append(encrypted.login_changes())
    assert seen == sorted(set(seen))


def test_a_login_made_by_another_process_is_seen(encrypted):
    mine, theirs = (StoredToken(encrypted, owner=OWNER) for _ in range(2))
    mine.store(Secret("t1"))
    theirs.store(Secret("t2"))
    assert mine.load() == Secret("t2")


def test_a_keychain_that_cannot_be_asked_is_not_called_forgotten(encrypted):
    tokens = StoredToken(encrypted, owner=OWNER, system=keychains.locked())
    tokens.store(Secret("t1"))
    with pytest.raises(LockedError):
        tokens.forget()
    assert encrypted.login_token() is None


@pytest.mark.parametrize("system", [None, keychains.working()])
def test_forgetting_removes_the_token_from_everywhere(encrypted, system):
    tokens = StoredToken(encrypted, owner=OWNER, system=system)
    encrypted.set_login_token(Secret("older"))
    tokens.store(Secret("t1"))
    tokens.forget()
    assert tokens.load() is None
    assert encrypted.login_token() is None
