"""Whether a path is plainly the user's own: what can be seen of it without opening anything.

Only looks, and imports next to nothing: the handshake waits for it. Where it says no, the full
examination (``keys.folder``) decides.
"""

from __future__ import annotations

import os
import stat

READABLE, CHANGEABLE = 0o077, 0o022
"""Rights of others that are too many: any, or any to change it."""


def ours(path: str | os.PathLike[str], *, forbidden: int) -> bool:
    """True only for a folder or plain file with one name, the user's or root's, without these rights.

    A folder in which others may only add what is theirs (sticky) counts as one they cannot change.
    What is not there is in nobody's way.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    plain = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
    sticky = forbidden == CHANGEABLE and found.st_mode & stat.S_ISVTX
    return (
        plain
        and found.st_uid in {0, os.geteuid()}
        and (bool(sticky) or not found.st_mode & forbidden)
    )
