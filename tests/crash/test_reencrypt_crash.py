"""Kill ``rotate-key --reencrypt`` at every step and at random moments.

One key opens, all notes are there, the retry works. The long form has a cache of about 100 MB.
"""

import random
import shutil
import time
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import generation, reencryption
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.secret import Secret
from mcp_notarium.storage import integrity, table_copy
from mcp_notarium.storage.cache import Cache
from support import account_child, corpus
from support.account import OTHER, PASSPHRASE, account, folder_of, made, open_cheaply
from support.cache_room import store
from support.cheap_costs import CHEAPEST
from support.long import LONG, dice
from support.stories import KILLED, run_killed

THIRD = Secret("seven quiet ladders in the snow")
TRIALS = 20 if LONG else 8
NOTES = 6_000 if LONG else 60
BEFORE = ["alone", "prepare", "create", "copy", "verify"]
AFTER = ["switch", "write_copy", "sync_copy", "switch_copy", "remove", "anchor"]


def filled(folder):
    config = made(folder)
    with closing(open_cheaply(config)) as opened:
        opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', 'kept')")
    return config


def mark(config):
    """What opens, by asking for the mark."""
    try:
        with closing(open_cheaply(config)) as opened:
            (value,) = opened.database.row("SELECT value FROM sync_metadata WHERE key = 'mark'")
            return value
    except LockedError as error:
        if error.verdict is not Verdict.WRONG_KEY:
            raise
        return None


@pytest.mark.parametrize("step", [*BEFORE, *AFTER])
def test_killed_at_any_step_exactly_one_key_opens_and_the_retry_works(tmp_path, step):
    config = filled(tmp_path)
    (before,) = folder_of(config).generations()
    other = replace(config, db_key=Secret(OTHER))
    assert run_killed(account_child.reencrypt, tmp_path, step) == KILLED
    assert (mark(config), mark(other)) == ((None, "kept") if step in AFTER else ("kept", None))

    again(other if step in AFTER else config)
    assert mark(replace(config, db_key=THIRD)) == "kept"
    assert mark(config) is mark(other) is None
    require_revoked(folder_of(config), before)
    require_tidy(folder_of(config))


def again(config):
    reencryption.reencrypt(config, new=THIRD, parameters=CHEAPEST)


def require_revoked(folder, generation):
    """Old copies of the key file find nothing that they open, not in the quarantine either."""
    assert not list(folder.path.rglob(f"*{generation}*"))


def require_tidy(folder):
    assert len(folder.generations()) == 1
    assert len(folder.encrypted_files()) == 1
    assert not folder.prepared_key_file.exists()
    assert not list(folder.path.glob(".*.tmp"))


def content(config):
    """A digest of everything, with the key that opens; None if it does not."""
    if mark(config) is None:
        return None
    with closing(open_cheaply(config)) as opened:
        assert integrity.check(opened.database) == ()
        return table_copy.content_digest(opened.database, without=generation.BINDING_KEYS)


@pytest.mark.attack(17)
@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.slow("kills and repeats a command many times")
def test_killed_at_any_moment_exactly_one_key_opens_and_the_retry_works(tmp_path):
    config = filled(tmp_path / "origin")
    with closing(open_cheaply(config)) as opened:
        for start in range(0, NOTES, 1_000):
            notes = (corpus.revision(n, random.Random(n)) for n in range(start, NOTES)[:1_000])
            store(Cache(opened.database), notes)
    there, moments = content(config), dice("reencrypt")
    shutil.copytree(tmp_path / "origin", tmp_path / "timed")
    began = time.monotonic()
    assert run_killed(account_child.reencrypt, tmp_path / "timed", seconds=600) == 0
    took = time.monotonic() - began
    for number in range(TRIALS):
        home = tmp_path / f"home-{number}"
        shutil.copytree(tmp_path / "origin", home)
        run_killed(account_child.reencrypt, home, seconds=moments.uniform(0, took * 1.1))
        old, new = (account(home, db_key=Secret(key)) for key in (PASSPHRASE, OTHER))
        assert sorted([content(old), content(new)], key=str) == sorted([there, None], key=str)
        again(new if mark(old) is None else old)
        assert content(replace(old, db_key=THIRD)) == there
        assert mark(old) is mark(new) is None
        require_tidy(folder_of(old))
        shutil.rmtree(home)


def test_when_it_is_not_killed_it_ends_well(tmp_path):
    config = filled(tmp_path)
    assert run_killed(account_child.reencrypt, tmp_path) == 0
    assert mark(account(tmp_path, db_key=Secret(OTHER))) == "kept"
    assert mark(account(tmp_path, db_key=Secret(PASSPHRASE))) is None
    assert len(folder_of(config).generations()) == 1
