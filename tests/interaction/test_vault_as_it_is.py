"""Test a started server over a vault as people have it: front matter, evicted files, names that something has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.whole import Server, store_environment, until

pytestmark = pytest.mark.slow("each test starts a server of its own")
OLD = 1_600_000_000
FRONT = "---\ntags: [work]\n---\n"


@pytest.fixture(name="vault")
def _vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    vault.mkdir()
    return vault


@pytest.fixture(name="env")
def _env(tmp_path: Path, vault: Path) -> dict[str, str]:
    return store_environment(tmp_path, "vault", VAULT_PATH=str(vault))


def put(path: Path, text: str) -> None:
    """Write a file that has not changed for a long time."""
    path.write_text(text)
    os.utime(path, (OLD, OLD))


def test_previews_begin_below_the_front_matter(env: dict[str, str], vault: Path) -> None:
    put(vault / "Plan.md", f"{FRONT}# Pancakes\nflour\n")
    with Server(env) as server:
        server.loaded(1)
        assert server.tool("list")["content"][0]["text"] == "# Pancakes"
        (row,) = server.tool("list", query="pancakes", preview_lines=2)["content"]
        assert row["text"] == "# Pancakes\nflour"
        made = server.tool("save", title="New", text=f"{FRONT}eggs\n")
        rows = server.tool("manage", action="history", id=made["id"])["history"]
        assert all("---" not in str(one) for one in rows)
        assert server.leave() == 0


@pytest.mark.parametrize("text", ["---\na: b: c\n---\nx\n", "---\na: 1\nx\n", "+++\na = 1\nx\n"])
def test_a_new_note_with_front_matter_that_nobody_can_read_is_refused(
    env: dict[str, str], vault: Path, text: str
) -> None:
    put(vault / "Plan.md", "plan\n")
    with Server(env) as server:
        server.loaded(1)
        refused = server.error("save", title="New", text=text)
        assert (refused["subcategory"], refused["retryable"]) == ("front_matter", False)
        assert [*vault.iterdir()] == [vault / "Plan.md"]
        assert server.leave() == 0


@pytest.mark.parametrize("made", ["+++\na = 1\n+++\nx\n", "---\na: b: c\n---\nx\n"])
def test_what_no_file_can_hold_is_the_agents_to_change(
    env: dict[str, str], vault: Path, made: str
) -> None:
    put(vault / "Odd.md", made)
    put(vault / "Plan.md", "plan #inline\n")
    with Server(env) as server:
        server.loaded(2)
        asked: list[dict[str, Any]] = [
            {"title": "New", "text": made, "tags": ["work"]},
            {"title": "../New", "text": "x\n"},
            {"title": "New", "text": "x\n", "tags": ["a.b"]},
            {"id": "Odd.md", "local_version": 1, "tags": ["work"]},
            {"id": "Plan.md", "local_version": 1, "prepend": "---\na: b: c\n---"},
            {"id": "Plan.md", "local_version": 1, "tags": ["work"]},
        ]
        for arguments in asked:
            refused = server.error("save", **arguments)
            assert (refused["category"], refused["retryable"]) == ("VALIDATION", False), refused
        assert (vault / "Odd.md").read_text() == made
        assert (vault / "Plan.md").read_text() == "plan #inline\n"
        assert server.leave() == 0


def test_a_new_note_beside_what_is_no_note_gets_a_number(env: dict[str, str], vault: Path) -> None:
    put(vault / "Plan.md", "plan\n")
    (vault / "Latin.md").write_bytes(b"caf\xe9\n")
    (vault / "Large.md").write_bytes(b"x" * (8 * 1024 * 1024 + 1))
    (vault / "Link.md").symlink_to(vault / "Plan.md")
    (vault / "Folder.md").mkdir()
    put(vault / "one.txt", "x")
    os.link(vault / "one.txt", vault / "Hard.md")
    put(vault / ".Cloud.md.icloud", "placeholder")
    with Server(env) as server:
        server.loaded(1)
        for name in ("Latin", "Large", "Link", "Folder", "Hard", "Cloud", "Plan"):
            made = server.tool("save", title=name, text="new\n")
            assert made["id"] == f"{name} 2.md"
            assert made["title"] != name
        note = server.tool("get", id="Plan.md")
        version = note["local_version"]
        for name in ("Latin", "Folder", "Hard", "Cloud"):
            refused = server.error("save", id="Plan.md", local_version=version, title=name)
            assert refused["subcategory"] == "name_taken", refused
        assert server.leave() == 0


def test_another_title_than_the_one_that_was_given_is_told(
    env: dict[str, str], vault: Path
) -> None:
    put(vault / "Plan.md", "plan\n")
    with Server(env) as server:
        server.loaded(1)
        made = server.tool("save", title="What? Why: this", text="x\n")
        assert made["title"] == "What Why this"
        assert "not the one you gave" in made["note"]
        assert "note" not in server.tool("save", title="Work/Clear", text="x\n")
        version = server.tool("get", id="Plan.md")["local_version"]
        renamed = server.tool("save", id="Plan.md", local_version=version, title="A|B")
        assert (renamed["title"], "not the one you gave" in renamed["note"]) == ("A B", True)
        assert server.leave() == 0


@pytest.mark.parametrize("form", ["placeholder", "no blocks"])
def test_a_note_that_icloud_has_evicted_stays_and_is_not_written(
    env: dict[str, str], vault: Path, form: str
) -> None:
    note = vault / "Plan.md"
    put(note, "pancakes\n")
    put(vault / "Other.md", "other\n")
    held = vault / ".Plan.md.icloud"
    with Server(env) as server:
        server.loaded(2)
        version = server.tool("get", id="Plan.md")["local_version"]
        if form == "placeholder":
            note.unlink()
            put(held, "bplist")
        else:
            os.truncate(note, 0)
            os.truncate(note, 9)
        until(lambda: server.tool("manage", action="get_stats")["stats"]["sync_left_out"] == 1)
        for _ in range(2):
            assert server.tool("list", query="pancakes")["total_items"] == 1
            assert server.tool("get", id="Plan.md")["text"] == "pancakes\n"
            refused = server.error("save", id="Plan.md", append="more")
            assert "iCloud" in refused["message"], refused
            refused = server.error(
                "save", id="Plan.md", local_version=version, text="something else\n"
            )
            assert "iCloud" in refused["message"]
            refused = server.error("manage", action="trash", id="Plan.md", local_version=version)
            assert "iCloud" in refused["message"]
        assert server.tool("save", title="Plan", text="new\n")["id"] == "Plan 2.md"
        assert server.leave() == 0
    with Server(env) as server:
        server.loaded(3)
        assert server.tool("get", id="Plan.md")["text"] == "pancakes\n"
        assert server.tool("manage", action="get_stats")["stats"]["sync_left_out"] == 1
        held.unlink(missing_ok=True)
        note.write_text("pancakes and jam\n")
        until(lambda: server.tool("list", query="jam")["total_items"] == 1)
        until(lambda: server.tool("manage", action="get_stats")["stats"]["sync_left_out"] == 0)
        assert server.leave() == 0


def test_what_is_left_out_is_counted_anew_before_and_after_a_restart(
    env: dict[str, str], vault: Path
) -> None:
    def left_out(server: Server) -> int:
        count: int = server.tool("manage", action="get_stats")["stats"]["sync_left_out"]
        return count

    put(vault / "Plan.md", "plan\n")
    for name in ("one", "two", "three"):
        (vault / f"{name}.md").write_bytes(b"caf\xe9\n")
        os.utime(vault / f"{name}.md", (OLD, OLD))
    with Server(env) as server:
        server.loaded(1)
        assert left_out(server) == 3
        (vault / "one.md").write_text("readable\n")
        until(lambda: left_out(server) == 2)
        (vault / "four.md").write_bytes(b"caf\xe9\n")
        until(lambda: left_out(server) == 3)
        (vault / "four.md").unlink()
        until(lambda: left_out(server) == 2)
        assert server.leave() == 0
    with Server(env) as server:
        server.loaded(2)
        assert left_out(server) == 2
        (vault / "two.md").write_text("readable\n")
        until(lambda: left_out(server) == 1)
        assert server.leave() == 0
    (vault / "three.md").write_text("readable\n")
    with Server(env) as server:
        until(lambda: server.tool("list")["total_items"] == 4)
        assert left_out(server) == 0
        assert server.leave() == 0


def test_cards_of_canvases_follow_a_renamed_note(
    env: dict[str, str], vault: Path, tmp_path: Path
) -> None:
    (vault / "Boards").mkdir()
    (vault / "Private").mkdir()
    put(vault / "Plan.md", "plan\n")
    put(vault / "Index.md", "[[Plan]]\n")
    card = '{"id":"1", "type":"file",\t"file":"Plan.md","subpath":"#Costs","x":1.50}'
    text = f'{{\r\n"nodes":[{card},\r\n{card}],"edges":[]}}'
    board, hidden = vault / "Boards" / "Roadmap.canvas", vault / "Private" / "Secret.canvas"
    broken, other = vault / "Broken.canvas", vault / "Other.canvas"
    for place, what in (
        (board, text),
        (hidden, text),
        (broken, text[:-1]),
        (other, text.replace("Plan", "X")),
    ):
        place.write_bytes(what.encode())
    policy = tmp_path / "policy.toml"
    policy.write_text('[notes]\nhidden_paths = ["Private"]\n')
    policy.chmod(0o600)
    with Server(env | {"NOTARIUM_POLICY_FILE": str(policy)}) as server:
        server.loaded(2)
        version = server.tool("get", id="Plan.md")["local_version"]
        asked = {"id": "Plan.md", "local_version": version, "title": "Work/Road map"}
        refused = server.error("save", **asked)
        assert refused["subcategory"] == "links_would_break"
        assert "3 links in 1 note and 1 canvas" in refused["message"]
        assert (refused["details"]["links"], refused["details"]["canvases"]) == (3, 1)
        saved = server.tool("save", **asked, rewrite_links=True)
        assert "Cards were rewritten in 1 canvas." in saved["note"]
        assert "could not be read or written as a canvas: 1 canvas" in saved["note"]
        moved = text.replace("Plan.md", "Work/Road map.md")
        assert board.read_bytes() == moved.encode()
        assert (vault / "Index.md").read_text() == "[[Road map]]\n"
        for place, what in (
            (hidden, text),
            (broken, text[:-1]),
            (other, text.replace("Plan", "X")),
        ):
            assert place.read_bytes() == what.encode()
        server.tool("manage", action="undo", id=saved["id"], confirm=True)
        assert (vault / "Plan.md").exists()
        assert board.read_bytes() == text.encode()
        version = server.tool("get", id="Plan.md")["local_version"]
        server.tool("save", id="Plan.md", local_version=version, title="Kept", rewrite_links=False)
        assert board.read_bytes() == text.encode()
        assert server.leave() == 0
