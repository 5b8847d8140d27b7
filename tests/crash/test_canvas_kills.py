"""Kill a server anywhere in the renaming of a vault's note: its name and the cards that show it agree in the end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import canvas_kill_child
from support.canvas_kill_child import LEAVES, PLACES, away_from
from support.long import sample
from support.whole import Server, store_environment, until

pytestmark = [
    pytest.mark.slow("kills a server at each of some ten places"),
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL"),
]

OLD, NEW = "Plan.md", "Work/Road map.md"
CARD = '{"nodes":[{"id":"1","type":"file","file":"%s","x":1.50}],"edges":[]}'
BOARDS = ("A.canvas", "B.canvas")
NEVER_RENAMED = {
    "before it is recorded",
    "recorded, without the note",
}


def rename_and_die(env: dict[str, str], place: str) -> None:
    command = [sys.executable, canvas_kill_child.__file__, place]
    with Server(env, command=command) as server:
        server.loaded(1)
        version = server.tool("get", id=OLD)["local_version"]
        with pytest.raises((AssertionError, BrokenPipeError, EOFError, ValueError)):
            server.tool(
                "save", id=OLD, local_version=version, title="Work/Road map", rewrite_links=True
            )
        assert server.process.wait(10) != 0


@pytest.fixture(name="vault")
def _vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / OLD).write_text("plan\n")
    for board in BOARDS:
        (vault / board).write_text(CARD % OLD)
    return vault


@pytest.fixture(name="env")
def _env(tmp_path: Path, vault: Path) -> dict[str, str]:
    return store_environment(tmp_path, "vault", VAULT_PATH=str(vault))


def cards(vault: Path) -> list[str]:
    return [(vault / board).read_text() for board in BOARDS]


@pytest.mark.parametrize("place", sample("canvas kills", list(PLACES), 4))
def test_cards_follow_a_note_that_a_killed_server_has_renamed(
    env: dict[str, str], vault: Path, place: str
) -> None:
    rename_and_die(env, place)
    path = OLD if place in NEVER_RENAMED else NEW
    with Server(env) as server:
        server.loaded(1)
        until(lambda: (vault / path).exists() and cards(vault) == [CARD % path] * 2)
        assert server.tool("get", id=path)["text"] == "plan\n"
        # It is forgotten then: a card that comes to show the old path stays.
        (vault / "A.canvas").write_text(CARD % OLD)
        server.tool("save", text="another\n")
        server.loaded(2)
        assert server.leave() == 0
    with Server(env) as server:
        server.loaded(2)
        assert server.leave() == 0
    assert (vault / "A.canvas").read_text() == CARD % OLD
    assert not list(vault.rglob("*.tmp"))


@pytest.mark.parametrize("place", ["the index knows", "between two canvases"])
def test_what_a_person_does_to_canvases_meanwhile_stays(
    env: dict[str, str], vault: Path, place: str
) -> None:
    rename_and_die(env, place)
    more = CARD.replace('"edges":[]', '"edges":[],"mine":"é"')
    (vault / "A.canvas").write_text(more % OLD)
    (vault / "B.canvas").unlink()
    with Server(env) as server:
        server.loaded(1)
        until(lambda: (vault / "A.canvas").read_text() == more % NEW)
        assert not (vault / "B.canvas").exists()
        assert server.leave() == 0


def test_cards_stay_with_a_note_that_somebody_has_made_at_the_old_path(
    env: dict[str, str], vault: Path
) -> None:
    rename_and_die(env, "the file has its name")
    (vault / OLD).write_text("another plan\n")
    with Server(env) as server:
        server.loaded(2)
        server.tool("save", text="one more\n")
        server.loaded(3)
        assert server.leave() == 0
    assert cards(vault) == [CARD % OLD] * 2


def test_cards_that_wait_for_a_vault_that_cannot_be_reached_are_said_to_wait(
    env: dict[str, str], vault: Path
) -> None:
    command = [sys.executable, canvas_kill_child.__file__, LEAVES]
    env["NOTARIUM_SANDBOX"] = "off"  # this server renames its vault
    with Server(env, command=command) as server:
        server.loaded(1)
        version = server.tool("get", id=OLD)["local_version"]
        asked = {"id": OLD, "local_version": version, "title": "Work/Road map"}
        saved = server.tool("save", **asked, rewrite_links=True)
        assert "In 2 canvases the next sync does it." in saved["note"]
        assert "could not be read or written" not in saved["note"]
        away_from(vault).rename(vault)
        until(lambda: cards(vault) == [CARD % NEW] * 2)
        assert server.leave() == 0
