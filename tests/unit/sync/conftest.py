"""One store and clients of it, closed at the end."""

import pytest

from support.memory_store import MemoryStore
from support.sync_rig import Client, FlyingTime


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def time():
    return FlyingTime()


@pytest.fixture
def clients(tmp_path, store, time):
    """Makes clients: each with a cache of its own unless a folder name is shared."""
    made = []

    def make(name="one", **options):
        folder = tmp_path / name
        folder.mkdir(mode=0o700, exist_ok=True)
        client = Client(folder, store, time=time, **options)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(clients):
    return clients()
