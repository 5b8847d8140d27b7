"""Test a token of another account in the configuration: two accounts are never mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.whole import RAW_KEY, Server, environment, run, until

OTHER = "bob@example.com"
NOTES = 12


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator(poll_seconds=1.0)
    simulator.load(prose(NOTES, seed=1))
    simulator.add_account(OTHER, "another long password")
    for number in range(3):
        simulator.device(OTHER).put(f"b{number}", content=f"Bob's private note {number}")
    with simulator.running():
        yield simulator


def _active(simulator: Simulator) -> int:
    return sum(not note["deleted"] for note in simulator.notes().values())


def _with_token(simulator: Simulator, folder: Path, username: str | None = None) -> dict[str, str]:
    token = simulator.account(username or simulator.username).token
    return environment(simulator, folder, SIMPLENOTE_PASSWORD=None, SIMPLENOTE_TOKEN=token)


def test_another_accounts_token_reads_and_writes_nothing_and_the_cache_stays(
    simulator: Simulator, tmp_path: Path
) -> None:
    own = environment(simulator, tmp_path)
    with Server(own) as server:
        server.loaded(_active(simulator))
        note = server.tool("get", id=server.tool("list", limit=1)["content"][0]["uuid"])
        server.leave()
    theirs = simulator.device(OTHER).notes()
    with Server(_with_token(simulator, tmp_path, OTHER)) as server:
        assert server.error("save", text="mine")["subcategory"] == "other_account"
        refused = server.error(
            "save", id=note["id"], local_version=note["local_version"], text="mine, edited",
            confirm=True,
        )  # fmt: skip
        assert refused["subcategory"] == "other_account"
        assert "SIMPLENOTE_TOKEN" in refused["resolution_hint"]
        server.error("manage", action="reset_cache", confirm=True)
        until(lambda: server.tool("manage", action="get_stats")["stats"]["needs_login"])
        stats = server.tool("manage", action="get_stats")["stats"]
        assert "another account" in stats["sync_last_error"]
        assert server.tool("list")["total_items"] == _active(simulator)
        assert server.tool("get", id=note["id"])["text"] == note["text"]
        server.leave()
    assert simulator.device(OTHER).notes() == theirs
    with Server(own) as server:
        assert server.tool("save", text="mine again")["server_version"] == 1
        assert server.tool("list", query="Bob")["total_items"] == 0
        server.leave()
    assert simulator.device(OTHER).notes() == theirs


def test_a_token_instead_of_the_password_continues_with_the_same_cache(
    simulator: Simulator, tmp_path: Path
) -> None:
    with Server(environment(simulator, tmp_path)) as server:
        server.loaded(_active(simulator))
        server.leave()
    simulator.change_password("a new long password")
    for _ in range(2):
        with Server(_with_token(simulator, tmp_path)) as server:
            assert server.tool("save", text="through the token")["server_version"] == 1
            server.leave()


def test_offline_a_known_token_is_not_doubted(simulator: Simulator, tmp_path: Path) -> None:
    env = _with_token(simulator, tmp_path)
    with Server(env) as server:
        server.loaded(_active(simulator))
        server.leave()
    simulator.stop_listening()
    with Server(env) as server:
        assert server.tool("list")["total_items"] == _active(simulator)
        assert server.error("save", text="x")["subcategory"] == "unavailable"
        simulator.resume()
        until(lambda: not server.result("save", text="x").get("isError"))
        server.leave()


def test_a_cache_filled_with_a_wrong_token_is_noticed_at_the_login_and_quarantined(
    simulator: Simulator, tmp_path: Path
) -> None:
    with Server(_with_token(simulator, tmp_path, OTHER)) as server:
        server.loaded(3)  # nothing was here that could have told
        server.leave()
    own = environment(simulator, tmp_path)
    with Server(own) as server:
        assert server.error("save", text="mine")["subcategory"] == "other_account"
        server.leave()
    done = run(own, "reset-cache", "--yes")
    assert done.returncode == 0, done.stderr
    assert "another account" in done.stderr
    with Server(own) as server:
        server.loaded(_active(simulator))
        assert server.tool("list", query="Bob")["total_items"] == 0
        server.leave()
    assert len(simulator.device(OTHER).notes()) == 3


def test_a_token_that_is_not_the_accounts_is_no_hindrance_to_a_login_by_password(
    simulator: Simulator, tmp_path: Path
) -> None:
    with Server(environment(simulator, tmp_path)) as server:
        server.loaded(_active(simulator))
        server.leave()
    env = environment(simulator, tmp_path, SIMPLENOTE_TOKEN="0" * 32, DB_ENCRYPTION_KEY=RAW_KEY)
    with Server(env) as server:
        assert server.tool("save", text="mine")["server_version"] == 1
        server.leave()
