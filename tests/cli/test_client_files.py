"""Test what is written into each client's file, on files written by hand from the clients' documentation."""

from __future__ import annotations

import difflib
import json
import stat
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from mcp_notarium.cli import install as installing
from mcp_notarium.cli import setup
from mcp_notarium.clients import client_files, json_members, known_clients
from mcp_notarium.clients.known_clients import CLIENTS
from mcp_notarium.config.accounts import Account
from mcp_notarium.errors import ConfigError
from support import needs

CONFIGURATION = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")
COMMAND = ["/opt/bin/mcp-notarium", "--account", "home"]
OTHER = '{\n  "mcpServers": {\n    "memory": {\n      "command": "npx",\n      "args": ["-y", "server"],\n      "env": {"TOKEN": "theirs"}\n    }\n  }\n}\n'
# Where the file is on Linux, what is in it, and the lines that are added to it.
FILES = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", OTHER),
    "claude-code": (
        ".claude.json",
        '{\n  "numStartups": 3,\n  "projects": {"/home/ada": {"mcpServers": {}}},\n  "mcpServers": {}\n}\n',
    ),
    "cursor": (".cursor/mcp.json", OTHER),
    "vscode": (
        ".config/Code/User/mcp.json",
        (
            '{\n\t// asked for once\n\t"inputs": [\n\t\t{"type": "promptString", "id": "key", "password": true},\n\t],\n'
            '\t"servers": {\n\t\t"github": {"type": "http", "url": "https://example.org/mcp"}, // work\n\t}\n}\n'
        ),
    ),
    "zed": (
        ".config/zed/settings.json",
        (
            "// Zed settings\n//\n// For information on how to configure Zed, see the documentation.\n"
            '{\n  "theme": {\n    "mode": "system",\n    "dark": "One Dark",\n  },\n  "vim_mode": true, // always\n}\n'
        ),
    ),
    "codex": (
        ".codex/config.toml",
        (
            'model = "gpt-5"  # mine\n\n[mcp_servers.docs]\ncommand = "docs-server"\nargs = ["-v"]\n\n'
            '[mcp_servers.docs.env]\nTOKEN = "theirs"\n'
        ),
    ),
    "gemini": (
        ".gemini/settings.json",
        '{\n  "theme": "Dracula",\n  "mcpServers": {\n    "git": {"command": "uvx", "args": ["mcp-server-git"]}\n  }\n}',
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json", '{\n    "mcpServers": {}\n}\n'),
    "kiro": (".kiro/settings/mcp.json", OTHER),
    "lm-studio": (".lmstudio/mcp.json", OTHER),
    "copilot": (".copilot/mcp-config.json", OTHER),
}
ADDED = {
    "claude-desktop": ['{"command": "/opt/bin/mcp-notarium", "args": ["--account", "home"]}'],
    "claude-code": [
        '{"type": "stdio", "command": "/opt/bin/mcp-notarium", "args": ["--account", "home"], "env": {}}'
    ],
    "vscode": [
        '{"type": "stdio", "command": "/opt/bin/mcp-notarium", "args": ["--account", "home"]}'
    ],
    "zed": [
        '{"source": "custom", "command": "/opt/bin/mcp-notarium", "args": ["--account", "home"], "env": {}}'
    ],
    "codex": [
        "",
        "[mcp_servers.notarium]",
        'command = "/opt/bin/mcp-notarium"',
        'args = ["--account", "home"]',
    ],
}
ADDED["copilot"] = [
    '{"type": "local", "command": "/opt/bin/mcp-notarium", "args": ["--account", "home"], "env": {}, "tools": ["*"]}'
]
ADDED |= dict.fromkeys(
    ("cursor", "gemini", "windsurf", "kiro", "lm-studio"), ADDED["claude-desktop"]
)


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setattr(known_clients, "PLATFORM", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)


def read(one, home):
    return client_files.read_file(one, {}, home / "copies")


def place(home, one, text=None):
    where, found = FILES[one.name]
    path = home / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((found if text is None else text).encode())
    return path


def install(one, home, account="home"):
    file = read(one, home)
    command = [*COMMAND[:-1], account]
    name = client_files.name_for(file, account)
    after = client_files.with_server(file, name, one.entry(command))
    client_files.keep_copy(file)
    client_files.write(file, after)
    return name


def uninstall(one, home, name="notarium"):
    file = read(one, home)
    client_files.write(file, client_files.without_server(file, name))


@pytest.mark.parametrize("one", CLIENTS, ids=lambda one: one.name)
def test_only_our_lines_are_added_and_all_else_stays(one, tmp_path):
    path = place(tmp_path, one)
    before = path.read_text()
    install(one, tmp_path)
    lines = list(difflib.ndiff(before.splitlines(), path.read_text().splitlines()))
    added = [line[2:].strip() for line in lines if line.startswith("+ ")]
    gone = [line[2:].strip() for line in lines if line.startswith("- ")]
    assert {line.rstrip(",") for line in gone} <= {
        line.replace("{", "").rstrip(",") for line in added
    } | {line.rstrip(",") for line in added} | {'"servers": {}', '"mcpServers": {}', "}"}
    if one.format == "TOML":
        assert added == ADDED[one.name]
        return
    (wanted,) = ADDED[one.name]
    table = {"vscode": "servers", "zed": "context_servers"}.get(one.name, "mcpServers")
    assert json_members.read(path.read_text())[table]["notarium"] == json.loads(wanted)


@pytest.mark.parametrize("one", CLIENTS, ids=lambda one: one.name)
def test_its_file_and_table_are_documented(one):
    rows = (line.split(" | ") for line in CONFIGURATION.splitlines())
    _title, file, table, _source = next(row for row in rows if row[0].startswith(f"| {one.title}"))
    assert FILES[one.name][0] in file
    assert table == f"`{one.key}`"


@pytest.mark.parametrize("one", CLIENTS, ids=lambda one: one.name)
def test_uninstall_leaves_the_file_as_it_was_to_the_byte(one, tmp_path):
    path = place(tmp_path, one)
    before = path.read_bytes()
    install(one, tmp_path)
    assert path.read_bytes() != before
    uninstall(one, tmp_path)
    assert path.read_bytes() == before


@needs.POSIX
@pytest.mark.parametrize("one", CLIENTS, ids=lambda one: one.name)
def test_uninstall_removes_a_file_that_was_made_for_the_server(one, tmp_path):
    path = tmp_path / FILES[one.name][0]
    install(one, tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    uninstall(one, tmp_path)
    assert not path.exists()
    assert one.name == "claude-code" or not one.is_here({})


@pytest.mark.parametrize("one", CLIENTS, ids=lambda one: one.name)
def test_uninstall_keeps_what_the_client_has_changed_since(one, tmp_path):
    path = place(tmp_path, one)
    install(one, tmp_path)
    if one.format == "TOML":
        changed = (
            path.read_text() + "\n[later]\na = 1\n",
            FILES[one.name][1] + "\n[later]\na = 1\n",
        )
    else:
        changed = tuple(
            text.replace("{", '{ "later": 1,', 1) for text in (path.read_text(), FILES[one.name][1])
        )
    path.write_text(changed[0])
    uninstall(one, tmp_path)
    assert path.read_text() == changed[1]


def test_a_second_account_stands_beside_the_first_and_goes_alone(tmp_path):
    one = known_clients.client("cursor")
    path = place(tmp_path, one)
    assert install(one, tmp_path) == "notarium"
    first = path.read_bytes()
    assert install(one, tmp_path, account="work") == "notarium-work"
    assert list(client_files.ours(read(one, tmp_path), account="work")) == ["notarium-work"]
    uninstall(one, tmp_path, "notarium-work")
    assert path.read_bytes() == first
    uninstall(one, tmp_path)
    assert path.read_text() == OTHER


def test_installing_again_changes_the_entry_and_uninstall_still_restores_the_file(tmp_path):
    one = known_clients.client("zed")
    path = place(tmp_path, one)
    before = path.read_bytes()
    install(one, tmp_path)
    moved = one.entry(["/elsewhere/mcp-notarium", "--account", "home"])
    file = read(one, tmp_path)
    client_files.keep_copy(file)
    client_files.write(file, client_files.with_server(file, "notarium", moved))
    assert client_files.servers_of(read(one, tmp_path))["notarium"] == moved
    uninstall(one, tmp_path)
    assert path.read_bytes() == before


def test_a_server_of_somebody_else_by_our_name_is_left_alone(tmp_path):
    one = known_clients.client("cursor")
    theirs = '{"mcpServers": {"notarium": {"command": "node", "args": ["x.js"]}}}'
    path = place(tmp_path, one, theirs)
    assert install(one, tmp_path) == "notarium-home"
    assert client_files.servers_of(read(one, tmp_path))["notarium"]["command"] == "node"
    uninstall(one, tmp_path, "notarium-home")
    assert path.read_text() == theirs


@needs.POSIX
def test_a_link_is_followed_and_the_mode_is_kept(tmp_path):
    one = known_clients.client("zed")
    path = place(tmp_path, one)
    kept = tmp_path / "dotfiles" / "zed.json"
    kept.parent.mkdir()
    path.rename(kept)
    path.symlink_to(kept)
    kept.chmod(0o644)
    install(one, tmp_path)
    assert path.is_symlink()
    assert "notarium" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o644


@needs.POSIX
def test_the_copy_of_a_file_is_for_the_user_alone(tmp_path):
    one = known_clients.client("cursor")
    place(tmp_path, one).chmod(0o644)
    install(one, tmp_path)
    copy = tmp_path / "copies" / "cursor.before"
    assert copy.read_text() == OTHER
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zed", '{"a": }'),
        ("cursor", "[]"),
        ("codex", "[mcp_servers"),
        ("gemini", '{"mcpServers": 3}'),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_as_it_is(tmp_path, name, text):
    one = known_clients.client(name)
    path = place(tmp_path, one, text)
    with pytest.raises(ConfigError) as caught:
        install(one, tmp_path)
    assert path.read_text() == text
    assert "install --print CLIENT" in caught.value.resolution_hint


def test_an_inline_table_of_servers_in_toml_gets_the_server_too(tmp_path):
    one = known_clients.client("codex")
    path = place(tmp_path, one, 'mcp_servers = { x = { command = "y" } }\n')
    before = path.read_text()
    install(one, tmp_path)
    assert client_files.servers_of(read(one, tmp_path))["notarium"]["command"] == COMMAND[0]
    uninstall(one, tmp_path)
    assert path.read_text() == before


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_a_table_of_toml_goes_behind_all_others_with_a_line_between_them(tmp_path, end):
    one = known_clients.client("codex")
    text = '[mcp_servers.a]\ncommand = "y"\n[projects."/x"]\ntrust_level = "trusted"' + end
    path = place(tmp_path, one, text)
    install(one, tmp_path)
    assert path.read_text().startswith(text.rstrip() + "\n\n[mcp_servers.notarium]\ncommand = ")
    later = path.read_text() + '\n[tui]\ntheme = "dark"\n'
    path.write_text(later)
    uninstall(one, tmp_path)
    assert path.read_text() == text.rstrip() + '\n\n[tui]\ntheme = "dark"\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "cursor",
            '{"mcpServers": {"git": {"command": "g", "env": {"TOKEN": "se\\"cret"}}}} // secret',
        ),
        ("cursor", '{\n  "apiKey": "secret" // secret\n}\n'),
        ("zed", '{\n  "token": "secret", /* secret */\n  "apiKey": "secret"\n}\n'),
        ("codex", "mcp_servers = { x = { command = 'y', env = { T = 'secret' } } } # secret\n"),
        ("codex", '[mcp_servers.a]\ncommand = "y"\nenv = { T = "secret" }\n'),
    ],
)
def test_the_change_that_is_shown_holds_no_value_of_somebody_else(tmp_path, capsys, name, text):
    one = known_clients.client(name)
    place(tmp_path, one, text)
    installing._install_one(one, Account("home", "keychain", {}), COMMAND, yes=True)
    added = capsys.readouterr().err
    installing._uninstall_one(one, "", yes=True)
    removed = capsys.readouterr().err
    for mark, shown in (("+", added), ("-", removed)):
        assert "cret" not in shown
        assert f"\n  {mark}" in shown
        for mine in ("notarium", *COMMAND):
            assert mine in shown


@pytest.mark.parametrize(
    ("platform", "environ", "name", "path"),
    [
        ("linux", {}, "claude-desktop", "~/.config/Claude/claude_desktop_config.json"),
        ("linux", {"XDG_CONFIG_HOME": "/x"}, "vscode", "/x/Code/User/mcp.json"),
        ("linux", {"XDG_CONFIG_HOME": "/x"}, "zed", "/x/zed/settings.json"),
        ("linux", {"CODEX_HOME": "/c"}, "codex", "/c/config.toml"),
        ("linux", {"CLAUDE_CONFIG_DIR": "/c"}, "claude-code", "/c/.claude.json"),
        ("darwin", {}, "vscode", "~/Library/Application Support/Code/User/mcp.json"),
        ("darwin", {}, "zed", "~/.config/zed/settings.json"),
        ("darwin", {}, "codex", "~/.codex/config.toml"),
        ("win32", {"APPDATA": "/r"}, "claude-desktop", "/r/Claude/claude_desktop_config.json"),
        ("win32", {"APPDATA": "/r"}, "zed", "/r/zed/settings.json"),
        ("win32", {}, "claude-desktop", "~/AppData/Roaming/Claude/claude_desktop_config.json"),
        ("win32", {"COPILOT_HOME": "/c"}, "copilot", "/c/mcp-config.json"),
        ("win32", {}, "windsurf", "~/.codeium/windsurf/mcp_config.json"),
    ],
)
def test_each_system_has_its_own_place(monkeypatch, platform, environ, name, path):
    monkeypatch.setattr(known_clients, "PLATFORM", platform)
    assert known_clients.client(name).path(environ) == Path(path).expanduser()


def test_the_folder_of_a_packaged_program_is_found_on_windows(monkeypatch, tmp_path):
    monkeypatch.setattr(known_clients, "PLATFORM", "win32")
    folder = tmp_path / "Packages" / "Claude_pzs8" / "LocalCache" / "Roaming" / "Claude"
    environ = {"APPDATA": str(tmp_path / "r"), "LOCALAPPDATA": str(tmp_path)}
    desktop = known_clients.client("claude-desktop")
    plain = tmp_path / "r" / "Claude" / "claude_desktop_config.json"
    assert desktop.path(environ) == plain
    plain.parent.mkdir(parents=True)
    plain.write_text("{}")
    folder.mkdir(parents=True)
    assert desktop.path(environ) == folder / plain.name, "what it had before it was packaged"
    assert plain in desktop.files(environ)


def test_folders_that_no_variable_names_are_looked_for_where_windows_has_them(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(known_clients, "PLATFORM", "win32")
    folder = tmp_path / "AppData/Local/Packages/Claude_pzs8/LocalCache/Roaming/Claude"
    folder.mkdir(parents=True)
    assert known_clients.client("claude-desktop").path({}).parent == folder
    insiders = tmp_path / "AppData/Roaming/Code - Insiders/User"
    insiders.mkdir(parents=True)
    code = known_clients.client("vscode")
    assert code.path({}) == insiders / "mcp.json"
    assert code.is_here({"PATH": "/nowhere"})


def test_a_client_is_here_if_its_folder_or_its_command_is(tmp_path):
    def here(**environ):
        return [one.name for one in CLIENTS if one.is_here({"PATH": "/nowhere"} | environ)]

    assert here() == []
    place(tmp_path, known_clients.client("cursor"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").touch(mode=0o755)
    assert here(PATH=str(tmp_path / "bin")) == ["claude-code", "cursor"]


@pytest.mark.parametrize(
    "executable",
    [
        "/home/ada/.cache/uv/archive-v0/x7Q/bin/python",
        "/home/ada/.cache/pipx/92b07b0c7236528/bin/python",
        "/home/ada/.local/pipx/.cache/92b07b0c7236528/bin/python",
        "/Users/ada/Library/Caches/pipx/92b07b0c7236528/bin/python",
    ],
)
def test_a_copy_of_the_program_that_is_gone_tomorrow_is_installed_nowhere(monkeypatch, executable):
    account = Account("home", "keychain", {})
    monkeypatch.setattr(sys, "executable", "/home/ada/.local/pipx/venvs/mcp-notarium/bin/python")
    assert installing.server_command(account)[-2:] == ["--account", "home"]
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(ConfigError) as caught:
        installing.server_command(account)
    assert "uv tool install" in caught.value.resolution_hint
    setting_up = Namespace(client=None)
    with pytest.raises(ConfigError):  # before anything is asked or made
        setup.run(setting_up)
