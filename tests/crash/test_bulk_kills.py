"""Kill a server anywhere between the notes of a change of many: the repeated call does the rest, and one undo takes all back."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support import bulk_kill_child
from support.bulk_kill_child import PLACES, PLACES_OF_FOLDERS
from support.long import sample
from support.whole import Server, store_environment, until

pytestmark = [
    pytest.mark.slow("kills a server at each of some ten places"),
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL"),
]
FILES = {
    "A.md": "to [[Old/B]]\n",
    "Old/B.md": "to [a](../A.md)\n",
    "C.md": "alone\n",
    "Other.md": "see [[Old/B]]\n",
    "Board.canvas": '{"nodes":[{"type":"file","file":"C.md"}]}',
}
MOVED = {
    "New/A.md": "to [[New/B]]\n",
    "New/B.md": "to [a](../New/A.md)\n",
    "New/C.md": "alone\n",
    "Other.md": "see [[New/B]]\n",
    "Board.canvas": '{"nodes":[{"type":"file","file":"New/C.md"}]}',
}
ASKED = {
    "action": "change",
    "ids": ["A.md", "Old/B.md", "C.md"],
    "folder": "New",
    "confirm": True,
}


def files(vault: Path) -> dict[str, str]:
    found = (path for path in vault.rglob("*") if path.is_file())
    return {str(path.relative_to(vault)): path.read_text() for path in found}


@pytest.fixture(name="vault")
def _vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    for path, text in FILES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    return vault


@pytest.mark.parametrize("place", sample("bulk kills", list(PLACES), 4))
def test_a_killed_change_goes_on_under_its_name(tmp_path: Path, vault: Path, place: str) -> None:
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(vault))
    command = [sys.executable, bulk_kill_child.__file__, place]
    with Server(env, command=command) as server:
        server.loaded(4)
        with pytest.raises((AssertionError, BrokenPipeError, EOFError, ValueError)):
            server.tool("manage", **ASKED)
        assert server.process.wait(10) != 0
    with Server(env) as server:
        server.loaded(4)
        rest = server.tool("manage", **ASKED)
        assert "refused" not in rest
        until(lambda: files(vault) == MOVED)
        undone = server.tool("manage", action="undo", change_id=rest["change_id"], confirm=True)
        assert "refused" not in undone
        until(lambda: files(vault) == FILES)
        assert server.leave() == 0
    assert not list(vault.rglob("*.tmp"))


FOLDER = {
    "Old/A.md": "[[Old/sub/B]] ![](pic.png) ![](sub/two.png)\n",
    "Old/sub/B.md": "[a](../A.md) [[Other]]\n",
    "Old/pic.png": "p",
    "Old/sub/two.png": "t",
    "Other.md": "[[Old/A]] ![](Old/pic.png)\n",
    "Board.canvas": '{"nodes":[{"type":"file","file":"Old/A.md"},{"type":"file","file":"Old/pic.png"}]}',
}
FOLDER_MOVED = {
    "New/A.md": "[[New/sub/B]] ![](pic.png) ![](sub/two.png)\n",
    "New/sub/B.md": "[a](../A.md) [[Other]]\n",
    "New/pic.png": "p",
    "New/sub/two.png": "t",
    "Other.md": "[[New/A]] ![](New/pic.png)\n",
    "Board.canvas": '{"nodes":[{"type":"file","file":"New/A.md"},{"type":"file","file":"New/pic.png"}]}',
}


@pytest.mark.parametrize("place", sample("folder kills", list(PLACES_OF_FOLDERS), 4))
def test_a_killed_move_of_a_folder_goes_on_and_comes_back(tmp_path: Path, place: str) -> None:
    vault = tmp_path / "vault"
    for path, text in FOLDER.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(vault))
    asked = {"action": "move_folder", "folder": "Old", "new_folder": "New", "confirm": True}
    command = [sys.executable, bulk_kill_child.__file__, place]
    with Server(env, command=command) as server:
        server.loaded(3)
        with pytest.raises((AssertionError, BrokenPipeError, EOFError, ValueError)):
            server.tool("manage", **asked)
        assert server.process.wait(10) != 0
    with Server(env) as server:
        server.loaded(3)
        rest = server.tool("manage", **asked)
        assert "refused" not in rest
        until(lambda: files(vault) == FOLDER_MOVED)
        undone = server.tool("manage", action="undo", change_id=rest["change_id"], confirm=True)
        assert "refused" not in undone
        until(lambda: files(vault) == FOLDER)
        assert server.leave() == 0


def test_two_servers_change_the_same_notes_at_once_and_each_undo_takes_back_its_own(
    tmp_path: Path, vault: Path
) -> None:
    for number in range(20):
        (vault / f"n{number:02}.md").write_text("note\n")
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(vault))
    names = [f"n{number:02}.md" for number in range(20)]
    with Server(env) as one, Server(env) as two, ThreadPoolExecutor() as pool:
        one.loaded(24)
        two.loaded(24)

        def change(server: Server, tag: str, ids: list[str]) -> dict[str, Any]:
            asked = {"action": "change", "ids": ids, "add_tags": [tag], "confirm": True}
            return server.tool("manage", **asked)

        first = pool.submit(change, one, "one", names)
        second = pool.submit(change, two, "two", names[::-1])
        made = [first.result(), second.result()]
        assert [(one["notes"], one.get("refused")) for one in made] == [(20, None)] * 2
        assert one.tool("list", query="tag:one tag:two")["total_items"] == 20
        undo = {"action": "undo", "confirm": True}
        backs = [one.tool("manage", **undo, change_id=it["change_id"]) for it in made]
        for back in backs:  # of each note, the change that came last
            assert back["notes"] + back.get("refused", 0) == 20
        left = [one.tool("list", query=f"tag:{tag}")["total_items"] for tag in ("one", "two")]
        assert left == [20 - back["notes"] for back in backs]
        assert one.leave() == two.leave() == 0
