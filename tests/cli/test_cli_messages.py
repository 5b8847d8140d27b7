"""Test that what a person is told speaks of their account: no setting of another store, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_notarium.config.common_variables import COMMON
from mcp_notarium.stores import registry
from support.whole import run, store_environment

pytestmark = pytest.mark.slow("each row runs a dozen commands")

COMMANDS = (
    ("status",),
    ("doctor", "--offline"),
    ("list",),
    ("show", "x"),
    ("sync",),
    ("backup", "b"),
    ("restore", "--list"),
    ("export", "e"),
    ("rotate-key", "--new-key-file", "k"),
    ("repair",),
    ("serve",),
)


def foreign_names(store: str) -> set[str]:
    """Return the variables of other stores that this one has not."""
    own = {one.name for one in (*COMMON, *registry.kind(store).variables)}
    return {one.name for kind in registry.kinds() for one in kind.variables} - own


@pytest.mark.parametrize("store", registry.names())
@pytest.mark.parametrize("key", ["missing", "wrong"])
def test_a_person_is_told_of_no_setting_of_another_store(
    tmp_path: Path, store: str, key: str
) -> None:
    env = store_environment(tmp_path, store)
    env["DB_ENCRYPTION_KEY"] = "" if key == "missing" else "raw:tooshort"
    for command in COMMANDS:
        done = run(env, *command, cwd=tmp_path)
        said = done.stdout + done.stderr
        assert not [name for name in foreign_names(store) if name in said], (command, said)
        assert "Traceback" not in said, (command, said)
        if done.returncode:
            assert "\u2192" in said or "hint" in said or "usage" in said, (command, said)
