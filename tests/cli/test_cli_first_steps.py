"""Test a new user's first commands: the README's steps, a weak passphrase, a misplaced policy file."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support import cheap_stretching
from support.terminal import Terminal
from support.whole import Server, account_folder, environment, run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are needed")
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
WEAK = "hunter2"
NAME, HOME = "you@example.com", "/home/you"


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator()
    simulator.put("one", content="The first note", tags=[])
    with simulator.running():
        yield simulator


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_readmes_commands_work_typed_line_by_line(tmp_path: Path) -> None:
    bare = {"HOME": str(tmp_path), "PS1": "next> ", "NOTARIUM_KEYCHAIN": "off"}
    bare["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    first, *rest = [block for block in blocks(README, "sh") if "mcp-notarium setup" in block]
    assert first.splitlines()[-1] == "mcp-notarium setup"
    (lines,) = (block.splitlines() for block in rest)
    assert lines[-1].startswith("mcp-notarium uninstall")
    with Terminal(bare, program=["/bin/sh", "-i"]) as shell:
        for line in [*lines[:-1], "mcp-notarium uninstall --yes"]:
            shell.shows("next> ")
            shell.screen = ""
            yes = " --yes" if "install --client" in line else ""
            shell.type(f"{line.partition('  ')[0]}{yes}; echo code $?\n")
            shell.shows("code 0")
        shell.shows("is out of ~/.codex/config.toml")
    assert not [*tmp_path.glob(".codex/*"), *tmp_path.glob(".cursor/*")]


def test_an_entry_without_an_account_serves(simulator: Simulator, tmp_path: Path) -> None:
    (entry,) = (json.loads(block) for block in blocks(CONFIGURATION, "json"))
    key = tmp_path / ".config" / "notarium.key"
    unset = ("SIMPLENOTE_USERNAME", "DB_ENCRYPTION_KEY")
    bare = environment(simulator, tmp_path, **dict.fromkeys(unset))
    assert run(bare, "generate-key", "--file", str(key)).returncode == 0
    given = {
        name: value.replace(NAME, simulator.username).replace(HOME, str(tmp_path))
        for name, value in entry["mcpServers"]["notarium"]["env"].items()
    }
    assert given["DB_ENCRYPTION_KEY_FILE"] == str(key)
    with Server(bare | given) as server:
        server.loaded(1)
        assert server.leave() == 0


def test_claude_codes_line_has_the_name_before_the_variables() -> None:
    """The option takes as many values as follow it, and would take the name for one of them."""
    (line,) = (one for one in CONFIGURATION.splitlines() if one.startswith("claude mcp add"))
    assert re.fullmatch(
        r"claude mcp add --scope user notarium( --env \w+=\S+)+ -- /path/to/mcp-notarium", line
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_shows_a_key_on_a_command_line(page: Path) -> None:
    assert "DB_ENCRYPTION_KEY=" not in page.read_text(encoding="utf-8")


def test_a_key_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    path = tmp_path / "new folder" / "notarium.key"
    done = run(env, "generate-key", "--file", str(path))
    assert done.returncode == 0, done.stderr
    content = path.read_text()
    assert re.fullmatch(r"raw:[0-9a-f]{64}\n", content)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert content.strip() not in done.stdout + done.stderr
    assert f"DB_ENCRYPTION_KEY_FILE={path}" in done.stderr
    again = run(env, "generate-key", "--file", str(path))
    assert again.returncode == 1
    assert "exists already; nothing was changed" in again.stderr
    assert path.read_text() == content


@pytest.mark.parametrize("key", [WEAK, "your key"])
def test_a_weak_key_makes_no_cache_anywhere(simulator: Simulator, tmp_path: Path, key: str) -> None:
    env = environment(simulator, tmp_path, DB_ENCRYPTION_KEY=key)
    with Terminal(env, "login") as terminal:
        assert terminal.ends() == 10
        assert "too weak for a new cache: it has fewer than 15 characters" in terminal.screen
        assert "mcp-notarium generate-key --file PATH" in terminal.screen
        assert "mcp-notarium login --allow-weak" in terminal.screen
    assert run(env, "login", "--code-stdin", stdin="ABCDEF\n").returncode == 10
    with Server(env) as server:
        refused = server.error("list")
        assert refused["details"]["verdict"] == "key_missing"
        assert "too weak for a new cache" in refused["message"]
        assert "generate-key" in refused["resolution_hint"]
        assert key not in json.dumps(refused)
        assert server.leave() == 1
    assert run(env, "status").returncode == run(env, "doctor", "--offline").returncode == 10
    assert not simulator.sent_codes
    folder = account_folder(simulator, tmp_path)
    assert not [file.name for file in folder.glob("notarium_*")]


def test_allow_weak_makes_a_cache_with_a_weak_key_and_a_warning(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path, DB_ENCRYPTION_KEY=WEAK, **cheap_stretching.MARKED)
    with Terminal(env, "login", "--password", "--allow-weak") as terminal:
        terminal.shows("Simplenote password: ")
        terminal.type(f"{simulator.password}\n")
        assert terminal.ends() == 0, terminal.screen
    with Server(env) as server:
        server.loaded(1)
        assert server.leave() == 0
    doctor = run(env, "doctor", "--offline")
    assert doctor.returncode == 0
    assert "warn  passphrase" in doctor.stdout
    assert "DB_ENCRYPTION_KEY can be guessed: it has fewer than 15 characters" in doctor.stdout
    assert WEAK not in doctor.stdout
    database = next(account_folder(simulator, tmp_path).glob("*.sqlite.encrypted"))
    database.write_bytes(bytes(database.stat().st_size))
    refused = run(env, "reset-cache", "--yes")
    assert refused.returncode == 1
    assert "`--allow-weak` takes this one all the same" in refused.stderr
    assert database.exists()  # nothing was set aside that nothing could take the place of
    assert run(env, "reset-cache", "--yes", "--allow-weak").returncode == 0
    assert not database.exists()


def test_a_good_key_is_not_warned_of(simulator: Simulator, tmp_path: Path) -> None:
    env = environment(simulator, tmp_path)
    with Server(env) as server:
        server.loaded(1)
        assert server.leave() == 0
    assert "passphrase  " not in run(env, "doctor", "--offline").stdout


def test_a_policy_in_an_accounts_folder_stops_the_start_and_says_where_it_belongs(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    right = tmp_path / "cache" / "policy.toml"
    named = f"~/{right.relative_to(tmp_path)}"
    assert run(env, "policy", "check").stdout == f"there is no policy file at {named}\n"
    assert f"policy file: {named} (there is none)" in run(env, "policy", "show").stdout
    assert json.loads(run(env, "policy", "check", "--json").stdout)["looked_at"] == str(right)
    misplaced = account_folder(simulator, tmp_path) / "policy.toml"
    misplaced.parent.mkdir(mode=0o700, parents=True)
    misplaced.parent.parent.chmod(0o700)
    misplaced.write_text('mode = "read-only"\n')
    misplaced.chmod(0o600)
    for command in ([], ["policy", "check"], ["policy", "show"], ["doctor"]):
        done = run(env, *command, stdin='{"jsonrpc":"2.0"}\n')
        assert done.returncode == 1
        said = done.stdout + done.stderr
        assert f"~/{misplaced.relative_to(tmp_path)}" in said
        assert f"mv ~/{misplaced.relative_to(tmp_path)} {named}" in said
    assert run(env | {"NOTARIUM_POLICY_FILE": str(misplaced)}, "policy", "check").returncode == 0
    misplaced.rename(right)
    assert run(env, "policy", "check").stdout == f"{named} is in order\n"
