"""Test notes whose id no URL can hold: all other notes arrive, in every way."""

from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support.whole import Server, environment, run, until

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("odd", ["..", ".", "x" * 257], ids=["dots", "dot", "long"])
def test_a_note_that_cannot_be_requested_delays_no_other(tmp_path: Path, odd: str) -> None:
    simulator = Simulator(poll_seconds=1.0)
    simulator.put("n0", content="normal\n")
    simulator.put(odd, content="odd\n")
    with simulator.running():
        env = environment(simulator, tmp_path)
        with Server(env) as server:
            server.loaded(1)
            # The feed tells of the odd one, and of a normal one behind it.
            simulator.edit(odd, content="odd again\n")
            simulator.put("n1", content="behind it\n")
            server.loaded(2)
            simulator.edit(odd, content="odd once more\n")
            assert "sync" not in server.tool("list")
            stats = server.tool("manage", action="get_stats")["stats"]
            assert (stats["sync_left_out"], stats["db_sync_error_count"]) == (1, 0)
            # A new full listing, and then a sweep, because the service forgets the cursor.
            server.tool("manage", action="reset_cache", confirm=True)
            server.loaded(2)
            lost = simulator.faults.status(404, path="*/note/changes", times=1)
            simulator.put("n2", content="ends an open poll\n")  # the next one meets the fault
            until(lambda: lost.fired == 1)
            simulator.put("n3", content="after the sweep\n")
            server.loaded(4)
            until(lambda: "sync" not in server.tool("list"))
            stats = server.tool("manage", action="get_stats")["stats"]
            assert (stats["sync_left_out"], stats["db_sync_error_count"]) == (1, 0)
            assert server.leave() == 0
            assert server.errors().count("sync.notes_left_out") == 1
            assert "xxx" not in server.errors()
        assert "1 note has no usable id" in run(env, "doctor").stdout


@pytest.mark.parametrize("text", [None, 7, ["a"]], ids=["null", "number", "list"])
def test_a_note_without_a_text_is_counted_among_those_left_out(
    tmp_path: Path, text: object
) -> None:
    simulator = Simulator(poll_seconds=1.0)
    simulator.put("n0", content="normal\n")
    simulator.put("odd", content=text)
    with simulator.running(), Server(environment(simulator, tmp_path)) as server:

        def left_out() -> int:
            return int(server.tool("manage", action="get_stats")["stats"]["sync_left_out"])

        server.loaded(1)
        until(lambda: left_out() == 1)
        simulator.put("later", content=text)
        until(lambda: left_out() == 2)
        assert "2 notes have no usable id" in run(environment(simulator, tmp_path), "doctor").stdout
        simulator.put("odd", content="a text\n")
        simulator.put("later", content="a text\n")
        server.loaded(3)
        until(lambda: left_out() == 0)
        assert server.leave() == 0
