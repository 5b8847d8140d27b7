"""Find the configuration files of MCP clients on this machine that hold a given key.

They are read, never written: they belong to other programs. The result says where a key stands, never
what else is in the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.files.private_files import open_regular
from mcp_notarium.secret import Secret

_MAX_BYTES = 16 * 1024 * 1024
"""Bytes that are read of a file; some clients keep their history in the same file."""
_SHORTEST = 8
"""Bytes of the shortest key that is searched for; a shorter one would be found in every file."""

_CODE = ("Code", "Code - Insiders", "VSCodium")
_HOMES = (".config", "Library/Application Support", "AppData/Roaming")

IN_HOME = (
    *(("Claude Desktop", f"{home}/Claude/claude_desktop_config.json") for home in _HOMES),
    ("Claude Code", ".claude.json"),
    ("Claude Code", ".claude/settings.json"),
    ("Cursor", ".cursor/mcp.json"),
    *(("VS Code", f"{home}/{code}/User/mcp.json") for home in _HOMES for code in _CODE),
    *(("VS Code", f"{home}/{code}/User/settings.json") for home in _HOMES for code in _CODE),
    ("Zed", ".config/zed/settings.json"),
    ("Codex", ".codex/config.toml"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json"),
    ("Gemini CLI", ".gemini/settings.json"),
)
"""Program and path below the home folder."""

IN_PROJECT = (
    ("environment file", ".env"),
    ("Claude Code", ".mcp.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".vscode/mcp.json"),
    ("Zed", ".zed/settings.json"),
    ("Codex", ".codex/config.toml"),
)
"""Program and path below a working folder."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Hold the path of a configuration file, and the program it belongs to."""

    program: str
    path: Path


def find_configs_with_key(
    key: Secret, *, home: Path | None = None, here: Path | None = None
) -> list[ConfigFile]:
    """Find the files in ``home`` and in the working folder ``here`` that hold ``key`` in clear.

    Files that cannot be read are skipped: no client of this user reads them either.
    """
    spellings = _encodings(key)
    if not spellings:
        return []
    return [
        place
        for place in _config_files(
            home or _folder_or_none(Path.home), here or _folder_or_none(Path.cwd)
        )
        if any(spelling in _read_content(place.path) for spelling in spellings)
    ]


def _folder_or_none(look: Callable[[], Path]) -> Path | None:
    """Return a folder; None if there is none, because no client reads anything in it then."""
    try:
        return look()
    except (OSError, RuntimeError):
        return None


def _config_files(home: Path | None, here: Path | None) -> Iterator[ConfigFile]:
    seen: set[Path] = set()
    for folder, known in ((home, IN_HOME), (here, IN_PROJECT)):
        if folder is None:
            continue
        for program, name in known:
            path = folder / name
            if path not in seen:
                seen.add(path)
                yield ConfigFile(program, path)


def _read_content(path: Path) -> bytes:
    try:
        with open_regular(path, follow=True) as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""


def _encodings(key: Secret) -> set[bytes]:
    """Return the key as it is, and as JSON and TOML write it."""
    raw = key.reveal()
    if len(raw) < _SHORTEST:
        return set()
    text = raw.decode("utf-8", "replace")
    quoted = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {raw, *(one.encode() for one in quoted)}
