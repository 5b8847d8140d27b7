"""Test that a change made elsewhere is seen soon, over real HTTP, whatever the server is doing."""

from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.talker import call
from support.whole import Server, environment, until

SOON = 25.0
"""Seconds; the promise is 3, and this machine may be busy. What was wrong took minutes."""


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator(latency=0.01)
    simulator.load(prose(20, seed=4))
    with simulator.running():
        yield simulator


def test_an_outage_is_reported_until_it_is_over_also_after_an_offline_start(
    simulator: Simulator, tmp_path: Path
) -> None:
    with Server(environment(simulator, tmp_path)) as server:
        server.loaded(sum(not note["deleted"] for note in simulator.notes().values()))
        until(lambda: "sync" not in server.tool("list", limit=1))
        simulator.stop_listening()
        until(lambda: "sync" in server.tool("list", limit=1), within=SOON)
        notice = server.tool("list", limit=1)["sync"]
        assert notice["complete"]
        assert notice["note"].endswith(" ago.")
        assert server.leave() == 0
    with Server(environment(simulator, tmp_path)) as server:
        until(lambda: "sync" in server.tool("list", limit=1), within=SOON)
        assert server.tool("list", limit=1)["content"]
        simulator.resume()
        until(lambda: "sync" not in server.tool("list", limit=1), within=SOON)
        assert server.leave() == 0


def test_an_edit_elsewhere_in_the_middle_of_our_own_saves_is_seen_soon(
    simulator: Simulator, tmp_path: Path
) -> None:
    with Server(environment(simulator, tmp_path)) as server:
        server.loaded(sum(not note["deleted"] for note in simulator.notes().values()))
        # The change feed tells of our own saves before they are answered.
        simulator.faults.delay(0.3, after=True, method="POST", path="*/note/i/*", times=100)
        for number in range(7):
            saved = server.tool("save", text=f"note {number}\n")
        note_id, mine = saved["id"], "note 6\nmine\n"
        server.send(call("s", "save", id=note_id, local_version=1, text=mine))
        until(lambda: simulator.note(note_id)["content"] == mine)
        simulator.edit(note_id, content=f"{mine}from the telephone\n")
        assert server.receive()["id"] == "s"
        until(
            lambda: server.tool("list", query="telephone")["total_items"] == 1,
            within=SOON,
        )
        assert server.leave() == 0
