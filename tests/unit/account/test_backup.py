"""A backup that does not fit on the disk or cannot be read back leaves nothing behind, and one is restored in place."""

from contextlib import closing
from types import SimpleNamespace

import pytest

from mcp_notarium.account import backup, database_copies
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.errors import CacheDamaged, CacheFull, ConfigError
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.local.tables import TABLES
from support.account import BOUNDS, PASSPHRASE, account, open_cheaply
from support.local_notebook import OtherProcess, local

NOW = 1_763_683_200.0
GIVEN = ChangeOptions(old=Secret(PASSPHRASE), bounds=BOUNDS, clock=lambda: NOW + 1000, timeout=0.1)


@pytest.fixture
def config(tmp_path):
    return account(tmp_path, **local())


def put(config, text):
    with closing(open_cheaply(config)) as opened:
        OtherProcess(Cache(opened.database)).put("n", text)


def text(config):
    with closing(open_cheaply(config)) as opened:
        return OtherProcess(Cache(opened.database)).get("n").content.text


def back_up(config, path):
    with closing(open_cheaply(config)) as opened:
        return backup.back_up(opened, TABLES, path, now=NOW, bounds=BOUNDS)


def test_a_backup_is_restored_over_later_changes_and_leaves_no_copy(config, tmp_path):
    put(config, "one")
    back_up(config, tmp_path / "b")
    put(config, "two")
    done = backup.restore(config, tmp_path / "b", options=GIVEN)
    assert text(config) == "one"
    assert done.result.quarantine is not None
    assert not done.copy.path.exists()


def test_a_backup_that_cannot_be_made_leaves_nothing(config, tmp_path, monkeypatch):
    put(config, "one")
    before = {*tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(backup.shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
        with pytest.raises(CacheFull):
            back_up(config, tmp_path / "b")

    def damaged(*_):
        raise CacheDamaged("a page of the copy is not authentic")

    with monkeypatch.context() as patch:
        patch.setattr(database_copies, "require_authentic", damaged)
        with pytest.raises(CacheDamaged):
            back_up(config, tmp_path / "b")
    with pytest.raises(ConfigError):
        back_up(config, tmp_path / "missing" / "b")
    assert {*tmp_path.iterdir()} == before
