"""Read the pins of a lock file, for every platform: markers are not evaluated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")


@dataclass(frozen=True)
class Pin:
    """Hold one package of a lock file. ``marker`` says where it is installed; '' is everywhere."""

    name: str
    version: str
    marker: str
    sha256: tuple[str, ...]


def pins(path: Path) -> list[Pin]:
    """Read all pins. Raises ``ValueError`` for a line without exact version and SHA-256."""
    joined = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [_pin(line) for line in joined.splitlines() if line.strip() and line[0] != "#"]


def _pin(line: str) -> Pin:
    found = re.fullmatch(
        r"([\w.-]+)==([\w.+!-]+)\s*(?:;\s*(.*?))?((?:\s+--hash=sha256:[0-9a-f]{64})+)\s*", line
    )
    if found is None:
        raise ValueError(f"not pinned by version and hash: {line[:60]}")
    name, version, marker, hashes = found.groups()
    return Pin(name, version, marker or "", tuple(re.findall(r"[0-9a-f]{64}", hashes)))
