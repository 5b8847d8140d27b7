"""``rotate-key --reencrypt`` killed at every step: one key opens, all notes, the retry works."""

from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.crypto import kdf
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.keys import reencrypt
from mcp_notarium.keys.changing import Given
from mcp_notarium.secret import Secret
from support import account_child
from support.account import BOUNDS, OTHER, PASSPHRASE, account, folder_of, made, open_cheaply

BEFORE = ["alone", "prepare", "create", "copy", "verify"]
AFTER = ["switch", "write_copy", "sync_copy", "switch_copy", "remove"]


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
    other = replace(config, db_key=Secret(OTHER))
    assert account_child.run(tmp_path, "reencrypt", step) == account_child.KILLED
    assert (mark(config), mark(other)) == ((None, "kept") if step in AFTER else ("kept", None))

    again = other if step in AFTER else config
    third = Secret("seven quiet ladders in the snow")
    reencrypt.reencrypt(again, new=third, parameters=kdf.CHEAPEST, given=Given(bounds=BOUNDS))
    assert mark(replace(config, db_key=third)) == "kept"
    assert mark(config) is mark(other) is None
    folder = folder_of(config)
    assert len(folder.generations()) == 1
    assert not folder.prepared_key_file.exists()
    assert not list(folder.path.glob(".*.tmp"))


def test_when_it_is_not_killed_it_ends_well(tmp_path):
    config = filled(tmp_path)
    assert account_child.run(tmp_path, "reencrypt") == 0
    assert mark(account(tmp_path, db_key=Secret(OTHER))) == "kept"
    assert mark(account(tmp_path, db_key=Secret(PASSPHRASE))) is None
    assert len(folder_of(config).generations()) == 1
