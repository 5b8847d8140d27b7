"""Test that files are private under any umask, and that planted files are not followed or used."""

import os
import stat
from contextlib import closing

import pytest

from mcp_notarium.account import inspection, purge, user_key_rotation
from mcp_notarium.account.startup_outcomes import Locked
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files import private_files
from mcp_notarium.secret import Secret
from support.account import OTHER, account, folder_of, made, open_cheaply
from support.cheap_costs import CHEAPEST


@pytest.fixture
def open_umask():
    old = os.umask(0)
    yield
    os.umask(old)


def modes(folder):
    return {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.attack(28)
@pytest.mark.usefixtures("open_umask")
def test_with_an_open_umask_every_file_is_still_private(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('a', 'b')")
        assert set(modes(config.data_dir).values()) == {0o600}
    user_key_rotation.rotate_passphrase(config, new=Secret(OTHER), parameters=CHEAPEST)
    assert set(modes(config.data_dir).values()) == {0o600}
    purge.reset_account(config)
    assert set(modes(config.data_dir).values()) == {0o600}
    folders = [config.data_dir, *(path for path in config.data_dir.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


@pytest.mark.usefixtures("open_umask")
def test_with_an_open_umask_a_plain_cache_is_still_private(tmp_path):
    config = account(tmp_path, db_encryption=False)
    with closing(open_cheaply(config)):
        assert set(modes(config.data_dir).values()) == {0o600}


LINKS = [
    "notarium_keys.json",
    "notarium_keys.json.bak",
    "notarium_keys.json.new",
    "keys.lock",
    "server.lock",
    "quarantine",
]


@pytest.mark.attack(25)
@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("dangling", [True, False])
def test_a_link_planted_for_any_file_is_refused_and_what_it_points_to_stays(
    tmp_path, name, dangling
):
    config = made(tmp_path)
    target = tmp_path / "target"
    if not dangling:
        target.write_bytes(b"precious")
    path = config.account_dir / name
    if path.exists():
        path.rename(tmp_path / "moved")
    path.symlink_to(target)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.UNSAFE_PATH
    assert refused.value.exit_code == 20
    assert target.exists() is not dangling
    if not dangling:
        assert target.read_bytes() == b"precious"


@pytest.mark.attack(25)
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_link_planted_for_the_database_is_refused(tmp_path, suffix):
    config = made(tmp_path)
    (generation,) = folder_of(config).generations()
    database = folder_of(config).database(generation)
    path = database.with_name(database.name + suffix)
    if path.exists():
        path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.UNSAFE_PATH


@pytest.mark.attack(25)
def test_a_link_planted_before_the_first_start_is_refused(tmp_path):
    config = account(tmp_path)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    config.data_dir.mkdir(mode=0o700)
    config.account_dir.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.UNSAFE_PATH
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.attack(25)
@pytest.mark.parametrize("name", ["quarantine", "copies", "drafts"])
def test_a_link_in_the_place_of_a_folder_of_ours_is_refused(tmp_path, name):
    config = made(tmp_path)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (config.account_dir / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.UNSAFE_PATH
    assert f"`{name}` is a symbolic link" in str(refused.value)


@pytest.mark.parametrize("action", ["rotate", "set aside", "verdict"])
def test_every_other_entry_point_refuses_an_unsafe_folder_too(tmp_path, action):
    config = made(tmp_path)
    config.account_dir.chmod(0o755)
    if action == "verdict":
        decision = inspection.verdict(config)
        assert isinstance(decision, Locked)
        assert decision.verdict is Verdict.UNSAFE_PATH
        assert "chmod 700" in decision.hint
        return
    actions = {
        "rotate": lambda: user_key_rotation.rotate_passphrase(config, new=Secret(OTHER)),
        "set aside": lambda: purge.reset_account(config),
    }
    with pytest.raises(LockedError) as refused:
        actions[action]()
    assert refused.value.verdict is Verdict.UNSAFE_PATH
    assert "chmod 700" in refused.value.resolution_hint


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o666, 0o601])
def test_a_key_file_that_others_can_read_or_change_is_refused(tmp_path, mode):
    config = made(tmp_path)
    folder_of(config).key_file.chmod(mode)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.UNSAFE_PATH
    assert "chmod 600" in refused.value.resolution_hint


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    config = made(tmp_path)
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.UNSAFE_PATH


@pytest.mark.attack(27)
def test_a_temporary_name_that_is_taken_is_never_written_through(tmp_path, monkeypatch):
    names = iter([b"taken!", b"taken!", b"free!!"])
    monkeypatch.setattr(os, "urandom", lambda _size: next(names))
    (tmp_path / f".file.{b'taken!'.hex()}.tmp").symlink_to(tmp_path / "victim")
    private_files.replace_private(tmp_path / "file", b"content")
    assert not (tmp_path / "victim").exists()
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.attack(27)
def test_when_all_temporary_names_are_taken_the_old_file_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda _size: b"taken!")
    (tmp_path / f".file.{b'taken!'.hex()}.tmp").touch()
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        private_files.replace_private(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_generation_in_the_key_file_cannot_lead_out_of_the_folder(tmp_path):
    # The name is 16 hex digits or the key file is refused, see the layout; this is the last step.
    assert folder_of(account(tmp_path)).database("0" * 16).parent == account(tmp_path).account_dir


def test_no_key_is_in_any_file_error_or_notice(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        said = repr(opened) + "".join(opened.notices)
        data_key = opened.data_key.secret().reveal()
        database_key = opened.data_key.subkey("db-enc").reveal()
    written = b"".join(p.read_bytes() for p in config.account_dir.iterdir() if p.is_file())
    secrets = [b"violet kettle", data_key, database_key]
    for secret in secrets:
        for form in (secret, secret.hex().encode()):
            assert form not in written
            assert form.decode("latin-1") not in said
