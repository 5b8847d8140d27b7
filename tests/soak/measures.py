"""Measure the servers of a run: memory, open files, size of the write-ahead log."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

MB = 1_000_000
MOST_MEMORY = 250 * MB
"""Resident, of one server with some hundred notes."""
MOST_FILES = 64
MOST_WAL = 64 * MB
MOST_GROWTH = 12 * MB
"""Of a server that was there all the time, from the end of its warm-up to the end of the run."""
MOST_FILE_GROWTH = 8
WARM_UP = 0.3
"""The share of a life that is not looked at for growth."""
FEWEST = 60
"""Samples below which growth is not judged."""


@dataclass(frozen=True)
class Sample:
    """One look at one server: seconds since the beginning, resident bytes, open descriptors."""

    at: float
    memory: int
    files: int | None


@dataclass
class Measures:
    """All looks of a run, by process. ``most_growth``: bytes that a server may grow by after its warm-up."""

    most_growth: int = MOST_GROWTH
    lives: dict[int, list[Sample]] = field(default_factory=dict)
    most_wal: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, pid: int, sample: Sample) -> None:
        """One look more."""
        with self._lock:
            self.lives.setdefault(pid, []).append(sample)

    def add_wal(self, size: int) -> None:
        """How large the log beside the database is now."""
        self.most_wal = max(self.most_wal, size)

    @property
    def most_memory(self) -> int:
        """The largest that any server was, in bytes."""
        return max((one.memory for life in self.lives.values() for one in life), default=0)

    @property
    def most_files(self) -> int:
        """The most descriptors that any server had open, where that can be seen."""
        return max((one.files or 0 for life in self.lives.values() for one in life), default=0)

    def growth(self) -> tuple[float, float] | None:
        """Bytes and descriptors by which the longest life grew after its warm-up; None: too short."""
        life = max(self.lives.values(), key=len, default=[])
        settled = life[int(len(life) * WARM_UP) :]
        if len(settled) < FEWEST:
            return None
        files = [one.files for one in settled if one.files is not None]
        third = len(files) // 3
        more = median(files[-third:]) - median(files[:third]) if third else 0.0
        return fitted(settled), more

    def check(self) -> list[str]:
        """What was not bounded."""
        wrong = []
        if self.most_memory > MOST_MEMORY:
            wrong.append(f"a server had {self.most_memory / MB:.0f} MB of memory")
        if self.most_files > MOST_FILES:
            wrong.append(f"a server had {self.most_files} files open")
        if self.most_wal > MOST_WAL:
            wrong.append(f"the log beside the database had {self.most_wal / MB:.0f} MB")
        memory, files = self.growth() or (0.0, 0.0)
        if memory > self.most_growth:
            wrong.append(f"memory of a server grew by {memory / MB:.1f} MB after its warm-up")
        if files > MOST_FILE_GROWTH:
            wrong.append(f"open files of a server grew by {files:.0f} after its warm-up")
        return wrong


def fitted(samples: Sequence[Sample]) -> float:
    """By how many bytes the straight line through the samples rises from the first to the last."""
    at, memory = fmean(s.at for s in samples), fmean(s.memory for s in samples)
    spread = sum((s.at - at) ** 2 for s in samples)
    if not spread:
        return 0.0
    slope = sum((s.at - at) * (s.memory - memory) for s in samples) / spread
    return slope * (samples[-1].at - samples[0].at)


def look(pid: int, at: float) -> Sample | None:
    """The process as the system shows it (Linux); None if it has gone. Files only where allowed."""
    place = Path("/proc") / str(pid)
    try:
        resident = int(place.joinpath("statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return None
    try:
        files = len(list(place.joinpath("fd").iterdir()))
    except OSError:
        files = None
    return Sample(at, resident * os.sysconf("SC_PAGE_SIZE"), files) if resident else None
