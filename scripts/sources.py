"""Read the sources for the rules of ``scripts/check``, and report what the rules find."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"


@dataclass(frozen=True)
class Fault:
    """Hold a line that breaks a rule. ``place`` is ``module``, or ``module:function``."""

    place: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.place}, line {self.line}: {self.what}"


def texts(sources: Path = SOURCES) -> Iterator[tuple[str, str]]:
    """Yield dotted name and text of every module of the program below ``sources``, in order."""
    for path in sorted(sources.rglob("*.py")):
        parts = path.relative_to(sources).with_suffix("").parts
        if parts[0] == "notarium_devtools":
            continue
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, path.read_text(encoding="utf-8")


def unused(permitted: Iterable[str], used: set[str]) -> list[Fault]:
    """Return the exceptions that are listed and not used any more."""
    gone = sorted({*permitted} - used)
    return [Fault(one, 0, "not needed any more; take it from the list") for one in gone]


def report(found: list[Fault], *, well: str) -> int:
    """Print the faults, or ``well`` if there are none; return the exit code."""
    for fault in found:
        sys.stderr.write(f"{fault}\n")
    if not found:
        sys.stdout.write(f"{well}\n")
    return 1 if found else 0
