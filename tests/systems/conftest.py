"""Run each test over the simulated systems, without waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.systems import SYSTEMS, System, hasten


@pytest.fixture(autouse=True)
def _hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)


@pytest.fixture(name="system", params=SYSTEMS)
def _system(request: pytest.FixtureRequest) -> Iterator[System]:
    with SYSTEMS[request.param]() as system:
        yield system
