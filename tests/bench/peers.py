"""Install and start other servers of Markdown folders.

``scripts/bench --install-peers`` puts them into ``.bench``, each in an environment of its own. Those that are not there are left out of
what is compared.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Speaker, surroundings
from bench.report import tell

_BENCH = Path(__file__).resolve().parents[2] / ".bench"
_OF_NPM = ("@bitbonsai/mcpvault",)
_OF_PYPI = ("markdown-vault-mcp",)


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started on a folder, with another folder for its own data."""

    name: str
    command: Callable[[Path], list[str]]
    environment: Callable[[Path, Path], Mapping[str, str]]

    def start(self, place: Path, data: Path) -> Speaker:
        """Launch it; greeted, and ready to be asked."""
        server = Speaker(self.command(place), surroundings(**self.environment(place, data)))
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
)
