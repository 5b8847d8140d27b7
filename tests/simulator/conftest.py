"""Give a running simulator, and a bare client that knows only addresses and headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from notarium_devtools.simperium import Simulator, whole_note

NOW = 1_700_000_000.0


class Wire:
    """Speaks to one bucket as the first account."""

    def __init__(self, sim: Simulator, client: httpx.Client) -> None:
        self.sim = sim
        self.client = client

    def ask(self, method: str, path: str, *, bucket: str = "note", **options: Any):
        headers = {"X-Simperium-Token": self.sim.token} | options.pop("headers", {})
        url = f"{self.sim.api_url}/{self.sim.app_id}/{bucket}/{path}"
        return self.client.request(method, url, headers=headers, **options)

    def get(self, path: str, **options: Any):
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any):
        return self.ask("POST", path, json=body, **options)

    def delete(self, path: str, **options: Any):
        return self.ask("DELETE", path, **options)

    def cv(self) -> str:
        return self.get("index?limit=1").json()["current"]

    def changes(self, cv: str) -> list[dict[str, Any]]:
        answer = self.get(f"changes?cv={cv}&wait=0")
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator(publish_delay=None).running() as simulator:
        yield simulator


@pytest.fixture
def wire(sim: Simulator) -> Iterator[Wire]:
    with httpx.Client(trust_env=False, verify=False, timeout=10) as client:
        yield Wire(sim, client)


@pytest.fixture
def note():
    """A whole note object with the given fields."""
    return lambda content="text", **fields: whole_note({"content": content, **fields}, now=NOW)
