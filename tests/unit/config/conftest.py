import pytest

from mcp_notarium.config import settings


@pytest.fixture(autouse=True)
def _data_folder(monkeypatch, tmp_path):
    """A folder for application data, on every platform: only Linux takes it from the environment."""
    monkeypatch.setattr(settings, "default_data_dir", lambda _environ: tmp_path / "mcp-notarium")
