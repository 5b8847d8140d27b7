import stat

import pytest

from mcp_notarium.files import account_folder, quarantine
from support import needs
from support.account import account, folder_of

NOW = 1_763_683_200.0


@pytest.fixture
def mine(tmp_path):
    made = folder_of(account(tmp_path))
    account_folder.create_folder(made)
    return made


@needs.POSIX
def test_files_move_as_they_are_into_a_folder_named_after_the_time(mine):
    mine.key_file.write_bytes(b"keys")
    target = quarantine.move(mine, [mine.key_file, mine.key_copy], now=NOW)
    assert target == mine.quarantine / "20251121T000000Z"
    assert (target / "notarium_keys.json").read_bytes() == b"keys"
    assert not mine.key_file.exists()
    for path in (target, mine.quarantine):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_nothing_to_move_makes_no_folder(mine):
    assert quarantine.move(mine, [mine.key_file], now=NOW) is None
    assert not mine.quarantine.exists()


@needs.POSIX
def test_a_link_that_leads_nowhere_moves_as_well(mine):
    mine.key_file.symlink_to("nowhere")
    target = quarantine.move_all(mine, now=NOW)
    assert (target / mine.key_file.name).is_symlink()
    assert not mine.key_file.is_symlink()


def test_two_moves_in_one_second_never_meet(mine):
    for content in (b"one", b"two"):
        mine.key_file.write_bytes(content)
        quarantine.move(mine, [mine.key_file], now=NOW)
    kept = {path.read_bytes() for path in mine.quarantine.rglob("notarium_keys.json")}
    assert kept == {b"one", b"two"}


def test_everything_is_ordered_so_that_what_explains_comes_last(mine):
    names = [
        "notarium_cache.0123456789abcdef.sqlite.encrypted",
        "notarium_cache.0123456789abcdef.sqlite.encrypted-wal",
        "notarium_keys.json.bak",
        "notarium_keys.json",
    ]
    for name in names:
        (mine.path / name).touch()
    found = [path.name for path in quarantine.list_files(mine) if path.exists()]
    assert found == names
    assert mine.key_file not in quarantine.list_files(mine, but=[mine.key_file])


def test_the_last_use_is_read_from_the_names(mine):
    assert quarantine.find_last_use(mine) is None
    for now in (NOW, NOW + 60):
        mine.key_file.touch()
        quarantine.move(mine, [mine.key_file], now=now)
    (mine.quarantine / "something else").mkdir()
    assert quarantine.find_last_use(mine) == NOW + 60


@pytest.fixture
def flushed(monkeypatch):
    found = []
    monkeypatch.setattr(quarantine, "sync_folder", found.append)
    return found


def test_every_folder_on_the_way_is_certain_before_anything_is_moved_there(mine, flushed):
    target = quarantine.create_folder(mine, NOW)
    assert flushed == [mine.path, mine.quarantine]
    assert target == mine.quarantine / "20251121T000000Z"


def test_both_folders_are_flushed_when_a_file_has_moved_from_one_to_the_other(mine, flushed):
    mine.key_file.write_bytes(b"damaged")
    target = quarantine.move(mine, [mine.key_file, mine.key_copy], now=NOW)
    assert [path.name for path in target.iterdir()] == [mine.key_file.name]
    assert flushed[-2:] == [target, mine.path]
    assert quarantine.move(mine, [mine.key_file], now=NOW) is None
