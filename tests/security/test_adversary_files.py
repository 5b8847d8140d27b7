"""Test the last lines of defence without the ones before them."""

import os
import subprocess
import sys

import pytest

from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files.locks import ServerLock, key_lock
from mcp_notarium.storage.authorizer import Authorizer
from support.account import folder_of, made

FUNCTION, PERMITTED = 31, 0


@pytest.mark.attack(29)
@pytest.mark.parametrize("name", ["load_extension", "sqlcipher_export", "fts3_tokenizer"])
def test_no_function_that_could_load_or_export_is_permitted(name):
    guard = Authorizer()
    for spelled in (name, name.upper()):
        assert guard.authorize(FUNCTION, None, spelled, None, None) != PERMITTED
        with guard.schema_change():
            assert guard.authorize(FUNCTION, None, spelled, None, None) != PERMITTED
    assert guard.authorize(FUNCTION, None, "length", None, None) == PERMITTED


@pytest.mark.attack(25)
def test_no_lock_is_taken_through_a_link(tmp_path):
    folder = folder_of(made(tmp_path))
    victim = tmp_path / "victim"
    for lock in (folder.server_lock, folder.keys_lock):
        lock.unlink(missing_ok=True)
        lock.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        ServerLock(folder)
    with pytest.raises((OSError, LockedError, NotImplementedError)), key_lock(folder, timeout=0):
        pass
    assert not os.path.lexists(victim)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are POSIX's")
def test_a_command_does_not_wait_for_a_pipe_in_the_place_of_the_key_file(tmp_path):
    config = made(tmp_path)
    key_file = folder_of(config).key_file
    key_file.unlink()
    os.mkfifo(key_file, 0o600)
    done = subprocess.run(
        [sys.executable, "-m", "mcp_notarium", "status"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "SIMPLENOTE_USERNAME": config.account.name,
            "NOTARIUM_DATA_DIR": str(config.data_dir),
            "NOTARIUM_KEYCHAIN": "off",
        },
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == Verdict.UNSAFE_PATH
    assert b"notarium_keys.json` is not a plain file" in done.stdout + done.stderr
