"""Test that the real server ends with an unfinished write well before the client's SIGTERM."""

import signal
import time
from pathlib import Path

import pytest

from mcp_notarium.protocol.event_loop import SECONDS
from notarium_devtools.simperium import Simulator
from support.talker import call
from support.whole import Server, environment, until

pytestmark = pytest.mark.timeout(90)

TOLERANCE = 0.4
"""Other tests share the machine. Clients send SIGTERM after two seconds."""


def leave_by(server: Server, way: str) -> float:
    """Let the server end in this way; gives the seconds that took."""
    began = time.monotonic()
    if way == "hang up":
        server.hang_up()
    else:
        server.signal(signal.SIGTERM)
    assert server.process.wait(20) == 0
    return time.monotonic() - began


@pytest.mark.parametrize("way", ["hang up", "signal"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_write_without_an_answer_does_not_delay_the_end(
    tmp_path: Path, method: str, way: str
) -> None:
    simulator = Simulator(poll_seconds=5)
    simulator.put("n0", content="note\n")
    with simulator.running(), Server(environment(simulator, tmp_path)) as server:
        server.loaded(1)
        hangs = simulator.faults.delay(10, method=method, path="*/note/i/*")
        server.send(call("w", "save", id="n0", local_version=1, text="note\nchanged\n"))
        until(lambda: hangs.fired > 0)
        assert leave_by(server, way) < SECONDS + TOLERANCE
    assert not list(tmp_path.rglob("*-wal")), "the database was closed, not cut off"


def test_a_running_first_load_does_not_delay_the_end(tmp_path: Path) -> None:
    simulator = Simulator()
    simulator.load({f"n{n}": {"content": f"note {n}\n" * 40} for n in range(4000)})
    with simulator.running(), Server(environment(simulator, tmp_path)) as server:
        server.tool("list", limit=1)
        assert leave_by(server, "hang up") < SECONDS + TOLERANCE
