"""What a test needs of the machine: without it the test is skipped, and in CI it fails."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


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
