"""Kill a server anywhere between the notes of a change of many: the repeated call does the rest, and one undo takes all back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import bulk_kill_child
from support.bulk_kill_child import PLACES
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


@pytest.mark.parametrize("place", PLACES)
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
