"""Decide how many cases run: hundreds in the long form, otherwise a sample drawn from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")

SHARED = (
    "tests/bench/", "tests/cli/", "tests/crash/", "tests/explorer/test_breaks", "tests/explorer/test_orders",
    "tests/interaction/", "tests/property/", "tests/security/", "tests/simulated/", "tests/soak/", "tests/supply/",
    "tests/unit/account/", "tests/unit/stores/",
)  # fmt: skip
"""What takes most of the time of all tests: folders whose tests start the program, and others as dear."""

LONG = os.environ.get("NOTARIUM_LONG_TESTS") == "1"
SEED = os.environ.setdefault("NOTARIUM_TEST_SEED", f"{datetime.now(UTC):%Y-%m-%d}")
"""The day, unless told; set in the environment, so that all processes of a run draw the same."""


_PART = os.environ.get("NOTARIUM_TEST_PART", "all")


def is_left_out(name: str) -> bool:
    """Tell whether another part of a run has this test, of all its cases; ``./scripts/test`` names the part, as 1/4."""
    if _PART == "all" or not name.startswith(SHARED):
        return False
    part, parts = map(int, _PART.split("/"))
    return dice(name.partition("[")[0]).randrange(parts) != part - 1


def dice(name: str) -> random.Random:
    """A source of chance that gives the same for the same name and seed."""
    return random.Random(f"{SEED} {name}")


def sample(name: str, cases: Sequence[T], count: int, *, long: int | None = None) -> list[T]:
    """Draw so many of the cases, in their order; all of them in the long form, or ``long``."""
    if LONG:
        count = len(cases) if long is None else long
    if count >= len(cases):
        return list(cases)
    return [cases[at] for at in sorted(dice(name).sample(range(len(cases)), count))]
