"""What a confined server may still read, where there is no working folder or no home."""

from pathlib import Path

import mcp_notarium
from mcp_notarium.config import Config
from mcp_notarium.sandbox import confinement
from support.simplenote_settings import simplenote


def places(folder):
    found = confinement.find_allowed_access(
        Config(**simplenote("ada@example.org"), data_dir=folder)
    ).read
    assert Path(mcp_notarium.__file__).resolve().parent in found
    return found


def test_a_server_that_opens_no_account_has_no_access_to_the_data_folder(tmp_path):
    config = Config(**simplenote(), data_dir=tmp_path)
    assert tmp_path in confinement.find_allowed_access(config).keep
    assert tmp_path not in confinement.find_allowed_access(config, opens=False).keep


def test_a_working_folder_that_is_gone_keeps_nobody_from_being_confined(tmp_path, monkeypatch):
    before = places(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert Path("/") not in places(tmp_path)
    assert set(before) <= set(places(tmp_path))


def test_a_user_without_a_home_is_confined_too(tmp_path, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert Path("/") not in places(tmp_path)
