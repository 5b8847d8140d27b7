import pytest

from support.tool_harness import ToolHarness


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def harness(tmp_path):
    made = ToolHarness(tmp_path)
    yield made
    made.close()
