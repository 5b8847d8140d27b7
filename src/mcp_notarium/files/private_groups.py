"""Check whether a group is the user's alone, so that "group may write" lets nobody else in.

Distributions with a group for each user set umask 002, and every new folder is group-writable there.
In doubt the answer is no. The rule is the one OpenSSH has on Debian: every listed and every primary
member is checked. A directory service that does not list its users can hide one.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_NO_LIST = {errno.ENODATA, errno.ENOTSUP} if sys.platform == "linux" else set()


def is_group_private(path: Path, found: os.stat_result) -> bool:
    """Check a folder that its group may write to and others may not; Linux only, never for root."""
    if sys.platform != "linux" or not os.geteuid() or found.st_mode & 0o002:
        return False
    return _is_private(found.st_gid) and not _has_access_list(path)


def _is_private(group: int) -> bool:
    import grp  # noqa: PLC0415 - POSIX only, and seldom needed
    import pwd  # noqa: PLC0415 - the same

    try:
        me, ours = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    if me.pw_gid != group or ours.gr_name != me.pw_name or set(ours.gr_mem) - {me.pw_name}:
        return False
    return all(one.pw_uid == me.pw_uid for one in pwd.getpwall() if one.pw_gid == group)


def _has_access_list(path: Path) -> bool:
    """Check for an access list: with one the group's bits are a mask and do not say who has access."""
    if sys.platform != "linux":
        return True
    try:
        os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    except OSError as error:
        return error.errno not in _NO_LIST
    return True
