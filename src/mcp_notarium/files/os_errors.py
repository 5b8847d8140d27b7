"""Format paths and OS errors as messages with a suggested fix.

Checks the folders of the path for the one that blocks it. Changes nothing and never raises.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from mcp_notarium.errors import FREE_SPACE
from mcp_notarium.system import SYSTEM

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Numbers of the errors that say there is no space."""
_DISK = {
    errno.EIO: "The disk has reported an error: check the disk, then run the command again.",
    errno.ENAMETOOLONG: "Set NOTARIUM_DATA_DIR to a shorter path; a name in it is too long.",
} | dict.fromkeys(FULL, f"{FREE_SPACE}.")
"""Remedies for errors that no other folder on the same disk avoids."""
ELSEWHERE = "Set NOTARIUM_DATA_DIR to a folder of your own."

HELD = {errno.EBUSY, errno.EAGAIN}
"""Another program has the file open, and does not share it (Windows)."""
_DENIED = {errno.EACCES, errno.EPERM}
_FOLDER, _FILE = 0o700, 0o600


def display_path(path: Path) -> str:
    """Quote the path for a shell, with the home folder as `~` where every shell knows that."""
    if SYSTEM.has_drives:
        return SYSTEM.quote(str(path))
    try:
        home = Path.home()
    except RuntimeError:  # neither HOME nor an entry for this user
        return SYSTEM.quote(str(path))
    if path.is_relative_to(home) and path != home:
        return "~/" + SYSTEM.quote(path.relative_to(home).as_posix())
    return SYSTEM.quote(str(path))


def describe(error: OSError) -> str:
    """Return the system's own words, in lower case."""
    return (error.strerror or type(error).__name__).lower()


def describe_with_path(error: OSError) -> str:
    """Return the system's own words, and the path they are about, if the error names one."""
    path = _path_of(error)
    return describe(error) if path is None else f"{describe(error)}: {display_path(path)}"


def suggest_fix(error: OSError, *, place: Path | None = None) -> str:
    """Suggest what to do, with the path and, where one command fixes it, that command.

    ``place`` is the path if that is not the one the error names.
    """
    path = place or _path_of(error)
    if error.errno in _DISK:
        return _DISK[error.errno]
    if error.errno in HELD:
        return close_holder(path)
    if path is None:
        return ELSEWHERE
    if error.errno in _DENIED:
        return _permission(path)
    if error.errno == errno.ENOTDIR:
        return _no_folder(path)
    return _elsewhere(path, error)


def close_holder(path: Path | None) -> str:
    """Return what to do about a file that another program keeps from being opened, moved or removed."""
    named = display_path(path) if path else "the file"
    return f"Close the program that has {named} open (an antivirus, a backup or a sync program may have it for a moment), and try again."


def _elsewhere(path: Path, error: OSError) -> str:
    if error.errno == errno.EROFS:
        return f"{display_path(path)} lies on a disk that can only be read. {ELSEWHERE}"
    return f"The system does not let {display_path(path)} be used. {ELSEWHERE}"


def move_command(path: Path) -> str:
    """Return the command that moves a path out of the way."""
    return f"`{SYSTEM.move_program} {display_path(path)} {display_path(path.with_name(path.name + '.moved'))}`"


def _path_of(error: OSError) -> Path | None:
    named: object = error.filename
    if isinstance(named, str | bytes | os.PathLike):
        return Path(os.fsdecode(named)).absolute()
    return None


def _permission(path: Path) -> str:
    """Name the first folder from above that is ours and closed to us, or the last one visible."""
    last = path
    for one in (*reversed(path.parents), path):
        try:
            found = one.lstat()
        except OSError:
            break
        last = one
        needed = _FOLDER if stat.S_ISDIR(found.st_mode) else _FILE
        ours = SYSTEM.has_modes and SYSTEM.access(one, found).owner == "user"
        if ours and stat.S_IMODE(found.st_mode) & needed != needed:
            return f"Run `chmod u+{'rwx' if needed == _FOLDER else 'rw'} {display_path(one)}`."
    return f"You may not use {display_path(last)}. {ELSEWHERE}"


def _no_folder(path: Path) -> str:
    blocking = next((one for one in (*reversed(path.parents), path) if not one.is_dir()), path)
    return (
        f"{display_path(blocking)} is not a folder: move it away ({move_command(blocking)}), or set "
        "NOTARIUM_DATA_DIR to a folder."
    )
