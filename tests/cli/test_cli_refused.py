"""A person reads what the note store has refused for good, saves it elsewhere, and forgets it."""

import json
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support.whole import Server, environment, run, store_environment, until

REFUSED = "the words of an agent\x1b[31m\nand more\n"


def refuse_a_save(simulator: Simulator, env: dict[str, str]) -> None:
    """Let a save be unanswered, and the store refuse it for good when it is repeated."""
    with Server(env) as server:
        server.loaded(1)
        simulator.faults.status(503, method="POST", times=10_000)
        note = server.tool("get", id="n1")
        told = server.error("save", id="n1", local_version=note["local_version"], text=REFUSED)
        assert told["subcategory"] == "in_doubt"
        simulator.faults.clear()
        simulator.faults.status(413, method="POST", times=10_000)
        until(lambda: stats(server)["rejected_writes"] == 1)
        simulator.faults.clear()
        assert server.leave() == 0


def stats(server: Server) -> dict[str, int]:
    return server.tool("manage", action="get_stats")["stats"]


@pytest.mark.slow("processes, one after another")
def test_a_refused_text_is_shown_saved_as_a_new_note_and_forgotten(tmp_path: Path) -> None:
    simulator = Simulator(poll_seconds=1.0)
    simulator.put("n1", content="Title\nbefore\n")
    with simulator.running():
        env = environment(simulator, tmp_path)
        refuse_a_save(simulator, env)
        listed = run(env, "refused").stdout
        assert "a change of n1: the words of an agent\\u001b[31m" in listed
        write_id = listed.split()[0]
        assert run(env, "refused", write_id).stdout == f"{REFUSED}".replace("\x1b", "\\u001b")
        (facts,) = json.loads(run(env, "refused", "--json").stdout)["refused"]
        assert facts["text"] == REFUSED
        assert facts["reason"] in run(env, "status").stdout.replace("\n", " ")
        raw = run(env, "refused", write_id, "--raw").stdout
        assert raw == REFUSED
        made = run(env, "new", stdin=raw).stdout.strip()
        assert simulator.note(made)["content"] == REFUSED
        asked = run(env, "refused", "--drop", write_id)
        assert asked.returncode != 0
        assert run(env, "refused", "--drop", write_id, "--yes").returncode == 0
        again = run(env, "refused", write_id)
        assert again.returncode == 1
        assert "no refused write has this id" in again.stderr
        assert "No write is refused" in run(env, "refused").stderr
        acts = run(env, "audit", "tail").stdout
    assert simulator.note("n1")["content"] == "Title\nbefore\n"
    assert "cli.refused.show " in acts
    assert "cli.refused.drop " in acts


@pytest.mark.slow("processes, one after another")
def test_options_that_say_nothing_together_are_refused_with_the_way_out(tmp_path: Path) -> None:
    env = store_environment(tmp_path, "local")
    assert run(env, "new", stdin="a note\n").returncode == 0
    assert "No write is refused" in run(env, "refused").stderr
    assert json.loads(run(env, "refused", "--json").stdout) == {"refused": []}
    for wrong in (
        ["--raw"],
        ["1", "--raw", "--json"],
        ["1", "--drop", "1"],
        ["--drop", "1", "--raw"],
    ):
        done = run(env, "refused", *wrong)
        assert (done.returncode, done.stdout) == (1, "")
        assert "do not go together" in done.stderr
    for unknown in (["1"], ["--drop", ""], ["--drop", "1", "--yes"]):
        done = run(env, "refused", *unknown)
        assert (done.returncode, done.stdout) == (1, "")
        assert "`mcp-notarium refused` lists" in done.stderr
