"""A person approves at a terminal, beside running servers, what an assistant may not do without them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.terminal import Terminal
from support.whole import Server, run, store_environment

TEXT = f"# Gift list\n\nA \x1b[31mbicycle\x1b[0m for Mia\n{'w' * 58} + nothing is removed\n"


def trashed(server: Server) -> dict[str, object]:
    """A note in the trash, and the call that deletes it for good."""
    note = server.tool("save", text=TEXT)
    binned = server.tool(
        "manage", action="trash", id=note["id"], local_version=note["local_version"]
    )
    return {
        "action": "delete_permanently",
        "id": note["id"],
        "local_version": binned["new_local_version"],
    }


def waiting(env: dict[str, str]) -> dict[str, object]:
    done = run(env, "approve", "--list", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow("nine processes, one after another")
@pytest.mark.attack(36)
def test_what_a_person_approves_at_a_terminal_is_done_once_also_after_a_restart(
    tmp_path: Path,
) -> None:
    env = store_environment(tmp_path, "local")
    with Server(env) as server:
        call = trashed(server)
        refused = server.error("manage", **call, confirm=True)
        found = re.search(r"`mcp-notarium approve ([0-9a-f]{8})`", refused["resolution_hint"])
        assert found, refused
        assert refused["subcategory"] == "confirmation_required"
        assert server.error("manage", **call)["details"]["approval"] == found[1]
        scripted = run(env, "approve", found[1], stdin="y\n")
        assert scripted.returncode != 0
        assert "terminal" in scripted.stderr
        with Terminal(env, "approve", width=60) as terminal:
            terminal.type("n\nn\n")  # before the question stands there
            terminal.shows(r"-A \u001b[31mbicycle")
            terminal.shows("Do it?")
            terminal.type("y\n")
            terminal.shows("Approved")
            assert terminal.ends() == 0
        assert "\x1b" not in terminal.screen
        assert not re.search("(?m)^[+]", terminal.screen), "no row of a wrapped line has a sign"
        assert max(map(len, terminal.screen.splitlines())) <= 60
        assert waiting(env) == {"waiting": [], "refused": 0}
        server.leave()
    with Server(env) as server:
        assert server.tool("manage", **call)["status"] == "deleted"
    acts = run(env, "audit", "tail", "--json").stdout.splitlines()
    records = {one["act"]: one for one in map(json.loads, acts)}
    for act in ("cli.approve", "tool.manage.delete_permanently"):
        assert records[act]["decision"] == "approved"
        assert records[act]["facts"] == {"approval": found[1]}
    assert run(env, "audit", "verify").returncode == 0


@pytest.mark.attack(36)
def test_what_a_person_denies_stays_denied_and_another_account_has_no_say(tmp_path: Path) -> None:
    env, other = (store_environment(tmp_path / name, "local") for name in ("one", "two"))
    with Server(other) as server:
        server.tool("save", text="another account")
    with Server(env) as server:
        call = trashed(server)
        approval = server.error("manage", **call)["details"]["approval"]
        assert run(other, "approve", "--deny", approval).returncode != 0
        (shown,) = waiting(env)["waiting"]
        assert (shown["id"], shown["tool"], shown["action"]) == (approval, "manage", call["action"])
        assert "bicycle" in shown["diff"]
        with Terminal(env, "approve") as terminal:
            terminal.type("y\ny\n")  # before the question is there to be read
            terminal.shows("Do it?")
            terminal.type("\n")
            terminal.shows("It still waits")
            assert terminal.ends() == 0
        assert run(env, "approve", "--deny", approval).returncode == 0
        for _ in range(2):
            assert server.error("manage", **call)["subcategory"] == "declined"
        assert server.tool("get", id=call["id"])["text"] == TEXT
