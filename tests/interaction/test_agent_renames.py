"""Rename notes of a vault over stdio: old paths go on to work, rules hold at the new place."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from support.long import LONG, dice
from support.talker import call
from support.whole import Server, store_environment, until

pytestmark = pytest.mark.slow("each test starts a server of its own")
OLD = 1_600_000_000


def put(vault: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
        os.utime(vault / path, (OLD, OLD))


@pytest.fixture(name="vault")
def _vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    texts = {
        "Work/Plan.md": "# Plan\n",
        "Work/Other.md": "other\n",
        "Private/Diary.md": "the code is 1234\n",
        "Hidden.md": "---\ntags: [private]\n---\nsecret\n",
    }
    put(vault, texts)
    return vault


@pytest.fixture(name="env")
def _env(tmp_path: Path, vault: Path) -> dict[str, str]:
    return store_environment(tmp_path, "vault", NOTARIUM_TOOLS="both", VAULT_PATH=str(vault))


def under_rules(env: dict[str, str], folder: Path, rules: str) -> dict[str, str]:
    policy = folder / "policy.toml"
    policy.write_text(f"[notes]\n{rules}")
    policy.chmod(0o600)
    return env | {"NOTARIUM_POLICY_FILE": str(policy)}


def rename(server: Server, note_id: str, title: str, **more: object) -> dict[str, Any]:
    version = server.tool("get", id=note_id)["local_version"]
    return server.tool("save", id=note_id, local_version=version, title=title, **more)


def paths(vault: Path) -> set[str]:
    return {str(path.relative_to(vault)) for path in vault.rglob("*.md")}


def test_a_renamed_note_answers_to_its_old_path_and_an_undo_puts_it_back(
    env: dict[str, str], vault: Path
) -> None:
    with Server(env) as server:
        server.loaded(4)
        saved = rename(server, "Work/Plan.md", "Home/Road map", append="- one\n")
        assert (saved["id"], saved["title"]) == ("Home/Road map.md", "Road map")
        assert (vault / "Home" / "Road map.md").read_text() == "# Plan\n- one\n"
        assert not (vault / "Work" / "Plan.md").exists()
        for path in ("Work/Plan.md", "Home/Road map.md"):
            page = server.tool("read_note", path=path)
            assert (page["path"], page["text"]) == ("Home/Road map.md", "# Plan\n- one\n")
        for name in ("Work/Plan", "[[Work/Plan]]"):
            assert server.tool("get", id=name)["id"] == saved["id"]
        version = server.tool("get", id="Work/Plan.md")["local_version"]
        taken = server.error("save", id=saved["id"], local_version=version, title="Work/other")
        assert taken["subcategory"] == "name_taken"
        server.tool("manage", action="undo", id="Work/Plan.md", confirm=True)
        assert (vault / "Work" / "Plan.md").read_text() == "# Plan\n"
        assert server.tool("get", id="Home/Road map.md")["id"] == "Work/Plan.md"
        rows = server.tool("manage", action="history", id="Work/Plan.md")["history"]
        assert "title" in rows[0]["changed"]
        assert server.leave() == 0


def test_the_policy_judges_the_new_place_and_no_name_betrays_a_hidden_note(
    env: dict[str, str], vault: Path, tmp_path: Path
) -> None:
    env = under_rules(env, tmp_path, 'hidden_tags = ["private"]\nhidden_paths = ["Private"]\n')
    before = paths(vault)
    with Server(env) as server:
        server.loaded(2)
        version = server.tool("get", id="Work/Plan.md")["local_version"]
        refused = server.error(
            "save", id="Work/Plan.md", local_version=version, title="private/Plan"
        )
        assert refused["subcategory"] == "policy"
        assert paths(vault) == before
        renamed = [rename(server, "Work/Plan.md", title) for title in ("/Hidden", "/Free")]
        made = [server.tool("save", title=title, text="x\n") for title in ("Hidden", "New: a")]
        digits = (
            "`title` is not the one you gave: each new name gets digits while rules may hide notes"
        )
        assert [one["note"].partition(". ")[0].rstrip(".") for one in (*renamed, *made)] == [
            *[digits] * 3, f"{digits}, and no file can be called that",
        ]  # fmt: skip
        named = [one["id"] for one in renamed]
        assert re.fullmatch("Hidden [0-9a-f]{8}.md Free [0-9a-f]{8}.md", " ".join(named))
        assert rename(server, named[1], named[1].lower())["id"] == named[1].lower()
        assert (vault / "Hidden.md").read_text().endswith("secret\n")
        assert server.leave() == 0


def test_with_rules_on_paths_alone_a_name_stays_as_it_is_given(
    env: dict[str, str], vault: Path, tmp_path: Path
) -> None:
    with Server(under_rules(env, tmp_path, 'allowed_paths = ["Work"]\n')) as server:
        server.loaded(2)
        version = server.tool("get", id="Work/Plan.md")["local_version"]
        refused = server.error("save", id="Work/Plan.md", local_version=version, title="/Plan")
        assert refused["subcategory"] == "policy"
        assert rename(server, "Work/Plan.md", "New")["id"] == "Work/New.md"
        assert (vault / "Work" / "New.md").exists()
        assert server.leave() == 0


LINKS = {
    "Index.md": "[[Plan]], `[[Plan]]`, [p](Work/Plan.md#x) and [[Other]]\r\n",
    "Work/Note.md": "---\nup: '[[Plan|up]]'\n---\n![[Plan]]\n",
    "Hidden links.md": "#private [[Plan]]\n",
}


def test_links_that_break_are_named_and_rewritten_if_that_is_wanted(
    env: dict[str, str], vault: Path
) -> None:
    for path, text in LINKS.items():
        (vault / path).write_bytes(text.encode())
    with Server(env) as server:
        server.loaded(7)
        version = server.tool("get", id="Work/Plan.md")["local_version"]
        asked = {"id": "Work/Plan.md", "local_version": version, "title": "Road map (2)"}
        refused = server.error("save", **asked)
        assert refused["subcategory"] == "links_would_break"
        assert (refused["details"]["links"], refused["details"]["notes"]) == (5, 3)
        assert set(refused["details"]["ids"]) == set(LINKS)
        assert (vault / "Work" / "Plan.md").exists()
        saved = server.tool("save", **asked, rewrite_links=True)
        assert saved["note"] == "Links were rewritten in 3 other notes."
        index = (
            "[[Road map (2)]], `[[Plan]]`, [p](Work/Road%20map%20%282%29.md#x) and [[Other]]\r\n"
        )
        assert (vault / "Index.md").read_bytes().decode() == index
        note = LINKS["Work/Note.md"].replace("[[Plan", "[[Road map (2)")
        assert (vault / "Work" / "Note.md").read_bytes().decode() == note
        assert server.tool("get", id="Index.md")["links"][0]["id"] == saved["id"]
        server.tool("manage", action="undo", id="Index.md", confirm=True)
        assert (vault / "Index.md").read_bytes().decode() == LINKS["Index.md"]
        back = rename(server, saved["id"], "Plan", rewrite_links=False)
        assert "note" not in back
        assert (vault / "Work" / "Note.md").read_bytes().decode() == note
        assert server.leave() == 0


def test_an_undo_of_a_renaming_names_the_links_that_it_has_left(
    env: dict[str, str], vault: Path
) -> None:
    """A wikilink cannot hold every name that a file can have."""
    put(vault, {"C# notes.md": "sharp\n", "One.md": "see [n](C%23%20notes.md)\n"})
    with Server(env) as server:
        server.loaded(6)
        saved = rename(server, "C# notes.md", "Sharp", rewrite_links=True)
        assert "rewritten in 1 other note." in saved["note"]
        assert (vault / "One.md").read_text() == "see [n](Sharp.md)\n"
        made = server.tool("save", text="Two\n[[Sharp]]\n")["id"]
        undone = server.tool("manage", action="undo", id="Sharp.md", confirm=True)
        assert undone["id"] == "C# notes.md"
        told = f"Links were rewritten in 1 other note. They are left in: {made}."
        assert told in undone["note"]
        assert (vault / "One.md").read_text() == "see [n](C%23%20notes.md)\n"
        assert (vault / made).read_text() == "Two\n[[Sharp]]\n"
        assert server.leave() == 0


def test_links_in_notes_that_a_rule_hides_are_neither_counted_nor_changed(
    env: dict[str, str], vault: Path, tmp_path: Path
) -> None:
    for path, text in LINKS.items():
        (vault / path).write_bytes(text.encode())
    with Server(
        under_rules(env, tmp_path, 'hidden_tags = ["private"]\n[limits]\nwrites_per_session = 3\n')
    ) as server:
        server.loaded(5)
        version = server.tool("get", id="Work/Plan.md")["local_version"]
        asked = {"id": "Work/Plan.md", "local_version": version, "title": "New"}
        assert server.error("save", **asked)["details"]["notes"] == 2
        saved = server.tool("save", **asked, rewrite_links=True)
        assert saved["note"].endswith("Links were rewritten in 2 other notes.")
        assert (vault / "Hidden links.md").read_text() == LINKS["Hidden links.md"]
        assert server.error("save", id="Index.md", append="x")["subcategory"] == "policy"
        assert server.leave() == 0


def follow(vault: Path, path: str) -> list[str]:
    """How that begins what a viewer that knows of no vault finds behind the Markdown links of a file."""
    targets = re.findall(
        r"\]\(<?([^)#>\"]*?)>?(?:#\S*)?(?: \".*?\")?\)", (vault / path).read_text()
    )
    places = [Path(os.path.normpath((vault / path).parent / unquote(one))) for one in targets]
    return [one.read_text()[:5] if one.is_file() else "nothing" for one in places]


def test_links_that_a_plain_viewer_follows_lead_to_the_same_files_after_a_move(
    env: dict[str, str], vault: Path, tmp_path: Path
) -> None:
    own = (
        "![i](img/a%20b.png) [o](Other.md#x) [c](<../Home/my cup.md>) ![no](gone.png) "
        '[out](../../outside.txt) [d](../Private/Diary.md) [s](../Private/s.txt "Secret")\n'
    )
    texts = {
        "Work/Plan.md": own,
        "Work/Tea.md": '[[Plan]] [p](Plan.md#Costs "Title") `[p](Plan.md)` [r](./Plan.md)\n',
        "Index.md": "[p](Work/Plan.md) [[Work/Plan]] [by name](Other.md)\n",
        "Home/my cup.md": "cup\n",
        "Work/img/a b.png": "image\n",
        "Private/s.txt": "secret\n",
        "../outside.txt": "outside\n",
    }
    put(vault, texts)
    before = {path: follow(vault, path) for path in ("Work/Plan.md", "Work/Tea.md", "Index.md")}
    with Server(under_rules(env, tmp_path, 'hidden_paths = ["Private"]\n')) as server:
        server.loaded(6)
        version = server.tool("get", id="Work/Plan.md")["local_version"]
        asked = {"id": "Work/Plan.md", "local_version": version, "title": "Home/Old/Project"}
        refused = server.error("save", **asked)
        assert (refused["details"]["links"], refused["details"]["notes"]) == (11, 3)
        server.tool("save", **asked, rewrite_links=True)
        assert (vault / "Home" / "Old" / "Project.md").read_text() == (
            "![i](../../Work/img/a%20b.png) [o](../../Work/Other.md#x) [c](<../my cup.md>) "
            "![no](gone.png) [out](../../../outside.txt) [d](../../Private/Diary.md) "
            '[s](../../Private/s.txt "Secret")\n'
        )
        assert (vault / "Work" / "Tea.md").read_text() == (
            '[[Project]] [p](../Home/Old/Project.md#Costs "Title") `[p](Plan.md)` '
            "[r](../Home/Old/Project.md)\n"
        )
        assert (vault / "Index.md").read_text() == (
            "[p](Home/Old/Project.md) [[Home/Old/Project]] [by name](Other.md)\n"
        )
        before["Work/Tea.md"][1] = "nothing"  # it stands in code
        before["Home/Old/Project.md"] = before.pop("Work/Plan.md")
        assert {path: follow(vault, path) for path in before} == before
        server.tool("manage", action="undo", id="Home/Old/Project.md", confirm=True)
        assert (vault / "Work" / "Plan.md").read_text() == own
        assert follow(vault, "Work/Tea.md")[0] == own[:5]
        assert server.leave() == 0


def test_a_move_does_not_tell_which_files_are_hidden(
    env: dict[str, str], vault: Path, tmp_path: Path
) -> None:
    (vault / "Private" / "s.txt").write_text("secret\n")
    (vault / "Work" / "s.txt").write_text("open\n")
    (vault / "Work" / "own.txt").write_text("of a hidden note\n")
    (vault / "Owner.md").write_text("#private ![](Work/own.txt)\n")
    probes = "[a](Private/s.txt) [b](Private/none.txt) [c](Private/Diary.md) [d](Hidden.md) [g](Work/own.txt)"
    (vault / "Probe.md").write_text(f"{probes} [e](Work/s.txt) [f](.obsidian/x.json)\n")
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "x.json").write_text("{}\n")
    with Server(
        under_rules(env, tmp_path, 'hidden_paths = ["Private"]\nhidden_tags = ["private"]\n')
    ) as server:
        server.loaded(3)
        version = server.tool("get", id="Probe.md")["local_version"]
        refused = server.error("save", id="Probe.md", local_version=version, title="New/Probe")
        assert refused["details"]["links"] == 1
        saved = rename(server, "Probe.md", "New/Probe", rewrite_links=True)
        assert (vault / saved["id"]).read_text() == (
            f"{probes} [e](../Work/s.txt) [f](.obsidian/x.json)\n"
        )
        assert server.leave() == 0


KILLS, ROUNDS = (4, 10) if LONG else (2, 1)
LINKING = 12


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_server_that_is_killed_in_a_renaming_leaves_the_note_once_and_no_broken_link(
    env: dict[str, str], vault: Path, turn: int
) -> None:
    text = "number {}: [[Work/Plan]] and [[Plan|the plan]]\n"
    put(vault, {f"Link {number}.md": text.format(number) for number in range(LINKING)})
    rng = dice(f"killed renamings {turn}")
    note_id = "Work/Plan.md"
    for number in range(KILLS):
        target = f"Home {number}/Name {number}"
        with Server(env) as server:
            server.loaded(4 + LINKING)
            note = server.tool("get", id=note_id)
            asked = {"title": target, "text": f"# Plan {number}\n", "rewrite_links": True}
            server.send(call(99, "save", id=note_id, local_version=note["local_version"], **asked))
            time.sleep(rng.random() * 0.12)
            server.signal(signal.SIGKILL)
        with Server(env) as server:
            server.loaded(4 + LINKING)
            until(
                lambda s=server: (
                    s.tool("manage", action="get_stats")["stats"]["pending_writes"] == 0
                )
            )
            found = [one for one in vault.rglob("*.md") if one.read_text().startswith("# Plan")]
            (path,) = found
            note_id = str(path.relative_to(vault))
            name = note_id.removesuffix(".md")
            assert note_id == f"{target}.md" or f"# Plan {number}" not in path.read_text()
            until(lambda s=server, n=note_id: s.tool("get", id="Work/Plan.md")["id"] == n)
            for other in range(LINKING):
                text = (vault / f"Link {other}.md").read_text()
                stem = name.rpartition("/")[2]
                assert text == f"number {other}: [[{name}]] and [[{stem}|the plan]]\n"
            assert server.leave() == 0


def test_an_editor_and_an_agent_that_renames_lose_nothing(env: dict[str, str], vault: Path) -> None:
    written: list[str] = []
    stop = threading.Event()

    def edit() -> None:
        while not stop.is_set():
            for path in sorted(vault.rglob("Plan*.md")):
                line = f"line {len(written)}"
                try:
                    with path.open("a") as file:
                        file.write(f"{line}\n")
                        here = os.fstat(file.fileno()).st_ino == path.stat().st_ino
                except FileNotFoundError:
                    continue
                if here:
                    written.append(line)
            time.sleep(0.2)

    editor = threading.Thread(target=edit)
    with Server(env) as server:
        server.loaded(4)
        editor.start()
        done = 0
        for number in range(30 if LONG else 4):
            note = server.tool("get", id="Work/Plan.md")
            result = server.result(
                "save",
                id=note["id"],
                local_version=note["local_version"],
                title=f"Plan {number}",
                append=f"agent {number}",
            )
            done += not result.get("isError")
        stop.set()
        editor.join()
        until(lambda: server.tool("manage", action="get_stats")["stats"]["pending_writes"] == 0)
        text = "".join(path.read_text() for path in vault.rglob("*Plan*.md"))
        missing = [line for line in written if f"{line}\n" not in text]
        assert (missing, done > 0, len(written) > 0) == ([], True, True)
        assert server.leave() == 0
