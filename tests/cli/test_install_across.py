"""Test ``setup`` and ``install`` over the border of WSL, and the lines that they print for each shell."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from mcp_notarium.cli.install import command_line
from mcp_notarium.clients import known_clients, wsl
from support import fake_wsl
from support.whole import run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the border is made of scripts")
CURLY = "\u2019"
PERSON = f"Zoë O{CURLY}Brien"
FIRST = ["--distribution", fake_wsl.DISTRIBUTION, "--user"]


def split_windows(line: str) -> list[str]:
    """Split as ``CommandLineToArgvW`` does, whose rules Windows' programs and wsl.exe keep."""
    words: list[str] = []
    word, slashes, quoted, any_yet = "", 0, False, False
    for char in line + "\0":
        if char == "\\":
            slashes, any_yet = slashes + 1, True
            continue
        if char == '"':
            word, odd, slashes, any_yet = word + "\\" * (slashes // 2), slashes % 2, 0, True
            if odd:
                word += '"'
            else:
                quoted = not quoted
            continue
        word, slashes = word + "\\" * slashes, 0
        if char == "\0" or (char in " \t" and not quoted):
            words += [word] if any_yet else []
            word, any_yet = "", False
        else:
            word, any_yet = word + char, True
    return words


@pytest.mark.slow("it makes an account and starts servers over the border")
def test_setup_in_wsl_gives_the_notes_to_clients_of_windows_and_takes_them_back(tmp_path):
    env, theirs = fake_wsl.make(tmp_path, getpass.getuser(), PERSON)
    store = theirs / "AppData/Local/Packages/Claude_pzs8/LocalCache/Roaming/Claude"
    desktop = store / "claude_desktop_config.json"
    codex = theirs / ".codex/config.toml"
    code = tmp_path / "mnt/c/Program Files/Microsoft VS Code/bin/code"
    for one in (store, codex.parent, code.parent):
        one.mkdir(parents=True)
    code.touch(mode=0o755)
    native = {"command": r"C:\Python\Scripts\mcp-notarium.exe", "args": ["--account", "local"]}
    before = json.dumps({"mcpServers": {"notarium": native}}, indent=2) + "\n"
    desktop.write_text(before)

    done = run(env, "setup", "--yes")
    assert done.returncode == 0, done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert "Started as Claude Desktop (Windows) and Codex (Windows) will start it: 4 tools" in said
    assert "VS Code" not in said, "a command of Windows is no client of the distribution"
    entry = json.loads(desktop.read_text())["mcpServers"]
    assert entry["notarium"] == native, "that of a program on Windows"
    ours = entry["notarium-local"]
    assert ours["command"] == r"C:\Windows\System32\wsl.exe"
    assert ours["args"][:5] == [*FIRST, getpass.getuser(), "--exec"]
    assert ours["args"][-2:] == ["--account", "local"]
    assert ours["args"][5].startswith("/")
    assert "env" not in ours
    line = subprocess.list2cmdline([ours["command"], *ours["args"]])
    assert split_windows(line) == [ours["command"], *ours["args"]]
    assert tomllib.loads(codex.read_text())["mcp_servers"]["notarium"]["args"] == ours["args"]

    again = run(env, "install", "--yes")
    assert "has the server already" in again.stderr
    assert json.loads(desktop.read_text())["mcpServers"] == entry
    printed = run(env, "install", "--print", "windows-claude-code").stdout.strip()
    assert printed.startswith('claude mcp add --scope user notarium "--" C:\\Windows\\System32')
    assert split_windows(printed)[6:] == ["--", ours["command"], *ours["args"]]
    assert run(env, "uninstall", "--yes").returncode == 0
    assert desktop.read_text() == before
    assert not codex.parent.exists()


def test_a_folder_that_windows_keeps_elsewhere_is_used_and_no_other_variable_is_kept(
    tmp_path, monkeypatch
):
    env, _ = fake_wsl.make(tmp_path, "ada", PERSON, APPDATA=r"C:\Firm\Ada\Roaming")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    wsl.find_side.cache_clear()
    try:
        found = {one.name: one for one in known_clients.all_clients(env)}
    finally:
        wsl.find_side.cache_clear()
    assert (
        found["windows-vscode"].path(env) == tmp_path / "mnt/c/Firm/Ada/Roaming/Code/User/mcp.json"
    )
    side = found["windows-vscode"].side
    assert set(side.environ) == {"APPDATA", "LOCALAPPDATA", "USERPROFILE"}


def test_windows_that_does_not_answer_is_left_out_and_named_if_asked_for(tmp_path):
    env, _ = fake_wsl.make(tmp_path, "ada", PERSON)
    (tmp_path / "bin/wslpath").unlink()
    (tmp_path / "home/.config/mcp-notarium").mkdir(parents=True, mode=0o700)
    assert run(env, "setup", "--yes").returncode == 0
    done = run(env, "install", "--yes", "--client", "windows-cursor")
    assert done.returncode != 0
    assert "[interop]" in done.stderr


def test_a_client_in_wsl_starts_the_program_of_windows_by_its_path_there(tmp_path, monkeypatch):
    """The other way round: on Windows, `wsl.exe` tells where home is, and the file is written as its owner's."""
    monkeypatch.setattr(known_clients, "PLATFORM", "win32")
    monkeypatch.setattr(wsl, "_NETWORK", str(tmp_path))
    monkeypatch.setenv("SYSTEMROOT", "C:")
    asked: list[tuple[str, ...]] = []

    def answer(*words: str, folder: Path | None = None) -> bytes:
        asked.append(words)
        if "wslpath" in words:
            return b"/mnt/c/Users/Ada L/bin/mcp-notarium.exe\n"
        return f"HOME=/home/ada\0USER=ada\0WSL_DISTRO_NAME={fake_wsl.DISTRIBUTION}\0".encode()

    monkeypatch.setattr(wsl, "_run", answer)
    wsl.find_side.cache_clear()
    try:
        assert not [one for one in known_clients.all_clients({}) if one.side], "nothing is started"
        assert asked == []
        found = known_clients.client("wsl-claude-code", {})
    finally:
        wsl.find_side.cache_clear()
    home = tmp_path / fake_wsl.DISTRIBUTION / "home/ada"
    assert found.path({}) == home / ".claude.json"
    entry = found.entry([r"C:\Users\Ada L\bin\mcp-notarium.exe", "--account", "local"])
    assert entry["command"] == "/mnt/c/Users/Ada L/bin/mcp-notarium.exe"
    assert found.own_words(entry) == [entry["command"], *entry["args"]]
    assert found.own_words({"command": "/home/ada/.local/bin/mcp-notarium", "args": []}) == []
    assert found.entry_from_here(entry)["args"] == [
        "--distribution", fake_wsl.DISTRIBUTION, "--exec", entry["command"], *entry["args"]
    ]  # fmt: skip


WORDS = [
    "claude", "--", rf"C:\Users\{PERSON}\mcp-notarium.exe", "--account", "it's", "=ls", "=it's", "a$b", "~/x", "%PATH%", "",
]  # fmt: skip


def test_a_printed_line_is_taken_apart_again_by_each_shell():
    assert shlex.split(command_line(WORDS, "linux")) == WORDS
    plain = [r"C:\Users\Ada Lovelace\x.exe", "--account", "home", "--", "d\\"]
    line = command_line(plain, "win32")
    assert line == '"C:\\Users\\Ada Lovelace\\x.exe" --account home "--" d\\'
    assert split_windows(line) == plain
    assert split_windows(command_line(["D:\\My Notes\\", "x"], "win32")) == ["D:\\My Notes\\", "x"]
    assert command_line(WORDS[4:6] + WORDS[7:8], "win32") == "\"it's\" =ls 'a$b'"
    assert command_line([f"it{CURLY}s $1"], "win32") == f"'it{CURLY}{CURLY}s $1'"
    if zsh := shutil.which("zsh"):
        words = "printf '%s\\0' " + command_line(WORDS, "darwin")
        done = subprocess.run([zsh, "-fc", words], capture_output=True, check=True)
        assert done.stdout.decode().split("\0")[:-1] == WORDS
