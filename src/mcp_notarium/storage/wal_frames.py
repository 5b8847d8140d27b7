"""Read which pages stand in the write-ahead log beside a database file, and how far it reaches.

The log is SQLite's: a header, then frames of a page each (sqlite.org/fileformat2.html, "The Write-Ahead Log").
"""

from __future__ import annotations

from pathlib import Path

_HEADER, _FRAME_HEADER = 32, 24
_PAGE_SIZE = slice(8, 12)
_SALT = slice(16, 24)
_NUMBER, _FRAME_SALT = slice(0, 4), slice(8, 16)


def pages_in_log(log: Path) -> set[int]:
    """Return the numbers of the pages in a log; older frames behind its end are left out. Empty if there is none."""
    found: set[int] = set()
    try:
        with log.open("rb") as file:
            header = file.read(_HEADER)
            size = int.from_bytes(header[_PAGE_SIZE], "big")
            while len(frame := file.read(_FRAME_HEADER)) == _FRAME_HEADER:
                if frame[_FRAME_SALT] != header[_SALT]:
                    break
                found.add(int.from_bytes(frame[_NUMBER], "big"))
                file.seek(size, 1)
    except OSError:
        pass
    return found


def reaches(log: Path, frames: int, *, page_size: int) -> bool:
    """Tell whether a log has so many frames; older ones behind its end do not count."""
    try:
        with log.open("rb", buffering=0) as file:
            salt = file.read(_HEADER)[_SALT]
            file.seek(_HEADER + (frames - 1) * (_FRAME_HEADER + page_size))
            return file.read(_FRAME_HEADER)[_FRAME_SALT] == salt != b""
    except OSError:
        return False
