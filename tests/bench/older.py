"""Check out an older commit of this project, to measure it beside the current sources."""

from __future__ import annotations

import compileall
import subprocess
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
_LOCK = "requirements.lock"


class NotComparable(Exception):
    """The older commit asks for other packages than those of the bench's environment."""


@dataclass(frozen=True, slots=True)
class Older:
    """Hold the name of a commit and the folder of its package."""

    name: str
    sources: Path

    @property
    def variables(self) -> dict[str, str]:
        """Return what has the installed command import the older package."""
        return {"PYTHONPATH": str(self.sources)}


def unpack(commit: str, folder: Path) -> Older:
    """Write the package of ``commit`` into ``folder`` and compile it, as an installation does."""
    other = _pins(_git("show", f"{commit}:{_LOCK}")) - _pins((TOP / _LOCK).read_bytes())
    other -= _installed()
    if other:
        raise NotComparable(
            f"{commit} needs other packages: {', '.join(sorted(other))}. "
            "Install them beside the others, if no version differs"
        )
    archive = _git("archive", commit, "src")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    compileall.compile_dir(folder, quiet=2)
    return Older(commit, folder / "src")


def _pins(lock: bytes) -> set[str]:
    """Return the packages of a lock file, as ``name==version``."""
    words = (line.split() for line in lock.decode().splitlines())
    return {first[0] for first in words if first and "==" in first[0]}


def _installed() -> set[str]:
    """Return the packages of this environment, as ``name==version``."""
    return {f"{one.name.lower()}=={one.version}" for one in distributions()}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=TOP, check=True, stdout=subprocess.PIPE).stdout
