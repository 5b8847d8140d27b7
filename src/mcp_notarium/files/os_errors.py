"""What to do when the system does not let a path be used: an ``OSError`` becomes advice.

Looks at the path's folders to find the one in the way; changes nothing and never raises.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from mcp_notarium.files.display_paths import shown

ELSEWHERE = "Set NOTARIUM_DATA_DIR to a folder of your own."

_DENIED = {errno.EACCES, errno.EPERM}
_FOLDER, _FILE = 0o700, 0o600


def reason(error: OSError) -> str:
    """The system's own words, in lower case."""
    return (error.strerror or type(error).__name__).lower()


def failure(error: OSError) -> str:
    """The system's own words, and the path they are about, if it names one."""
    path = _path_of(error)
    return reason(error) if path is None else f"{reason(error)}: {shown(path)}"


def advice(error: OSError, *, place: Path | None = None) -> str:
    """What to do, with the path and, where one command mends it, the command.

    ``place`` is the path if that is not the one the error names.
    """
    path = place or _path_of(error)
    if error.errno == errno.ENAMETOOLONG:
        return "Set NOTARIUM_DATA_DIR to a shorter path; a name in it is too long."
    if path is None:
        return ELSEWHERE
    if error.errno in _DENIED:
        return _permission(path)
    if error.errno == errno.EROFS:
        return f"{shown(path)} lies on a disk that can only be read. {ELSEWHERE}"
    if error.errno == errno.ENOTDIR:
        return _no_folder(path)
    return f"The system does not let {shown(path)} be used. {ELSEWHERE}"


def moved(path: Path) -> str:
    """The command that moves a path out of the way."""
    return f"`mv {shown(path)} {shown(path.with_name(path.name + '.moved'))}`"


def _path_of(error: OSError) -> Path | None:
    named: object = error.filename
    if isinstance(named, str | bytes | os.PathLike):
        return Path(os.fsdecode(named)).absolute()
    return None


def _permission(path: Path) -> str:
    """The first one from above that is ours and closed to us, or the last that can be seen."""
    last = path
    for one in (*reversed(path.parents), path):
        try:
            found = one.lstat()
        except OSError:
            break
        last = one
        needed = _FOLDER if stat.S_ISDIR(found.st_mode) else _FILE
        ours = os.name == "posix" and found.st_uid == os.geteuid()
        if ours and stat.S_IMODE(found.st_mode) & needed != needed:
            return f"Run `chmod u+{'rwx' if needed == _FOLDER else 'rw'} {shown(one)}`."
    return f"You may not use {shown(last)}. {ELSEWHERE}"


def _no_folder(path: Path) -> str:
    blocking = next((one for one in (*reversed(path.parents), path) if not one.is_dir()), path)
    return (
        f"{shown(blocking)} is not a folder: move it away ({moved(blocking)}), or set "
        "NOTARIUM_DATA_DIR to a folder."
    )
