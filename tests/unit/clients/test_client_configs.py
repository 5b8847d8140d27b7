"""Configuration files of MCP clients that hold a key: found, never quoted, never written."""

import json
import os
import sys

import pytest

from mcp_notarium.clients import known_clients
from mcp_notarium.secret import Secret
from support import needs

KEY = 'nine "hungry" lamps by the rïver'


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _places(tmp_path, monkeypatch):
    monkeypatch.setattr(known_clients, "PLATFORM", "linux")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def held(key=KEY, **environ):
    found = known_clients.find_configs_with_key(Secret(key), environ)
    return [(place.program, place.path) for place in found]


def test_nothing_is_found_where_nothing_is(tmp_path):
    assert held() == []


IN_HOME = (
    ("Claude Desktop", ".config/Claude/claude_desktop_config.json"),
    ("Claude Code", ".claude.json"),
    ("Claude Code", ".claude/settings.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".config/Code/User/mcp.json"),
    ("VS Code", ".config/VSCodium/User/settings.json"),
    ("Zed", ".config/zed/settings.json"),
    ("Codex", ".codex/config.toml"),
    ("Gemini CLI", ".gemini/settings.json"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json"),
)
IN_PROJECT = (
    ("environment file", ".env"),
    ("Claude Code", ".mcp.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".vscode/mcp.json"),
    ("Zed", ".zed/settings.json"),
    ("Codex", ".codex/config.toml"),
)


@pytest.mark.parametrize(("program", "name"), IN_HOME)
def test_every_known_file_of_the_home_folder_is_looked_at(tmp_path, program, name):
    config = {"mcpServers": {"notes": {"env": {"DB_ENCRYPTION_KEY": KEY}}}}
    path = write(tmp_path / "home" / name, json.dumps(config))
    assert held() == [(program, path)]


@pytest.mark.parametrize(("program", "name"), IN_PROJECT)
def test_every_known_file_of_the_working_folder_is_looked_at(tmp_path, program, name):
    path = write(tmp_path / "here" / name, f"DB_ENCRYPTION_KEY={KEY}\n")
    assert held() == [(program, path)]


def test_a_file_that_a_variable_has_moved_is_looked_at(tmp_path):
    path = write(tmp_path / "elsewhere" / "settings.json", KEY)
    assert held(CLAUDE_CONFIG_DIR=str(path.parent)) == [("Claude Code", path)]


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_key_is_found_as_json_writes_it(tmp_path, ascii_only):
    name = ".cursor/mcp.json"
    path = write(tmp_path / "home" / name, json.dumps({"k": KEY}, ensure_ascii=ascii_only))
    assert held() == [("Cursor", path)]


def test_a_file_with_another_key_is_not_named(tmp_path):
    write(tmp_path / "home" / ".cursor/mcp.json", json.dumps({"k": "raw:" + "5a" * 32}))
    assert held() == []


def test_a_key_that_would_be_found_everywhere_is_not_looked_for(tmp_path):
    write(tmp_path / "home" / ".cursor/mcp.json", "{}")
    assert held(key="{}") == []


def test_what_cannot_be_read_is_passed_over(tmp_path):
    (tmp_path / "home" / ".cursor/mcp.json").mkdir(parents=True)
    path = write(tmp_path / "home" / ".codex/config.toml", KEY)
    assert held() == [("Codex", path)]


def test_one_folder_that_is_both_is_listed_once(tmp_path, monkeypatch):
    path = write(tmp_path / "home" / ".cursor/mcp.json", KEY)
    monkeypatch.chdir(tmp_path / "home")
    assert held() == [("Cursor", path)]


@needs.POSIX
@pytest.mark.skipif(sys.platform == "win32", reason="pipes have no path there")
@pytest.mark.timeout(20)
def test_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "here" / ".env")
    assert held() == []


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
def test_working_folder_that_is_gone_is_passed_over(tmp_path, monkeypatch):
    path = write(tmp_path / "home" / ".claude.json", KEY)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert held() == [("Claude Code", path)]
