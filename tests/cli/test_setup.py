"""Test ``setup`` as a new user meets it: at a terminal, left and taken up again, by options, and undone."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from notarium_devtools.simperium import Simulator
from notarium_devtools.trilium import TriliumSimulator
from support.preloaded import ANEW
from support.services import running
from support.terminal import CTRL_C, CTRL_D, Terminal
from support.whole import DEADLINE, Server, run

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are needed"),
    pytest.mark.slow("each test makes an account and starts servers, some talk at a terminal"),
]
UP, SPACE = "\x1b[A", " "
NOWHERE = ("--set", "TRILIUM_URL=http://127.0.0.1:9")
PASSPHRASE = "seven green herons over a quiet lake"
ZED = '// my settings\n{\n  // always\n  "vim_mode": true,\n}\n'


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator()
    simulator.put("one", content="The first note", tags=[])
    with simulator.running():
        yield simulator


@pytest.fixture(name="home")
def _home(tmp_path):
    """A home with two clients, one of which has a file already."""
    (tmp_path / ".cursor").mkdir()
    zed = tmp_path / ".config" / "zed" / "settings.json"
    zed.parent.mkdir(parents=True)
    zed.write_text(ZED)
    return tmp_path


def bare(home: Path, **more: str) -> dict[str, str]:
    """A fresh terminal: nothing but a home, and no client's command on the path."""
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "NOTARIUM_KEYCHAIN": "off"} | more


def pointing_at(simulator: Simulator) -> dict[str, str]:
    return {
        "SIMPERIUM_API_URL": simulator.api_url,
        "SIMPERIUM_AUTH_URL": simulator.auth_url,
        "SIMPLENOTE_APP_URL": simulator.app_url,
    }


def accounts(home: Path) -> dict[str, dict[str, str]]:
    return tomllib.loads((home / ".config/mcp-notarium/accounts.toml").read_text())


def cursor(home: Path) -> dict[str, object]:
    return json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]


def started_by_cursor(home: Path, name: str = "notarium", **more: str) -> Server:
    """The server as the client starts it: by its file alone, in a nearly empty environment."""
    entry = cursor(home)[name]
    return Server(
        {"HOME": str(home), "PATH": "/usr/bin:/bin"} | more,
        command=[entry["command"], *entry["args"]],
    )


class Person(Terminal):
    """Answer questions in their order; each is looked for behind the one before."""

    _seen = 0

    def ends(self, *, within: float = 3 * DEADLINE) -> int:
        """The exit code; a set-up loads notes and starts a server before it ends."""
        return super().ends(within=within)

    def answer(self, question: str, typed: str | Callable[[], str]) -> None:
        """Answer a question once it listens; what is typed may depend on what came before."""
        deadline = time.monotonic() + DEADLINE
        while (at := self.screen.find(question, self._seen)) < 0:
            assert time.monotonic() < deadline, self.screen
            assert self._read(), self.screen
        self._seen = at + len(question)
        time.sleep(
            0.2
        )  # it is shown a moment before keys are read, and those typed earlier are dropped
        self.type(typed if isinstance(typed, str) else typed())


def test_one_command_gives_a_notebook_to_all_clients_and_uninstall_leaves_no_trace(
    home: Path,
) -> None:
    done = run(bare(home, **ANEW), "setup", "--yes")
    assert done.returncode == 0, done.stderr
    key = home / ".config/mcp-notarium/local.key"
    assert accounts(home) == {
        "local": {
            "key": "file", "NOTARIUM_STORE": "local", "NOTARIUM_KEYCHAIN": "off", "DB_ENCRYPTION_KEY_FILE": str(key),
        }
    }  # fmt: skip
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    said = done.stdout + done.stderr
    assert "4 tools (list, get, save, manage)" in said
    assert "Say to your assistant:" in said
    secret = key.read_text().strip()
    zed = home / ".config/zed/settings.json"
    for text in (said, zed.read_text(), json.dumps(cursor(home))):
        assert secret not in text
    assert zed.read_text().startswith('// my settings\n{\n  // always\n  "vim_mode": true,\n')
    with started_by_cursor(home, **ANEW) as server:
        server.tool("save", text="My first note")
        assert server.tool("list")["total_items"] == 1
        assert server.leave() == 0
    for command in (["status"], ["doctor"], ["policy"], ["audit", "tail", "--account", "local"]):
        fresh = run({"HOME": str(home), "PATH": "/usr/bin:/bin"}, *command)
        assert fresh.returncode == 0, fresh.stderr
    assert re.search(r"^Notes +1$", run(bare(home), "status").stdout, re.MULTILINE)
    gone = run(bare(home), "uninstall", "--yes")
    assert gone.returncode == 0, gone.stderr
    assert zed.read_text() == ZED
    assert not (home / ".cursor/mcp.json").exists()
    assert not (home / ".config/mcp-notarium/clients").exists()
    assert run(bare(home), "purge", "--yes").returncode == 0
    assert sorted(path.name for path in home.rglob("*")) == [
        ".config", ".local", "settings.json", "share", "zed",
    ]  # fmt: skip


def test_a_second_run_changes_nothing(home: Path) -> None:
    assert run(bare(home), "setup", "--yes").returncode == 0
    files = [home / ".cursor/mcp.json", home / ".config/zed/settings.json"]
    files += sorted((home / ".config/mcp-notarium").rglob("*.*"))
    before = [path.read_bytes() for path in files]
    again = run(bare(home), "setup", "--yes")
    assert again.returncode == 0, again.stderr
    assert "has the server already" in again.stderr
    assert [path.read_bytes() for path in files] == before


def test_every_question_is_answered_at_a_terminal(simulator: Simulator, home: Path) -> None:
    with Person(bare(home) | pointing_at(simulator), "setup") as terminal:
        terminal.answer("Where do the notes live?", UP + "\n")
        terminal.answer("E-mail address of the Simplenote account:", "notanaddress\n")
        terminal.answer("This is no e-mail address:", "\x15")
        terminal.type(f"{simulator.username}\n")
        terminal.answer("Encrypt with which key?", "\n")
        terminal.answer("Code from the e-mail: ", "WRONG1\n")
        terminal.answer("does not accept this code. Type the one of the newest e-mail.", "")
        terminal.answer("Code from the e-mail: ", "no code!\n")
        terminal.answer("Code from the e-mail: ", lambda: f"{simulator.sent_codes[-1].code}\n")
        terminal.answer("Make a recovery key", "y\r")
        asked = terminal.finds(r"Type group (\d) of 9: ")
        (shown,) = re.findall(r"(?:[0-9A-Z]{4}-){8}[0-9A-Z]{4}", terminal.screen)
        terminal.type(f"{shown.split('-')[int(asked[1]) - 1]}\n")
        terminal.answer("Which programs shall use the notes?", SPACE + "\n")
        assert terminal.ends() == 0, terminal.screen
    assert "Add the server" not in terminal.screen  # the list was the question
    assert "1 note is here" in terminal.screen
    assert len(simulator.sent_codes) == 1
    assert accounts(home)["simplenote"]["SIMPLENOTE_USERNAME"] == simulator.username
    assert "context_servers" in (home / ".config/zed/settings.json").read_text()
    assert not (home / ".cursor/mcp.json").exists()
    assert run(bare(home), "install", "--client", "cursor", "--yes").returncode == 0
    with started_by_cursor(home) as server:
        server.loaded(1)
        assert server.leave() == 0
    listed = run(bare(home), "keys", "list", "--json")
    assert [slot["type"] for slot in json.loads(listed.stdout)["slots"]] == ["raw", "recovery"]


def test_a_set_up_that_was_left_goes_on_where_it_stopped(simulator: Simulator, home: Path) -> None:
    env = bare(home) | pointing_at(simulator)
    options = ["setup", "--yes", "--store", "simplenote", "--client", "cursor"]
    with Person(env, *options) as terminal:
        terminal.answer("E-mail address of the Simplenote account:", f"{simulator.username}\n")
        terminal.answer("Code from the e-mail: ", CTRL_C)
        assert terminal.ends() == 130
    assert "goes on where it stopped" in terminal.screen
    key = (home / ".config/mcp-notarium/simplenote.key").read_text()
    with Person(env, "setup", "--yes", "--client", "cursor") as terminal:
        terminal.answer("Code from the e-mail: ", lambda: f"{simulator.sent_codes[-1].code}\n")
        assert terminal.ends() == 0, terminal.screen
    assert "E-mail address" not in terminal.screen
    assert (home / ".config/mcp-notarium/simplenote.key").read_text() == key
    assert list(cursor(home)) == ["notarium"]


def test_no_answer_is_a_refusal_with_nothing_done(home: Path) -> None:
    with Person(bare(home), "setup", "--store", "simplenote") as terminal:
        terminal.answer("E-mail address of the", CTRL_D)
        assert terminal.ends() == 1
    assert "no answer was given" in terminal.screen
    assert not (home / ".config/mcp-notarium").exists()


def test_a_terminal_that_is_closed_at_a_question_ends_it_with_nothing_done(home: Path) -> None:
    with Person(bare(home), "setup") as terminal:
        terminal.answer("Where do the notes live?", "")
        terminal.hang_up()
        assert terminal.ends() in {1, 129}
    assert not (home / ".config/mcp-notarium").exists()


def test_a_wrong_code_ends_it_and_says_how_to_go_on(simulator: Simulator, home: Path) -> None:
    given = ["--store", "simplenote", "--set", f"SIMPLENOTE_USERNAME={simulator.username}"]
    done = run(
        bare(home) | pointing_at(simulator),
        "setup",
        "--yes",
        *given,
        "--code-stdin",
        stdin="WRONG1\n",
    )
    assert done.returncode == 1
    assert "mcp-notarium login" not in done.stderr
    assert "`mcp-notarium --account simplenote setup` goes on" in done.stderr
    assert not (home / ".cursor/mcp.json").exists()


def test_a_passphrase_is_typed_twice_and_kept_for_servers_if_one_agrees(home: Path) -> None:
    options = [
        "setup",
        "--store",
        "local",
        "--key",
        "passphrase",
        "--no-recovery",
        "--client",
        "cursor",
    ]
    with Person(bare(home), *options) as terminal:
        terminal.answer("New passphrase", "hunter2\n")
        terminal.answer("fewer than 15 characters", "")
        terminal.answer("New passphrase", f"{PASSPHRASE}\n")
        terminal.answer("The same once more", "another one that differs\n")
        terminal.answer("The two differ.", "")
        terminal.answer("New passphrase", f"{PASSPHRASE}\n")
        terminal.answer("The same once more", f"{PASSPHRASE}\n")
        terminal.answer("Keep it in a file", "y\r")
        assert terminal.ends() == 0, terminal.screen
    assert PASSPHRASE not in terminal.screen
    kept = home / ".config/mcp-notarium/local.key"
    assert kept.read_text() == PASSPHRASE + "\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with started_by_cursor(home) as server:
        assert server.tool("list")["total_items"] == 0
        assert server.leave() == 0


def test_a_passphrase_that_nothing_keeps_is_asked_by_commands_and_given_to_no_client(
    home: Path,
) -> None:
    options = ["setup", "--yes", "--key", "passphrase"]
    with Person(bare(home), *options) as terminal:
        terminal.answer("New passphrase", f"{PASSPHRASE}\n")
        terminal.answer("The same once more", f"{PASSPHRASE}\n")
        assert terminal.ends() == 0, terminal.screen
    assert "A server cannot ask for your passphrase" in terminal.screen
    assert "Say to your assistant, once it has the server:" in terminal.screen
    assert not (home / ".cursor/mcp.json").exists()
    assert accounts(home)["local"]["key"] == "passphrase"
    assert run(bare(home), "status").returncode == 10
    with Person(bare(home), "status") as terminal:
        terminal.answer("Passphrase of the account local: ", f"{PASSPHRASE}\n")
        assert terminal.ends() == 0, terminal.screen
    with Person(bare(home), "status") as terminal:
        terminal.answer("Passphrase of the account local: ", f"{PASSPHRASE}s\n")
        terminal.answer("the typed passphrase is wrong", "")
        terminal.answer("Run the command again and type it anew", "")
        assert terminal.ends() == 11
    with Person(bare(home), "setup", "--no-recovery", "--client", "cursor") as terminal:
        terminal.answer("Which account?", "\n")
        terminal.answer("Passphrase: ", f"{PASSPHRASE}s\n")
        terminal.answer("does not open the notes that are here", "")
        terminal.answer("Passphrase: ", f"{PASSPHRASE}\n")
        terminal.answer("Keep it in a file", "y\r")
        assert terminal.ends() == 0, terminal.screen
    assert (home / ".config/mcp-notarium/local.key").read_text() == f"{PASSPHRASE}\n"


def test_a_recovery_key_that_is_mistyped_ends_no_set_up(home: Path) -> None:
    with Person(bare(home), "setup", "--yes", "--recovery", "--client", "cursor") as terminal:
        for _ in range(3):
            terminal.answer("Type group", "WRONG\n")
        assert terminal.ends() == 0, terminal.screen
    assert "`mcp-notarium keys recovery create` makes one later" in terminal.screen
    assert list(cursor(home)) == ["notarium"]


def test_one_client_whose_file_is_broken_keeps_no_other_from_the_server(home: Path) -> None:
    zed = home / ".config/zed/settings.json"
    zed.write_text('{"vim_mode": tru')
    done = run(bare(home), "setup", "--yes")
    assert done.returncode == 1
    assert "Zed: ~/.config/zed/settings.json cannot be" in done.stderr
    assert "install --print CLIENT" in done.stderr
    assert zed.read_text() == '{"vim_mode": tru'
    assert list(cursor(home)) == ["notarium"]


def test_what_is_printed_for_each_client_is_what_it_reads(home: Path) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "none").returncode == 0
    assert not (home / ".cursor/mcp.json").exists()

    def printed(name: str) -> str:
        done = run(bare(home), "install", "--print", name)
        assert done.returncode == 0, done.stderr
        return done.stdout

    command = str(Path(sys.executable).with_name("mcp-notarium"))
    arguments = ["--account", "local"]
    line = shlex.split(printed("claude-code"))
    assert line == [
        *("claude", "mcp", "add", "--scope", "user", "notarium", "--", command), *arguments
    ]  # fmt: skip
    plain = {"command": command, "args": arguments}
    for name in ("cursor", "claude-desktop", "gemini", "windsurf", "cline", "other"):
        assert json.loads(printed(name)) == {"mcpServers": {"notarium": plain}}
    assert json.loads(printed("vscode"))["servers"]["notarium"] == {"type": "stdio", **plain}
    assert tomllib.loads(printed("codex"))["mcp_servers"]["notarium"] == plain
    goose = yaml.safe_load(printed("goose"))["extensions"]["notarium"]
    assert (goose["type"], goose["cmd"], goose["args"]) == ("stdio", command, arguments)


def test_a_password_of_the_environment_is_kept_in_a_file_where_servers_find_it(
    simulator: Simulator, home: Path
) -> None:
    given = ["--store", "simplenote", "--set", f"SIMPLENOTE_USERNAME={simulator.username}"]
    env = bare(home) | pointing_at(simulator) | {"SIMPLENOTE_PASSWORD": simulator.password}
    more = {"SIMPERIUM_API_KEY": simulator.api_key}
    done = run(env | more, "setup", "--yes", *given)
    assert done.returncode == 0, done.stderr
    assert "1 note is here" in done.stderr
    assert not simulator.sent_codes
    kept = Path(accounts(home)["simplenote"]["SIMPLENOTE_PASSWORD_FILE"])
    assert kept.read_text() == simulator.password + "\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert simulator.password not in done.stderr
    assert run(bare(home), "purge", "--yes").returncode == 0
    assert not kept.exists()


def test_a_store_is_asked_for_what_it_declares_and_its_token_is_kept(home: Path) -> None:
    service = TriliumSimulator()
    service.write("plan", "Plan", "<p>First.</p>")
    with running(service):
        given = home / "token"
        given.write_text(f"{service.token}\n")
        options = ["--store", "trilium", "--secret-file", f"TRILIUM_TOKEN={given}"]
        with Person(bare(home), "setup", "--yes", *options, "--client", "cursor") as terminal:
            terminal.answer("Address of the Trilium server", f"{service.url}\n")
            assert terminal.ends() == 0, terminal.screen
        assert "1 note is here" in terminal.screen
        assert service.token not in terminal.screen + json.dumps(cursor(home))
        with started_by_cursor(home) as server:
            server.loaded(1)
            assert server.leave() == 0
    kept = Path(accounts(home)["trilium"]["TRILIUM_TOKEN_FILE"])
    assert kept.read_text() == f"{service.token}\n"


def test_setup_left_before_it_keeps_anything_says_so(home: Path) -> None:
    with Person(bare(home), "setup", "--store", "local") as terminal:
        terminal.shows("Encrypt with which key?")
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
    assert not (home / ".config/mcp-notarium").exists()


def test_a_mistyped_address_and_a_refused_token_are_corrected_at_once(home: Path) -> None:
    service = TriliumSimulator()
    service.write("plan", "Plan", "<p>First.</p>")
    with running(service):
        env = bare(home) | {"TRILIUM_TOKEN": "refused-token"}
        options = ["--store", "trilium", "--key", "file", "--no-recovery", "--client", "none"]
        with Person(env, "setup", *options) as terminal:
            terminal.answer("Address of the Trilium server", "localhost:8080\n")
            terminal.answer("is not a URL", "")
            terminal.answer("Address of the Trilium server", "\x15http://127.0.0.1:9\n")
            terminal.answer("Correct the account and try again?", "y\r")
            terminal.answer("Address of the Trilium server", f"\x15{service.url}\n")
            terminal.answer("does not accept the token", "")
            terminal.answer("Log in now instead?", "y\r")
            terminal.answer("Password of the Trilium server", f"{service.password}\n")
            assert terminal.ends() == 0, terminal.screen
        assert "1 note is here" in terminal.screen
    assert [one["TRILIUM_URL"] for one in accounts(home).values()] == [service.url]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--store", "vault", "--set", "VAULT_PATH=/not/here"],
            "no such file or folder: /not/here",
        ),
        (["--key", "keychain"], "`--key file` keeps the key"),
        (["--key", "passphrase"], "no terminal"),
        (["--recovery"], "`mcp-notarium keys recovery create`"),
        (["--store", "simplenote", "--set", "SIMPLENOTE_USERNAME=a@example.org"], "`--code-stdin`"),
        (
            ["--store", "trilium", *NOWHERE, "--secret-file", "TRILIUM_TOKEN=-"],
            "Check TRILIUM_URL=",
        ),
        (
            ["--store", "trilium", *NOWHERE, "--secret-file", "TRILIUM_URL=-"],
            "no secret of Trilium",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_before_anything_is_kept(
    home: Path, options: list[str], said: str
) -> None:
    done = run(bare(home), "setup", "--yes", *options, stdin="nobodys-token\n")
    assert done.returncode == 1
    assert said in done.stderr
    assert "nobodys-token" not in done.stderr
    assert not (home / ".config/mcp-notarium").exists()
    assert not (home / ".local").exists()


def test_settings_are_added_to_the_account_of_the_same_notes(home: Path) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "none").returncode == 0
    for way in ([], ["--store", "local"], ["--account", "local"]):
        done = run(
            bare(home), "setup", "--yes", "--client", "none", *way, "--set", "NOTARIUM_READ_ONLY=on"
        )
        assert done.returncode == 0, done.stderr
    assert list(accounts(home)) == ["local"]
    assert accounts(home)["local"]["NOTARIUM_READ_ONLY"] == "on"


def test_a_secret_is_no_option(home: Path) -> None:
    done = run(bare(home), "setup", "--yes", "--set", "SIMPLENOTE_PASSWORD=hunter2")
    assert done.returncode == 1
    assert "`SIMPLENOTE_PASSWORD` is not for it" in done.stderr
    assert "hunter2" not in done.stderr
    other = run(bare(home), "setup", "--yes", "--set", "SIMPLENOTE_USERNAME=ada@example.org")
    assert other.returncode == 1
    assert "only settings of the local notebook" in other.stderr
    assert not (home / ".config/mcp-notarium").exists()


def test_without_a_terminal_each_question_names_its_option(home: Path) -> None:
    asked = run(bare(home), "setup")
    assert asked.returncode == 1
    assert "give `--store`" in asked.stderr
    named = run(bare(home), "setup", "--yes", "--store", "simplenote")
    assert "give `--set SIMPLENOTE_USERNAME=VALUE`" in named.stderr


def test_a_server_of_an_unknown_account_says_what_to_do(home: Path) -> None:
    done = run(bare(home), "--account", "nobody")
    assert done.returncode == 1
    assert "there is no account `nobody`" in done.stderr
    assert "mcp-notarium setup" in done.stderr


def test_another_place_for_the_key_of_a_database_is_a_rotation(home: Path) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "none").returncode == 0
    refused = run(bare(home), "setup", "--yes", "--key", "keychain")
    assert refused.returncode == 1
    assert "has a key already" in refused.stderr
    made = home / "new.key"
    assert run(bare(home), "generate-key", "--file", str(made)).returncode == 0
    rotated = run(bare(home), "rotate-key", "--new-key-file", str(made))
    told = " ".join(rotated.stderr.split())
    assert f"{made.name} is its key file from now on" in told
    assert "local.key still holds the old key, which opens nothing here any more" in told
    assert rotated.returncode == 0, rotated.stderr
    assert "put the new one there" not in told  # the place is the account's no more
    assert accounts(home)["local"]["DB_ENCRYPTION_KEY_FILE"] == str(made)
    assert run(bare(home), "status").returncode == 0
    other = home / "other.key"
    assert run(bare(home), "generate-key", "--file", str(other)).returncode == 0
    again = run(bare(home), "rotate-key", "--reencrypt", "--new-key-file", str(other))
    told = " ".join(again.stderr.split())
    assert "new.key still holds the old key" in told
    assert "put the new one there" not in told
    named = bare(home, DB_ENCRYPTION_KEY=other.read_text().strip())
    assert "put the new one there" in run(named, "rotate-key", "--new-key-file", str(made)).stderr


def test_a_person_reads_the_address_and_the_path_that_are_wrong(home: Path) -> None:
    secret, deep = home / "password", home / ("0123456789abcdef" * 3)
    secret.write_text("any password will do\n")
    secret.chmod(0o600)
    settings = ("SIMPLENOTE_USERNAME=bob@example.org", "SIMPERIUM_AUTH_URL=http://127.0.0.1:9")
    commands: dict[str, tuple[str, ...]] = {
        "SIMPLENOTE_USERNAME=bob@example.org": (
            "setup", "--yes", "--store", "simplenote", *(f"--set={one}" for one in settings),
            "--secret-file", f"SIMPLENOTE_PASSWORD={secret}", "--client", "none",
        ),
        deep.name: ("--env-file", str(deep / "none"), "status"),
    }  # fmt: skip
    for shown, command in commands.items():
        with Terminal(bare(home), *command) as terminal:
            assert terminal.ends() == 1
            assert shown in terminal.screen
            assert "[redacted]" not in terminal.screen
            assert "any password" not in terminal.screen
        assert shown not in run(bare(home), *command).stderr  # it may be a file of others


def test_a_lost_key_file_is_not_replaced_by_another(home: Path) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "none").returncode == 0
    key = home / ".config/mcp-notarium/local.key"
    key.unlink()
    refused = run(bare(home), "setup", "--yes")
    assert refused.returncode == 1
    assert "local.key is gone" in refused.stderr
    assert not key.exists()


def test_purging_an_account_forgets_it_and_its_key(home: Path) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "none").returncode == 0
    purged = run(bare(home), "purge", "--yes")
    assert purged.returncode == 0, purged.stderr
    assert "uninstall" not in purged.stderr
    assert not (home / ".config/mcp-notarium").exists()
    assert not (home / ".local/share/mcp-notarium").exists()


def test_a_new_key_of_an_account_is_put_where_its_servers_find_it(home: Path) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "cursor").returncode == 0
    kept = home / ".config/mcp-notarium/local.key"
    for options in ([], ["--reencrypt"]):
        done = run(bare(home), "rotate-key", "--generate", *options)
        assert done.returncode == 0, done.stderr
        assert kept.read_text() == done.stdout
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert "put the new one there" not in done.stderr
        with started_by_cursor(home) as server:
            assert server.tool("list")["total_items"] == 0
            assert server.leave() == 0
    own = home / "own.key"
    own.write_text(kept.read_text())
    elsewhere = bare(home, DB_ENCRYPTION_KEY_FILE=str(own))
    kept.write_text("another key\n")
    done = run(elsewhere, "rotate-key", "--generate")
    assert done.returncode == 0, done.stderr
    assert "put the new one there" in done.stderr
    assert kept.read_text() == "another key\n"


def test_a_second_notebook_is_another_account_and_another_server(home: Path) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "cursor").returncode == 0
    asked = ["--account", "diary", "--client", "none"]
    same = run(bare(home), "setup", "--yes", "--store", "local", *asked)
    assert same.returncode == 1
    said = " ".join(same.stderr.split())
    assert "would be of the same notes as the account `local`; nothing was done" in said
    assert "such as `--set LOCAL_NOTEBOOK=diary`" in said
    assert list(accounts(home)) == ["local"]
    second = ["--set", "LOCAL_NOTEBOOK=diary", "--account", "diary", "--client", "cursor"]
    done = run(bare(home), "setup", "--yes", "--store", "local", *second)
    assert done.returncode == 0, done.stderr
    assert list(cursor(home)) == ["notarium", "notarium-diary"]
    several = run(bare(home), "list").stderr
    assert "there are 2 accounts" in several
    assert "`--account local` (local), `--account diary` (local)" in " ".join(several.split())
    assert "`mcp-notarium accounts default NAME`" in several
    assert run(bare(home), "status", "--account", "diary").returncode == 0
    kept = run(bare(home), "backup", str(home / "diary.backup"), "--account", "diary")
    assert "mcp-notarium --account diary restore --backup" in kept.stderr
    assert "`mcp-notarium --account diary keys recovery create`" in kept.stderr
    taken = run(bare(home), "uninstall", "--account", "diary", "--yes")
    assert taken.returncode == 0
    assert list(cursor(home)) == ["notarium"]


def test_the_default_account_is_used_where_none_is_named_and_status_has_a_line_for_each(
    home: Path,
) -> None:
    env = bare(home)
    assert run(env, "setup", "--yes", "--client", "cursor").returncode == 0
    second = ("--set", "LOCAL_NOTEBOOK=diary", "--account", "diary", "--client", "zed")
    assert run(env, "setup", "--yes", "--store", "local", *second).returncode == 0
    assert run(env, "new", "--account", "diary", stdin="Dear diary").returncode == 0
    nothing = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    with Server(nothing) as server:
        assert server.error("list")["details"]["missing"] == ["--account"]
        assert server.leave() == 1
    wrong = run(env, "accounts", "default", "dairy")
    assert wrong.returncode == 1
    assert "Did you mean `diary`?" in wrong.stderr
    assert "diary is the default account" in run(env, "accounts", "default", "diary").stdout
    assert json.loads(run(env, "accounts", "default", "--json").stdout) == {"default": "diary"}
    rows = json.loads(run(env, "accounts", "--json").stdout)
    assert [(one["name"], one["default"]) for one in rows] == [("local", False), ("diary", True)]
    assert "Dear diary" in run(env, "list").stdout
    with Server(nothing) as server:
        assert server.tool("list")["total_items"] == 1
        assert server.leave() == 0
    # Whoever names a store means another account: the key of this one opens nothing for it.
    with Server(nothing | {"NOTARIUM_STORE": "local", "LOCAL_NOTEBOOK": "diary"}) as server:
        assert server.error("list")["subcategory"] == "locked"
        assert server.leave() == 1
    again = run(env, "setup", "--yes", "--account", "diary", "--client", "none")
    assert again.returncode == 0, again.stderr
    assert accounts(home)["diary"]["default"] is True  # it stays
    (home / ".config/mcp-notarium/local.key").unlink()
    assert run(env, "new", stdin="x" * 1_100_000).returncode == 1  # too long: kept, not saved
    for width in (60, 80, 120):
        with Terminal(env | {"NO_COLOR": "1"}, "status", width=width) as terminal:
            assert terminal.ends() == 1
        lines = [one.rstrip() for one in terminal.screen.replace("\r", "").splitlines()]
        assert max(map(len, lines)) <= width
        (local,) = (one for one in lines if one.startswith("local "))
        assert re.fullmatch(r"local +local +NOT USABLE: configuration +Cursor", local)
        (diary,) = (one for one in lines if one.startswith("diary *"))
        assert re.fullmatch(r"diary \* +local +1 note +Zed", diary)
        said = " ".join(terminal.screen.split())
        assert "local: the file named by DB_ENCRYPTION_KEY_FILE does not exist" in said
        assert (
            "diary: A text that you have typed is not saved yet: `mcp-notarium --account diary new`"
            in said
        )
    found = json.loads(run(env, "status", "--json").stdout)["accounts"]
    assert [(one["name"], one["clients"]) for one in found] == [
        ("local", ["Cursor"]),
        ("diary", ["Zed"]),
    ]
    (home / ".config/mcp-notarium/diary.key").unlink()
    (diary,) = json.loads(run(env, "status", "--json").stdout)["accounts"][1:]
    assert (diary["verdict"], len(diary["notices"])) == ("configuration", 1)
    assert (
        "no account is the default one" in run(env, "accounts", "default", "--none").stdout.lower()
    )


def test_setup_offers_what_obsidian_and_logseq_know_and_tab_completes_another_folder(
    home: Path,
) -> None:
    for name in ("My Vault", "Old", "graphs/Journal"):
        (home / name).mkdir(parents=True)
    places = {
        "a": {"path": str(home / "Old"), "ts": 2},
        "gone": {"path": str(home / "gone"), "ts": 9},
    }
    places |= {"b": {"path": str(home / "My Vault"), "ts": 1, "open": True}, "odd": {"ts": "x"}}
    known = home / ".config/obsidian/obsidian.json"
    known.parent.mkdir()
    known.write_text(json.dumps({"vaults": places}))
    flatpak = home / ".var/app/md.obsidian.Obsidian/config/obsidian/obsidian.json"
    flatpak.parent.mkdir(parents=True)
    flatpak.write_text("no JSON")
    caches = home / ".logseq/graphs"
    caches.mkdir(parents=True)
    (caches / f"logseq_local_{str(home / 'graphs/Journal').replace('/', '++')}.transit").touch()
    options = ("setup", "--store", "vault", "--key", "file", "--no-recovery", "--client", "none")
    with Person(bare(home), *options) as terminal:
        terminal.shows("another folder")
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.screen)
        shown = re.findall(r"(\S[^\n]*)  \((Obsidian|Logseq), (~/[^)]*)\)", plain)
        assert [(name.lstrip("» "), app, path) for name, app, path in shown] == [
            ("My Vault", "Obsidian", "~/My Vault"),
            ("Old", "Obsidian", "~/Old"),
            ("Journal", "Logseq", "~/graphs/Journal"),
        ]
        terminal.answer("Which one?", UP + "\n")
        terminal.answer("any other:", "~/gra\tJ\t\n")
        assert terminal.ends() == 0, terminal.screen
    assert accounts(home)["vault"]["VAULT_PATH"] == str(home / "graphs/Journal")


def test_a_notebook_that_the_environment_names_is_another_account(home: Path) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "none").returncode == 0
    diary = bare(home, LOCAL_NOTEBOOK="diary")
    done = run(diary, "setup", "--yes", "--store", "local", "--client", "none")
    assert done.returncode == 0, done.stderr
    assert {name: one.get("LOCAL_NOTEBOOK") for name, one in accounts(home).items()} == {
        "local": None,
        "local-2": "diary",
    }


def test_only_install_tells_what_a_client_wants_before_it_starts_a_server(home: Path) -> None:
    done = run(bare(home), "setup", "--yes", "--client", "gemini")
    assert "only in folders that you trust" in " ".join(done.stderr.split())
    done = run(bare(home), "uninstall", "--yes")
    assert "Gemini CLI: `notarium` is out of" in done.stderr
    assert "trust" not in done.stderr


@pytest.mark.parametrize(
    ("variables", "name", "store"),
    [
        ({"LOCAL_NOTEBOOK": "diary"}, "LOCAL_NOTEBOOK", "local"),
        ({"NOTARIUM_STORE": "vault"}, "NOTARIUM_STORE and VAULT_PATH", "vault"),
    ],
)
def test_an_account_is_not_set_up_for_other_notes_that_the_environment_names(
    home: Path, variables: dict[str, str], name: str, store: str
) -> None:
    assert run(bare(home), "setup", "--yes", "--client", "none").returncode == 0
    folders = list((home / ".local/share/mcp-notarium").iterdir())
    elsewhere = bare(home, VAULT_PATH=str(home)) | variables
    done = run(elsewhere, "setup", "--yes", "--client", "none")
    assert done.returncode != 0
    assert "the environment names other notes than the account `local`" in done.stderr
    assert f"Unset {name}, " in done.stderr
    assert f"--account NAME setup --store {store}" in done.stderr
    assert list((home / ".local/share/mcp-notarium").iterdir()) == folders
