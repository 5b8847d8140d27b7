"""Tell what names a file beyond its path and when its note was made, and rename files without overwriting any."""

from __future__ import annotations

import math
import os
from contextlib import suppress

from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.system import SYSTEM

_CREATED = "user.mcp-notarium.created"
"""The extended attribute with the date of making (epoch seconds) of a file that a save has written anew."""


def identity_of(file: int, found: os.stat_result) -> str | None:
    """Return what names an open file beyond its path; None if the system does not tell.

    An inode alone is given to the next file when a file is gone. Its time of birth makes it unique.
    """
    born = SYSTEM.birth(file, found)
    return None if born is None else f"{found.st_ino}:{born}"


def read_created(file: int) -> float | None:
    """Return when the note of an open file was made, as :func:`keep_created` has noted it."""
    value = SYSTEM.read_attribute(file, _CREATED)
    with suppress(ValueError):
        noted = math.nan if value is None else float(value)
        return noted if math.isfinite(noted) else None
    return None


def keep_created(file: int, created: float) -> None:
    """Note when the note of an open file was made: the file itself is newer. Not where the drive takes no attributes."""
    with suppress(OSError):
        SYSTEM.write_attribute(file, _CREATED, f"{created:.6f}".encode())


def is_being_written(file: int) -> bool:
    """Tell whether another program has a file open for writing, as far as the system tells."""
    return SYSTEM.is_being_written(file)


def rename(old_folder: int, old: str, new_folder: int, new: str, *, exchange: bool) -> bool:
    """Exchange two files, or move one where no other is; False if the system or the file system cannot."""
    return SYSTEM.rename(old_folder, old, new_folder, new, exchange=exchange)


def move(old_folder: int, old: str, new_folder: int, new: str) -> None:
    """Move a file. Raises ``FileExistsError``, whatever is there, and ``OutcomeUnknown`` if it has both names now."""
    if rename(old_folder, old, new_folder, new, exchange=False):
        return
    os.link(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder, follow_symlinks=False)
    try:
        os.unlink(old, dir_fd=old_folder)
    except OSError as error:
        try:
            os.unlink(new, dir_fd=new_folder)
        except OSError:
            raise OutcomeUnknown("the file has its old name and the new one") from error
        raise
