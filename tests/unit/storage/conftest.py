import pytest

from support.cache_room import KEY, make


@pytest.fixture
def cache(tmp_path):
    made = make(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=[KEY, None], ids=["encrypted", "plain"])
def either(request, tmp_path):
    made = make(tmp_path, key=request.param)
    yield made
    made.close()
