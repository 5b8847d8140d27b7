"""Memory that many notes at once took, back to the system. Changes no data; never fails."""

from __future__ import annotations

import ctypes
import sys


def trim() -> bool:
    """Give back what is free in the heaps of the C library; True if anything was.

    After a first load glibc keeps some 15 MB for threads that have ended. Other C libraries give
    back by themselves.
    """
    if sys.platform != "linux":
        return False
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False
