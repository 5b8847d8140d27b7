"""How much memory the process holds, where the system says so without a package of its own."""

from __future__ import annotations

import os
from pathlib import Path


def rss_bytes() -> int | None:
    """Resident memory in bytes: now on Linux, the peak on other POSIX systems, else None."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return _peak_bytes()


def _peak_bytes() -> int | None:
    try:
        import resource  # noqa: PLC0415 - does not exist on Windows
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _unit()


def _unit() -> int:
    """``ru_maxrss`` counts bytes on macOS and kilobytes elsewhere."""
    return 1 if os.uname().sysname == "Darwin" else 1024
