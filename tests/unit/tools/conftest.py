import pytest

from support.tooling import Desk


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    made.close()
