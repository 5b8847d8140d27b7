"""Run each test over the simulated systems, without waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.long import sample
from support.systems import SYSTEMS, WINDOWS, System, hasten


@pytest.fixture(autouse=True)
def _hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)


@pytest.fixture(name="system", params=["macos", *sample("windows", WINDOWS, 1)])
def _system(request: pytest.FixtureRequest) -> Iterator[System]:
    with SYSTEMS[request.param]() as system:
        yield system
