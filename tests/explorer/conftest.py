"""Leave the explorer out where it cannot take away what a killed process leaves."""

import sys
from pathlib import Path

import pytest

WHY = "Python 3.11 does not let go of the asynchronous generators of a task that is taken away"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder before Python 3.12."""
    if sys.version_info < (3, 12):
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=WHY))
