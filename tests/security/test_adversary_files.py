"""What the last lines of defence do by themselves, without the ones before them."""

import os

import pytest

from mcp_notarium.cache.guard import Guard
from mcp_notarium.errors import LockedError
from mcp_notarium.keys.locks import Presence, key_lock
from support.account import folder_of, made

FUNCTION, PERMITTED = 31, 0


@pytest.mark.parametrize("name", ["load_extension", "sqlcipher_export", "fts3_tokenizer"])
def test_no_function_that_could_load_or_export_is_permitted(name):
    guard = Guard()
    for spelled in (name, name.upper()):
        assert guard.judge(FUNCTION, None, spelled, None, None) != PERMITTED
        with guard.schema_change():
            assert guard.judge(FUNCTION, None, spelled, None, None) != PERMITTED
    assert guard.judge(FUNCTION, None, "length", None, None) == PERMITTED


def test_no_lock_is_taken_through_a_link(tmp_path):
    folder = folder_of(made(tmp_path))
    victim = tmp_path / "victim"
    for lock in (folder.server_lock, folder.keys_lock):
        lock.unlink(missing_ok=True)
        lock.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        Presence(folder)
    with pytest.raises((OSError, LockedError, NotImplementedError)), key_lock(folder, timeout=0):
        pass
    assert not os.path.lexists(victim)
