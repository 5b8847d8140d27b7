"""No number that a profile is told counts what it does not see: two real servers, one notebook."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from support.whole import Server, store_environment

RULES = '[profiles.guest.notes]\nhidden_tags = ["private"]\n[profiles.owner]\n'


@pytest.mark.attack(38)
def test_versions_of_a_notebook_do_not_count_the_changes_of_hidden_notes(tmp_path):
    env = store_environment(tmp_path, "local")
    place = tmp_path / "data"
    place.mkdir(mode=0o700)
    (place / "policy.toml").touch(mode=0o600)
    (place / "policy.toml").write_text(RULES)
    with ExitStack() as stack:
        owner = stack.enter_context(Server(env | {"NOTARIUM_PROFILE": "owner"}))
        guest = stack.enter_context(Server(env | {"NOTARIUM_PROFILE": "guest"}))
        made = []
        for number in range(3):
            hidden = owner.tool("save", text=f"hidden {number}", tags=["private"])
            owner.tool("save", id=hidden["id"], append="more")
            made.append(guest.tool("save", text=f"seen {number}"))
            assert owner.tool("get", id=hidden["id"])["local_version"] == 2
        again = guest.tool("save", id=made[0]["id"], append="more")
        listed = guest.tool("list")["content"]
        assert [one["local_version"] for one in made] == [1, 1, 1]
        assert again["local_version"] == 2
        assert sorted(row["local_version"] for row in listed) == [1, 1, 2]
        assert not any("server_version" in one for one in (*made, again, *listed))
        # The notes of a profile are in memory, the notebook is not: what is encrypted is that.
        stats = guest.tool("manage", action="get_stats")["stats"]
        assert stats["db_encryption"] == "on"
        assert stats["db_total_notes"] == 3
