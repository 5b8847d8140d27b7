"""Check that no module asks which system it runs on; ``mcp_notarium.system`` alone knows.

``python scripts/platforms.py`` exits with 1 and prints each line that asks elsewhere, or imports a module of one system.
``PERMITTED`` holds the exceptions with their reasons; an unused exception is an error too.
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
)

PERMITTED = {
    "mcp_notarium.clients.known_clients": "a table of each system's paths",
}
"""Module -> why it may ask."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield dotted name and text of every module, those of the simulators too."""
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, path.read_text(encoding="utf-8")


def find(modules: Iterator[tuple[str, str]]) -> Iterator[Fault]:
    """Yield the lines that ask for the system where they must not."""
    used = set()
    for module, text in modules:
        if f"{module}.".startswith(f"{HOME}."):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if not _ASKS.search(line):
                continue
            used.add(module)
            if module not in PERMITTED:
                yield Fault(module, number, f"asks for the system: {line.strip()}")
    yield from unused(PERMITTED, used)


def main() -> int:
    """Print the faults; return 1 if there are any."""
    return report([*find(texts())], well="platforms: only the package `system` asks for the system")


if __name__ == "__main__":
    sys.exit(main())
