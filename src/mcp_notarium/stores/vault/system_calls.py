"""Make the system calls that Python has no function for, or that not every system has.

They tell what names a file beyond its path and who writes it, and rename files without overwriting any.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import math
import os
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

from mcp_notarium.errors import OutcomeUnknown

NOREPLACE, EXCHANGE = 1, 2
_EMPTY_PATH, _BIRTH_TIME, _AT_BIRTH_TIME = 0x1000, 0x800, 80
"""Flag, mask and place in the answer of ``statx``."""
_CREATED = "user.mcp-notarium.created"
"""The extended attribute with the date of making (epoch seconds) of a file that a save has written anew."""
_NO_FLAGS = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def identity_of(file: int, found: os.stat_result) -> str | None:
    """Return what names an open file beyond its path; None if the system does not tell.

    An inode alone is given to the next file when a file is gone. Its time of birth makes it unique.
    """
    born = _born_at(file, found)
    return None if born is None else f"{found.st_ino}:{born}"


def read_created(file: int) -> float | None:
    """Return when the note of an open file was made, as :func:`keep_created` has noted it."""
    with suppress(AttributeError, OSError, ValueError):
        noted = float(os.getxattr(file, _CREATED))
        return noted if math.isfinite(noted) else None
    return None


def keep_created(file: int, created: float) -> None:
    """Note when the note of an open file was made: the file itself is newer. Not where the drive takes no attributes."""
    with suppress(AttributeError, OSError):
        os.setxattr(file, _CREATED, f"{created:.6f}".encode())


def is_being_written(file: int) -> bool:
    """Tell whether another program has a file open for writing, which is open here for reading alone.

    Linux grants no read lease then. False where the system or the file system does not tell; some network drives
    grant none at all, and True says nothing there.
    """
    if sys.platform != "linux":
        return False
    import fcntl  # noqa: PLC0415 - Windows has none

    try:
        # Whoever opens the file meanwhile makes the system send a signal: one that nothing comes of.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False


def rename(old_folder: int, old: str, new_folder: int, new: str, flag: int) -> bool:
    """Rename by ``renameat2`` with a flag; False if the system or the file system has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    names = os.fsencode(old), os.fsencode(new)
    if libc.renameat2(old_folder, names[0], new_folder, names[1], flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_FLAGS:
        return False
    raise OSError(number, os.strerror(number))


def move(old_folder: int, old: str, new_folder: int, new: str) -> None:
    """Move a file. Raises ``FileExistsError``, whatever is there, and ``OutcomeUnknown`` if it has both names now."""
    if rename(old_folder, old, new_folder, new, NOREPLACE):
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


def _born_at(file: int, found: os.stat_result) -> str | None:
    """Return when an open file was made, as the system tells it; None if it does not."""
    born = getattr(found, "st_birthtime", None)
    statx = _statx() if born is None else None
    if statx is not None:
        answer = ctypes.create_string_buffer(256)
        if statx(file, b"", _EMPTY_PATH, _BIRTH_TIME, answer) == 0:
            (known,) = struct.unpack_from("=I", answer, 0)
            if known & _BIRTH_TIME:
                return "{}.{:09}".format(*struct.unpack_from("=qI", answer, _AT_BIRTH_TIME))
    return None if born is None else str(born)


@functools.cache
def _statx() -> Callable[..., int] | None:
    """Return the system's function; Python tells no time of birth on Linux."""
    return getattr(ctypes.CDLL(None), "statx", None) if sys.platform == "linux" else None
