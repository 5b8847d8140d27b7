"""Test that a server writes missing bytecode before it gives up the right to write it."""

import shutil
import sys
from pathlib import Path

import mcp_notarium
from support.talker import HELLO, INITIALIZED, Talker
from support.whole import until


def test_first_server_after_an_installation_leaves_bytecode_for_the_next(account, tmp_path):
    copied = tmp_path / "site"
    shutil.copytree(
        Path(mcp_notarium.__file__).parent,
        copied / "mcp_notarium",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    env = account.environment(PYTHONPATH=str(copied))
    engine = copied / "mcp_notarium/protocol/__pycache__"
    with Talker([sys.executable, "-m", "mcp_notarium"], env=env) as talker:
        talker.send(HELLO, INITIALIZED)
        assert talker.receive()["id"] == HELLO["id"]
        until(lambda: bool(list(engine.glob("sdk_server.*.pyc"))))
        talker.hang_up()
        assert talker.leave()[0] == 0
    assert list((copied / "mcp_notarium/storage/__pycache__").glob("cache.*.pyc"))
    assert list((copied / "mcp_notarium/keys/__pycache__").glob("key_file_store.*.pyc"))
