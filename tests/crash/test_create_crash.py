"""Kill a first start or a rebuild at any step: the old cache stays, or none, and never a broken one."""

from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.errors import LockedError
from mcp_notarium.secret import Secret
from support import account_child
from support.account import OTHER, account, fingerprint, folder_of, open_cheaply
from support.stories import KILLED, run_killed

PREPARING = [f"{step}_prepared" for step in ("write", "sync", "verify", "switch", "sync_folder")]
COMMITTED = [
    "switch",
    *(f"{step}_copy" for step in ("write", "sync", "verify", "switch", "sync_folder")),
]
NOW = 1_763_683_200.0


@pytest.mark.parametrize("step", [*PREPARING, "database", "clear", *COMMITTED])
def test_a_first_start_killed_at_any_step_is_followed_by_a_good_one(tmp_path, step):
    config = account(tmp_path)
    assert run_killed(account_child.create, tmp_path, step) == KILLED
    with closing(open_cheaply(config)) as opened:
        # Behind the commit point the cache exists; before it nothing was there to be kept.
        assert opened.created is (step not in COMMITTED)
        assert folder_of(config).generations() == (opened.anchor.generation,)
        generation = opened.anchor.generation
    folder = folder_of(config)
    assert folder.key_file.read_bytes() == folder.key_copy.read_bytes()
    assert not folder.prepared_key_file.exists()
    assert not list(config.account_dir.glob("*.tmp"))
    assert not list(config.account_dir.glob(".*.tmp"))
    with closing(open_cheaply(config)) as again:
        assert again.anchor.generation == generation


def test_every_step_of_a_first_start_is_tried_above(tmp_path):
    steps = []
    open_cheaply(account(tmp_path), at=steps.append).close()
    assert steps == [*PREPARING, "database", "clear", *COMMITTED]


@pytest.mark.parametrize("step", [PREPARING[-1], "database"])
def test_another_key_after_a_killed_first_start_is_as_good_as_the_first(tmp_path, step):
    run_killed(account_child.create, tmp_path, step)
    with closing(open_cheaply(account(tmp_path, db_key=Secret(OTHER)))) as opened:
        assert opened.created


@pytest.mark.parametrize("step", ["database", "switch"])
def test_a_first_plain_start_killed_at_any_step_is_followed_by_a_good_one(tmp_path, step):
    config = account(tmp_path, db_encryption=False)
    assert run_killed(account_child.create_plain, tmp_path, step) == KILLED
    with closing(open_cheaply(config)) as opened:
        assert opened.created is (step == "database")
    assert not folder_of(config).unfinished_plain_database.exists()


@pytest.mark.parametrize("step", [*PREPARING, "database", "clear", *COMMITTED])
def test_a_killed_rebuild_loses_no_byte_of_the_old_cache_and_is_finished_later(tmp_path, step):
    config = account(tmp_path)
    open_cheaply(config, clock=lambda: NOW).close()
    old = fingerprint(config.account_dir)
    assert run_killed(account_child.rebuild, tmp_path, step) == KILLED
    kept = {name.rpartition("/")[2]: digest for name, digest in fingerprint(tmp_path).items()}
    everywhere = set(fingerprint(tmp_path).values())
    assert set(old.values()) <= everywhere, kept
    rebuilt = replace(config, db_key=Secret(OTHER), on_unreadable="rebuild")
    with closing(open_cheaply(rebuilt)) as opened:
        assert folder_of(config).generations() == (opened.anchor.generation,)
    assert set(old.values()) <= set(fingerprint(tmp_path).values())


@pytest.mark.parametrize("step", [*PREPARING, "database"])
def test_before_its_commit_point_a_killed_rebuild_leaves_the_old_cache_to_its_own_key(
    tmp_path, step
):
    config = account(tmp_path)
    with closing(open_cheaply(config, clock=lambda: NOW)) as first:
        generation = first.anchor.generation
    assert run_killed(account_child.rebuild, tmp_path, step) == KILLED
    with closing(open_cheaply(config)) as opened:
        assert opened.anchor.generation == generation
        assert folder_of(config).generations() == (generation,)
    assert not folder_of(config).prepared_key_file.exists()


def test_a_killed_rebuild_opens_with_no_third_key(tmp_path):
    config = account(tmp_path)
    open_cheaply(config, clock=lambda: NOW).close()
    run_killed(account_child.rebuild, tmp_path, "switch")
    with pytest.raises(LockedError):
        open_cheaply(config)
