"""Name the process that works on a journal entry, and tell whether such a process still runs."""

from __future__ import annotations

import os
import socket
import uuid


def make_owner_name() -> str:
    """Make a name for this process: machine, process id and a random part against reuse."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def process_ended(owner: str) -> bool:
    """Tell whether the named process is known to have ended.

    Only processes of this machine are checked. For others, and where the system cannot be asked
    without harm, the answer is False and the lease decides.
    """
    if os.name != "posix":  # elsewhere signal 0 is not a question
        return False
    machine, _, rest = owner.rpartition(":")[0].rpartition(":")
    if machine != socket.gethostname() or not rest.isdecimal() or int(rest) < 1:
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False
