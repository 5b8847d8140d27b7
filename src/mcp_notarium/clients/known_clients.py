"""List MCP clients: where each keeps its servers and settings, how a server is written there, and which files hold a key.

One row per client. Paths of a user begin with ``~``, ``{config}`` (the system's folder for settings), ``{xdg}`` (the
same, but ``~/.config`` on macOS), or a variable that moves the file (``$CODEX_HOME``); those of a project at its folder.
docs/configuration.md names the source of each place.

Nothing is written here. The result of a search says in which files a key stands, never what else is in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcp_notarium.files.private_files import open_regular
from mcp_notarium.secret import Secret
from mcp_notarium.system import PLATFORM, SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.clients.wsl import Side


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
    side: Side | None = None
    """Say that it runs on the other side of WSL."""

    def entry(self, command: list[str]) -> dict[str, Any]:
        """Return what the file says of a server that is started by ``command``."""
        there = self.side.command(command) if self.side else command
        return {**self.first, "command": there[0], "args": there[1:], **self.last}

    def own_words(self, entry: Mapping[str, Any]) -> list[str]:
        """Return the command of an entry that starts a program of this side; [] for another one."""
        words = [str(entry.get("command", "")), *arguments_of(entry)]
        if self.side:
            return self.side.own_words(words)
        return [] if words[0].endswith(".exe") and platform_here() != "win32" else words

    def entry_from_here(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an entry that starts the server from here as the client will from there."""
        if self.side is None:
            return entry
        words = self.side.from_here([entry["command"], *entry.get("args", ())])
        return {**entry, "command": words[0], "args": words[1:]}

    def home(self) -> Path:
        """Return the home folder of its person, as it is seen from here."""
        return self.side.home if self.side else Path.home()

    def path(self, environ: Mapping[str, str]) -> Path:
        """Return where its file is, or would be."""
        first = _resolve(self.paths[0], environ, self.side)
        if first is not None and self.paths[0].startswith("$"):
            return first
        found = _resolve_all(self.paths, environ, self.side)
        usual = next((one for one in found if self._is_own_folder(one.parent)), found[0])
        return next((one for one in found if one.exists()), usual)

    def files(self, environ: Mapping[str, str]) -> list[Path]:
        """Return every file of this user that may set variables for a server."""
        return _resolve_all((*self.paths, *self.settings), environ, self.side)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Return whether this user seems to have it."""
        path = self.path(environ)
        if path.exists() or self._is_own_folder(path.parent):
            return True
        if not self.program or self.side:
            return False
        from mcp_notarium.clients import wsl  # noqa: PLC0415 - see all_clients

        programs = wsl.without_windows(environ).get("PATH")
        return SYSTEM.find_program(self.program, path=programs) is not None

    def _is_own_folder(self, folder: Path) -> bool:
        return folder != self.home() and folder.is_dir()


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
        # The last is for what a window of VS Code from elsewhere starts here: over SSH, or from Windows in WSL.
        paths=(*(f"{folder}/mcp.json" for folder in _CODE), "~/.vscode-server/data/User/mcp.json"),
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
    Client(
        name="kiro",
        title="Kiro",
        paths=("~/.kiro/settings/mcp.json",),
        in_project=(".kiro/settings/mcp.json",),
        program="kiro",
        reload="It reads the file at once",
    ),
    Client(
        name="lm-studio",
        title="LM Studio",
        paths=("~/.lmstudio/mcp.json",),
        reload="It reads the file at once",
    ),
    Client(
        name="copilot",
        title="GitHub Copilot",
        paths=("$COPILOT_HOME/mcp-config.json", "~/.copilot/mcp-config.json"),
        first={"type": "local"},
        last={"env": {}, "tools": ["*"]},
        program="copilot",
        reload="Start a new session",
    ),
)


def arguments_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the arguments of an entry, whatever a person has written there."""
    given = entry.get("args")
    return [*map(str, given)] if isinstance(given, list) else []


def client_names(environ: Mapping[str, str]) -> list[str]:
    """Return the names of all clients that may be here, those of the other side of WSL last."""
    from mcp_notarium.clients import wsl  # noqa: PLC0415 - see all_clients

    there = wsl.name_of(environ, platform_here())
    return [one.name for one in CLIENTS] + [f"{there}-{one.name}" for one in CLIENTS if there]


def client(name: str, environ: Mapping[str, str] | None = None) -> Client | None:
    """Return the client of that name. ``environ``: it may be on the other side of WSL."""
    found = next((one for one in CLIENTS if one.name == name), None)
    if found is not None or environ is None:
        return found
    return next((one for one in all_clients(environ, wake=True) if one.name == name), None)


def all_clients(environ: Mapping[str, str], *, wake: bool = False) -> tuple[Client, ...]:
    """Return the clients of this machine, in WSL also those of Windows.

    ``wake``: on Windows also those of the default distribution, which is started for that.
    """
    from mcp_notarium.clients import wsl  # noqa: PLC0415 - it starts programs, and servers read CLIENTS

    there = wsl.name_of(environ, platform_here())
    if not there or (there == "wsl" and not wake):
        return CLIENTS
    side = wsl.find_side(platform_here())
    if side is None:
        return CLIENTS
    place = "Windows" if there == "windows" else side.distribution
    return CLIENTS + tuple(
        replace(one, name=f"{there}-{one.name}", title=f"{one.title} ({place})", side=side)
        for one in CLIENTS
    )


def _resolve_all(
    texts: tuple[str, ...], environ: Mapping[str, str], side: Side | None = None
) -> list[Path]:
    return [path for one in texts if (path := _resolve(one, environ, side))]


def _resolve(text: str, environ: Mapping[str, str], side: Side | None = None) -> Path | None:
    """Return the path; None if its variable is not set, or no folder matches its ``*``."""
    variables = side.environ if side else environ
    if text.startswith("$"):
        name, _, rest = text[1:].partition("/")
        folder = variables.get(name, "") or _usual_folder(name, side)
        if not folder:
            return None
        path = Path(folder, rest)
    else:
        config, xdg = _folders(variables, side)
        path = Path(text.format(config=config, xdg=xdg))
    if path.parts[0] == "~":
        path = Path(side.home, *path.parts[1:]) if side else path.expanduser()
    for above in path.parents:
        if "*" in above.name:
            matching = sorted(above.parent.glob(above.name))
            return matching[0] / path.relative_to(above) if matching else None
    return path


def _folders(environ: Mapping[str, str], side: Side | None = None) -> tuple[str, str]:
    platform = side.platform if side else platform_here()
    if platform == "win32":
        roaming = environ.get("APPDATA", "") or _usual_folder("APPDATA", side)
        return roaming, roaming
    xdg = environ.get("XDG_CONFIG_HOME", "").strip() or "~/.config"
    return ("~/Library/Application Support", "~/.config") if platform == "darwin" else (xdg, xdg)


def _usual_folder(variable: str, side: Side | None) -> str:
    """Return what a variable of Windows that is not set would name; '' for any other."""
    usual = {"APPDATA": "~/AppData/Roaming", "LOCALAPPDATA": "~/AppData/Local"}.get(variable, "")
    platform = side.platform if side else platform_here()
    if platform != "win32" or not usual or side:
        return usual if platform == "win32" else ""
    from platformdirs import windows  # noqa: PLC0415 - slow, and seldom needed

    with suppress(
        OSError, ValueError, ImportError, NotImplementedError
    ):  # a person may have moved it; the system knows where
        return str(windows.get_win_folder(f"CSIDL_{variable.replace('LOCALAPP', 'LOCAL_APP')}"))
    return usual


def platform_here() -> str:
    """Return the system that this process runs on."""
    return PLATFORM


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
    for client in all_clients(environ):
        with suppress(OSError, RuntimeError):
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
