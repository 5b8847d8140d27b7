"""Test that ``doctor`` tells by how much the clock of a server differs, from the date of its answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.trilium import TriliumSimulator
from support.services import running
from support.whole import Server, environment, run, store_environment

pytestmark = pytest.mark.slow("starts servers and commands")


def trilium(folder: Path, clock: Callable[[], float], stack: ExitStack) -> dict[str, str]:
    service = TriliumSimulator(clock=clock)
    service.write("Ab12cd34Ef56", "Plan", "<p>one</p>")
    service.document.started -= 86_400  # what it tells of its start is no clock
    stack.enter_context(running(service))
    given = {"TRILIUM_URL": service.url, "TRILIUM_TOKEN": service.token}
    return store_environment(folder, "trilium", **given)


def simplenote(folder: Path, clock: Callable[[], float], stack: ExitStack) -> dict[str, str]:
    service = Simulator(clock=clock)
    service.put("n1", content="one")
    stack.enter_context(service.running())
    return environment(service, folder)


@pytest.mark.parametrize("store", [trilium, simplenote], ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    ("shift", "said"),
    [
        (600, ["the store's clock is 10 minutes ahead of that of this computer"]),
        (-600, ["the store's clock is 10 minutes behind that of this computer"]),
        (0, []),
        (20, []),
    ],
)
def test_doctor_warns_of_a_clock_that_is_minutes_off(
    tmp_path: Path, store: Callable[..., dict[str, str]], shift: int, said: list[str]
) -> None:
    def clocks() -> list[str]:
        found = json.loads(run(env, "doctor", "--json").stdout)["findings"]
        assert next(one for one in found if one["name"] == "service")["state"] == "ok"
        clocks = [one for one in found if one["name"] == "clock"]
        assert all(one["state"] == "warn" and one["hint"] for one in clocks)
        return [one["seen"] for one in clocks]

    with ExitStack() as stack:
        env = store(tmp_path, lambda: time.time() + shift, stack)
        assert clocks() == said  # before there is a cache
        with Server(env) as server:
            server.loaded(1)
            assert server.leave() == 0
        assert clocks() == said
