"""What is refused before the handshake."""

from dataclasses import replace

import pytest

from mcp_notarium.config import Config
from mcp_notarium.errors import ConfigError, LockedError, Verdict
from mcp_notarium.keys import keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.protocol import startup_checks
from mcp_notarium.protocol.startup_checks import missing_key, refuse_early
from mcp_notarium.secret import Secret
from support.keychains import backend
from support.simplenote_settings import simplenote


@pytest.fixture
def config(tmp_path):
    made = Config(**simplenote("user@example.org"), data_dir=tmp_path)
    made.account_dir.mkdir(mode=0o700)
    return made


def touch(path, mode=0o600):
    path.write_bytes(b"")
    path.chmod(mode)


def refused(config):
    with pytest.raises(LockedError) as caught:
        refuse_early(config)
    assert caught.value.resolution_hint
    return caught.value.verdict


def test_private_folder_and_one_driver_are_fine(config):
    touch(config.account_dir / "notarium_keys.json")
    refuse_early(config)


def test_missing_folder_is_fine(tmp_path):
    refuse_early(Config(**simplenote("u"), data_dir=tmp_path / "not" / "there"))


def test_unknown_tool_set_is_refused(tmp_path):
    with pytest.raises(ConfigError):
        refuse_early(Config(**simplenote("u"), data_dir=tmp_path, tools="unknown"))


def test_missing_driver_is_refused(config, monkeypatch):
    monkeypatch.setattr(startup_checks, "find_spec", lambda _name: None)
    assert refused(config) is Verdict.CRYPTO_UNSUITABLE


@pytest.mark.attack(49)
def test_two_drivers_over_each_other_are_refused(config, monkeypatch, tmp_path):
    for name in ("sqlcipher3", "sqlcipher3-0.6.4.dist-info", "sqlcipher3_binary-0.6.0.dist-info"):
        (tmp_path / "site" / name).mkdir(parents=True)

    class Spec:
        origin = str(tmp_path / "site" / "sqlcipher3" / "__init__.py")

    monkeypatch.setattr(startup_checks, "find_spec", lambda _name: Spec)
    assert refused(config) is Verdict.CRYPTO_UNSUITABLE
    (tmp_path / "site" / "sqlcipher3-0.6.4.dist-info").rmdir()
    refuse_early(config)


def test_no_key_from_any_source_is_a_missing_setting(config):
    without = replace(config, keychain=False)
    missing = missing_key(without)
    assert missing.verdict is Verdict.KEY_MISSING
    assert "generate-key" in missing.resolution_hint
    assert missing_key(replace(without, db_key=Secret("a key"))) is None
    assert missing_key(replace(without, db_encryption=False)) is None
    touch(config.account_dir / "notarium_cache.0123456789abcdef.sqlite.encrypted")
    assert "the key this cache was made with" in missing_key(without).resolution_hint


def test_a_keychain_that_may_have_the_key_is_not_asked_for_it(config, monkeypatch):
    store = backend("keyring.backends.kwallet", "DBusKeyring")
    for current, missing in ((store, False), (Unusable(), False), (nowhere(), True)):
        system = Keychain(lambda current=current: current)
        monkeypatch.setattr(keychain, "system_keychain", lambda system=system: system)
        assert (missing_key(config) is not None) is missing
    assert store.reads == 0


class Unusable:
    """No keychain that protects anything."""


def nowhere():
    """What ``keyring`` gives where there is no keychain."""
    return backend("keyring.backends.fail", "Keyring")


def test_plain_mode_beside_an_encrypted_cache_is_refused(tmp_path):
    config = Config(**simplenote("u"), data_dir=tmp_path, db_encryption=False)
    config.account_dir.mkdir(mode=0o700)
    refuse_early(config)
    touch(config.account_dir / "notarium_cache.0123456789abcdef.sqlite.encrypted")
    assert refused(config) is Verdict.MODE_MISMATCH


def test_plain_mode_beside_an_encrypted_cache_names_the_folder_to_move(tmp_path):
    config = Config(**simplenote("u"), data_dir=tmp_path, db_encryption=False)
    config.account_dir.mkdir(mode=0o700)
    touch(config.account_dir / "notarium_cache.0123456789abcdef.sqlite.encrypted")
    with pytest.raises(LockedError) as caught:
        refuse_early(config)
    assert f"mv {config.account_dir} " in caught.value.resolution_hint


@pytest.mark.parametrize("below", ["", "sub", "sub/sub"])
@pytest.mark.parametrize("encrypted", [True, False])
def test_a_file_in_the_data_folders_place_is_refused_with_its_path(tmp_path, below, encrypted):
    file = tmp_path / "file"
    touch(file)
    config = Config(**simplenote("u"), data_dir=file / below, db_encryption=encrypted)
    with pytest.raises(LockedError) as caught:
        refuse_early(config)
    assert caught.value.verdict is Verdict.UNSAFE_PATH
    assert f"mv {file} " in caught.value.resolution_hint


def test_a_name_that_is_too_long_is_refused(tmp_path):
    assert (
        refused(Config(**simplenote("u"), data_dir=tmp_path / ("x" * 300))) is Verdict.UNSAFE_PATH
    )


def test_readable_folder_is_refused(config):
    config.account_dir.chmod(0o750)
    assert refused(config) is Verdict.UNSAFE_PATH
