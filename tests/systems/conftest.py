"""Run each test over the simulated systems, and check that the rules act on which it rests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.systems import SYSTEMS, System, hasten

FIRED: dict[str, set[str]] = {}


@pytest.fixture(autouse=True)
def _hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)


@pytest.fixture(name="rules")
def _rules(request: pytest.FixtureRequest) -> Iterator[set[str]]:
    """Collect the rules that act. Each that the test is marked with must be among them."""
    fired: set[str] = set()
    yield fired
    marks = request.node.iter_markers("rule")
    missing = {name for mark in marks for name in mark.args} - fired
    assert not missing, f"the test does not rest on {missing}"


@pytest.fixture(name="system", params=SYSTEMS)
def _system(request: pytest.FixtureRequest) -> Iterator[System]:
    with SYSTEMS[request.param]() as system:
        yield system
