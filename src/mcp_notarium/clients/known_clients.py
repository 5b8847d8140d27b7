"""List MCP clients: where each keeps its servers and settings, how a server is written there, and which files hold a key.

One row per client. Paths of a user begin with ``~``, ``{config}`` (the system's folder for settings), ``{xdg}`` (the
same, but ``~/.config`` on macOS), or a variable that moves the file (``$CODEX_HOME``); those of a project at its folder.

Nothing is written here. The result of a search says in which files a key stands, never what else is in them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcp_notarium.files.private_files import open_regular
from mcp_notarium.secret import Secret
from mcp_notarium.system import PLATFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Describe a client."""

    name: str
    title: str
    paths: tuple[str, ...]
    """Say where its file may be. The first is for a client without a file; if it has a variable, that moves the file."""
    settings: tuple[str, ...] = ()
    """Name other files of this user that may set variables."""
    in_project: tuple[str, ...] = ()
    """Name such files of a project."""
    key: str = "mcpServers"
    """Name the table of servers in the file."""
    format: Literal["JSON", "TOML"] = "JSON"
    first: Mapping[str, Any] = field(default_factory=dict)
    """Hold what an entry has before command and arguments."""
    last: Mapping[str, Any] = field(default_factory=dict)
    """Hold what it has behind them."""
    program: str = ""
    """Name its command, to find a client that has no folder yet."""
    reload: str = "Restart it"
    """Say how it takes up a change."""
    trust: str = ""
    """Say what it wants before it starts a server."""

    def entry(self, command: list[str]) -> dict[str, Any]:
        """Return what the file says of a server that is started by ``command``."""
        return {**self.first, "command": command[0], "args": command[1:], **self.last}

    def path(self, environ: Mapping[str, str]) -> Path:
        """Return where its file is, or would be."""
        first = _resolve(self.paths[0], environ)
        if first is not None and self.paths[0].startswith("$"):
            return first
        found = _resolve_all(self.paths, environ)
        return next((one for one in found if one.exists()), found[0])

    def files(self, environ: Mapping[str, str]) -> list[Path]:
        """Return every file of this user that may set variables for a server."""
        return _resolve_all((*self.paths, *self.settings), environ)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Return whether this user seems to have it."""
        path = self.path(environ)
        if path.exists() or (self.program and shutil.which(self.program, path=environ.get("PATH"))):
            return True
        home = Path.home()
        return path.parent != home and path.parent.is_dir()


_STDIO: Mapping[str, Any] = {"type": "stdio"}
_NO_VARIABLES: Mapping[str, Any] = {"env": {}}
_DESKTOP = "claude_desktop_config.json"
_CODE = ("{config}/Code/User", "{config}/Code - Insiders/User", "{config}/VSCodium/User")

CLIENTS = (
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        # Windows gives a packaged program a folder of its own; it does not read the other place then.
        paths=(
            f"$LOCALAPPDATA/Packages/Claude_*/LocalCache/Roaming/Claude/{_DESKTOP}",
            f"{{config}}/Claude/{_DESKTOP}",
            f"$LOCALAPPDATA/Claude-Data/claude_*/{_DESKTOP}",
        ),
        reload="Quit it, also from the tray, and start it again",
    ),
    Client(
        name="claude-code",
        title="Claude Code",
        paths=("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
        settings=("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"),
        in_project=(".mcp.json",),
        first=_STDIO,
        last=_NO_VARIABLES,
        program="claude",
        reload="Start a new session",
    ),
    Client(
        name="cursor",
        title="Cursor",
        paths=("~/.cursor/mcp.json",),
        in_project=(".cursor/mcp.json",),
        program="cursor",
    ),
    Client(
        name="vscode",
        title="VS Code",
        paths=tuple(f"{folder}/mcp.json" for folder in _CODE),
        settings=tuple(f"{folder}/settings.json" for folder in _CODE),
        in_project=(".vscode/mcp.json",),
        key="servers",
        first=_STDIO,
        program="code",
        trust="It asks whether to trust the server",
    ),
    Client(
        name="zed",
        title="Zed",
        paths=("{xdg}/zed/settings.json",),
        in_project=(".zed/settings.json",),
        key="context_servers",
        first={"source": "custom"},
        last=_NO_VARIABLES,
        program="zed",
        reload="It reads the file at once",
    ),
    Client(
        name="codex",
        title="Codex",
        paths=("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
        in_project=(".codex/config.toml",),
        key="mcp_servers",
        format="TOML",
        program="codex",
        reload="Start a new session",
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        paths=("~/.gemini/settings.json",),
        program="gemini",
        reload="Start a new session",
        trust="It starts MCP servers only in folders that you trust",
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        paths=("~/.codeium/windsurf/mcp_config.json",),
        program="windsurf",
        reload="Press Refresh in its list of MCP servers",
    ),
)


def client(name: str) -> Client | None:
    """Return the client of that name."""
    return next((one for one in CLIENTS if one.name == name), None)


def _resolve_all(texts: tuple[str, ...], environ: Mapping[str, str]) -> list[Path]:
    return [path for one in texts if (path := _resolve(one, environ))]


def _resolve(text: str, environ: Mapping[str, str]) -> Path | None:
    """Return the path; None if its variable is not set, or no folder matches its ``*``."""
    if text.startswith("$"):
        name, _, rest = text[1:].partition("/")
        if not (folder := environ.get(name, "")):
            return None
        path = Path(folder, rest)
    else:
        config, xdg = _folders(environ)
        path = Path(text.format(config=config, xdg=xdg)).expanduser()
    for above in path.parents:
        if "*" in above.name:
            matching = sorted(above.parent.glob(above.name))
            return matching[0] / path.relative_to(above) if matching else None
    return path


def _folders(environ: Mapping[str, str]) -> tuple[str, str]:
    platform = PLATFORM
    if platform == "win32":
        roaming = environ.get("APPDATA", "") or "~/AppData/Roaming"
        return roaming, roaming
    xdg = environ.get("XDG_CONFIG_HOME", "").strip() or "~/.config"
    return ("~/Library/Application Support", "~/.config") if platform == "darwin" else (xdg, xdg)


_MAX_BYTES = 16 * 1024 * 1024
"""Bytes that are read of a file; some clients keep their history in the same file."""
_SHORTEST = 8
"""Bytes of the shortest key that is searched for; a shorter one would be found in every file."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Hold the path of a configuration file, and the program it belongs to."""

    program: str
    path: Path


def find_configs_with_key(key: Secret, environ: Mapping[str, str]) -> list[ConfigFile]:
    """Find the files of this user's clients, and those in the working folder, that hold ``key`` in clear.

    Files that cannot be read are skipped: no client of this user reads them either.
    """
    spellings = _encodings(key)
    if not spellings:
        return []
    return [
        place
        for place in _config_files(environ)
        if any(spelling in _read_content(place.path) for spelling in spellings)
    ]


def _config_files(environ: Mapping[str, str]) -> list[ConfigFile]:
    """Return each file once. A folder that is not there, at home or to work in, has none."""
    found: dict[Path, str] = {}
    with suppress(OSError, RuntimeError):
        for client in CLIENTS:
            found |= dict.fromkeys(client.files(environ), client.title)
    with suppress(OSError):
        here = Path.cwd()
        found[here / ".env"] = "environment file"
        for client in CLIENTS:
            for name in client.in_project:
                found.setdefault(here / name, client.title)
    return [ConfigFile(program, path) for path, program in found.items()]


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
