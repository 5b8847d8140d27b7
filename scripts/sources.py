"""The sources as the rules of ``scripts/check`` read them, and how they name what they find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"


@dataclass(frozen=True)
class Fault:
    """A line that breaks a rule. ``place`` is ``module``, or ``module:function``."""

    place: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.place}, line {self.line}: {self.what}"


def texts(sources: Path = SOURCES) -> Iterator[tuple[str, str]]:
    """Dotted name and text of every module below ``sources``, in order."""
    for path in sorted(sources.rglob("*.py")):
        parts = path.relative_to(sources).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, path.read_text(encoding="utf-8")
