"""Who has an account's cache open: process ids and names, where the system tells. Linux only.

Read from ``/proc``; elsewhere, or where it is closed, nobody is named.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_KIND, _PID, _PLACE = 1, 4, 5


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock, and the program that started it ('' if that is not known)."""

    pid: int
    started_by: str

    def __str__(self) -> str:
        by = f", started by {self.started_by}" if self.started_by else ""
        return f"process {self.pid}{by}"


def holders(lock: Path, *, proc: Path = _PROC) -> list[Holder]:
    """The other processes that hold a ``flock`` on this file, by pid."""
    try:
        place = lock.stat()
        lines = (proc / "locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    wanted = f"{os.major(place.st_dev):02x}:{os.minor(place.st_dev):02x}:{place.st_ino}"
    pids = {int(parts[_PID]) for line in lines if _is_on(parts := line.split(), wanted)}
    return [Holder(pid, _starter(pid, proc)) for pid in sorted(pids - {os.getpid()}) if pid > 0]


def named(lock: Path) -> str:
    """The end of a sentence about whoever holds it: ': process 1; process 2', or nothing."""
    found = "; ".join(str(one) for one in holders(lock))
    return f": {found}" if found else ""


def _is_on(parts: list[str], wanted: str) -> bool:
    # "3: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF"; one that waits has "->" in second place.
    return len(parts) > _PLACE and parts[_KIND] == "FLOCK" and parts[_PLACE] == wanted


def _starter(pid: int, proc: Path) -> str:
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        parent = stat.rpartition(")")[2].split()[1]
        return (proc / parent / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, IndexError):
        return ""
