"""Test a real, confined server over a vault that other programs use at the same time."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from support.whole import Server, run, store_environment, until

pytestmark = pytest.mark.slow("each test starts a server of its own")
PLAN = (
    b"\xef\xbb\xbf---\r\n# mine\r\ntags: [work, 'a/b'] # two\r\ncreated: 2024-01-02\r\n---\r\n"
    b"# Plan\r\n- one #todo\r\n"
)


@pytest.fixture(name="vault")
def _vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    (vault / "Projects").mkdir(parents=True)
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "workspace.md").write_text("not a note\n")
    (vault / "Projects" / "Plan.md").write_bytes(PLAN)
    (vault / "latin.md").write_bytes(b"caf\xe9\n")
    return vault


@pytest.fixture(name="env")
def _env(tmp_path: Path, vault: Path) -> dict[str, str]:
    return store_environment(tmp_path, "vault", VAULT_PATH=str(vault), NOTARIUM_DESTRUCTIVE="trust")


def test_a_note_is_read_tagged_edited_trashed_and_brought_back(
    env: dict[str, str], vault: Path
) -> None:
    plan = vault / "Projects" / "Plan.md"
    plan.chmod(0o664)
    os.setxattr(plan, "user.mark", b"kept")
    owner, group = (65534, 1) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    os.chown(plan, owner, group)
    with Server(env) as server:
        server.loaded(1)
        note = server.tool("get", id="Projects/Plan.md")
        assert (note["title"], note["tags"]) == ("Plan", ["work", "a/b", "todo"])
        assert note["text"].encode() == PLAN
        saved = server.tool(
            "save",
            id=note["id"],
            local_version=note["local_version"],
            tags=["work", "new", "todo"],
        )
        lines = PLAN.replace(b"'a/b'", b"new")
        assert plan.read_bytes() == lines
        assert stat.S_IMODE(plan.stat().st_mode) == 0o664
        assert (plan.stat().st_uid, plan.stat().st_gid) == (owner, group)
        assert os.getxattr(plan, "user.mark") == b"kept"
        server.tool("save", id=note["id"], append="- two")
        assert plan.read_bytes() == lines + b"- two\r\n"
        refused = server.error(
            "save", id=note["id"], local_version=saved["local_version"], tags=["work"]
        )
        assert refused["subcategory"] == "inline_tags"
        version = server.tool("get", id=note["id"])["local_version"]
        version = server.tool("manage", action="trash", id=note["id"], local_version=version)[
            "new_local_version"
        ]
        assert not plan.exists()
        assert (vault / ".trash" / "Projects" / "Plan.md").read_bytes() == lines + b"- two\r\n"
        server.tool("manage", action="untrash", id=note["id"], local_version=version)
        assert plan.read_bytes() == lines + b"- two\r\n"
        assert server.tool("manage", action="get_stats")["stats"]["sync_left_out"] == 1
        assert server.leave() == 0


def test_nobody_is_asked_about_a_file_that_may_only_be_read(
    env: dict[str, str], vault: Path
) -> None:
    (vault / "long.md").write_text("long " * 200)
    (vault / "long.md").chmod(0o444)
    with Server(env) as server:
        server.loaded(2)
        version = server.tool("get", id="long.md")["local_version"]
        drop = {"id": "long.md", "local_version": version, "text": "short"}
        assert server.error("save", **drop)["subcategory"] == "read_only"
        (vault / "long.md").chmod(0o644)
        assert server.error("save", **drop)["subcategory"] == "confirmation_required"
        assert server.leave() == 0


def test_new_notes_get_names_of_their_own_and_are_deleted_for_good(
    env: dict[str, str], vault: Path
) -> None:
    with Server(env) as server:
        server.loaded(1)
        made = server.tool("save", text="hello\n", title="Projects/Plan", tags=["x"])
        assert made["id"] == "Projects/Plan 2.md"
        text = "---\ntags:\n  - x\n---\nhello\n"
        assert (vault / "Projects" / "Plan 2.md").read_text() == text
        assert server.tool("save", text="# A new *day*: one\n")["id"] == "A new day one.md"
        version = server.tool(
            "manage", action="trash", id=made["id"], local_version=made["local_version"]
        )["new_local_version"]
        server.tool(
            "manage",
            action="delete_permanently",
            id=made["id"],
            local_version=version,
            confirm=True,
        )
        assert not (vault / ".trash" / "Projects" / "Plan 2.md").exists()
        assert server.leave() == 0


def test_what_other_programs_do_is_seen_and_merged(env: dict[str, str], vault: Path) -> None:
    plan = vault / "Projects" / "Plan.md"
    with Server(env) as server:
        server.loaded(1)
        note = server.tool("get", id="Projects/Plan.md")
        (vault / "Neu").mkdir()
        (vault / "Neu" / "Idee.md").write_text("from an editor\n")
        until(lambda: server.tool("list", query="editor")["total_items"] == 1)
        plan.write_bytes(PLAN.replace(b"# Plan", b"# Plan B"))
        text = note["text"] + "- two\n"
        server.tool("save", id=note["id"], local_version=note["local_version"], text=text)
        assert plan.read_bytes() == PLAN.replace(b"# Plan", b"# Plan B") + b"- two\r\n"
        plan.rename(vault / "Neu" / "Moved.md")
        until(lambda: server.tool("list", query="todo")["content"][0]["uuid"] == "Neu/Moved.md")
        assert server.tool("get", id="Projects/Plan.md")["id"] == "Neu/Moved.md"
        assert server.leave() == 0


def test_what_an_agent_wrote_is_restored_after_another_program_has_replaced_or_removed_it(
    env: dict[str, str], vault: Path
) -> None:
    plan, new = vault / "Projects" / "Plan.md", vault / "Ideas" / "New.md"
    with Server(env) as server:
        server.loaded(1)

        def history(note_id: str) -> list[dict[str, str]]:
            rows: list[dict[str, str]] = server.tool("manage", action="history", id=note_id)[
                "history"
            ]
            return rows

        server.tool("save", id="Projects/Plan.md", append="- by the agent")
        made = server.tool("save", title="Ideas/New", text="an idea\n", tags=["x"])
        text = new.read_text()
        plan.write_bytes(PLAN + b"- from an old buffer\r\n")
        new.unlink()
        until(lambda: server.tool("list", query="buffer")["total_items"] == 1)
        until(lambda: "agent" not in server.tool("get", id="Projects/Plan.md")["text"])
        lost = history("Projects/Plan.md")[1]["version"]
        version = server.tool("get", id="Projects/Plan.md")["local_version"]
        server.tool(
            "manage",
            action="restore_version",
            id="Projects/Plan.md",
            version=lost,
            local_version=version,
            confirm=True,
        )
        assert plan.read_bytes() == PLAN + b"- by the agent\r\n"
        until(lambda: server.tool("list", query="idea")["total_items"] == 0)
        (row,) = history(made["id"])
        server.tool(
            "manage",
            action="restore_version",
            id=made["id"],
            version=row["version"],
            confirm=True,
        )
        assert new.read_text() == text
        assert server.leave() == 0


@pytest.mark.skipif(not Path("/usr/bin/git").exists(), reason="needs git")
def test_another_branch_is_followed_with_its_renames(env: dict[str, str], vault: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], cwd=vault, check=True, capture_output=True)

    for number in range(60):
        (vault / f"Note {number}.md").write_text(f"number{number}\n")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "other")
    git("rm", "-q", *(f"Note {number}.md" for number in (*range(9), *range(30, 60))))
    for number in range(9, 20):
        git("mv", f"Note {number}.md", f"Projects/Moved {number}.md")
    (vault / "Note 20.md").write_text("changed20\n")
    git("commit", "-qam", "two")
    git("checkout", "-q", "main")
    with Server(env) as server:
        server.loaded(61)

        def ids() -> set[str]:
            page = server.tool("list", limit=100)
            return {one["uuid"] for one in page["content"]}

        def on_disk() -> set[str]:
            return {
                str(path.relative_to(vault))
                for path in vault.rglob("*.md")
                if not path.relative_to(vault).parts[0].startswith(".")
            } - {"latin.md"}

        git("checkout", "-q", "other")
        until(lambda: ids() == on_disk())
        until(lambda: server.tool("list", query="changed20")["total_items"] == 1)
        git("checkout", "-q", "main")
        until(lambda: ids() == on_disk())
        assert server.leave() == 0


def test_without_its_folder_it_says_so(env: dict[str, str], vault: Path) -> None:
    vault.rename(vault.with_name("elsewhere"))
    with Server(env) as server:
        until(lambda: server.tool("manage", action="get_stats")["stats"]["db_sync_error_count"] > 0)
        error = server.error("save", text="x\n")
        assert (error["subcategory"], error["retryable"]) == ("place_unusable", False)
        assert str(vault) in error["message"].replace("~", str(vault.parent))
        error = server.error("get", id="x")
        assert (error["subcategory"], error["retryable"]) == ("place_unusable", False)
        assert "correct VAULT_PATH" in error["resolution_hint"]
        assert server.leave() == 0


def test_a_folder_that_others_can_write_is_named_at_start_and_by_doctor(
    env: dict[str, str], vault: Path
) -> None:
    def notices() -> list[str]:
        with Server(env) as server:
            server.loaded(1)
            said = server.tool("manage", action="get_stats")["stats"]["notices"]
            assert server.leave() == 0
        return said

    assert notices() == []
    vault.chmod(0o777)
    assert "can write the folder of the vault" in notices()[0]
    shown = run(env, "doctor").stdout
    assert "can write the folder of the vault" in shown
    assert "a vault of 2 files is reachable" in shown


def test_a_tag_in_a_text_counts_for_the_policy(
    env: dict[str, str], vault: Path, tmp_path: Path
) -> None:
    (vault / "Hidden.md").write_text("---\ntags: [private]\n---\nsecret\n")
    (vault / "Broken.md").write_text("---\ntags: [private\n---\nsecret\n")
    policy = tmp_path / "policy.toml"
    policy.write_text('[notes]\nhidden_tags = ["private"]\n')
    policy.chmod(0o600)
    with Server(env | {"NOTARIUM_POLICY_FILE": str(policy)}) as server:
        server.loaded(1)
        for arguments in (
            {"text": "a #Private note\n"},
            {"text": "---\ntags: [private]\n---\n"},
            {"id": "Projects/Plan.md", "append": "- #private"},
        ):
            assert server.error("save", **arguments)["subcategory"] == "policy"
        for name in ("Hidden.md", "Broken.md"):
            assert server.error("get", id=name)["category"] == "NOT_FOUND"
        assert (vault / "Projects" / "Plan.md").read_bytes() == PLAN
        assert server.leave() == 0


def test_a_long_note_names_its_headings_and_their_lines(env: dict[str, str], vault: Path) -> None:
    part = "".join(f"word {number} of a long note\n" for number in range(900))
    (vault / "Long.md").write_text(f"---\n# comment\n---\n# One\n{part}## Zebras\n{part}")
    with Server(env) as server:
        server.loaded(2)
        note = server.tool("get", id="Long.md")
        assert note["text_is_partial"]
        assert note["headings"] == [
            {"line": 4, "heading": "# One", "number": 1},
            {"line": 905, "heading": "## Zebras", "number": 2},
        ]
        asked = server.tool("get", id="Long.md", range_line_start=905, range_line_count=2)
        assert asked["text"].startswith("## Zebras\n")
        assert asked["headings"] == note["headings"]
        assert "headings" not in server.tool("get", id="Projects/Plan.md")
        found = server.tool("list", query="zebra")["content"]
        assert [one["uuid"] for one in found] == ["Long.md"]
        assert found[0]["match"]["line"] == 905


def test_a_file_written_anew_with_the_same_text_is_known_by_what_it_is_now(
    env: dict[str, str], vault: Path
) -> None:
    """A sync tool or an editor does so; if the new file is renamed then, it is still that note."""
    plan, temporary = vault / "Projects" / "Plan.md", vault / "Projects" / "other.tmp"
    with Server(env) as server:
        server.loaded(1)
        before = server.tool("get", id="Projects/Plan.md")
        temporary.write_bytes(PLAN)
        temporary.rename(plan)
        (vault / "Last.md").write_text("told in the same answer, or later\n")
        server.loaded(2)
        plan.rename(vault / "Moved.md")
        until(lambda: server.tool("get", id="Projects/Plan.md")["id"] == "Moved.md")
        assert server.tool("get", id="Moved.md")["text"] == before["text"]


def test_a_note_is_as_old_as_before_a_save_also_for_a_new_index(
    env: dict[str, str], vault: Path, tmp_path: Path
) -> None:
    old = vault / "Old.md"
    old.write_text("old\n")
    os.utime(old, (1_700_000_000, 1_700_000_000))
    with Server(env) as server:
        server.loaded(2)
        server.tool("save", id="Old.md", append="see #garden")
        assert server.tool("get", id="Old.md")["created_at"] == 1_700_000_000
        (row,) = server.tool("list", query="created:2023-11 garden")["content"]
        assert row["uuid"] == "Old.md"
    assert b"#garden" in old.read_bytes()
    with Server(env | {"NOTARIUM_DATA_DIR": str(tmp_path / "other")}) as server:
        server.loaded(2)
        assert server.tool("get", id="Old.md")["created_at"] == 1_700_000_000
        plan = server.tool("get", id="Projects/Plan.md")
        assert plan["created_at"] == 1_704_153_600, "2 January 2024, as its front matter says"
