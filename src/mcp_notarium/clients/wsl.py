"""Reach the clients on the other side of WSL: from a distribution those of Windows, from Windows those of a distribution.

The other side is asked once where its person's folders are. An entry there starts the server over the border by
words, without a shell. It carries no variable over it: the server finds its account as it does at home.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PureWindowsPath

_FOLDERS = ("USERPROFILE", "APPDATA", "LOCALAPPDATA")
_MOVES_FILE = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME")
"""Variables that move a client's file."""
_SYSTEM = r"C:\Windows"
_NETWORK = r"\\wsl.localhost"
"""Network path below which Windows shows the files of distributions."""
_SECONDS = 30.0
"""Seconds that a distribution may take to start."""


@dataclass(frozen=True, slots=True)
class Side:
    """Hold the other side as it looks from here."""

    platform: str
    home: Path
    environ: Mapping[str, str]
    """Its variables, with paths as they are here."""
    system_root: str
    """Windows' folder of the system, as Windows names it."""
    distribution: str
    user: str
    """Name the user of the distribution who has the server; '' for one on Windows."""

    def command(self, command: list[str]) -> list[str]:
        """Return how a client there starts a server of this side."""
        if self.platform == "win32":
            program = str(PureWindowsPath(self.system_root, "System32", "wsl.exe"))
            return [program, *self._words_of_wsl, *command]
        return [_ask_path(self.distribution, command[0]), *command[1:]]

    def own_words(self, words: list[str]) -> list[str]:
        """Return the words that an entry there has for this side; [] if it starts a program of its own."""
        if self.platform == "win32":
            before = len(self._words_of_wsl) + 1
            return words[before:] if words[1:before] == self._words_of_wsl else []
        return words if words[0].endswith(".exe") else []

    def from_here(self, words: list[str]) -> list[str]:
        """Return what does here what those words do there."""
        if self.platform == "win32":
            return [_run_text("wslpath", "-u", words[0]).strip(), *words[1:]]
        return [_wsl_program(), "--distribution", self.distribution, "--exec", *words]

    @property
    def _words_of_wsl(self) -> list[str]:
        return ["--distribution", self.distribution, "--user", self.user, "--exec"]


def name_of(environ: Mapping[str, str], platform: str) -> str:
    """Return what the other side is called in names of clients: `windows`, `wsl`, or '' if there is none."""
    if platform == "win32":
        return "wsl"
    return "windows" if platform == "linux" and environ.get("WSL_DISTRO_NAME") else ""


@cache
def find_side(platform: str) -> Side | None:
    """Ask the other side; None if it does not answer. On Windows this starts the default distribution."""
    try:
        return _ask_distribution() if platform == "win32" else _ask_windows()
    except (OSError, ValueError, LookupError, subprocess.SubprocessError):
        return None


def without_windows(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of a distribution without the folders of Windows' programs on its PATH."""
    if not environ.get("WSL_DISTRO_NAME"):
        return environ
    try:
        drive = _run_text("wslpath", "-u", "C:\\").strip().rstrip("/")
    except (OSError, subprocess.SubprocessError):
        return environ
    windows = re.compile(re.escape(drive[:-1]) + r"[a-z](/|$)")
    kept = [one for one in environ.get("PATH", "").split(":") if not windows.match(one)]
    return {**environ, "PATH": ":".join(kept)}


def _ask_windows() -> Side:
    program = _run_text("wslpath", "-u", rf"{_SYSTEM}\System32\cmd.exe").strip()
    # Its own words in UTF-16, as `/u` asks for: in a code page a person's name may be spelt otherwise.
    said = _run(program, "/d", "/u", "/c", "set", folder=Path(program).parent)
    found = _variables(said.decode("utf-16-le").splitlines())
    known = {name: found[name] for name in (*_FOLDERS, *_MOVES_FILE[:-1]) if found.get(name)}
    here = {name: _run_text("wslpath", "-u", path).strip() for name, path in known.items()}
    return Side(
        "win32", Path(here["USERPROFILE"]), here, found.get("SYSTEMROOT", _SYSTEM),
        os.environ["WSL_DISTRO_NAME"], _run_text("id", "-un").strip(),
    )  # fmt: skip


def _ask_distribution() -> Side:
    said = _run(_wsl_program(), "--exec", "env", "-0").decode()
    found = _variables(said.split("\0"))
    distribution = found["WSL_DISTRO_NAME"]
    root = f"{_NETWORK}/{distribution}"
    moved = {name: root + found[name] for name in _MOVES_FILE if found.get(name)}
    return Side("linux", Path(root + found["HOME"]), moved, "", distribution, "")


def _ask_path(distribution: str, path: str) -> str:
    words = ("--distribution", distribution, "--exec", "wslpath", "-u", path)
    return _run_text(_wsl_program(), *words).strip()


def _wsl_program() -> str:
    return os.path.join(os.environ.get("SYSTEMROOT") or _SYSTEM, "System32", "wsl.exe")  # noqa: PTH118 - as typed


def _variables(lines: list[str]) -> dict[str, str]:
    parts = [line.partition("=") for line in lines]
    return {name.upper(): value for name, is_one, value in parts if is_one}


def _run_text(*words: str) -> str:
    return _run(*words).decode()


def _run(*words: str, folder: Path | None = None) -> bytes:
    return subprocess.check_output(  # noqa: S603 - programs of the system, by words
        words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_SECONDS, cwd=folder
    )
