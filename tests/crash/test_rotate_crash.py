"""Kill a change of passphrase at any step: exactly one passphrase opens, and a retry works."""

import pytest

from mcp_notarium.account import user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import key_file_codec
from mcp_notarium.secret import Secret
from support import account_child
from support.account import OTHER, PASSPHRASE, account, fingerprint, folder_of, made, opens
from support.cheap_costs import CHEAPEST
from support.keyfiles import REWRAP
from support.stories import KILLED, run_killed

THIRD = "two slow trains cross the valley"


def temporary_files(config):
    return [path.name for path in config.account_dir.iterdir() if path.name.endswith(".tmp")]


def rotate_to_third(config, old):
    options = ChangeOptions(old=Secret(old))
    return user_key_rotation.rotate_passphrase(
        config, new=Secret(THIRD), parameters=CHEAPEST, options=options
    )


@pytest.mark.attack(17)
@pytest.mark.parametrize("row", REWRAP, ids=lambda row: row.step)
def test_killed_after_any_step_exactly_the_passphrase_of_the_table_opens(tmp_path, row):
    config = made(tmp_path)
    before = fingerprint(config.account_dir)
    assert run_killed(account_child.rotate, tmp_path, row.step) == KILLED
    if row.opens == "old":
        after = fingerprint(config.account_dir)
        assert {name: after.get(name) for name in before} == before
    assert opens(config, Secret(PASSPHRASE)) is (row.opens == "old")
    assert opens(config, Secret(OTHER)) is (row.opens == "new")
    assert temporary_files(config) == []
    folder = folder_of(config)
    assert folder.key_copy.read_bytes() == folder.key_file.read_bytes()


@pytest.mark.parametrize("row", REWRAP, ids=lambda row: row.step)
def test_killed_after_any_step_the_next_rotation_works_and_removes_old_files(tmp_path, row):
    config = made(tmp_path)
    assert run_killed(account_child.rotate, tmp_path, row.step) == KILLED
    done = rotate_to_third(config, PASSPHRASE if row.opens == "old" else OTHER)
    assert done.proven
    assert temporary_files(config) == []
    assert [opens(config, Secret(one)) for one in (PASSPHRASE, OTHER, THIRD)] == [
        False,
        False,
        True,
    ]
    for path in (folder_of(config).key_file, folder_of(config).key_copy):
        keyfile = key_file_codec.parse(path.read_bytes())
        assert len(keyfile.slots) == 1
        assert keyfile.sequence == done.sequence


def test_a_rotation_that_is_not_killed_ends_well(tmp_path):
    config = made(tmp_path)
    assert run_killed(account_child.rotate, tmp_path) == 0
    assert opens(account(tmp_path), Secret(OTHER))
    assert not opens(config, Secret(PASSPHRASE))
