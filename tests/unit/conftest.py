"""Give the tests of tools and protocol an open account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tool_harness import ToolHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ToolHarness]:
    """An empty account, synced by the test itself."""
    made = ToolHarness(tmp_path)
    yield made
    made.close()
