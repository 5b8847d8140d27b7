import os

import pytest

from notarium_devtools.simperium import Simulator

KEY = "raw:" + "5a" * 32
"""A raw key: opening with it costs no stretching."""


class Account:
    """A note service on loopback and the environment a client would give a server for it."""

    def __init__(self, simulator, folder):
        self.simulator = simulator
        self.folder = folder

    def environment(self, **changes):
        found = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        found |= {
            "SIMPLENOTE_USERNAME": self.simulator.username,
            "SIMPLENOTE_PASSWORD": self.simulator.password,
            "DB_ENCRYPTION_KEY": KEY,
            "NOTARIUM_DATA_DIR": str(self.folder),
            "NOTARIUM_KEYCHAIN": "off",
            "SIMPERIUM_API_URL": self.simulator.api_url,
            "SIMPERIUM_AUTH_URL": self.simulator.auth_url,
            "SIMPLENOTE_APP_URL": self.simulator.app_url,
            "SIMPERIUM_API_KEY": self.simulator.api_key,
            "LOG_LEVEL": "warn",
        }
        found |= {name: value for name, value in changes.items() if value is not None}
        return {name: value for name, value in found.items() if changes.get(name, "") is not None}

    def files(self):
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def account(tmp_path):
    simulator = Simulator()
    simulator.put("shopping", content="Shopping\n- milk\n- bread\n", tags=["home"])
    simulator.put("diary", content="Diary\nToday I saw a lighthouse.\n", tags=[])
    with simulator.running():
        yield Account(simulator, tmp_path / "notes")
