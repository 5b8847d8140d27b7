"""Check that no module asks which system it runs on, or changes files past its port; ``mcp_notarium.system`` alone does.

``python scripts/platforms.py`` exits with 1 and prints each line that asks elsewhere, imports a module of one system, or
opens a file for writing, moves or removes one by Python's own functions: on Windows those fail while another program has the
file, and share no deletion. ``PERMITTED`` and ``PAST_THE_PORT`` hold the exceptions with their reasons; an unused exception is an error too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from sources import SOURCES, Fault, report, unused

HOME = "mcp_notarium.system"
_ASKS = re.compile(
    r"\bsys\.platform\b|\bos\.name\b|\bplatform\.(system|uname|platform|mac_ver|win32_\w+)\b"
    r"|^\s*from (sys|os|platform) import .*\b(platform|name|system|uname)\b"
    r"|^\s*(import|from) (_winapi|fcntl|grp|msvcrt|pwd|resource|termios|tty|winreg|winsound)\b"
    r"|\b(hasattr|getattr)\(os, \"(geteuid|getuid|sync)\"|\bctypes\.(windll|WinDLL|oledll|OleDLL)\b"
    r"|\bPLATFORM\b"
    # Python gives the first the number of a socket's error on Windows, and the second another one than ENOTSUP on macOS.
    r"|\berrno\.(EWOULDBLOCK|EOPNOTSUPP)\b|\bshlex\.(quote|join|split)\b"
)

PERMITTED = {
    "mcp_notarium.clients.known_clients": "a table of each system's paths",
}
"""Module -> why it may ask."""

_CHANGES = re.compile(
    r"\bos\.(open|remove|unlink|rename|renames|replace|link|truncate|chmod)\(|\bshutil\.(copy(2|file|tree)?|move|rmtree)\("
    r"|(?<!SYSTEM)\.(unlink|touch|write_bytes|write_text|hardlink_to|symlink_to|chmod)\(|(?<![\w.])(?<!def )open\(|\.open\(\"[rwax+]"
    r"|(path|file|folder|copy|temporary|unfinished)\.rename\("
    # Python may tell other numbers of an open file of Windows than of its path.
    r"|\bsame(stat|file|openfile)\("
    # On Windows it begins with the working folder.
    r"|\bshutil\.which\("
)

PAST_THE_PORT = {
    "mcp_notarium.sandbox.landlock": "opens paths for the rules of Linux' kernel alone",
    "mcp_notarium.protocol.stdio": "the system's null device",
    "mcp_notarium.cli.main": "the system's null device",
    "mcp_notarium.cli.terminal": "the system's null device",
    "mcp_notarium.cli.new_key": "reads a file or a pipe that the person names",
    "mcp_notarium.meaning.embedder": "reads the model that the person has installed",
    "mcp_notarium.clients.client_files": "a client's file on the other side of WSL, and the mode of one of ours",
}
"""Module -> why it may use Python's own functions for files."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield dotted name and text of every module, those of the simulators too."""
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, path.read_text(encoding="utf-8")


def find(modules: Iterator[tuple[str, str]]) -> Iterator[Fault]:
    """Yield the lines that ask for the system, or change files past the port, where they must not."""
    read = [one for one in modules if not f"{one[0]}.".startswith(f"{HOME}.")]
    yield from _search(read, _ASKS, PERMITTED, "asks for the system")
    ours = [one for one in read if one[0].startswith("mcp_notarium")]
    yield from _search(ours, _CHANGES, PAST_THE_PORT, "uses files past the port")


def _search(
    modules: list[tuple[str, str]], pattern: re.Pattern[str], permitted: dict[str, str], what: str
) -> Iterator[Fault]:
    used = set()
    for module, text in modules:
        for number, line in enumerate(text.splitlines(), 1):
            if not pattern.search(line):
                continue
            used.add(module)
            if module not in permitted:
                yield Fault(module, number, f"{what}: {line.strip()}")
    yield from unused(permitted, used)


def main() -> int:
    """Print the faults; return 1 if there are any."""
    return report(
        [*find(texts())],
        well="platforms: only the package `system` asks for the system and changes files",
    )


if __name__ == "__main__":
    sys.exit(main())
