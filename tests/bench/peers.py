"""Install and start other servers of notes.

``scripts/bench --install-peers`` puts them into ``.bench``, each in an environment of its own. Those that are not there are left out of
what is compared.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Json, Speaker, surroundings
from bench.report import tell

_BENCH = Path(__file__).resolve().parents[2] / ".bench"
_OF_NPM = ("@bitbonsai/mcpvault",)
_OF_PYPI = ("markdown-vault-mcp", "basic-memory", "simplenote-mcp-server")
SIMPLE = "simplenote-mcp-server"


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started on a folder, with another folder for its own data."""

    name: str
    command: Callable[[Path], list[str]]
    environment: Callable[[Path, Path], Mapping[str, str]]

    def launch(self, place: Path, data: Path) -> Speaker:
        """Launch it; not greeted yet."""
        return Speaker(self.command(place), surroundings(**self.environment(place, data)))

    def start(self, place: Path, data: Path) -> Speaker:
        """Launch it; greeted, and ready to be asked."""
        server = self.launch(place, data)
        server.greet()
        return server


def install() -> None:
    """Install every peer that can be installed here."""
    _BENCH.mkdir(exist_ok=True)
    for package in _OF_NPM:
        _run(["npm", "install", "--silent", "--prefix", str(_BENCH), package], package)
    for package in _OF_PYPI:
        place = _BENCH / package
        python = str(place / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", package]
        _run([sys.executable, "-m", "venv", str(place)], package)
        _run(pip, package)


def _run(command: list[str], package: str) -> None:
    try:
        done = subprocess.run(command, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        tell(f"{package} cannot be installed here and is left out")


def installed() -> dict[str, Launch]:
    """Return the servers that are there, by name."""
    return {launch.name: launch for program, launch in _KNOWN if program.exists()}


def has_simplenote() -> bool:
    """Tell whether the server of Simplenote's accounts is installed."""
    return _SIMPLENOTE_PYTHON.exists()


def simplenote_command(card: Json, data: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of the server of Simplenote's accounts; it may write."""
    arguments = [card["url"], card["app_id"], card["api_key"]]
    environment = {
        "HOME": str(data),
        "SIMPLENOTE_EMAIL": card["username"],
        "SIMPLENOTE_PASSWORD": card["password"],
        "SIMPLENOTE_WRITE_MODE": "true",
    }
    return [str(_SIMPLENOTE_PYTHON), "-c", _AT_THE_SIMULATOR, *arguments], surroundings(
        **environment
    )


_AT_THE_SIMULATOR = """
import sys
from simplenote import simplenote
_, base, app, key = sys.argv
simplenote.AUTH_URL = f"{base}/1/{app}/authorize/"
simplenote.DATA_URL = f"{base}/1/{app}/{simplenote.BUCKET}"
simplenote.API_KEY = key.encode()
from simplenote_mcp.server import run_main
sys.argv = sys.argv[:1]
run_main()
"""
"""Its addresses are constants of its client library. Nothing else of it is changed."""
_SIMPLENOTE_PYTHON = _BENCH / SIMPLE / "bin" / "python"
_BASIC_MEMORY = _BENCH / "basic-memory" / "bin" / "basic-memory"
_MCPVAULT = _BENCH / "node_modules" / ".bin" / "mcpvault"
_MARKDOWN_VAULT = _BENCH / "markdown-vault-mcp" / "bin" / "markdown-vault-mcp"
_KNOWN = (
    (
        _MCPVAULT,
        Launch("mcpvault", lambda place: [str(_MCPVAULT), str(place)], lambda _place, _data: {}),
    ),
    (
        _MARKDOWN_VAULT,
        Launch(
            "markdown-vault-mcp",
            lambda _place: [str(_MARKDOWN_VAULT), "serve"],
            lambda place, data: {
                "HOME": str(data),
                "MARKDOWN_VAULT_MCP_SOURCE_DIR": str(place),
                "MARKDOWN_VAULT_MCP_READ_ONLY": "true",
            },
        ),
    ),
    (
        _BASIC_MEMORY,
        Launch(
            "basic-memory",
            lambda _place: [str(_BASIC_MEMORY), "mcp"],
            lambda place, data: {
                "HOME": str(data),
                "BASIC_MEMORY_HOME": str(place),
                "BASIC_MEMORY_NO_PROMOS": "1",
                "HF_HUB_OFFLINE": "1",
            },
        ),
    ),
)
