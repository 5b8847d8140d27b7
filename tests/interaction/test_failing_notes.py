"""Test that a note that the service cannot return delays no other, and shows nowhere if it is hidden."""

from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support.whole import Server, environment, until

pytestmark = pytest.mark.timeout(120)

FAILING = "*/i/failing*"
SOON = 15.0
"""Seconds; a request that is refused for good is given up after about as many alone."""
POLICY = '[notes]\nhidden_tags = ["private"]\n'


def account(folder: Path) -> Simulator:
    """Two notes, and a policy in the data folder that hides one of them."""
    simulator = Simulator(poll_seconds=1.0)
    simulator.put("failing", content="failing\n", tags=["private"])
    simulator.put("well", content="well\n")
    place = folder / "cache"
    place.mkdir(mode=0o700)
    (place / "policy.toml").touch(mode=0o600)
    (place / "policy.toml").write_text(POLICY)
    return simulator


def fail_note(simulator: Simulator, failure: int | None) -> None:
    """From now on the note is answered with a status or (None) not at all."""
    if failure is None:
        simulator.faults.delay(25.0, method="GET", path=FAILING, times=10_000)
    else:
        simulator.faults.status(failure, method="GET", path=FAILING, times=10_000)


@pytest.mark.parametrize("failure", [500, 403, None], ids=["500", "403", "silence"])
def test_other_notes_arrive_while_the_service_cannot_give_a_hidden_one(
    tmp_path: Path, failure: int | None
) -> None:
    simulator = account(tmp_path)
    with (
        simulator.running(),
        Server(environment(simulator, tmp_path, API_TIMEOUT_SECONDS="20")) as server,
    ):
        server.loaded(1)
        fail_note(simulator, failure)
        asked = simulator.faults.call(lambda: None, method="GET", path=FAILING, times=10_000)
        # The feed tells what changed in a text that is not here: the note must be asked for.
        simulator.edit("failing", content="failing again\n")
        until(lambda: asked.fired > 0)
        for number in range(3):
            text = f"changed {number}\n"
            simulator.edit("well", content=text)
            until(lambda text=text: server.tool("get", id="well")["text"] == text, within=SOON)
        assert "sync" not in server.tool("list")
        stats = server.tool("manage", action="get_stats")["stats"]
        health = {name: stats[name] for name in ("db_sync_error_count", "db_sync_status")}
        assert health == {"db_sync_error_count": 0, "db_sync_status": "idle"}
        assert not stats["needs_login"]
        assert not stats.get("sync_last_error")
        server.leave()
        assert "sync.cycle_failed" not in server.errors()
