"""A cache destroyed for good: keys first, then everything else, and only what is ours."""

import shutil
from contextlib import closing

import pytest

from mcp_notarium.account import purge
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import LockedError, Unfinished, Verdict
from mcp_notarium.keys import keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret
from mcp_notarium.storage.journal_table import JournalTable
from support import keychains
from support.account import account, folder_of, made, open_cheaply
from support.journal_entries import make_unfinished
from support.simplenote_settings import simplenote


def left(config):
    files = config.account_dir.rglob("*")
    return sorted(path.name for path in files if path.suffix != ".lock")


@pytest.mark.attack(48)
def test_nothing_is_left_and_the_next_start_makes_a_new_cache(tmp_path):
    config = made(tmp_path)
    purge.reset_account(config)
    open_cheaply(config).close()
    done = purge.purge_account(config, None)
    assert not config.account_dir.exists()
    assert done.files >= 5
    with closing(open_cheaply(config)) as opened:
        assert opened.created


def test_a_lock_of_somebody_else_in_the_quarantine_goes_too(tmp_path):
    config = made(tmp_path)
    aside = purge.reset_account(config)
    (aside / "of-a-backup.lock").touch()
    purge.purge_account(config, None)
    assert not folder_of(config).quarantine.exists()


@pytest.mark.attack(48)
def test_the_keys_go_first(tmp_path):
    config, order = made(tmp_path), []
    purge.purge_account(config, None, options=ChangeOptions(at=order.append))
    databases = [name for name in order if name.startswith("notarium_cache")]
    keys = [name for name in order if name.startswith("notarium_keys")]
    assert len(keys) == 2
    assert order.index(databases[0]) > max(order.index(name) for name in keys)


def test_it_can_be_cut_short_and_run_again(tmp_path):
    config = made(tmp_path)

    def stop(name):
        if name.startswith("notarium_keys"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        purge.purge_account(config, None, options=ChangeOptions(at=stop))
    assert left(config)
    purge.purge_account(config, None)
    assert left(config) == []


@pytest.mark.attack(48)
def test_a_folder_that_cannot_be_listed_keeps_no_key_and_is_told(tmp_path):
    config = made(tmp_path)
    top = config.account_dir / "other"
    (top / "/".join("d" * 130)).mkdir(parents=True)
    later = config.account_dir / "zzz"
    later.mkdir()
    (later / "notarium_keys.json").touch()
    with pytest.raises(Unfinished, match="too many folders") as told:
        purge.purge_account(config, None)
    assert "the keys are gone" in told.value.message
    assert set(left(config)) == {"other", "d"}
    shutil.rmtree(top)
    purge.purge_account(config, None)
    assert not config.account_dir.exists()


def test_the_keychains_entries_go_too(tmp_path):
    config, system = made(tmp_path), keychains.working()
    for kind in (keychain.KEY, keychain.TOKEN):
        system.set(kind, config.owner_hash, Secret("raw:" + "11" * 32))
    assert purge.purge_account(config, system).keychain_cleared
    assert system.read_back(keychain.KEY, config.owner_hash) is None
    assert system.read_back(keychain.TOKEN, config.owner_hash) is None


@pytest.mark.parametrize(
    "unreachable",
    [
        Keychain(lambda: keychains.backend("keyrings.alt.file", "PlaintextKeyring")),
        keychains.locked(),
    ],
    ids=["refused", "locked"],
)
def test_a_keychain_that_could_not_be_asked_is_not_called_empty_and_is_asked_again(
    tmp_path, unreachable
):
    config, system = made(tmp_path), keychains.working()
    for kind in (keychain.KEY, keychain.TOKEN):
        system.set(kind, config.owner_hash, Secret("raw:" + "11" * 32))
    done = purge.purge_account(config, unreachable)
    assert left(config) == []
    assert not done.keychain_cleared
    assert done.keychain_error is not None
    assert done.keychain_error.verdict is Verdict.KEYCHAIN_UNUSABLE
    assert config.owner_hash[:16] in done.keychain_error.message
    again = purge.purge_account(config, system)
    assert (again.files, again.keychain_cleared, again.keychain_error) == (0, True, None)
    assert system.read_back(keychain.KEY, config.owner_hash) is None
    assert system.read_back(keychain.TOKEN, config.owner_hash) is None


def test_where_no_keychain_runs_one_of_another_session_is_named(tmp_path):
    config = made(tmp_path)
    none = Keychain(lambda: keychains.backend("keyring.backends.fail", "Keyring"))
    done = purge.purge_account(config, none)
    assert left(config) == []
    assert (done.keychain_cleared, done.keychain_error) == (False, None)
    assert config.owner_hash[:16] in done.keychain_hint


@pytest.mark.slow("waits two seconds for the lock of a running server")
def test_while_a_server_has_it_open_nothing_is_destroyed(tmp_path):
    config = made(tmp_path)
    with closing(open_cheaply(config)), pytest.raises(LockedError) as error:
        purge.purge_account(config, None)
    assert error.value.verdict is Verdict.BUSY
    open_cheaply(config).close()


def test_other_accounts_stay_as_they_are(tmp_path):
    config = made(tmp_path)
    other = made(tmp_path, **simplenote("other@example.com"))
    purge.purge_account(config, None)
    open_cheaply(other).close()


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path):
    config = made(tmp_path)
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    purge.reset_account(config)
    (moved,) = (config.account_dir / "quarantine").iterdir()
    (moved / "link").symlink_to(precious)
    purge.purge_account(config, None)
    assert precious.read_text() == "keep me"
    assert left(config) == []


WRITE = make_unfinished(Content("text"))


def test_text_that_was_never_confirmed_is_warned_of(tmp_path):
    config = account(tmp_path)
    assert not purge.may_hold_unsent_text(config)
    open_cheaply(config).close()
    assert not purge.may_hold_unsent_text(config)
    with closing(open_cheaply(config)) as opened:
        JournalTable(opened.database).add(WRITE)
    assert purge.may_hold_unsent_text(config)


def test_a_cache_that_cannot_be_opened_may_hold_text_that_was_never_confirmed(tmp_path):
    config = made(tmp_path)
    folder_of(config).key_file.unlink()
    folder_of(config).key_copy.unlink()
    assert purge.may_hold_unsent_text(config)
