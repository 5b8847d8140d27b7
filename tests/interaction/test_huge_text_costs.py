"""Test what calls on a vault's note of 4 MiB cost a started server: its processor time, as the system counts it.

The floor is what nobody can save: to read the file, to check and split it, and to hash it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.long import sample
from support.whole import Server, store_environment

pytestmark = [
    pytest.mark.slow("a server with a note of 4 MiB"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look at"),
]

SIZE = 4 << 20
TEXTS = {"newlines": "\n" * SIZE, "one line": "y" * SIZE}
MOST_SECONDS = 0.5
FLOORS = 5
"""Limit in units of :func:`floor`, which is some 0.12 s here; either limit is enough, for a machine may be slow.

Before, a tag cost 0.56 s on one line, and 0.87 s on four million.
"""


def floor() -> float:
    """Seconds of processor time to read such a text, split it, join it and hash it."""
    began = time.process_time()
    data = ("\n" * SIZE).encode()
    for _ in range(8):
        hashlib.sha256(data).hexdigest()
    lines = [line + "\n" for line in data.decode().split("\n")]
    assert len("".join(lines)) == SIZE + 1
    return time.process_time() - began


class Meter:
    """A started server that tells what each call has cost it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.dear: dict[str, tuple[float, float]] = {}

    def call(self, label: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        before = self.used()
        result = self.server.result(tool, **arguments)
        seconds = self.used() - before
        if seconds > MOST_SECONDS and seconds > FLOORS * (least := max(floor(), floor())):
            self.dear[label] = seconds, least
        return result

    def used(self) -> float:
        fields = Path(f"/proc/{self.server.process.pid}/stat").read_text().rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(name="server")
def _server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Big.md").write_text(TEXTS[request.param])
    with Server(store_environment(tmp_path, "vault", VAULT_PATH=str(vault))) as server:
        server.loaded(1)
        server.tool("manage", action="history", id="Big.md")  # what is imported at the first call
        yield server
        assert server.leave() == 0


@pytest.mark.timeout(180)
@pytest.mark.parametrize("server", sample("costs of huge texts", list(TEXTS), 1), indirect=True)
def test_calls_on_four_mebibytes_cost_a_started_server_less_than_half_a_second(
    server: Server,
) -> None:
    meter = Meter(server)

    def change(label: str, **arguments: Any) -> None:
        version = server.tool("get", id="Big.md")["local_version"]
        result = meter.call(label, "save", id="Big.md", local_version=version, **arguments)
        assert not result.get("isError"), (label, result)

    assert not meter.call("get", "get", id="Big.md").get("isError")
    assert not meter.call("lines", "get", id="Big.md", range_line_start=1).get("isError")
    for label in ("append", "prepend"):
        assert meter.call(label, "save", id="Big.md", **{label: "x"})["isError"], "it may not grow"
    assert meter.call("find", "save", id="Big.md", find="nowhere", replace="x")["isError"]
    change("tag", tags=["one"])
    change("another tag", tags=["one", "two"])
    change("no tag", tags=[])
    change("trash", trash=True)
    change("back", trash=False)
    meter.call("history", "manage", action="history", id="Big.md")
    assert meter.dear == {}
