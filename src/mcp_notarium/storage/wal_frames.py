"""Read which pages stand in the write-ahead log beside a database file, and how far it reaches.

The log is SQLite's: a header, then frames of a page each (sqlite.org/fileformat2.html, "The Write-Ahead Log").
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_HEADER, _FRAME_HEADER = 32, 24
_MAGIC, _VERSION = 0x377F0682, 3007000
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


def has_header(log: Path) -> bool:
    """Tell whether a log begins as SQLite demands; it takes one that does not for empty."""
    try:
        with log.open("rb", buffering=0) as file:
            header = file.read(_HEADER)
    except OSError:
        return False
    words = [header[at : at + 4] for at in range(0, len(header), 4)]
    magic = int.from_bytes(words[0], "big") if len(header) == _HEADER else 0
    if magic & ~1 != _MAGIC or int.from_bytes(words[1], "big") != _VERSION:
        return False
    order: Literal["big", "little"] = "big" if magic & 1 else "little"
    first = second = 0
    for at in range(0, 6, 2):
        first = (first + int.from_bytes(words[at], order) + second) & 0xFFFFFFFF
        second = (second + int.from_bytes(words[at + 1], order) + first) & 0xFFFFFFFF
    return header[24:] == first.to_bytes(4, "big") + second.to_bytes(4, "big")


def reaches(log: Path, frames: int, *, page_size: int) -> bool:
    """Tell whether a log has so many frames; older ones behind its end do not count."""
    try:
        with log.open("rb", buffering=0) as file:
            salt = file.read(_HEADER)[_SALT]
            file.seek(_HEADER + (frames - 1) * (_FRAME_HEADER + page_size))
            return file.read(_FRAME_HEADER)[_FRAME_SALT] == salt != b""
    except OSError:
        return False
