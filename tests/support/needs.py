"""Skip a test if the machine lacks something it needs, or fail it in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

POSIX = pytest.mark.skipif(os.name != "posix", reason="modes, pipes or links as POSIX has them")
"""What a test asserts of Windows stands in ``tests/system`` and ``tests/unit/system``."""


def lacking(reason: str) -> NoReturn:
    """The machine cannot show what the test is about."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def programs(*names: str) -> None:
    """Go on only where these are installed."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        lacking(f"not installed: {', '.join(missing)} (scripts/_packages)")
