"""Test that a question of a client with a profile reaches the person, and the person's answer that client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.whole import Server, run, store_environment

RULES = '[profiles.work.notes]\nhidden_tags = ["private"]\n'


@pytest.mark.slow("starts a server and commands")
def test_a_question_under_a_profile_waits_where_the_person_looks(tmp_path: Path) -> None:
    env = store_environment(tmp_path, "local")
    rules = Path(env["NOTARIUM_DATA_DIR"]) / "policy.toml"
    rules.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rules.write_text(RULES)
    rules.chmod(0o600)
    with Server(env | {"NOTARIUM_PROFILE": "work"}) as server:
        note = server.tool("save", title="Bread", text="flour\n")
        trashed = server.tool(
            "manage", action="trash", id=note["id"], local_version=note["local_version"]
        )
        deletion = {
            "action": "delete_permanently",
            "id": note["id"],
            "local_version": trashed["new_local_version"],
        }
        server.error("manage", **deletion)
        (asked,) = json.loads(run(env, "approve", "--list", "--json").stdout)["waiting"]
        assert (asked["profile"], asked["note_id"]) == ("work", note["id"])
        assert "-flour" in asked["diff"]
        assert run(env, "approve", "--deny", asked["id"]).returncode == 0
        assert server.error("manage", **deletion)["subcategory"] == "declined"
        assert server.leave() == 0
