"""Test ``install`` as it is typed on Windows and macOS: each client's file at its place there, with its quotes, and undone.

A child process takes its tables of paths for that system. The program that clients start lies in a folder whose name has what
must be quoted. All else is real: the parser, the files, and the server that is started by what a file says.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support import fake_wsl
from support.whole import run

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="the program is a script"),
    pytest.mark.slow("each makes an account and starts a server"),
]
CHILD = """
import sys
from mcp_notarium import system
system.PLATFORM, sys.executable = sys.argv.pop(1), sys.argv.pop(1)
from mcp_notarium.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
FOLDER = 'C:\\Users\\Zo\u00eb "Z" O\u2019Brien\\new\\table'
"""JSON and TOML would take ``\\n`` and ``\\t`` for other characters."""
ROAMING, LOCAL, LIBRARY = "AppData/Roaming", "AppData/Local", "Library/Application Support"
STORE = f"{LOCAL}/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude"
EVERYWHERE = {
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "kiro": ".kiro/settings/mcp.json",
    "lm-studio": ".lmstudio/mcp.json",
    "copilot": ".copilot/mcp-config.json",
}
PLACES = {
    "windows": EVERYWHERE | {
        "claude-desktop": f"{STORE}/claude_desktop_config.json",
        "vscode": f"{ROAMING}/Code/User/mcp.json",
        "zed": f"{ROAMING}/zed/settings.json",
    },
    "macos": EVERYWHERE | {
        "claude-desktop": f"{LIBRARY}/Claude/claude_desktop_config.json",
        "vscode": f"{LIBRARY}/Code/User/mcp.json",
        "zed": ".config/zed/settings.json",
    },
}  # fmt: skip
KEYS = {"vscode": "servers", "zed": "context_servers", "codex": "mcp_servers"}


class Person:
    """Type commands on a machine of that system. ``home`` has an account and what ``files`` holds."""

    def __init__(self, home: Path, platform: str, program: Path, **more: str) -> None:
        self._words = [sys.executable, "-c", CHILD, platform, str(program.with_name("python"))]
        self._env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "NOTARIUM_KEYCHAIN": "off"} | more
        self._home = home
        assert run(self._env, "setup", "--yes", "--client", "none").returncode == 0

    def types(self, *words: str) -> str:
        done = subprocess.run(
            [*self._words, *words], env=self._env, cwd=self._home, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return " ".join((done.stdout + done.stderr).split())


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> Path:
    program = tmp_path / FOLDER / "mcp-notarium"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcp_notarium "$@"\n')
    program.chmod(0o755)
    return program


def files_below(home: Path) -> dict[str, bytes]:
    ours = (".config/mcp-notarium", ".local")
    paths = {path.relative_to(home).as_posix(): path for path in home.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if not name.startswith(ours)}


@pytest.mark.parametrize("system", list(PLACES))
def test_each_client_gets_the_server_at_its_place_and_loses_it_again(
    tmp_path: Path, program: Path, system: str
) -> None:
    home = tmp_path / "home"
    for name, path in PLACES[system].items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        if name == "claude-code":
            (home / path).write_text('{"numStartups": 3}\r\n', newline="")
    windows = system == "windows"
    more = {"APPDATA": str(home / ROAMING), "LOCALAPPDATA": str(home / LOCAL)} if windows else {}
    person = Person(home, "win32" if windows else "darwin", program, **more)
    before = files_below(home)
    said = person.types("install", "--yes")
    assert "4 tools (list, get, save, manage)" in said
    assert said.count("Started as") == 1, "what is written is alike for all"
    after = files_below(home)
    assert sorted(after) == sorted(PLACES[system].values())
    for name, path in PLACES[system].items():
        text = after[path].decode()
        found = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
        entry = found[KEYS.get(name, "mcpServers")]["notarium"]
        assert (entry["command"], entry["args"]) == (str(program), ["--account", "local"]), name
        assert not entry.get("env"), "no secret and no variable"
    printed = person.types("install", "--print", "claude-code")
    assert ("PowerShell" in printed) == windows
    assert "has the server already" in person.types("install", "--yes")
    assert files_below(home) == after
    person.types("uninstall", "--yes")
    assert files_below(home) == before


def test_windows_gives_the_server_to_a_client_in_wsl(tmp_path: Path, program: Path) -> None:
    """`wsl.exe` is a script here that keeps to its documented words; a path of the network is a folder of that name."""
    home, root = tmp_path / "home", tmp_path / "Windows"
    there = f"\\\\wsl.localhost/{fake_wsl.DISTRIBUTION}/home/ada"
    (home / there / ".cursor").mkdir(parents=True)
    wsl = root / "System32" / "wsl.exe"
    wsl.parent.mkdir(parents=True)
    seen_there = tmp_path / "mnt" / "c" / "mcp-notarium.exe"
    seen_there.parent.mkdir(parents=True)
    shutil.copy(program, seen_there)
    wsl.write_text(
        f"#!{sys.executable} -I\nimport os, sys\nwords, there = sys.argv[1:], {str(seen_there)!r}\n"
        f"distribution = {fake_wsl.DISTRIBUTION!r}\n"
        "if words == ['--exec', 'env', '-0']:\n"
        "    print(f'HOME=/home/ada\\0WSL_DISTRO_NAME={distribution}\\0', end='')\n"
        "elif words[3:5] == ['wslpath', '-u']:\n"
        f"    assert words[:3] == ['--distribution', distribution, '--exec'] and words[5] == {str(program)!r}\n"
        "    print(there)\n"
        "else:\n"
        "    assert words[:3] == ['--distribution', distribution, '--exec']\n"
        "    os.execv(words[3], words[3:])\n"
    )
    wsl.chmod(0o755)
    person = Person(home, "win32", program, SYSTEMROOT=str(root))
    said = person.types("install", "--yes", "--client", "wsl-cursor")
    assert f"Cursor ({fake_wsl.DISTRIBUTION})" in said
    assert "4 tools (list, get, save, manage)" in said
    file = home / there / ".cursor" / "mcp.json"
    entry = json.loads(file.read_text())["mcpServers"]["notarium"]
    assert entry == {"command": str(seen_there), "args": ["--account", "local"]}
    person.types("uninstall", "--yes")
    assert not file.exists()
