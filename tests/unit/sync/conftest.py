"""One store and clients of it, closed at the end."""

import pytest

from support.memory_store import MemoryStore
from support.sync_rig import Client, FlyingTime, quick_folder


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def time():
    return FlyingTime()


@pytest.fixture
def clients(store, time):
    """Makes clients: they share one cache unless another name is given."""
    made = []
    with quick_folder() as place:

        def make(name="one", **options):
            folder = place / name
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
