"""Places where a cache is safe from readers and not from damage: network drives, synced folders.

Only warnings come from here; nothing is refused. Locks on network drives often do not hold, and a
synchroniser may put an old file over a new one.
"""

from __future__ import annotations

import re
from pathlib import Path

_SYNCED = re.compile(
    r"dropbox|onedrive|google ?drive|googledrive|mobile documents|icloud|nextcloud|owncloud"
    r"|pcloud|syncthing|seafile|my ?box files",
    re.IGNORECASE,
)
_OCTAL = re.compile(r"\\([0-7]{3})")
"""How the kernel writes white space and backslashes in a name; other letters stand as they are."""
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "afs", "ceph", "9p", "davfs"}
_MOUNTS = Path("/proc/self/mountinfo")
_POINT, _AFTER_DASH = 4, 1


def warnings(path: Path, *, mounts: Path = _MOUNTS) -> tuple[str, ...]:
    """What is doubtful about keeping a database under this path."""
    found = []
    if any(_SYNCED.search(part) for part in path.parts):
        found.append(
            "The cache lies in a folder that is synchronised with other machines; set "
            "NOTARIUM_DATA_DIR to a local one."
        )
    if file_system(path, mounts=mounts) in _NETWORK:
        found.append(
            "The cache lies on a network drive, where locks may not hold; set NOTARIUM_DATA_DIR "
            "to a local one."
        )
    return tuple(found)


def file_system(path: Path, *, mounts: Path = _MOUNTS) -> str:
    """The type of the file system the path lies on, or '' where that cannot be found out."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), before.split()[_POINT]))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[_AFTER_DASH - 1]
    return kind
