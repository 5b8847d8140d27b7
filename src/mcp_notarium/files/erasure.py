"""Overwrites a file before it is removed, as far as the file system lets anybody do that.

On SSDs, on file systems that copy on write, in snapshots and in backups the old bytes may survive;
whoever calls this says so to the person.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

from mcp_notarium.files.private_files import sync_folder

_CHUNK = 1 << 20

SURVIVES = (
    "On SSDs, copy-on-write file systems, in snapshots and in backups old bytes can survive, and so "
    "can what SQLite gave back to the file system before; only disk encryption and the end of those "
    "copies help there."
)


def overwrite(file: FileIO) -> None:
    """Write zeros over an open file, whatever its name is by now, flush, cut it to nothing."""
    file.seek(0)
    left = os.fstat(file.fileno()).st_size
    while left > 0:
        left -= file.write(bytes(min(left, _CHUNK)))
    os.fsync(file.fileno())
    file.truncate(0)
    os.fsync(file.fileno())


def erase(path: Path) -> bool:
    """Write zeros over the file, flush, cut it to nothing, remove it; False if it was not there.

    Follows no link: what is not a regular file is only removed. Raises ``OSError``.
    """
    flags = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    if not path.is_symlink() and path.is_file():
        with FileIO(os.open(path, flags), "wb") as file:
            overwrite(file)
    elif not path.is_symlink() and not path.exists():
        return False
    path.unlink()
    sync_folder(path.parent)
    return True
