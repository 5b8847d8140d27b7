"""Test what people type first, and what they read then."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_notarium import __version__
from support.terminal import CTRL_C, Terminal
from support.whole import Server, run, store_environment

INTERRUPTED = """
import sys
class Stop:
    def find_spec(self, name, *_):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from mcp_notarium.__main__ import main
sys.exit(main())
"""


@pytest.fixture(name="env")
def _env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "notes").mkdir()
    for name, text in {
        "Pancakes.md": "flour\n",
        "Waffles - like pancakes.md": "flour, pancakes pancakes\n",
        "one/Kitchen.md": "plan\n",
        "two/Kitchen.md": "other plan\n",
    }.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    env = store_environment(tmp_path, "local")
    done = run(env, "import", str(tmp_path / "notes"), "--yes")
    assert done.returncode == 0, done.stderr
    return env


def test_ids_can_be_read_and_used_on_a_pipe_and_at_a_terminal(env: dict[str, str]) -> None:
    found = run(env, "search", "flour")
    shown = " ".join(found.stderr.split())
    note_id = shown.partition("mcp-notarium show ")[2].partition("`")[0]
    assert len(note_id) == 32
    assert note_id in found.stdout
    assert "flour" in run(env, "show", note_id).stdout
    several = run(env, "show", "flour")
    assert "[redacted]" not in several.stderr
    assert note_id in several.stderr
    with Terminal(env, "search", "flour") as terminal:
        assert terminal.ends() == 0
    assert note_id in terminal.screen
    assert "[redacted]" not in terminal.screen


@pytest.mark.parametrize("typed", ["Pancakes", " PANCAKES "])
def test_an_exact_title_names_its_note_though_others_have_the_word(
    env: dict[str, str], typed: str
) -> None:
    shown = run(env, "show", typed)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == "flour\n"


def test_a_title_of_several_notes_names_none(env: dict[str, str]) -> None:
    shown = run(env, "show", "Kitchen")
    assert shown.returncode != 0
    assert "2 notes have this title" in shown.stderr


def test_list_shows_the_newest_notes_and_takes_words(env: dict[str, str]) -> None:
    assert "4 of 4 notes" in run(env, "list").stderr
    assert "2 of 2 notes" in run(env, "list", "flour").stderr
    assert run(env, "list", "-n", "1").stdout.count("Kitchen") <= 1


def test_help_and_version_are_words_too(env: dict[str, str]) -> None:
    assert run(env, "help").stdout == run(env, "--help").stdout
    assert run(env, "help", "undo").stdout == run(env, "undo", "--help").stdout
    assert run(env, "version").stdout == f"mcp-notarium {__version__}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("find", "search"), ("ls", "list"), ("CAT", "show"), ("serach", "search"), ("init", "setup")],
)
def test_an_unknown_command_names_the_one_that_is_meant(
    env: dict[str, str], typed: str, meant: str
) -> None:
    done = run(env, typed, "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"did you mean {meant}?" in done.stderr


@pytest.mark.parametrize("typed", ["rm", "delete", "mv"])
def test_a_command_that_would_change_a_note_says_who_does(env: dict[str, str], typed: str) -> None:
    done = run(env, typed, "x")
    assert done.returncode == 2
    assert "by an assistant" in " ".join(done.stderr.split())


def test_what_a_search_leaves_out_is_typed_as_it_is(env: dict[str, str]) -> None:
    def total(*typed: str) -> int:
        done = run(env, *typed, "--json")
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["total"])

    assert total("list", "-tag:none") == 4
    assert total("search", "-tag:none", "pancakes") == 2
    assert total("search", "pancakes", "-waffles") == 1
    assert total("search", "-nothing", "flour", "-n", "1") == 2
    assert total("list", "-n1", "-pancakes") == 2
    assert "plan" in run(env, "show", "kitchen", "-other").stdout
    assert "did you mean --json?" in run(env, "search", "flour", "-json").stderr
    assert "usage:" in run(env, "search", "-h").stdout
    assert run(env, "status", "-tag:x").returncode == 2


def test_a_question_that_nobody_can_answer_names_the_option(env: dict[str, str]) -> None:
    done = run(env, "purge")
    assert done.returncode != 0
    assert "`--yes`" in " ".join(done.stderr.split())
    assert run(env, "list").stdout


def test_policy_explain_ends_with_one_verdict_and_its_exit_code(
    env: dict[str, str], tmp_path: Path
) -> None:
    yes = run(env, "policy", "explain", "other plan", "get")
    assert (yes.returncode, yes.stdout.splitlines()[-1][:13]) == (0, "Verdict: yes.")
    data = Path(env["NOTARIUM_DATA_DIR"])
    policy = data / "policy.toml"
    policy.write_text('mode = "read-only"\n')
    policy.chmod(0o600)
    no = run(env, "policy", "explain", "other plan", "save")
    assert (no.returncode, no.stdout.splitlines()[-1][:12]) == (1, "Verdict: no.")
    assert "permitted." not in no.stdout


@pytest.mark.parametrize("module", ["mcp_notarium.cli.main", "argparse", "mcp_notarium.cli.notes"])
def test_ctrl_c_while_the_program_is_still_loaded_shows_no_trace(
    env: dict[str, str], module: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(name=module), "list"], env=env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 130
    assert done.stderr.strip() == "Interrupted. Nothing was changed."


def test_ctrl_c_between_two_clients_says_what_was_added(tmp_path: Path) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "NOTARIUM_KEYCHAIN": "off",
    }
    for place in (".cursor", ".config/zed"):
        (tmp_path / place).mkdir(parents=True)
    made = run(env, "setup", "--yes", "--store", "local", "--no-recovery", "--client", "cursor")
    assert made.returncode == 0, made.stderr
    assert run(env, "uninstall", "--yes").returncode == 0
    with Terminal(env, "install", "--client", "cursor", "--client", "zed") as terminal:
        terminal.shows("to Cursor?")
        terminal.type("y\r")
        terminal.shows("to Zed?")
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
    assert "What was added so far stays" in " ".join(terminal.screen.split())
    assert "notarium" in (tmp_path / ".cursor/mcp.json").read_text()
    assert not (tmp_path / ".config/zed/settings.json").exists()


def test_a_key_without_enter_answers_no_question(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NOTARIUM_KEYCHAIN": "off"}
    for place in (".cursor", ".config/zed"):
        (tmp_path / place).mkdir(parents=True)
    made = run(env, "setup", "--yes", "--store", "local", "--no-recovery", "--client", "cursor")
    assert made.returncode == 0, made.stderr
    assert run(env, "uninstall", "--yes").returncode == 0
    with Terminal(env, "install", "--client", "cursor", "--client", "zed") as terminal:
        terminal.shows("to Cursor?")
        terminal.type("n\r")
        terminal.shows("to Zed?")
        terminal.type("n\r")
        assert terminal.ends() == 0
    assert not (tmp_path / ".cursor/mcp.json").exists()
    assert not (tmp_path / ".config/zed/settings.json").exists()


def test_the_name_that_the_audit_log_has_of_a_note_is_a_name_for_every_command(
    tmp_path: Path,
) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "Plan.md").write_text("a plan\n")
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(tmp_path / "vault"))
    assert run(env, "show", "Plan.md").returncode == 0
    logged = run(env, "audit", "tail", "--json").stdout
    (name,) = set(re.findall(r"id:[0-9a-f]{16}", logged))
    assert run(env, "show", name).stdout == "a plan\n"
    assert "Plan.md" in run(env, "history", name, "--json").stdout
    refused = run(env, "undo", name, "--yes")
    assert "no note has this id" not in refused.stderr
    assert "no change" in refused.stderr or "nothing" in refused.stderr.lower()
    assert "Verdict: yes" in run(env, "policy", "explain", name, "get").stdout
    unknown = run(env, "show", "id:0123456789abcdef")
    assert unknown.returncode == 1
    (tmp_path / "vault" / "Plan.md").rename(tmp_path / "vault" / "Moved.md")
    assert run(env, "show", name).stdout == "a plan\n"


def test_a_title_and_a_tag_with_its_sign_name_the_note_in_every_command(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "Plan.md").write_text("a plan #garden\n")
    (tmp_path / "vault" / "Other.md").write_text("see [[Plan]], plan plan\n")
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(tmp_path / "vault"))
    assert run(env, "show", "plan").stdout == "a plan #garden\n"
    explained = run(env, "policy", "explain", "plan", "get")
    assert (explained.returncode, "Plan.md" in explained.stdout) == (0, True), explained.stdout
    assert run(env, "show", "pLan.MD").stdout == "a plan #garden\n"
    assert "Note Plan.md " in run(env, "policy", "explain", "plan.MD", "get").stdout
    (tmp_path / "vault" / "Third.md").write_text("another garden, planned\n")
    run(env, "sync")
    several = run(env, "policy", "explain", "garden", "get").stdout
    assert "2 notes have these words. Give the id of one: " in several
    assert "Plan (Plan.md)" in several
    (tmp_path / "vault" / "Third.md").unlink()
    run(env, "sync")
    for words in ("tag:#garden", "tag:#Garden plan", "-tag:#other tag:#garden"):
        assert json.loads(run(env, "search", words, "--json").stdout)["total"] == 1, words
        assert run(env, "show", words).stdout == "a plan #garden\n", words
    assert json.loads(run(env, "list", "--json", "--", "-tag:#garden").stdout)["total"] == 1


def test_the_title_of_a_note_in_the_trash_is_a_name_for_every_command(tmp_path: Path) -> None:
    env = store_environment(tmp_path, "local")
    with Server(env) as server:
        made = server.tool("save", text="Exact title\nbody\n")
        server.tool("save", id=made["id"], append="more")
        version = server.tool("get", id=made["id"])["local_version"]
        server.tool("manage", action="trash", id=made["id"], local_version=version)
        assert server.leave() == 0
    assert "“Exact title”" in run(env, "audit", "tail").stdout
    assert run(env, "show", "Exact", "title").stdout == "Exact title\nbody\nmore\n"
    assert made["id"] in run(env, "history", "Exact title", "--json").stdout
    assert "Verdict: yes" in run(env, "policy", "explain", "Exact title", "get").stdout
    assert run(env, "undo", "Exact title", "--yes").returncode == 0
    assert "Verdict: unknown" in run(env, "policy", "explain", "No title", "get").stdout


def test_a_search_right_after_a_restore_finds_the_notes(env: dict[str, str]) -> None:
    assert run(env, "restore", "--make").returncode == 0
    done = run(env, "restore", "--yes")
    assert done.returncode == 0, done.stderr
    found = run(env, "search", "flour", "--json")
    assert json.loads(found.stdout)["total"] == 2, found.stderr


def test_uninstall_of_a_broken_file_says_how_to_take_the_server_out(env: dict[str, str]) -> None:
    place = Path(env["HOME"]) / ".cursor"
    place.mkdir()
    (place / "mcp.json").write_text("{")
    done = run(env, "uninstall", "--client", "cursor", "--yes")
    assert done.returncode == 1
    assert "by hand" in done.stderr
    assert "install --print" not in done.stderr
    assert (place / "mcp.json").read_text() == "{"


@pytest.mark.parametrize("command", [["search", "flour"], ["repair"]])
def test_what_works_of_a_damaged_notebook_is_named_first(
    env: dict[str, str], command: list[str]
) -> None:
    assert run(env, "restore", "--make").returncode == 0
    (database,) = Path(env["NOTARIUM_DATA_DIR"]).rglob("notarium_cache*.sqlite.encrypted")
    with database.open("r+b") as file:
        file.write(os.urandom(4096))
    said = " ".join(run(env, *command).stderr.split())
    assert 0 < said.find("`mcp-notarium restore`") < said.find("restore --backup"), said
    assert run(env, "restore", "--yes").returncode == 0
    assert "flour" in run(env, "show", "Pancakes").stdout
