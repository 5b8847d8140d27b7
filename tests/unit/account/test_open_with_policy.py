"""A cache that is brought under new rules at a start remembers what else was done at that start."""

import errno
import os
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import opener
from mcp_notarium.account.opener import open_with_policy
from mcp_notarium.domain.policy import Policy, Visibility
from mcp_notarium.errors import CacheFull
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from support.account import account, folder_of

RULES = Policy(visibility=Visibility(hidden_tags=("private",)))


@pytest.fixture(name="config", params=[Policy(), RULES], ids=["no rules", "rules"])
def _config(tmp_path, request):
    key = Secret("raw:" + "5a" * 32)
    return account(tmp_path, db_key=key, on_unreadable="rebuild", policy=request.param)


@pytest.fixture(name="old")
def _old(config):
    """A cache that was made long ago, when there were no rules."""
    opener.open_cache(replace(config, policy=Policy()), clock=lambda: 1_700_000_000.0).close()
    return config


def test_a_new_cache_is_new(config):
    with closing(open_with_policy(config)) as opened:
        assert opened.created
        assert not opened.rebuilt
        assert Cache(opened.database, config.policy.visibility).notes.visibility.matches_index


def test_a_rebuilt_cache_is_rebuilt_and_says_so(old):
    (generation,) = folder_of(old).generations()
    folder_of(old).database(generation).write_bytes(b"rubbish" * 4096)
    with closing(open_with_policy(old)) as opened:
        assert opened.rebuilt
        assert any("quarantine" in notice for notice in opened.notices)


def test_a_key_file_taken_from_its_copy_is_reported(old):
    folder_of(old).key_file.unlink()
    with closing(open_with_policy(old)) as opened:
        assert len(opened.notices) == 1
        assert not opened.created


def test_a_cache_in_order_has_nothing_to_say(old):
    with closing(open_with_policy(old)) as opened:
        assert (opened.created, opened.rebuilt, opened.notices) == (False, False, ())


@pytest.mark.parametrize("config", [RULES], indirect=True)
def test_a_disk_without_room_for_the_lock_of_the_policy_is_called_full(old, monkeypatch):
    lock, opening = folder_of(old).policy_lock, os.open

    def full(path, *given, **options):
        if os.fspath(path) == os.fspath(lock):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return opening(path, *given, **options)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(CacheFull):
        open_with_policy(old)
